"""What a run folder holds when some arms are walked, and what may not be written over."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from attacking import stable_files
from calling import Capture, called, sets
from robust_tickets.environment import environment
from robust_tickets.train.loop import TrainingRun

RECIPE = """
title = "Matched"
[search]
name = "omp"
sparsity = 0.3
[train]
epochs = 1
max_steps = 1
evaluate = "never"
[arms.found]
search = true
[arms.drawn]
ticket = "found"
draw = {sparsity = 0.6}
[arms.matched]
search = {name = "random", match = "matrix"}
like = "drawn"
[arms.whole]
[arms.rounds]
search = {name = "imp", sparsity = 0.1, epochs = 1, evaluation_rows = 5}
"""


def test_the_manifest_lists_every_file_of_a_run_also_of_arms_that_are_not_walked(
    capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "matched.toml").write_text(RECIPE)
    out = tmp_path / "r"
    settings = sets(f"task={three_classes}", f"model={model_folder}", "max_rows=24", "max_length=32")
    common = ["run", str(tmp_path / "matched.toml"), *settings, "--out", str(out)]
    shown, said = called(capsys, *common, "--set", "arms=matched,rounds")
    assert "done already" not in said
    files = json.loads((out / "manifest.json").read_text())["files"]
    there = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert there - files.keys() == {"manifest.json", ".lock"}
    assert len([name for name in files if name.startswith("search/") and name.endswith("stage.json")]) == 3, (
        "the one it matches too"
    )
    _, again = called(capsys, *common, "--set", "arms=matched,rounds")
    assert "done already" in again
    for lost in (*out.glob("search/*/ticket.safetensors"), *out.glob("ticket/*/ticket.json"), out / "manifest.json"):
        lost.unlink()
    _, mended = called(capsys, *common, "--set", "arms=matched,rounds")
    assert "done already" not in mended
    assert json.loads((out / "manifest.json").read_text())["files"].keys() == files.keys(), (
        "what was lost is made again"
    )
    shown, other = called(capsys, *common, "--set", "arms=drawn", "--json")
    assert "done already" not in other, "the same folder, other arms"
    told = json.loads(shown)
    assert told["arms"][0]["branch"] == {"of": "found", "draw": {"sparsity": 0.6}}
    assert any("No speed" in words for words in told["warnings"])


def test_a_draw_is_not_written_over_a_search(
    capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    search = [
        "search",
        "omp",
        "--model",
        str(model_folder),
        "--task",
        str(three_classes),
        "--max-length",
        "32",
        "--out",
    ]
    called(capsys, *search, str(tmp_path / "t"))
    before = (tmp_path / "t" / "ticket.safetensors").read_bytes()
    called(capsys, "draw", str(tmp_path / "t"), "--sparsity", "0.7", "--out", str(tmp_path / "t"), code=2)
    assert (tmp_path / "t" / "ticket.safetensors").read_bytes() == before
    called(capsys, "draw", str(tmp_path / "t"), "--sparsity", "0.7", "--out", str(tmp_path / "d"))
    called(capsys, "draw", str(tmp_path / "t"), "--out", str(three_classes), code=2)
    called(capsys, *search, str(tmp_path / "x"), "--like", str(tmp_path / "d"), code=2)


def test_which_arm_searches_elsewhere_is_part_of_the_runs_name(three_classes: Path, model_folder: Path) -> None:
    from robust_tickets.experiment.recipe import resolve
    from robust_tickets.experiment.runner import prepare

    other = three_classes.with_name("other.csv")
    other.write_text("\n".join(three_classes.read_text().splitlines()[:200]) + "\n")

    def folder(*elsewhere: str) -> Path:
        arms = {
            name: {"searched_on": {"task": str(other)}} if name in elsewhere else {"search": True}
            for name in ("a", "b")
        }
        top = {"title": "Mine", "task": str(three_classes), "model": str(model_folder), "max_length": 32, "arms": arms}
        return prepare(resolve("mine", {**top, "search": {"name": "earlyrobust"}})).run.folder

    assert len({folder("a"), folder("b"), folder("a", "b"), folder()}) == 4
    assert folder("a") == folder("a")


RECIPE_DAMAGE = """
title = "Damaged"
[search]
name = "omp"
sparsity = 0.3
[train]
epochs = 1
max_steps = 2
evaluate = "never"
[attack]
name = "pwws"
n = 3
[arms.found]
search = true
[arms.drawn]
ticket = "found"
draw = {sparsity = 0.6}
"""
RECORDS = ("result.json", "config.json", "evaluation.json", "ticket.json", "manifest.json")
HARM: tuple[tuple[Callable[[bytes], bytes], tuple[str, ...]], ...] = (
    (lambda whole: whole[: len(whole) // 2], RECORDS),
    (lambda whole: bytes(len(whole)), RECORDS),
    (lambda whole: b"", ("stage.json",)),
    (lambda whole: b"[]", ("stage.json", "result.json")),
)


def command(folder: Path, task: Path, model: Path) -> list[str]:
    """It lacks the run's folder."""
    (folder / "damaged.toml").write_text(RECIPE_DAMAGE)
    settings = sets(f"task={task}", f"model={model}", "max_rows=24", "max_length=32")
    return ["run", str(folder / "damaged.toml"), *settings, "--out"]


def test_damaged_records_are_named_and_what_they_told_of_is_made_again(
    capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    arguments = command(tmp_path, three_classes, model_folder)
    whole = tmp_path / "whole"
    called(capsys, *arguments, str(whole))
    attacks = sorted(path.name for path in (whole / "attack").iterdir())
    models = {path.relative_to(whole): path.read_bytes() for path in whole.rglob("*.safetensors")}
    for number, (harm, wanted) in enumerate(HARM):
        run = shutil.copytree(whole, tmp_path / str(number))
        harmed = [path for path in run.rglob("*.json") if path.name in wanted]
        for path in harmed:
            path.write_bytes(harm(path.read_bytes()))
        _, told = called(capsys, *arguments, str(run))
        kept = list(run.glob("*/*/damaged"))
        assert {folder.parent.parent.name for folder in kept} == {"search", "ticket", "train", "attack"}
        for folder in kept:
            assert any(
                f"warning: {what}: {folder.parent}/" in told for what in ("search", "draw", "train", "attack")
            ), told
        assert {path.relative_to(run): path.read_bytes() for path in run.rglob("*.safetensors")} == models
        for name in attacks:
            assert stable_files(run / "attack" / name)[1] == stable_files(whole / "attack" / name)[1]
        assert all(json.loads(path.read_bytes()) for path in harmed)
        called(capsys, *arguments, str(run))


@pytest.mark.parametrize(
    ("large", "harm"),
    [
        ("train/*/model/model.safetensors", lambda whole: bytes(len(whole))),
        ("*/*/ticket.safetensors", lambda whole: whole[:-8] + bytes(8)),
    ],
)
def test_large_files_that_kept_their_size_are_made_again(
    capsys: Capture,
    three_classes: Path,
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    large: str,
    harm: Callable[[bytes], bytes],
) -> None:
    """Only their size was looked at: zeros ended the run, and other weights than the evaluated ones were attacked."""
    monkeypatch.setattr("robust_tickets.stages.HASHED", 100)
    run = tmp_path / "run"
    arguments = [*command(tmp_path, three_classes, model_folder), str(run)]
    called(capsys, *arguments)
    harmed = {path: path.read_bytes() for path in run.glob(large)}
    assert len(harmed) == 2
    for path, whole in harmed.items():
        path.write_bytes(harm(whole))
    (run / "manifest.json").unlink()  # so that an estimate is made
    called(capsys, *arguments)
    for path, whole in harmed.items():
        assert (run.joinpath(*path.relative_to(run).parts[:2]) / "damaged").is_dir()
        assert path.read_bytes() == whole


def stopped(patch: pytest.MonkeyPatch, kind: type, name: str) -> None:
    """Have Ctrl-C come when a method is called."""

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    patch.setattr(kind, name, stop)


def test_a_run_that_is_resumed_elsewhere_keeps_all_environments(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    command = ["run", "finetune", "--set", f"task={three_classes}", "--set", f"model={model_folder}"]
    command += [*sets("attack=none", "train.epochs=1", "max_length=32", "max_rows=32"), "--out"]
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 2, 1, 3):
            torch.set_num_threads(threads)
            environment.cache_clear()
            with monkeypatch.context() as patch:
                if threads != 3:
                    stopped(patch, TrainingRun, "_update")
                called(capsys, *command, str(tmp_path / "r"), code=0 if threads == 3 else 130)
    finally:
        torch.set_num_threads(before)
        environment.cache_clear()
    env = json.loads((tmp_path / "r" / "env.json").read_text())
    assert [env["threads"], *sorted(one["threads"] for one in env["earlier"])] == [3, 1, 2]


def test_an_unfinished_run_says_the_command_that_goes_on(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["run", "finetune", "--set", f"task={three_classes}", "--set", f"model={model_folder}"]
    command += ["--set", "attack=none", "--set", "train.epochs=1", "--set", "max_length=32", "--out", "runs/my own"]
    with monkeypatch.context() as patch:
        stopped(patch, TrainingRun, "_update")
        called(capsys, *command, code=130)
    shown, _ = called(capsys, "ls", "runs")
    goes_on = next(line for line in shown.splitlines() if line.startswith("  resume: ")).removeprefix("  resume: ")
    assert shlex.split(goes_on) == ["tickets", *command]
    _, said = called(capsys, "report", "runs/my own", code=2)
    assert goes_on in said
    assert "report" in called(capsys, *shlex.split(goes_on)[1:])[0]
    assert "resume" not in called(capsys, "ls", "runs")[0]
    assert not (tmp_path / "runs" / "my own" / "command.json").exists()


def test_an_attack_that_was_stopped_is_not_called_something_else(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "attacked"
    command = ["attack", str(model_folder), "--data", str(three_classes), "--n", "4", "--out", str(out)]
    with monkeypatch.context() as patch:
        patch.setattr("robust_tickets.attack.result.AttackResult.of", _interrupted)
        called(capsys, *command, code=130)
    called(capsys, "report", str(out), code=2)
    called(capsys, *command)
    called(capsys, "report", str(out))


def _interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt
