"""`tickets run` as a user calls it: a CSV with string labels, one with pairs, resuming, and the same hashes twice."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest

from calling import tickets
from robust_tickets.attack.greedy import GreedySearch
from robust_tickets.cli.main import main

SMALL = [
    "--set",
    "train.epochs=1",
    "--set",
    "max_length=32",
    "--set",
    "attack.n=6",
    "--set",
    "search.adversary.steps=2",
]


def test_a_csv_with_three_string_labels_goes_through_without_python(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    said = tickets(
        capsys, "run", "earlyrobust", "--set", f"task={three_classes}", "--set", f"model={model_folder}", *SMALL,
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


def test_a_csv_with_pairs_goes_through(
    capsys: pytest.CaptureFixture[str], pairs: Path, model_folder: Path, tmp_path: Path
) -> None:
    said = tickets(
        capsys, "run", "random", "--set", f"task={pairs}", "--set", f"model={model_folder}", *SMALL[:-2], "--set", "arms=random",
        "--out", str(tmp_path / "r"),
    )  # fmt: skip
    arms = json.loads((Path(said["run"]) / "arms.json").read_text())
    assert arms["task"]["labels"] == ["other", "same"]
    examples = (Path(said["run"]) / arms["arms"][0]["attacks"][0] / "examples.jsonl").read_text().splitlines()
    assert all(len(json.loads(line)["original"]) == 2 for line in examples)


def test_the_same_recipe_twice_gives_the_same_hashes_and_a_second_call_finds_it_done(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    arguments = ["run", "earlyrobust", "--set", f"task={three_classes}", "--set", f"model={model_folder}", *SMALL]
    runs = [Path(tickets(capsys, *arguments, "--out", str(tmp_path / name))["run"]) for name in ("one", "two")]
    files = [json.loads((run / "manifest.json").read_text())["files"] for run in runs]
    for name in files[0]:
        if name.endswith(
            (
                ".safetensors",
                "config.json",
                "ticket.json",
                "trace.jsonl",
                "examples.jsonl",
                "evaluation.json",
                "arms.json",
            )
        ):
            assert files[0][name]["sha256"] == files[1][name]["sha256"], name
    assert any(name.endswith("model.safetensors") for name in files[0])
    before = {p: p.stat().st_mtime_ns for p in runs[0].rglob("stage.json")}
    tickets(capsys, *arguments, "--out", str(runs[0]))
    assert before == {p: p.stat().st_mtime_ns for p in runs[0].rglob("stage.json")}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "earlyrobst"], "earlyrobust"),
        (["run", "earlyrobust", "--set", "train.epoch=3"], "epochs"),
        (["run", "earlyrobust", "--set", "train.epochs=many"], "whole number"),
        (["run", "earlyrobust", "--set", "search.adversary=frelb"], "freelb"),
        (["run", "earlyrobust", "--set", "task=no/such.csv"], "no/such.csv"),
        (["run", "earlyrobust", "--set", "train.epochs"], "key=value"),
        (["run", "earlyrobust", "--set", "arms=nobody"], "earlyrobust"),
        (["run", "nowhere.toml"], "nowhere.toml"),
        (["run", "earlyrobust", "--set", "baseline=finetun"], "finetune"),
        (["run", "earlyrobust", "--set", "arms.finetune.train=3"], "table"),
        (["run", "earlyrobust", "--set", "arms.finetune.search=7"], "search"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_bad_input_exits_2_with_words_and_no_traceback(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    said = capsys.readouterr()
    assert end.value.code == 2
    assert said.out == ""
    assert "error:" in said.err
    assert "what to do" in said.err
    assert words in said.err
    assert "Traceback" not in said.err


def test_a_folder_used_again_for_other_work_shows_only_the_new_work(
    capsys: pytest.CaptureFixture[str], three_classes: Path, pairs: Path, model_folder: Path, tmp_path: Path
) -> None:
    common = ["--set", f"model={model_folder}", *SMALL[:-2], "--out", str(tmp_path / "r")]
    first = tickets(capsys, "run", "finetune", "--set", f"task={three_classes}", *common)
    train = json.loads((Path(first["run"]) / "arms.json").read_text())["arms"][0]["train"]
    tickets(capsys, "run", "finetune", "--set", f"task={pairs}", *common)
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())["files"]
    assert not any(name.startswith(train) for name in manifest)
    assert (
        "other, same" in (tmp_path / "r" / "report.html").read_text()
        or "pairs" in (tmp_path / "r" / "report.html").read_text()
    )


def test_any_bad_row_stops_a_strict_run(
    capsys: pytest.CaptureFixture[str], three_classes: Path, tmp_path: Path
) -> None:
    with open(three_classes, "a", encoding="utf-8") as stream:
        stream.write(",good\n")
    said = tickets(
        capsys, "run", "finetune", "--strict", "--set", f"task={three_classes}", "--out", str(tmp_path / "r"), code=2
    )
    assert "302: empty text" in said["error"]["message"]
    assert not (tmp_path / "r").exists()


def test_a_run_names_its_models_and_stands_for_them(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    said = tickets(
        capsys, "run", "random", "--set", f"task={three_classes}", "--set", f"model={model_folder}", "--set", "attack=none",
        "--set", "train.epochs=1", "--set", "max_length=32", "--out", str(out),
    )  # fmt: skip
    assert set(said["models"]) == {"random", "finetune"}
    assert all((Path(folder) / "config.json").is_file() for folder in said["models"].values())
    assert json.loads((Path(said["models"]["random"]) / "config.json").read_text())["model_type"] == "ticket-bert"
    predict = ["--data", str(three_classes), "--out", str(tmp_path / "p.csv"), "--text", "review"]
    assert tickets(capsys, "predict", f"{out}:random", *predict)["rows"] == 300
    assert "name one" in tickets(capsys, "predict", str(out), *predict, code=2)["error"]["hint"]
    assert "has no arm" in tickets(capsys, "predict", f"{out}:nobody", *predict, code=2)["error"]["message"]
    card = Path(tickets(capsys, "export", f"{out}:random", "--out", str(tmp_path / "e"))["model"]) / "README.md"
    assert "accuracy on test" in card.read_text()


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
    capsys: pytest.CaptureFixture[str], three_classes: Path, pairs: Path, model_folder: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "branches.toml"
    recipe.write_text(BRANCHES + f'[arms.elsewhere]\nsearched_on = {{task = "{pairs}"}}\n')
    common = [
        "run", str(recipe), "--set", f"task={three_classes}", "--set", f"model={model_folder}", "--set", "attack=none",
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
    assert "Near random: " in (run / "report.html").read_text()
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
    page = (run / "report.html").read_text()
    assert "Where the tickets come from" in page
    assert "the ticket of found, drawn with neurons 0.5, head scope layer" in page
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
    capsys: pytest.CaptureFixture[str],
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
    arguments = ["run", "earlyrobust", "--set", f"task={three_classes}", "--set", f"model={model_folder}", *SMALL]
    arguments += ["--out", str(tmp_path / "r")]
    arms = {arm["name"]: next(iter(arm["attacks"].values())) for arm in tickets(capsys, *arguments, code=3)["arms"]}
    assert sorted(arm["errors"] for arm in arms.values()) == [0, 4]
    assert sorted(arm["n"] for arm in arms.values()) == [2, 6], "the other arm is finished, and so is the report"
    assert (tmp_path / "r" / "report.html").is_file()
    failed = next(name for name, arm in arms.items() if arm["errors"])
    assert any("failed examples" in flag for flag in arms[failed]["flags"][:1])
    told = tickets(capsys, "check", str(tmp_path / "r"), "--min", "aua=0", code=1)
    assert {gate["arm"] for gate in told["gates"] if not gate["passed"]} == {failed}
    calls.clear()
    whole = True
    arms = {arm["name"]: next(iter(arm["attacks"].values())) for arm in tickets(capsys, *arguments)["arms"]}
    assert {(arm["errors"], arm["n"]) for arm in arms.values()} == {(0, 6)}
    assert len(calls) == 4
