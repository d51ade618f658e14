"""A stranger's folder names no file outside of it, by a path or by a link: none is read as its own, and none is written over."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fake_run import make_run
from robust_tickets.cli.main import main
from robust_tickets.files import read_json, write_json
from tiny import tiny_classifier


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_classifier(labels=("bad", "good")).save_pretrained(tmp_path_factory.mktemp("model") / "elsewhere" / "model")


def code_of(*arguments: object) -> object:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


@pytest.mark.parametrize("key", ["train", "search", "attacks"])
@pytest.mark.parametrize("absolute", [True, False])
def test_an_arm_lies_in_its_run(model: Path, tmp_path: Path, key: str, absolute: bool) -> None:
    run = make_run(tmp_path / "run", n=4)
    about = read_json(run / "arms.json")
    arm = about["arms"][0]
    shutil.copytree(model, run / arm["train"] / "model")
    write_json(run / arm["train"] / "stage.json", {})
    victim = f"{run}:{arm['name']}"
    assert code_of("export", victim, "--out", tmp_path / "before") == 0
    (run / (arm["attacks"][0] if key == "attacks" else arm[key])).rename(tmp_path / "outside")
    named = str(tmp_path / "outside") if absolute else "../outside"
    arm[key] = [named] if key == "attacks" else named
    write_json(run / "arms.json", about)
    assert code_of("export", victim, "--out", tmp_path / "after") == 2
    assert not (tmp_path / "after").exists()
    if key != "search":
        assert code_of("check", victim, "--min", "clean=0") == 2
    if key == "train":
        (tmp_path / "texts.csv").write_text("text,label\na,good\nb,bad\n")
        for verb in ("predict", "attack"):
            assert code_of(verb, victim, "--data", tmp_path / "texts.csv", "--out", tmp_path / "after.csv") == 2
