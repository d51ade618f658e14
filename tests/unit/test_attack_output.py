"""What an attack leaves: files that fit their schema, and tables that read back as the same values."""

from __future__ import annotations

import csv
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from attacking import Literal, toy_victim
from refusing import refused
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.result import AttackResult, ExampleOutcome
from robust_tickets.attack.tables import write_table
from robust_tickets.data.task import Split

TEXTS = [
    ("a good film", "not a bad story"),
    ("=SUM(A1)", "-2 stars, +1 \"great\" actor @home\nand a 'second' line\r\nthird\ttab"),
    ("日本語 の good 映画", "émigré 😀 fine"),
    ("   ", "!!!"),
    ("warm and happy dog", "loud cat"),
    ("BOOM here", "raises"),
]
TYPES = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None), "object": dict, "array": list
}  # fmt: skip


def problems(value: Any, schema: dict[str, Any], where: str = "$") -> list[str]:
    """As much of JSON Schema as our two files use."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(isinstance(value, TYPES[k]) and (k == "boolean" or not isinstance(value, bool)) for k in kinds):
        return [f"{where}: {value!r} is no {kinds}"]
    wrong = [
        "enum" in schema and value not in schema["enum"],
        "const" in schema and value != schema["const"],
        "pattern" in schema and not re.search(schema["pattern"], value),
        isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value),
        isinstance(value, list) and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)),
    ]
    found = [f"{where}: {value!r}"] * any(wrong)
    if isinstance(value, list):
        found += [p for i, item in enumerate(value) for p in problems(item, schema["items"], f"{where}[{i}]")]
    if isinstance(value, dict):
        inner, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{where}: {name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, item in value.items():
            if name in inner or isinstance(rest, dict):
                found += problems(item, inner.get(name, rest), f"{where}.{name}")
            elif rest is False:
                found.append(f"{where}: {name} is not known")
    return found


def schema(name: str) -> dict[str, Any]:
    return json.loads(files("robust_tickets.attack").joinpath("schema", f"{name}.json").read_text("utf-8"))


def moody(salt: int) -> Any:
    from robust_tickets.classifier import Classifier

    plain = toy_victim(salt, 2, grid=9)

    def judge(texts: list[tuple[str, ...]]) -> Any:
        if any("BOOM" in text[0] for text in texts):
            raise ValueError("no such text")
        return plain.predict(texts)[1]

    return Classifier.wrap(judge, labels=["bad", "good"])


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> AttackResult:
    clf = toy_victim(3, 2, grid=9)
    labels = [int(Literal(clf, 0).probabilities(row).argmax()) for row in TEXTS]
    labels[2] = 1 - labels[2]
    split = Split.of(TEXTS, labels, columns=("premise", "hypothesis"))
    return PWWS()(moody(3), split, n=0, folder=tmp_path_factory.mktemp("attack") / "out", live=1)


def test_every_kind_of_outcome_is_here(result: AttackResult) -> None:
    assert all(result.outcomes[status] for status in ("success", "failed", "skipped", "error"))


@pytest.mark.parametrize("budget", [None, 1, 40])
def test_the_files_fit_their_schema(result: AttackResult, tmp_path: Path, budget: int | None) -> None:
    folder = result.folder
    if budget is not None:
        split = Split.of(TEXTS, [0, 1, 0, 1, 1, 0], columns=("premise", "hypothesis"))
        folder = PWWS()(toy_victim(1), split, n=0, folder=tmp_path / "a", query_budget=budget).folder
    assert folder is not None
    assert problems(json.loads((folder / "result.json").read_text()), schema("result")) == []
    for line in (folder / "examples.jsonl").read_text().splitlines():
        assert problems(json.loads(line), schema("example")) == []


def test_the_page_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs/guides/attacks/results.md").read_text("utf-8")
    for name in ("result", "example"):
        for field in schema(name)["properties"]:
            assert f"`{field}`" in page, field


def test_nothing_attacked_still_fits(tmp_path: Path) -> None:
    clf = toy_victim(0)
    wrong = 1 - int(Literal(clf, 0).probabilities(("good",)).argmax())
    result = PWWS()(clf, Split.of(["good"], [wrong]), n=0, folder=tmp_path / "a")
    assert (result.suc, result.spread, result.words) == (None, None, None)
    assert problems(json.loads((tmp_path / "a/result.json").read_text()), schema("result")) == []


def delimited(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="," if path.suffix == ".csv" else "\t", strict=True))


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_delimited_table_reads_back(result: AttackResult, tmp_path: Path, ending: str) -> None:
    rows = delimited(result.table(tmp_path / f"t.{ending}"))
    for row, example in zip(rows, result.examples(), strict=True):
        assert (row["original_premise"], row["original_hypothesis"]) == example.original
        if example.perturbed:
            assert (row["perturbed_premise"], row["perturbed_hypothesis"]) == example.perturbed
        assert (float(row["score_after"]) if row["score_after"] else None) == example.score_after
        assert json.loads(row["changed"]) == list(example.changed)
        assert row["fell_at"] == ("" if example.fell_at is None else str(example.fell_at))
        assert row["error"] == (example.error or "")


def test_a_parquet_table_reads_back(result: AttackResult, tmp_path: Path) -> None:
    table = parquet.read_table(result.table(tmp_path / "t.parquet"))
    for row, example in zip(table.to_pylist(), result.examples(), strict=True):
        assert (row["original_premise"], row["original_hypothesis"]) == example.original
        assert row["perturbed_premise"] == (example.perturbed[0] if example.perturbed else None)
        assert row["changed"] == list(example.changed)
        for name in ("id", "label", "status", "queries", "fell_at", "similarity", "blind", "score_before", "error"):
            assert row[name] == getattr(example, name)
        share = 100 * example.words_changed / example.words if example.status == "success" else None
        assert row["perturbed_percent"] == share


def line(text: str, **more: Any) -> dict[str, Any]:
    return ExampleOutcome(id="x", label=0, status="failed", original=(text,), perturbed=(text,), **more).to_json()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(), max_size=20), min_size=1, max_size=4))
def test_any_text_reads_back_but_for_lone_surrogates(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("t")
    wanted = [re.sub("[\ud800-\udfff]", "\ufffd", text) for text in texts]
    for ending in ("csv", "tsv"):
        path = write_table(map(line, texts), ("text",), folder / f"t.{ending}")
        assert [row["original_text"] for row in delimited(path)] == wanted
    table = parquet.read_table(write_table(map(line, texts), ("text",), folder / "t.parquet"))
    assert table["original_text"].to_pylist() == wanted


def test_missing_and_empty_differ(tmp_path: Path) -> None:
    lines = [line(""), line("x") | {"perturbed": None}]
    cells = write_table(lines, ("text",), tmp_path / "t.csv").read_text().splitlines()
    assert cells[1].startswith('"x",0,"failed","","",0,,')
    assert cells[2].startswith('"x",0,"failed","x",,0,,')


def test_tables_are_streamed(tmp_path: Path) -> None:
    import tracemalloc

    text = "word " * 2000
    for ending in ("csv", "parquet"):
        write_table([line(text)], ("text",), tmp_path / f"warm.{ending}")  # imports
        tracemalloc.start()
        write_table((line(text + str(i)) for i in range(3000)), ("text",), tmp_path / f"t.{ending}")  # 60 MB of text
        assert tracemalloc.get_traced_memory()[1] < 20e6
        tracemalloc.stop()


def test_a_table_elsewhere_is_refused_clearly(tmp_path: Path) -> None:
    with refused("table.ending"):
        write_table([], ("text",), tmp_path / "t.xlsx")
    with refused("table.ending"):
        write_table([], ("text",), tmp_path / "t")
    (tmp_path / "d.csv").mkdir()
    with refused("file.is_folder"):
        write_table([], ("text",), tmp_path / "d.csv")
    (tmp_path / "file").write_text("")
    for ending in ("csv", "parquet"):
        with refused("file.not_writable"):
            write_table([], ("text",), tmp_path / "file" / f"t.{ending}")
        write_table([], ("text",), tmp_path / f"empty.{ending}")
    assert not list(tmp_path.glob(".*part"))

    def broken() -> Any:
        yield line("a")
        raise RuntimeError("stop")

    for ending in ("csv", "parquet"):
        with pytest.raises(RuntimeError):
            write_table(broken(), ("text",), tmp_path / f"never.{ending}")
    assert not list(tmp_path.glob("*never*"))
