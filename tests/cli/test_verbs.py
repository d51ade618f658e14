"""The single houses, one verb each, and what every verb promises: JSON alone on standard output, exit codes, no torch for looking."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import robust_tickets as rt
from calling import Capture, called, tickets
from fake_run import make_run
from robust_tickets.cli import main as cli


@pytest.mark.parametrize("kind", ["methods", "adversaries", "attacks", "backbones", "tasks", "recipes"])
def test_ls_lists_names(capsys: Capture, kind: str) -> None:
    assert len(tickets(capsys, "ls", kind)[kind]) >= 1


def test_doctor_looks_and_says_how_to_get_what_is_missing(capsys: Capture) -> None:
    told = tickets(capsys, "doctor")
    assert "torch" in told["packages"]
    assert all(entry["found"] or entry["get"] for entry in told["resources"])
    missing = {entry["kind"] for entry in told["resources"] if not entry["found"]}
    for row in told["attacks"]:
        assert row["ready"] is not bool(missing & set(row["needs"]))
        assert all(kind in row["why"] for kind in row["missing"])
    assert {row["attack"]: row["needs"] for row in told["attacks"]}["pwws"] == []


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_exits_130_and_says_how_to_go_on(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("robust_tickets.tasks", interrupted)
    out, _ = called(capsys, "ls", "tasks", *(["--json"] if as_json else []), code=130)
    assert (json.loads(out)["exit_code"] == 130) if as_json else out == ""


def test_a_failure_nobody_foresaw_exits_3_without_a_traceback(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(cli, "app", broken)
    assert "Traceback" not in called(capsys, "ls", "methods", code=3)[1]


def test_predict_never_writes_over_what_it_reads(capsys: Capture, model_folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "in.csv"
    data.write_text("id,text\n1,a fine film\n")
    tickets(capsys, "predict", str(model_folder), "--data", str(data), "--out", str(data), code=2)
    assert data.read_text() == "id,text\n1,a fine film\n"


def test_runs_are_listed_and_reported(capsys: Capture, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "one")
    (tmp_path / "runs" / "odd").mkdir()
    (tmp_path / "runs" / "odd" / "config.json").write_text("[]")
    assert tickets(capsys, "ls", "runs", "--folder", str(tmp_path / "runs")).keys() == {"runs"}
    told = tickets(capsys, "report", str(tmp_path / "runs" / "one"), "--out", str(tmp_path / "page.html"))
    assert Path(told["report"]).read_text().startswith("<!doctype html>")
    twice = [str(tmp_path / "runs" / "one"), str(tmp_path / "runs" / ".." / "runs" / "one")]
    called(capsys, "report", *twice, "--out", str(tmp_path / "twice.html"))
    assert (tmp_path / "twice.html").read_text() == Path(told["report"]).read_text()
    tickets(capsys, "report", code=2)
    tickets(capsys, "report", "a", "b", code=2)


@pytest.mark.parametrize("arguments", ["attack --help", "ls attacks", "--help"])
def test_a_reader_that_goes_away_is_no_error(arguments: str) -> None:
    command = f"{sys.executable} -c 'from robust_tickets.cli.main import main; main()' {arguments}"
    done = subprocess.run(
        ["bash", "-c", f"{command} | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_page_is_not_written_over_a_folder(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "r")
    monkeypatch.chdir(tmp_path)
    for out, page in (
        (".", "report.html"),
        ("r", "r/report.html"),
    ):  # the first has no name beside which a part could be written
        assert tickets(capsys, "report", str(run), "--out", out, code=2)["error"]["hint"].endswith(f"--out {page}")


@pytest.mark.parametrize("cut", [None, 16])
def test_a_saved_tokenizer_is_that_of_the_base_whatever_the_cache_held(
    cut: int | None,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    model_folder: Path,
    three_classes: Path,
    tmp_path: Path,
) -> None:
    """Calls set how a fast tokenizer cuts and pads, and a run that finds its token table makes none."""
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    base = shutil.copytree(model_folder, tmp_path / "base")
    rules = json.loads((base / "tokenizer.json").read_text())
    if cut:
        rules["truncation"] = {"direction": "Right", "max_length": cut, "strategy": "LongestFirst", "stride": 0}
        rules["padding"] = {
            "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": 8, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"
        }  # fmt: skip
        (base / "tokenizer.json").write_text(json.dumps(rules))
    made = []
    for name in ("cold", "warm"):
        flags = ["--max-length", "32", "--max-rows", "32", "--set", "epochs=1"]
        train = ["train", str(base), "--task", str(three_classes), *flags]
        tickets(capsys, *train, "--out", str(tmp_path / name))
        made.append(tmp_path / name / "model")
    for form in ("compact", "dense", *(["onnx"] if cut else [])):
        tickets(capsys, "export", str(made[0]), "--format", form, "--out", str(tmp_path / form))
        made.append(tmp_path / form)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert len({(folder / name).read_bytes() for folder in made}) == 1, name
    saved = json.loads((made[0] / "tokenizer.json").read_text())
    assert [saved[name] for name in ("truncation", "padding")] == [rules[name] for name in ("truncation", "padding")]


def panicking(model_folder: Path, folder: Path, on: str) -> Path:
    """A model whose tokenizer panics, in Rust, on many x (its regex backtracks too often) or on every text (its template lacks a token)."""
    shutil.copytree(model_folder, folder)
    rules = json.loads((folder / "tokenizer.json").read_text())
    if on == "every":
        rules["post_processor"]["single"][0]["SpecialToken"]["id"] = "[GONE]"
    else:
        split = {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated", "invert": False}
        rules["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, rules["pre_tokenizer"]]}
    (folder / "tokenizer.json").write_text(json.dumps(rules))
    return folder


def test_a_text_on_which_the_tokenizer_panics_costs_its_row(
    capsys: Capture, model_folder: Path, tmp_path: Path
) -> None:
    model, data, out = panicking(model_folder, tmp_path / "model", "x"), tmp_path / "d.csv", tmp_path / "o.csv"
    texts = [f"film {i}" if i != 7 else "x" * 40 for i in range(12)]
    data.write_text(
        "text,label\n" + "".join(f"{text},{('good', 'bad', 'flat')[i % 3]}\n" for i, text in enumerate(texts))
    )
    told = tickets(capsys, "predict", str(model), "--data", str(data), "--out", str(out))
    assert [sum(told["labels"].values()), told["rows"]] == [11, 12]
    assert [row["predicted"] == "" for row in csv.DictReader(out.read_text().splitlines())] == [
        i == 7 for i in range(12)
    ]
    result = tickets(
        capsys, "attack", str(model), "--data", str(data), "--attack", "pwws", "--out", str(tmp_path / "a")
    )
    assert result["n"] == 11
    assert "errors" in [flag.partition(":")[0] for flag in result["flags"]]


@pytest.mark.parametrize("verb", ["predict", "attack", "train"])
def test_a_tokenizer_that_panics_on_every_text_is_an_error(
    verb: str, capsys: Capture, model_folder: Path, three_classes: Path, tmp_path: Path
) -> None:
    model = panicking(model_folder, tmp_path / "model", "every")
    flags = {
        "predict": ["--data", str(three_classes), "--out", str(tmp_path / "o.csv")],
        "attack": ["--data", str(three_classes), "--attack", "pwws", "--out", str(tmp_path / "a")],
        "train": ["--task", str(three_classes), "--max-length", "32", "--out", str(tmp_path / "m")],
    }
    assert "tokenizer" in tickets(capsys, verb, str(model), *flags[verb], code=2)["error"]["message"]


def test_a_callable_whose_tokenizer_panics_raises_an_error(model_folder: Path, tmp_path: Path) -> None:
    tokenizer = rt.Classifier.from_pretrained(panicking(model_folder, tmp_path / "model", "every")).tokenizer
    with pytest.raises(rt.TicketsError):
        rt.Classifier.wrap(lambda texts: tokenizer(texts), labels=["a", "b"]).logits(["a film"])


@pytest.mark.parametrize("flag", ["--json", "--json=true"])
def test_json_is_asked_for_in_either_way(capsys: Capture, flag: str) -> None:
    assert "earlyrobust" in json.loads(called(capsys, "ls", "methods", flag)[0])["methods"]


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "robust_tickets", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"robust-tickets {rt.__version__}\n")


@pytest.mark.parametrize(
    "given",
    ["--n -2", "--query-budget 0", "--live 0", "--workers -1", "--batch-size 0", "--retries -1", "--rate-limit 0", "--timeout nan"],
)  # fmt: skip
def test_a_number_out_of_range_is_told_by_its_flag_before_anything_is_opened(
    capsys: Capture, three_classes: Path, tmp_path: Path, given: str
) -> None:
    call = ["attack", "nowhere_to_be_found:judge", "--data", str(three_classes), "--out", str(tmp_path / "o")]
    said = called(capsys, *call, *given.split(), code=2)[1]
    assert given.split()[0] in said
    assert "nowhere_to_be_found could not" not in said


@pytest.mark.parametrize("setting", ["train.lr=nan", "train.weight_decay=inf", "attack.n=-2", "attack.query_budget=0"])
def test_a_number_that_no_recipe_takes_is_told_by_its_key(
    capsys: Capture, three_classes: Path, tmp_path: Path, setting: str
) -> None:
    given = ("--set", f"task={three_classes}", "--set", "model=nowhere", "--set", setting)
    assert (
        setting.partition("=")[0] in called(capsys, "run", "finetune", *given, "--out", str(tmp_path / "r"), code=2)[1]
    )
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("verb", [("train", "nowhere"), ("search", "earlyrobust", "--model", "nowhere")])
def test_a_file_for_a_folder_is_told_before_anything_is_loaded(
    capsys: Capture, three_classes: Path, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    (tmp_path / "here").write_text("")
    assert "--out" in called(capsys, *verb, "--task", str(three_classes), "--out", str(tmp_path / "here"), code=2)[1]
