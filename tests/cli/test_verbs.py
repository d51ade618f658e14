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
from calling import tickets
from fake_run import make_run
from robust_tickets.cli import doctor
from robust_tickets.cli import main as cli
from robust_tickets.cli.main import main


def test_search_draw_train_attack_predict_export(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    data = ["--task", str(three_classes), "--max-length", "32"]
    found = tickets(
        capsys, "search", "earlyrobust", "--model", str(model_folder), *data, "--set", "adversary.steps=1", "--out", str(tmp_path / "t")
    )  # fmt: skip
    assert found["kind"] == "structured"
    drawn = tickets(
        capsys, "draw", str(tmp_path / "t"), "--heads", "0.25", "--neurons", "0.5", "--out", str(tmp_path / "t2")
    )
    assert drawn["removed"] == {"heads": 0.25, "neurons": 0.5}
    trained = tickets(
        capsys, "train", str(model_folder), *data, "--ticket", str(tmp_path / "t2"), "--set", "epochs=1", "--out", str(tmp_path / "m")
    )  # fmt: skip
    assert 0 <= trained["evaluation"]["accuracy"] <= 100
    result = tickets(
        capsys, "attack", trained["model"], "--data", str(three_classes), "--attack", "pwws", "--n", "5", "--out", str(tmp_path / "a")
    )  # fmt: skip
    assert result["n"] == 5
    told = tickets(capsys, "predict", trained["model"], "--data", str(three_classes), "--out", str(tmp_path / "p.csv"))
    assert told["rows"] == 300
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 301
    exported = tickets(capsys, "export", trained["model"], "--format", "dense", "--out", str(tmp_path / "dense"))
    assert (Path(exported["model"]) / "config.json").is_file()


@pytest.mark.parametrize("kind", ["methods", "adversaries", "attacks", "backbones", "tasks", "recipes"])
def test_ls_lists_names(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    assert len(tickets(capsys, "ls", kind)[kind]) >= 1


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("methods", "robustt", "Zheng"),
        ("adversaries", "pgd", "Madry"),
        ("recipes", "finetune", "Plain fine-tuning"),
        ("tasks", "imdb", "long"),
    ],
)
def test_ls_says_what_each_thing_is(capsys: pytest.CaptureFixture[str], kind: str, name: str, words: str) -> None:
    with pytest.raises(SystemExit):
        main(["ls", kind])
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert words in lines[name]


def test_an_empty_list_of_runs_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for folder, words in ((tmp_path, "no runs in"), (tmp_path / "no", "no folder")):
        with pytest.raises(SystemExit):
            main(["ls", "runs", "--folder", str(folder)])
        assert words in capsys.readouterr().err


def test_a_run_that_is_not_there_or_not_finished_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text\nfine\n")
    predict = ["predict", f"{tmp_path / 'r'}:arm", "--data", str(tmp_path / "x.csv"), "--out", str(tmp_path / "p.csv")]
    assert "is no run folder" in tickets(capsys, *predict, code=2)["error"]["message"]
    (tmp_path / "r").mkdir()
    (tmp_path / "r/config.json").write_text("{}")
    assert "is not finished" in tickets(capsys, *predict, code=2)["error"]["message"]


def test_doctor_names_the_packages_that_an_extra_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "versions", lambda names=("torch",): {n: "1" for n in names if n != "onnxscript"})
    with pytest.raises(SystemExit):
        main(["doctor"])
    out = capsys.readouterr().out
    assert 'onnx 1, onnxruntime 1; missing: onnxscript  get: pip install "robust-tickets[onnx]"' in out
    assert out.count("missing:") == 1


def test_doctor_looks_and_says_how_to_get_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    told = tickets(capsys, "doctor")
    assert "torch" in told["packages"]
    assert all(entry["found"] or entry["get"] for entry in told["resources"])
    missing = {entry["kind"] for entry in told["resources"] if not entry["found"]}
    for row in told["attacks"]:
        assert row["ready"] is not bool(missing & set(row["needs"]))
        assert all(kind in row["why"] for kind in row["missing"])
    assert {row["attack"]: row["needs"] for row in told["attacks"]}["pwws"] == []


def test_doctor_tells_the_size_of_the_cache(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def said() -> str:
        with pytest.raises(SystemExit):
            main(["doctor"])
        return capsys.readouterr().out

    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    assert f"{tmp_path / 'cache'}: empty\n" in said()
    for name, size in (("data", 10), ("tokens", 1_500_000), ("resources", 3000)):
        (tmp_path / "cache" / name / "deep").mkdir(parents=True)
        (tmp_path / "cache" / name / "deep" / "file").write_bytes(b"0" * size)
    assert ": tokens 1.5 MB, resources 3 kB, data 10 B\n    any of these may be removed but resources: " in said()
    assert tickets(capsys, "doctor")["cache"]["parts"] == {"tokens": 1_500_000, "resources": 3000, "data": 10}
    assert "cannot be written" not in said()
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache" / "data" / "deep" / "file" / "cache"))
    assert "file/cache: empty\n    cannot be written: " in said()
    assert tickets(capsys, "doctor")["cache"]["writable"] is False


@pytest.mark.parametrize(
    "arguments", [["--help"], ["ls", "methods"], ["ls", "tasks"], ["doctor", "--json"], ["run", "--help"]]
)
def test_looking_imports_no_torch(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom robust_tickets.cli.main import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        "assert not {'torch', 'transformers'} & set(sys.modules), 'imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_exits_130_and_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("robust_tickets.methods", interrupted)
    with pytest.raises(SystemExit) as end:
        main(["ls", "methods", *(["--json"] if as_json else [])])
    said = capsys.readouterr()
    assert end.value.code == 130
    assert "same command" in said.err
    assert (json.loads(said.out)["exit_code"] == 130) if as_json else said.out == ""


def test_a_failure_nobody_foresaw_exits_3_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(SystemExit) as end:
        main(["ls", "methods"])
    said = capsys.readouterr().err
    assert end.value.code == 3
    assert "out of memory" in said
    assert "Traceback" not in said


def test_predict_keeps_every_row_and_never_reads_what_it_writes(
    capsys: pytest.CaptureFixture[str], model_folder: Path, tmp_path: Path
) -> None:
    data = tmp_path / "in.csv"
    data.write_bytes(b'id,text\n1,"a fine, film"\n2,\n3,bro\xffken\n4,last\n')
    told = tickets(capsys, "predict", str(model_folder), "--data", str(data), "--out", str(tmp_path / "out.jsonl"))
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert told["rows"] == 4
    assert [row["line"] for row in rows] == [2, 3, 4, 5]
    assert [row["predicted"] is None for row in rows] == [False, True, True, False]
    assert rows[1]["problem"] == "empty text"
    assert abs(sum(value for key, value in rows[0].items() if key.startswith("p_")) - 1) < 1e-4
    tickets(capsys, "predict", str(model_folder), "--data", str(data), "--out", str(data), code=2)


def test_runs_are_listed_and_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "one")
    (tmp_path / "runs" / "odd").mkdir()
    (tmp_path / "runs" / "odd" / "config.json").write_text("[]")
    assert tickets(capsys, "ls", "runs", "--folder", str(tmp_path / "runs")).keys() == {"runs"}
    told = tickets(capsys, "report", str(tmp_path / "runs" / "one"), "--out", str(tmp_path / "page.html"))
    assert Path(told["report"]).read_text().startswith("<!doctype html>")
    twice = [str(tmp_path / "runs" / "one"), str(tmp_path / "runs" / ".." / "runs" / "one")]
    with pytest.raises(SystemExit) as end:
        main(["report", *twice, "--out", str(tmp_path / "twice.html")])
    assert end.value.code == 0
    assert f"warning: report: {twice[1]} is given more than once, and taken once" in capsys.readouterr().err
    assert (tmp_path / "twice.html").read_text() == Path(told["report"]).read_text()
    tickets(capsys, "report", code=2)
    tickets(capsys, "report", "a", "b", code=2)


@pytest.mark.parametrize("flag", ["--json", "--json=true"])
def test_json_is_asked_for_in_either_way(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    with pytest.raises(SystemExit):
        main(["ls", "methods", flag])
    assert "earlyrobust" in json.loads(capsys.readouterr().out)["methods"]


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


def test_a_function_that_never_answers_is_told_by_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone_service.py").write_text("def judge(texts):\n    raise RuntimeError('no route to host')\n")
    (tmp_path / "in.csv").write_text("text\na\nb\n")
    monkeypatch.chdir(tmp_path)
    told = tickets(
        capsys, "predict", "gone_service:judge", "--labels", "x,y", "--data", "in.csv", "--out", "out.csv", code=3
    )["error"]
    assert (
        "gone_service:judge failed on text after text, the last time with RuntimeError: no route to host"
        in told["message"]
    )
    assert "out.csv is not written" in told["message"]
    assert "--retries" in told["hint"]
    assert not (tmp_path / "out.csv").exists()


def test_export_says_what_it_is_at(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from tiny import tiny_classifier

    model = tiny_classifier("bert", labels=("x", "y")).save_pretrained(tmp_path / "model")
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(["export", str(model), "--format", "dense", "--out", str(tmp_path / "dense")])
    assert end.value.code == 0
    assert capsys.readouterr().err.splitlines() == [f"loading {model}", f"writing {tmp_path / 'dense'}"]


def test_a_page_is_not_written_over_a_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "r")
    monkeypatch.chdir(tmp_path)
    for out, page in (
        (".", "report.html"),
        ("r", "r/report.html"),
    ):  # the first has no name beside which a part could be written
        told = tickets(capsys, "report", str(run), "--out", out, code=2)["error"]
        assert told["message"] == f"report: --out {out} is a folder"
        assert told["hint"].endswith(f"--out {page}")


@pytest.mark.parametrize("cut", [None, 16])
def test_a_saved_tokenizer_is_that_of_the_base_whatever_the_cache_held(
    cut: int | None,
    capsys: pytest.CaptureFixture[str],
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
        train = [
            "train",
            str(base),
            "--task",
            str(three_classes),
            "--max-length",
            "32",
            "--max-rows",
            "32",
            "--set",
            "epochs=1",
        ]
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
    capsys: pytest.CaptureFixture[str], model_folder: Path, tmp_path: Path
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
    verb: str, capsys: pytest.CaptureFixture[str], model_folder: Path, three_classes: Path, tmp_path: Path
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
