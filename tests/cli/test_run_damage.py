"""Files of a run that a disk damaged: they are named, kept, and made again, and nobody has to remove them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from attacking import stable_files
from robust_tickets.cli.main import main

RECIPE = """
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


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    told = capsys.readouterr().err
    assert end.value.code == 0, told
    return told


def command(folder: Path, task: Path, model: Path) -> list[str]:
    """It lacks the run's folder."""
    (folder / "damaged.toml").write_text(RECIPE)
    settings = (f"task={task}", f"model={model}", "max_rows=24", "max_length=32")
    return ["run", str(folder / "damaged.toml"), *(word for one in settings for word in ("--set", one)), "--out"]


def test_damaged_records_are_named_and_what_they_told_of_is_made_again(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    arguments = command(tmp_path, three_classes, model_folder)
    whole = tmp_path / "whole"
    call(capsys, *arguments, str(whole))
    attacks = sorted(path.name for path in (whole / "attack").iterdir())
    models = {path.relative_to(whole): path.read_bytes() for path in whole.rglob("*.safetensors")}
    for number, (harm, wanted) in enumerate(HARM):
        run = shutil.copytree(whole, tmp_path / str(number))
        harmed = [path for path in run.rglob("*.json") if path.name in wanted]
        for path in harmed:
            path.write_bytes(harm(path.read_bytes()))
        told = call(capsys, *arguments, str(run))
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
        assert "is done already" in call(capsys, *arguments, str(run))


@pytest.mark.parametrize("harm", [lambda whole: bytes(len(whole)), lambda whole: whole[:-8] + bytes(8)])
@pytest.mark.parametrize("large", ["train/*/model/model.safetensors", "*/*/ticket.safetensors"])
def test_large_files_that_kept_their_size_are_made_again(
    capsys: pytest.CaptureFixture[str],
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
    call(capsys, *arguments)
    harmed = {path: path.read_bytes() for path in run.glob(large)}
    assert len(harmed) == 2
    for path, whole in harmed.items():
        path.write_bytes(harm(whole))
    (run / "manifest.json").unlink()  # so that an estimate is made
    told = call(capsys, *arguments)
    for path, whole in harmed.items():
        assert f"{path} is damaged: it is kept in {run.joinpath(*path.relative_to(run).parts[:2])}/damaged" in told
        assert path.read_bytes() == whole
