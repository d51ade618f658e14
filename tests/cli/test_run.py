"""`tickets run` as a user calls it: a CSV with string labels, one with pairs, resuming, and the same hashes twice."""

from __future__ import annotations

import csv
import html
import json
from pathlib import Path
from typing import Any

import pytest

from calling import Capture, called, sets, tickets
from robust_tickets.attack.greedy import GreedySearch
from robust_tickets.data import diagnostics
from robust_tickets.data.diagnostics import LISTED, SHOWN, announce, write_bad_rows
from robust_tickets.data.task import BadRow, Task
from robust_tickets.deploy.card import evidence_of
from robust_tickets.files import read_json, write_json
from robust_tickets.report.html import write_report
from robust_tickets.resources import wordnet
from robust_tickets.stages import BAD_ROWS

SMALL = sets("train.epochs=1", "max_length=32", "attack.n=6", "search.adversary.steps=2")
SAME = (".safetensors", "config.json", "ticket.json", "trace.jsonl", "examples.jsonl", "evaluation.json", "arms.json")


def test_a_csv_with_three_string_labels_goes_through_without_python(
    capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    said = tickets(
        capsys, "run", "earlyrobust", *sets(f"task={three_classes}", f"model={model_folder}"), *SMALL,
        "--out", str(tmp_path / "r"),
    )  # fmt: skip
    run = Path(said["run"])
    assert {arm["name"] for arm in said["arms"]} == {"earlyrobust", "finetune"}
    assert (run / "report.html").stat().st_size > 5000
    manifest = json.loads((run / "manifest.json").read_text())["files"]
    assert {"config.json", "env.json", "arms.json", "report.html"} <= manifest.keys()
    env = json.loads((run / "env.json").read_text())
    assert env["command"].startswith("tickets run earlyrobust --set task=")
    assert ([one["name"] for one in env["data"]], "date" in env) == (["reviews.csv"], True)
    assert all(
        html.escape(words) in (run / "report.html").read_text()
        for words in (env["command"], env["date"], env["data"][0]["sha256"])
    )
    arms = json.loads((run / "arms.json").read_text())
    assert arms["task"]["labels"] == ["bad", "flat", "good"]
    for arm in arms["arms"]:
        result = json.loads((run / arm["attacks"][0] / "result.json").read_text())
        assert result["n"] == 6
        assert (run / arm["train"] / "model" / "model.safetensors").is_file()
        assert not (run / arm["train"] / "checkpoint").exists()


def test_a_csv_with_pairs_goes_through(capsys: Capture, pairs: Path, model_folder: Path, tmp_path: Path) -> None:
    said = tickets(
        capsys, "run", "random", *sets(f"task={pairs}", f"model={model_folder}"), *SMALL[:-2], "--set", "arms=random",
        "--out", str(tmp_path / "r"),
    )  # fmt: skip
    arms = json.loads((Path(said["run"]) / "arms.json").read_text())
    assert arms["task"]["labels"] == ["other", "same"]
    examples = (Path(said["run"]) / arms["arms"][0]["attacks"][0] / "examples.jsonl").read_text().splitlines()
    assert all(len(json.loads(line)["original"]) == 2 for line in examples)


def test_the_same_recipe_twice_gives_the_same_hashes_and_a_second_call_finds_it_done(
    capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    arguments = ["run", "earlyrobust", *sets(f"task={three_classes}", f"model={model_folder}"), *SMALL]
    runs = [Path(tickets(capsys, *arguments, "--out", str(tmp_path / name))["run"]) for name in ("one", "two")]
    files = [json.loads((run / "manifest.json").read_text())["files"] for run in runs]
    for name in files[0]:
        if name.endswith(SAME):
            assert files[0][name]["sha256"] == files[1][name]["sha256"], name
    assert any(name.endswith("model.safetensors") for name in files[0])
    before = {p: p.stat().st_mtime_ns for p in runs[0].rglob("stage.json")}
    tickets(capsys, *arguments, "--out", str(runs[0]))
    assert before == {p: p.stat().st_mtime_ns for p in runs[0].rglob("stage.json")}


@pytest.mark.parametrize(
    "arguments",
    [
        "run earlyrobst",
        "run earlyrobust --set train.epoch=3",
        "run earlyrobust --set train.epochs=many",
        "run earlyrobust --set search.adversary=frelb",
        "run earlyrobust --set task=no/such.csv",
        "run earlyrobust --set train.epochs",
        "run earlyrobust --set arms=nobody",
        "run nowhere.toml",
        "run earlyrobust --set baseline=finetun",
        "run earlyrobust --set arms.finetune.train=3",
        "run earlyrobust --set arms.finetune.search=7",
        "run earlyrobust task=reviews.csv",
        "run earlyrobust --sett a=b",
        "run",
        "ls",
        "attack model",
        "frobnicate",
    ],
)
def test_bad_input_exits_2_with_words_and_no_traceback(capsys: Capture, arguments: str) -> None:
    out, err = called(capsys, *arguments.split(), code=2)
    assert out == ""
    assert "error:" in err
    assert "Traceback" not in err


def test_a_folder_used_again_for_other_work_shows_only_the_new_work(
    capsys: Capture, three_classes: Path, pairs: Path, model_folder: Path, tmp_path: Path
) -> None:
    common = ["--set", f"model={model_folder}", *SMALL[:-2], "--out", str(tmp_path / "r")]
    first = tickets(capsys, "run", "finetune", "--set", f"task={three_classes}", *common)
    train = json.loads((Path(first["run"]) / "arms.json").read_text())["arms"][0]["train"]
    tickets(capsys, "run", "finetune", "--set", f"task={pairs}", *common)
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())["files"]
    assert not any(name.startswith(train) for name in manifest)
    assert "pairs" in (tmp_path / "r" / "report.html").read_text()


def test_any_bad_row_stops_a_strict_run(capsys: Capture, three_classes: Path, tmp_path: Path) -> None:
    with open(three_classes, "a", encoding="utf-8") as stream:
        stream.write(",good\n")
    tickets(
        capsys, "run", "finetune", "--strict", "--set", f"task={three_classes}", "--out", str(tmp_path / "r"), code=2
    )
    assert not (tmp_path / "r").exists()


def test_a_run_names_its_models_and_stands_for_them(
    capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    said = tickets(
        capsys, "run", "random", *sets(f"task={three_classes}", f"model={model_folder}"), "--set", "attack=none",
        "--set", "train.epochs=1", "--set", "max_length=32", "--out", str(out),
    )  # fmt: skip
    assert set(said["models"]) == {"random", "finetune"}
    assert all((Path(folder) / "config.json").is_file() for folder in said["models"].values())
    assert json.loads((Path(said["models"]["random"]) / "config.json").read_text())["model_type"] == "ticket-bert"
    predict = ["--data", str(three_classes), "--out", str(tmp_path / "p.csv"), "--text", "review"]
    assert tickets(capsys, "predict", f"{out}:random", *predict)["rows"] == 300
    assert "name one" in tickets(capsys, "predict", str(out), *predict, code=2)["error"]["hint"]
    tickets(capsys, "predict", f"{out}:nobody", *predict, code=2)
    assert Path(tickets(capsys, "export", f"{out}:random", "--out", str(tmp_path / "e"))["model"]).is_dir()


BRANCHES = """
title = "Branches"
[search]
name = "earlyrobust"
adversary = {name = "freelb", steps = 2}
[train]
epochs = 1
[arms.shallow]
ticket = "found"
draw = {neurons = 0.5, head_scope = "layer"}
[arms.found]
search = true
[arms.redrawn]
ticket = "found"
without = "initialisation"
[arms.whole]
ticket = "found"
without = "structure"
[arms.matched]
search = {name = "random", match = "layer"}
like = "found"
"""


def test_branches_share_one_search_and_say_what_they_are(
    capsys: Capture, three_classes: Path, pairs: Path, model_folder: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "branches.toml"
    recipe.write_text(BRANCHES + f'[arms.elsewhere]\nsearched_on = {{task = "{pairs}"}}\n')
    common = [
        "run", str(recipe), *sets(f"task={three_classes}", f"model={model_folder}"), "--set", "attack=none",
        "--set", "max_length=32", "--set", "max_test_rows=20",
    ]  # fmt: skip
    said = tickets(capsys, *common, "--out", str(tmp_path / "r"))
    run = Path(said["run"])
    arms = {arm["name"]: arm for arm in json.loads((run / "arms.json").read_text())["arms"]}
    assert len(list((run / "search").iterdir())) == 3  # found, matched, elsewhere
    assert arms["shallow"]["search"] == arms["found"]["search"] == arms["whole"]["search"]
    assert arms["shallow"]["branch"] == {"of": "found", "draw": {"neurons": 0.5, "head_scope": "layer"}}
    drawn = json.loads((run / arms["shallow"]["ticket"] / "ticket.json").read_text())
    assert drawn["removed"]["neurons"] == 0.5
    assert arms["shallow"]["subnetwork"]["digest"] == drawn["digest"]
    assert arms["shallow"]["subnetwork"]["provenance"]["method"]["name"] == "earlyrobust"
    manifest = json.loads((run / "manifest.json").read_text())["files"]
    assert f"{arms['shallow']['ticket']}/ticket.json" in manifest
    told = {arm["name"]: arm["near_random"] for arm in said["arms"]}  # 300 rows, a random model
    assert told == {name: name != "matched" for name in arms}
    kinds = {
        name: json.loads((Path(folder) / "config.json").read_text())["model_type"]
        for name, folder in said["models"].items()
    }
    assert kinds == {
        "shallow": "ticket-bert", "found": "ticket-bert", "redrawn": "ticket-bert", "whole": "bert", "matched": "ticket-bert",
        "elsewhere": "ticket-bert",
    }  # fmt: skip
    assert len({arm["train"] for arm in arms.values()}) == 6
    assert all(json.loads((run / arm["train"] / "evaluation.json").read_text())["n"] == 20 for arm in arms.values())
    # a saved ticket serves another run, whose folder is named by what the ticket holds
    (tmp_path / "saved").mkdir()
    for name in ("ticket.json", "ticket.safetensors"):
        (tmp_path / "saved" / name).write_bytes((run / arms["found"]["ticket"] / name).read_bytes())
    extra = ["--set", f"arms.shallow.ticket={tmp_path / 'saved'}", "--set", "arms=shallow"]
    other = Path(tickets(capsys, *common, *extra, "--out", str(tmp_path / "s"))["run"])
    row = json.loads((other / "arms.json").read_text())["arms"][0]
    assert row["search"] is None
    assert json.loads((other / row["ticket"] / "ticket.json").read_text())["digest"] == drawn["digest"]
    before = {p: p.stat().st_mtime_ns for p in run.rglob("stage.json")}
    tickets(capsys, *common, "--out", str(run))
    assert before == {p: p.stat().st_mtime_ns for p in run.rglob("stage.json")}


def test_failed_examples_of_an_arm_end_the_run_with_3_and_are_attacked_again(
    capsys: Capture,
    three_classes: Path,
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []

    def fails(kit: GreedySearch, game: Any) -> Any:
        calls.append(0)
        if not whole and len(calls) in (2, 3, 4, 5):  # of the first arm
            raise ValueError("odd")
        return (yield from plain(kit, game))

    plain, whole = GreedySearch.attack, False
    monkeypatch.setattr(GreedySearch, "attack", fails)
    arguments = ["run", "earlyrobust", *sets(f"task={three_classes}", f"model={model_folder}"), *SMALL]
    arguments += ["--out", str(tmp_path / "r")]
    arms = {arm["name"]: next(iter(arm["attacks"].values())) for arm in tickets(capsys, *arguments, code=3)["arms"]}
    assert sorted(arm["errors"] for arm in arms.values()) == [0, 4]
    assert sorted(arm["n"] for arm in arms.values()) == [2, 6], "the other arm is finished, and so is the report"
    assert (tmp_path / "r" / "report.html").is_file()
    failed = next(name for name, arm in arms.items() if arm["errors"])
    told = tickets(capsys, "check", str(tmp_path / "r"), "--min", "aua=0", code=1)
    assert {gate["arm"] for gate in told["gates"] if not gate["passed"]} == {failed}
    calls.clear()
    whole = True
    arms = {arm["name"]: next(iter(arm["attacks"].values())) for arm in tickets(capsys, *arguments)["arms"]}
    assert {(arm["errors"], arm["n"]) for arm in arms.values()} == {(0, 6)}
    assert len(calls) == 4


def test_the_demos_fourth_arm_on_a_csv(
    capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    settings = [
        f"task={three_classes}",
        f"model={model_folder}",
        "attack.n=6",
        "max_length=32",
        "arms=earlyrobust,synonymswap",
    ]
    tickets(capsys, "run", "demo", *sets(*settings), "--out", str(tmp_path / "r"))
    one, other = json.loads((tmp_path / "r" / "arms.json").read_text())["arms"]
    assert one["search"] == other["search"]
    assert one["train"] != other["train"]
    assert not (tmp_path / "r" / one["train"] / "adversary.json").exists()
    stage = tmp_path / "r" / other["train"]
    about = json.loads((stage / "adversary.json").read_text())
    assert about["resources"]["source"]["digest"] == wordnet.digest()
    assert about["coverage"]["words"] > 100
    assert "adversary.json" in json.loads((stage / "stage.json").read_text())["files"]
    evidence = evidence_of(stage / "model")
    assert (evidence.adversary, evidence.words[0]["digest"]) == ("synonymswap", wordnet.digest())
    assert evidence_of(tmp_path / "r" / one["train"] / "model").adversary == ""


def test_another_content_under_the_same_name_is_another_stage(
    capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    lists = tmp_path / "lists.json"
    settings = [f"task={three_classes}", f"model={model_folder}", "attack=none", "max_length=32", "arms=synonymswap"]
    settings += [f"arms.synonymswap.train.adversary.source={lists}", "arms.synonymswap.search=false"]
    trained = []
    for near in ("movie", "story", "movie"):
        lists.write_text(json.dumps({"film": [near]}))
        tickets(capsys, "run", "demo", *sets(*settings), "--out", str(tmp_path / "r"))
        trained.append(json.loads((tmp_path / "r" / "arms.json").read_text())["arms"][0]["train"])
    assert trained[0] == trained[2] != trained[1]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (["arms=synonymswap", "attack=none", "arms.synonymswap.train.adversary.source=nowhere.json"], "adversary.source="),
        (["attack.name=textbugger", "attack.vectors=conftest.py"], "attack.vectors="),
    ],
)  # fmt: skip
def test_words_that_are_not_there_are_missed_before_anything_is_searched(
    settings: list[str], key: str, capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:  # fmt: skip
    given = [f"task={three_classes}", f"model={model_folder}", "max_length=32", *settings]
    assert key in called(capsys, "run", "demo", *sets(*given), "--out", str(tmp_path / "r"), code=2)[1]
    assert not (tmp_path / "r").exists()


RECIPE = '[train]\nepochs = 1\nmax_steps = 1\nevaluate = "never"\n[arms.whole]\n'


def run(capsys: Capture, out: Path, data: Path, model: Path) -> str:
    """What is printed by a run of one arm."""
    recipe = out.with_suffix(".toml")
    recipe.write_text(f'title = "One"\n{RECIPE}')
    given = sets(f"task={data}", f"model={model}", "max_length=32")
    return "".join(called(capsys, "run", str(recipe), *given, "--out", str(out)))


def test_a_run_lists_them(capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path) -> None:
    whole = three_classes.read_text()
    with open(three_classes, "a", encoding="utf-8") as stream:
        stream.write('"",good\nthe film 7 was never labelled,\n')
    said = run(capsys, tmp_path / "r", three_classes, model_folder)
    listed = list(csv.reader((tmp_path / "r" / BAD_ROWS).read_text("utf-8").splitlines()))
    assert listed[0] == ["file", "row", "reason"]
    assert [(row, reason) for _, row, reason in listed[1:]] == [("302", "empty text"), ("303", "missing label")]
    assert f"first {three_classes}:302" in said
    assert [f"data: left out {three_classes}:{line}" in said for line in (302, 303)] == [False, True], (
        "the first is told already"
    )
    assert BAD_ROWS in json.loads((tmp_path / "r/manifest.json").read_text())["files"]
    three_classes.write_text(whole)
    assert "bad_rows" not in run(capsys, tmp_path / "r", three_classes, model_folder)
    assert not (tmp_path / "r" / BAD_ROWS).exists(), "the file is mended"


def test_a_flood_is_cut(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "MOST", 150)
    bad = tuple(BadRow("a.csv", i, "empty text") for i in range(1, 201))
    task = Task("t", ("a", "b"), ("text",), {}, skipped=bad)
    write_bad_rows(tmp_path, [task, task])
    assert len((tmp_path / BAD_ROWS).read_text("utf-8").splitlines()) == 151
    assert len(diagnostics.shown(bad)) == SHOWN
    (odd := tmp_path / "odd").mkdir()
    write_bad_rows(odd, [Task("t", ("a",), ("text",), {}, skipped=(BadRow("\udc80.csv", 1, "empty text"),))])
    assert "?.csv,1" in (odd / BAD_ROWS).read_text("utf-8")
    announce(task)
    said = capsys.readouterr().err
    assert said.count("data: left out") == LISTED - 1, "the first is told in a note"


def test_a_file_of_the_user_s_is_left_alone(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / BAD_ROWS).write_text("mine\n")
    task = Task("t", ("a", "b"), ("text",), {}, skipped=(BadRow("a.csv", 1, "empty text"),))
    write_bad_rows(tmp_path, [task])
    write_bad_rows(tmp_path, [])
    assert (tmp_path / BAD_ROWS).read_text() == "mine\n"


def test_the_page_repeats_the_warnings_of_the_data(tmp_path: Path) -> None:
    from fake_run import make_run

    folder = make_run(tmp_path / "r", n=4)
    about = read_json(folder / "arms.json")
    about["task"] |= {"warnings": ["test has <few> rows", 3], "bad_rows": ["a.csv:1: <b>"], "skipped_rows": 200}
    write_json(folder / "arms.json", about)
    page = write_report(tmp_path / "r.html", folder).read_text("utf-8")
    assert "The data: test has &lt;few&gt; rows." in page
    assert "a.csv:1: &lt;b&gt;" in page
