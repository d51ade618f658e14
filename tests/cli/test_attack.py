"""``tickets attack`` on classifiers that this package never made, and every flag of it."""

from __future__ import annotations

import csv
import hashlib
import html
import json
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import robust_tickets as rt
from calling import Capture, tickets
from robust_tickets.config import FlagText, build, resources_in
from robust_tickets.errors import TicketsError
from robust_tickets.registry import ATTACKS
from victims import MODULE, foreign_folder, foreign_tokenizer, onnx_file, write_rows

TEXTS = (
    "a good film",
    "a bad plot",
    "the story was good and the film was fine",
    "an awful movie",
    "not very good",
    "poor story, bad film",
)


@pytest.fixture(scope="session")
def albert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return foreign_folder(tmp_path_factory.mktemp("albert"))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module in the working directory."""
    (tmp_path / "my_judge.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "my_judge:judge"
    sys.modules.pop("my_judge", None)


def rows(path: Path, names: tuple[Any, Any] = ("bad", "good"), count: int = 12) -> Path:
    return write_rows(
        path, [{"text": f"{TEXTS[i % 6]} {i}", "label": names["good" in TEXTS[i % 6]]} for i in range(count)]
    )


def attack(capsys: Capture, model: Any, data: Path, out: Path, *flags: str, code: int = 0) -> Any:
    number = () if "--n" in flags else ("--n", "4")
    return tickets(capsys, "attack", str(model), "--data", str(data), *number, "--out", str(out), *flags, code=code)


def outcomes(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "examples.jsonl").read_text().splitlines()]


def of(result: Any, *names: str) -> list[Any]:
    return [result[name] for name in names]


def test_a_folder_of_others_in_one_line(capsys: Capture, albert: Path, tmp_path: Path) -> None:
    data = rows(tmp_path / "d.jsonl")
    result = attack(capsys, albert, data, tmp_path / "a")
    assert of(result, "n", "errors") == [4, 0]
    assert of(result["model"], "max_length", "labels") == [64, ["bad", "good"]]
    assert attack(capsys, albert, data, tmp_path / "b", "--max-length", "8")["model"]["max_length"] == 8
    told = tickets(capsys, "predict", str(albert), "--data", str(data), "--out", str(tmp_path / "p.csv"))
    assert told["rows"] == 12


def test_what_was_typed_can_be_typed_again(
    capsys: Capture, albert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Command, date and the data's file are in the result and on the page, not in the digest; nothing says where it ran."""
    monkeypatch.chdir(tmp_path)
    names = [f"rows of {name}.jsonl" for name in ("<b>", "two")]
    data, other = (rows(Path(name)) for name in names)
    first = attack(capsys, albert, data, Path("a"), "--seed", "3")
    env = first["env"]
    assert str(tmp_path) not in json.dumps(env).replace(str(albert), "")
    assert abs(datetime.fromisoformat(env["date"]) - datetime.now(UTC)) < timedelta(minutes=10)
    assert env["data"] == [{"name": names[0], "sha256": hashlib.sha256(data.read_bytes()).hexdigest()}]
    typed = shlex.split(env["command"])
    flags = ["--n", "4", "--out", "a", "--seed", "3", "--json"]
    assert typed == ["tickets", "attack", str(albert), "--data", names[0], *flags]
    assert attack(capsys, albert, data, Path("a"), "--seed", "3", "--live", "1")["env"] == env  # found done
    Path("a/result.json").unlink()
    again = tickets(capsys, *typed[1:-1])
    odd = attack(capsys, albert, other, Path("\x1b[31mred\u202e"), "--seed", "3")
    assert first["digest"] == again["digest"] == odd["digest"]
    assert odd["env"]["command"].isprintable()
    replayed = tickets(capsys, "replay", "a", str(albert), "--also", names[0], "--also", names[1], "--out", "r")
    assert shlex.split(replayed["env"]["command"])[:3] == ["tickets", "replay", "a"]
    assert [one["name"] for one in replayed["env"]["data"]] == names
    tickets(capsys, "report", "a", "\x1b[31mred\u202e", "--out", "page.html")
    page = Path("page.html").read_text("utf-8")
    shown = html.unescape(page)
    assert all(words in shown for words in (env["command"], odd["env"]["command"], *names, env["data"][0]["sha256"]))
    assert not {"\x1b", "\u202e"} & set(page)
    task = rt.load_task(names[0], splits={"test": "all"}, labels=("bad", "good"))
    called = rt.PWWS()(rt.load_classifier(str(albert)), task.test, n=4, seed=3, labels=task.labels)
    assert called.digest == first["digest"]
    assert "command" not in called.env


def test_labels_by_name_or_map_never_by_order(capsys: Capture, albert: Path, tmp_path: Path) -> None:
    named = attack(capsys, albert, rows(tmp_path / "a.jsonl", ("BAD", "Good")), tmp_path / "a")
    ids = rows(tmp_path / "b.jsonl", (0, 1))
    assert "--label-map 0=bad,1=good" in attack(capsys, albert, ids, tmp_path / "b", code=2)["error"]["hint"]
    mapped = attack(capsys, albert, ids, tmp_path / "c", "--label-map", "0=bad,1=good")
    by_number = attack(capsys, albert, ids, tmp_path / "d", "--label-map", "1=1,0=0")
    assert mapped["clean"] == named["clean"] == by_number["clean"]
    straight, turned = (
        attack(capsys, albert, ids, tmp_path / flag, "--subset", "first", "--label-map", flag)
        for flag in ("0=bad,1=good", "0=good,1=bad")
    )
    assert turned["clean"] == 100 - straight["clean"]
    other = rows(tmp_path / "f.jsonl", ("awful", "fine"))
    assert "--label-map awful=bad,fine=good" in attack(capsys, albert, other, tmp_path / "f", code=2)["error"]["hint"]
    mapped = attack(capsys, albert, other, tmp_path / "f", "--label-map", "fine=good,awful=bad")
    assert mapped["clean"] == named["clean"]
    for wrong in ("fine", "fine=9", "fine=1,fine=0", "x=0,y=1"):
        attack(capsys, albert, other, tmp_path / "g", "--label-map", wrong, code=2)


def test_classes_that_nobody_named(capsys: Capture, tmp_path: Path) -> None:
    """LABEL_0 and LABEL_1 take class numbers as they are, and names from --labels."""
    model = foreign_folder(tmp_path / "m", labels=("LABEL_0", "LABEL_1"))
    ids, words = rows(tmp_path / "a.jsonl", (0, 1)), rows(tmp_path / "b.jsonl")
    clean = attack(capsys, model, ids, tmp_path / "a")["clean"]
    refused = attack(capsys, model, words, tmp_path / "b", code=2)["error"]
    assert "--label-map bad=LABEL_0,good=LABEL_1" in refused["hint"]
    result = attack(capsys, model, words, tmp_path / "b", "--labels", "bad,good")
    assert (result["clean"], result["model"]["labels"]) == (clean, ["bad", "good"])
    named = foreign_folder(tmp_path / "n")
    attack(capsys, named, words, tmp_path / "d", "--labels", "bad,good")  # which it calls them itself
    attack(capsys, named, words, tmp_path / "c", "--labels", "x,y", code=2)


def test_an_onnx_file_of_others(capsys: Capture, tmp_path: Path) -> None:
    data, words = rows(tmp_path / "d.jsonl"), tmp_path / "words"
    foreign_tokenizer().save_pretrained(words)
    path = onnx_file(tmp_path / "m.onnx")
    assert "no tokenizer" in attack(capsys, path, data, tmp_path / "a", code=2)["error"]["message"]
    flags = ["--tokenizer", str(words), "--labels", "bad,good"]
    result = attack(capsys, path, data, tmp_path / "a", *flags, "--max-length", "16")
    assert (result["errors"], result["model"]["max_length"], result["model"]["identity"]) == (0, 16, f"onnx:{path}")
    attack(capsys, path, data, tmp_path / "b", *flags, "--device", "cuda", code=2)
    told = tickets(capsys, "predict", str(path), "--data", str(data), "--out", str(tmp_path / "p.csv"), *flags)
    assert told["rows"] == 12


def test_a_function(capsys: Capture, module: str, tmp_path: Path) -> None:
    data = rows(tmp_path / "d.jsonl")
    attack(capsys, module, data, tmp_path / "a", code=2)
    flags = ["--labels", "bad,good", "--batch-size", "5", "--retries", "1", "--rate-limit", "100000", "--timeout", "60"]
    result = attack(capsys, module, data, tmp_path / "a", *flags)
    assert (result["clean"], result["errors"], result["model"]["max_length"]) == (100, 0, None)
    assert max(sys.modules["my_judge"].calls) == 5
    assert attack(capsys, "my_judge:model", data, tmp_path / "b", "--labels", "bad,good")["clean"] == 100
    for name in ("my_judge:number", "my_judge:no", "no_such:f"):
        attack(capsys, name, data, tmp_path / "c", "--labels", "bad,good", code=2)
    attack(capsys, "my_judge:gone", data, tmp_path / "c", "--labels", "bad,good", code=3)
    told = tickets(
        capsys, "predict", module, "--data", str(data), "--out", str(tmp_path / "p.csv"), "--labels", "bad,good"
    )
    assert told["rows"] == 12


def test_pairs_by_column(capsys: Capture, module: str, albert: Path, tmp_path: Path) -> None:
    told = [
        {"premise": f"a film {i}", "hypothesis": TEXTS[i % 6], "label": ("bad", "good")["good" in TEXTS[i % 6]]}
        for i in range(12)
    ]
    data = write_rows(tmp_path / "d.jsonl", told)
    pair = ["--text", "premise,hypothesis"]
    result = attack(capsys, module, data, tmp_path / "a", "--labels", "bad,good", *pair)
    assert (result["clean"], result["task"]["columns"]) == (100, ["premise", "hypothesis"])
    assert attack(capsys, albert, data, tmp_path / "b", *pair)["errors"] == 0
    from robust_tickets.classifier import Classifier

    ours = Classifier.from_pretrained(albert, device="cpu")
    ours.columns = ("text",)
    ours.save_pretrained(tmp_path / "ours")  # says that it reads one text
    attack(capsys, tmp_path / "ours", data, tmp_path / "c", *pair, code=2)
    assert attack(capsys, tmp_path / "ours", data, tmp_path / "c", "--text", "hypothesis")["errors"] == 0


def test_settings_of_the_attack(capsys: Capture, module: str, tmp_path: Path) -> None:
    data, names = rows(tmp_path / "d.jsonl", count=60), ["--labels", "bad,good"]
    flags = [*names, "--subset", "first", "--query-budget", "3", "--scoring", "log-odds"]
    first = attack(capsys, module, data, tmp_path / "a", *flags)
    assert [e["original"] for e in outcomes(tmp_path / "a")] == [[f"{TEXTS[i]} {i}"] for i in range(4)]
    assert max(e["queries"] for e in outcomes(tmp_path / "a")) <= 3
    assert (first["query_budget"], first["scoring"]) == (3, "log-odds")
    warm = attack(capsys, module, data, tmp_path / "b", *names, "--temperature", "2.5", "--subset", "random")
    assert warm["temperature"] == 2.5
    turned = {"bad": "good", "good": "bad"}
    mixed = [json.loads(line) for line in data.read_text().splitlines()]
    for i, row in enumerate(mixed):
        row |= {"text": f"{row['text']} more", "label": row["label"] if i % 7 else turned[row["label"]]}
    calibrated = ["--temperature", "calibrated", "--calibration", str(write_rows(tmp_path / "e.jsonl", mixed))]
    assert attack(capsys, module, data, tmp_path / "c", *names, *calibrated)["temperature"] != 1
    assert attack(capsys, module, data, tmp_path / "d", *names, "--seen", str(data))["flags"]
    for flags in ("--temperature hot", "--subset last", "--compat 0.0.1", "--query-budget 0", "--retries -1"):
        attack(capsys, module, data, tmp_path / "e", *names, *flags.split(), code=2)


def test_flags_of_speed(capsys: Capture, albert: Path, module: str, tmp_path: Path) -> None:
    data = rows(tmp_path / "d.jsonl")
    short = attack(capsys, albert, data, tmp_path / "s", "--precision", "bfloat16", "--live", "1")
    assert short["precision"] == "bfloat16"
    for wrong in (["--live", "0"], ["--precision", "int8"]):
        assert wrong[0] in attack(capsys, albert, data, tmp_path / "e", *wrong, code=2)["error"]["message"]
    labels = ["--labels", "bad,good", "--precision", "float16"]
    attack(capsys, module, data, tmp_path / "e", *labels, code=2)


def test_code_of_others_neither_prints_into_the_document_nor_ends_the_process(
    capsys: Capture, module: str, tmp_path: Path
) -> None:
    data = rows(tmp_path / "d.jsonl")
    labels = ["--labels", "bad,good"]
    assert attack(capsys, "my_judge:loud", data, tmp_path / "a", *labels)["n"] == 4
    assert "exit 5" in attack(capsys, "my_judge:leaves", data, tmp_path / "b", *labels, code=3)["error"]["message"]
    for wrong in (["--labels", "bad,"], [*labels, "--timeout", "inf"], [*labels, "--rate-limit", "nan"]):
        assert attack(capsys, module, data, tmp_path / "c", *wrong, code=2)["error"]["hint"]


@pytest.mark.parametrize(
    "flags", [["--tokenizer", "x"], ["--batch-size", "2"], ["--retries", "2"], ["--rate-limit", "2"], ["--timeout", "2"], ["--device", "x"]]
)  # fmt: skip
def test_flags_that_do_not_belong_to_a_folder(flags: list[str], capsys: Capture, albert: Path, tmp_path: Path) -> None:
    attack(capsys, albert, rows(tmp_path / "d.jsonl"), tmp_path / "a", *flags, code=2)


SERVICES = '''
import os
from my_judge import judge as plain

asked = []

def limited(texts):
    """As a service that takes few texts at once."""
    if len(texts) > 3:
        raise ValueError("413")
    return plain(texts)

def picky(texts):
    """While there is a file of that name: fails on what an attack makes of a good film, and on what is lost."""
    asked.extend(texts)
    if os.path.exists("picky") and any("lost" in text or ("film" in text and "good" not in text) for text in texts):
        raise ValueError("odd")
    return plain(texts)
'''
ALL = ("--labels", "bad,good", "--attack", "deepwordbug", "--n", "0")


@pytest.fixture
def services(module: str, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "services.py").write_text(SERVICES)
    yield "services"
    sys.modules.pop("services", None)


def some(path: Path, good: int, bad: int = 0, lost: int = 0) -> Path:
    told = [("a good film", "good")] * good + [("a bad plot", "bad")] * bad + [("a lost plot", "bad")] * lost
    return write_rows(path, [{"text": f"{text} {i}", "label": label} for i, (text, label) in enumerate(told)])


def test_a_victim_that_takes_few_texts_at_once_has_its_own_numbers(
    capsys: Capture, services: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The examples that it had right failed, having many questions at once, and were left out."""
    monkeypatch.setattr("time.sleep", lambda _: None)  # between retries
    data, flags = rows(tmp_path / "d.jsonl"), ("--labels", "bad,good", "--n", "0")
    truth = attack(capsys, "my_judge:judge", data, tmp_path / "a", *flags)
    kept = ("n", "clean", "aua", "aua_upper", "suc", "queries", "errors", "outcomes", "curve", "flag_codes")
    for name, more in (("b", ()), ("c", ("--retries", "1"))):
        found = attack(capsys, f"{services}:limited", data, tmp_path / name, *flags, *more)
        assert of(found, *kept) == of(truth, *kept)
    assert truth["clean"] == 100


def test_failed_examples_end_with_3_stand_first_and_fail_the_check(
    capsys: Capture, services: str, tmp_path: Path
) -> None:
    data, out = some(tmp_path / "d.jsonl", good=8, lost=4), tmp_path / "a"
    (tmp_path / "picky").touch()
    found = attack(capsys, f"{services}:picky", data, out, *ALL, code=3)
    assert found["outcomes"] == {"success": 0, "failed": 0, "skipped": 0, "unknown": 8, "error": 4}
    assert of(found, "n", "errors", "clean", "aua", "aua_upper", "suc") == [8, 12, 100, 0, 100, None]
    assert found["flag_codes"][0] == "failed-examples"
    assert "errors" not in found["flag_codes"]
    told = tickets(capsys, "check", str(out), "--min", "aua=0", code=1)
    assert [(gate["measure"], gate["passed"]) for gate in told["gates"]] == [("aua", True), ("flags", False)]
    tickets(capsys, "report", str(out))
    page = (out / "report.html").read_text()
    assert page.index("failed examples: 12") < page.index("still labels")


def test_two_examples_may_fail_and_one_percent(capsys: Capture, services: str, tmp_path: Path) -> None:
    (tmp_path / "picky").touch()
    for good, more, code in ((2, (), 0), (3, (), 3), (3, ("--max-failed", "50"), 0), (3, ("--max-failed", "49"), 3)):
        data = some(tmp_path / "d.jsonl", good, bad=3)
        found = attack(capsys, f"{services}:picky", data, tmp_path / f"{good}{code}{len(more)}", *ALL, *more, code=code)
        assert (found["errors"], found["n"], found["outcomes"]["unknown"]) == (good, good + 3, good)
        assert ("errors" in found["flag_codes"], "failed-examples" in found["flag_codes"]) == (code == 0, code == 3)
    attack(capsys, f"{services}:picky", data, tmp_path / "a", *ALL, "--max-failed", "101", code=2)


def test_the_same_command_attacks_the_failed_examples_again_and_no_others(
    capsys: Capture, services: str, tmp_path: Path
) -> None:
    data, out = some(tmp_path / "d.jsonl", good=4, bad=14), tmp_path / "a"
    truth = attack(capsys, f"{services}:picky", data, tmp_path / "truth", *ALL)
    (tmp_path / "picky").touch()
    found = attack(capsys, f"{services}:picky", data, out, *ALL, code=3)
    assert found["outcomes"] == {"success": 0, "failed": 14, "skipped": 0, "unknown": 4, "error": 0}
    (tmp_path / "picky").unlink()
    asked = sys.modules[services].asked
    asked.clear()
    found = attack(capsys, f"{services}:picky", data, out, *ALL)
    assert found["outcomes"] == truth["outcomes"]
    assert outcomes(out) == outcomes(tmp_path / "truth")
    assert not set(asked) & {f"a bad plot {i}" for i in range(8, 18)}, "but for the first 8, which tell it from others"
    assert sorted(path.name for path in out.iterdir()) == ["examples.jsonl", "result.json"]


def test_a_replay_with_failed_examples_ends_with_3(capsys: Capture, services: str, tmp_path: Path) -> None:
    attack(capsys, "my_judge:judge", some(tmp_path / "d.jsonl", good=8), tmp_path / "a", *ALL)
    (tmp_path / "picky").touch()
    call = ["replay", str(tmp_path / "a"), "my_judge:judge", f"{services}:picky", "--labels", "bad,good"]
    call += ["--out", str(tmp_path / "r")]
    fine, picky = tickets(capsys, *call, code=3)["cells"]
    assert (fine["errors"], fine["replayed"], picky["errors"], picky["n"]) == (0, 0, 8, 8)
    assert (picky["clean"], picky["replayed"], picky["transfer"]) == (100, 0, None), "the clean texts count"
    assert picky["flag_codes"][0] == "failed-examples"
    assert "failed-examples" not in fine["flag_codes"]
    assert "errors" in tickets(capsys, *call, "--max-failed", "100")["cells"][1]["flag_codes"]


@pytest.mark.parametrize("name", ATTACKS.names())
def test_every_resource_can_be_named_none(name: str) -> None:
    kind = ATTACKS.get(name)
    for resource in resources_in(kind):
        source = (resource == "vectors" and name != "textbugger") or (name, resource) == ("bertattack", "masked")
        if source:  # candidates come from it
            with pytest.raises(TicketsError, match="cannot be dropped"):
                build(kind, {resource: FlagText("none")})
        else:
            assert getattr(build(kind, {resource: FlagText("none")}), resource) == "none"
    assert build(kind, {"compat": FlagText("none")}).compat is None  # elsewhere none is nothing


def test_tables_and_the_page(capsys: Capture, albert: Path, tmp_path: Path) -> None:
    data, out = rows(tmp_path / "d.jsonl"), tmp_path / "a"
    flags = ("--csv", str(tmp_path / "t.csv"), "--parquet", str(tmp_path / "deep" / "t.parquet"))
    told = attack(capsys, albert, data, out, *flags)
    assert told["tables"] == [str(tmp_path / "t.csv"), str(tmp_path / "deep" / "t.parquet")]
    with open(tmp_path / "t.csv", encoding="utf-8", newline="") as stream:
        texts = [row["original_text"] for row in csv.DictReader(stream)]
    assert texts == [line["original"][0] for line in outcomes(out)]
    assert parquet.read_table(tmp_path / "deep" / "t.parquet")["id"].to_pylist() == told["ids"]
    (tmp_path / "t.csv").unlink()
    attack(capsys, albert, data, out, "--csv", str(tmp_path / "t.tsv"))  # done before: only the table is made
    assert (tmp_path / "t.tsv").is_file()
    assert "tables" not in attack(capsys, albert, data, out)
    page = tickets(capsys, "report", str(out))["report"]
    assert Path(page) == out / "report.html"
    assert "Accuracy against query budget" in Path(page).read_text("utf-8") or told["suc"] is None


def test_a_table_that_cannot_be_is_refused_before_the_attack(capsys: Capture, albert: Path, tmp_path: Path) -> None:
    """A wrong ending, a folder, and a file that is read from."""
    data, other, out = tmp_path / "d.csv", tmp_path / "seen.csv", tmp_path / "a"
    before = "text,label\na good film,good\na bad plot,bad\n"
    for path in (data, other):
        path.write_text(before)
    tables = [("--csv", str(path)) for path in (data, other, tmp_path / "x" / ".." / "d.csv", data / "t.csv", tmp_path)]
    for flags in (*tables, ("--csv", "t.xlsx"), ("--parquet", "t.csv")):
        attack(capsys, albert, data, out, "--seen", str(other), *flags, code=2)
    assert (data.read_text(), other.read_text(), out.exists()) == (before, before, False)
