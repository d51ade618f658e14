"""Labelling a file: the written columns never hide an input column, whatever both are called."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refusing import refused
from robust_tickets.classifier import Classifier
from robust_tickets.data.load import load_task
from robust_tickets.deploy.predict import predict as predict_file
from robust_tickets.errors import TicketsError


def longer(texts: Sequence[str | tuple[str, ...]]) -> np.ndarray:
    odd = [len(t if isinstance(t, str) else t[0]) % 2 for t in texts]
    return np.array([[1.0 - o, float(o)] for o in odd]).reshape(-1, 2)


def clf() -> Classifier:
    return Classifier.wrap(longer, labels=["x", "x_"])


def written_to(out: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    if out.suffix == ".parquet":
        return pq.read_table(out).to_pylist()
    lines = out.read_text().splitlines()
    if out.suffix == ".jsonl":
        return [json.loads(line) for line in lines]
    return list(csv.DictReader(lines, delimiter="," if out.suffix == ".csv" else "\t"))


@pytest.mark.parametrize(
    ("column", "written"),
    [
        ("problem", ["line", "problem", "predicted", "p_x", "p_x_", "problem_"]),
        ("line", ["line_", "line", "predicted", "p_x", "p_x_", "problem"]),
        ("label", ["line", "label", "predicted", "p_x", "p_x_", "problem"]),
        ("predicted", ["line", "predicted", "predicted_", "p_x", "p_x_", "problem"]),
        ("p_x", ["line", "p_x", "predicted", "p_x__", "p_x_", "problem"]),
        ("p_other", ["line", "p_other", "predicted", "p_x", "p_x_", "problem"]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_input_columns_keep_their_names_and_values(
    tmp_path: Path, column: str, written: list[str], ending: str
) -> None:
    data, out = tmp_path / "in.csv", tmp_path / f"out.{ending}"
    data.write_text(f'{column}\na b\n" "\nc\n')
    told = predict_file(clf(), data, out, text=column)
    assert told["written"] == written
    assert (told["rows"], told["bad"], told["labels"]) == (3, 1, {"x": 0, "x_": 2})
    if ending == "parquet":
        table = pq.read_table(out)
        kinds = [table.schema.field(name).type for name in written]
        assert kinds == [pa.int64(), pa.string(), pa.string(), pa.float64(), pa.float64(), pa.string()]
    rows = written_to(out)
    assert list(rows[0]) == written
    assert [row[column] or None for row in rows] == ["a b", None, "c"]
    assert [row[written[-1]] or None for row in rows] == [None, "empty text", None]
    assert [int(row[written[0]]) for row in rows] == [2, 3, 4]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    data = tmp_path / "in.csv"
    data.write_text("text\na\n")
    for out in (data / "out.csv", data / "deep" / "out.csv"):
        with refused("file.not_writable"):
            predict_file(clf(), data, out)


def test_a_path_from_home_is_read_again_into_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "in.csv").write_text("text\na\n")
    for _ in range(2):
        assert predict_file(clf(), "~/in.csv", "~/out.csv")["out"] == str(tmp_path / "out.csv")


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_the_other_columns_go_along(tmp_path: Path, ending: str) -> None:
    data, out = tmp_path / "in.jsonl", tmp_path / f"out.{ending}"
    given = [
        {"id": 7, "text": "a", "p_x": "mine", "more": {"k": [1, None]}},
        {"id": None, "text": " ", "p_x": "\ud800", "more": True},
        {"text": "b"},
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in given) + "no json\n")
    told = predict_file(clf(), data, out, text="text")
    assert told["written"] == ["line", "text", "id", "p_x", "more", "predicted", "p_x__", "p_x_", "problem"]
    assert (told["rows"], told["bad"]) == (4, 2)
    rows = written_to(out)
    kept = [[row[name] if row[name] != "" else None for name in ("id", "p_x", "more")] for row in rows]
    as_text = [["7", "mine", '{"k": [1, null]}'], [None, "\ufffd", "true"], [None, None, None], [None, None, None]]
    assert kept == (
        [[7, "mine", {"k": [1, None]}], [None, "\ufffd", True], *as_text[2:]] if ending == "jsonl" else as_text
    )
    assert [row["problem"] or None for row in rows] == [None, "empty text", None, "not valid JSON"]


def picky(wrong: set[str]) -> Classifier:
    def judge(texts: Sequence[str]) -> np.ndarray:
        if bad := wrong.intersection(texts):
            raise ValueError(f"not {min(bad)}")
        return longer(texts)

    return Classifier.wrap(judge, labels=["x", "x_"])


def test_a_text_that_cannot_be_answered_costs_its_row(tmp_path: Path) -> None:
    data, out = tmp_path / "in.csv", tmp_path / "out.csv"
    data.write_text("text\n" + "".join(f"t{i}\n" for i in range(50)))
    told = predict_file(picky({"t7", "t30"}), data, out)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert (told["rows"], told["bad"]) == (50, 2)
    assert {row["text"]: row["problem"] for row in rows if row["problem"]} == {
        "t7": "ValueError: not t7",
        "t30": "ValueError: not t30",
    }
    assert all(row["predicted"] for row in rows if not row["problem"])


def test_a_model_is_not_given_another_number_of_texts_than_it_reads(tmp_path: Path) -> None:
    data, out = tmp_path / "pairs.csv", tmp_path / "out.csv"
    data.write_text("premise,hypothesis\na,b\n")
    single = Classifier.wrap(longer, labels=["x", "x_"], columns=["review"])
    for named in (None, ("premise", "hypothesis")):  # inferred, and asked for
        with refused("classifier.columns"):
            predict_file(single, data, out, text=named)
    assert not out.exists()
    assert predict_file(single, data, out, text="premise")["rows"] == 1


def judge(texts: list[str]) -> np.ndarray:
    if any("fail" in text for text in texts):
        raise RuntimeError("too odd")
    return np.tile([0.6, 0.4], (len(texts), 1))


def predict(tmp_path: Path, texts: list[bytes]) -> dict[str, Any]:
    data = tmp_path / "my file.csv"
    data.write_bytes(b"text,n\n" + b"".join(text + b",1\n" for text in texts))
    return predict_file(Classifier.wrap(judge, labels=["bad", "good"]), data, tmp_path / "out.csv", text="text")


def test_a_latin_1_file_is_told_how_to_become_utf8(tmp_path: Path) -> None:
    told = predict(tmp_path, ["schön".encode("latin-1")] * 3 + [b"fine", b" "])
    assert told["reasons"] == [{"problem": "broken UTF-8", "rows": 3}, {"problem": "empty text", "rows": 1}]
    assert (told["bad"], told["unanswered"], told["exit_code"]) == (4, 0, 2)
    command = told["hint"].partition("Latin-1: ")[2]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert "schön" in (tmp_path / "utf8-my file.csv").read_text("utf-8")
    with pytest.raises(TicketsError) as caught:
        load_task(tmp_path / "my file.csv", text="text", label="n")
    told = predict(tmp_path, ["schön – „gut“".encode("cp1252")] * 3)  # Latin-1 has control characters there
    subprocess.run(told["hint"].partition("Latin-1: ")[2], shell=True, check=True, cwd=tmp_path)
    assert "schön – „gut“" in (tmp_path / "utf8-my file.csv").read_text("utf-8")
    assert f"-t UTF-8 {shlex.quote(str(tmp_path / 'my file.csv'))} >" in caught.value.hint


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        ([b"a", b"b"], 0),
        ([b"a", b" "], 0),  # half of them is not more than half
        ([b"a", b" ", b" "], 2),
        ([b"a", b"fail 1", b"fail 2"], 3),
        ([b" ", b"a", b"fail 2"], 2),  # as many of the one as of the other
        ([b" ", b"a", b"fail 1", b"fail 2"], 3),
        ([], 0),
    ],
)
def test_more_than_half_without_a_label_is_no_success(tmp_path: Path, texts: list[bytes], code: int) -> None:
    told = predict(tmp_path, texts)
    assert told["exit_code"] == code
    assert bool(told["hint"]) == bool(told["bad"])
    assert "iconv" not in told["hint"]
