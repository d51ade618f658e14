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
    return tiny_classifier(labels=("bad", "good")).save_pretrained(
        tmp_path_factory.mktemp("model") / "elsewhere" / "model"
    )


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


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    path.write_text(
        "text,label\n"
        + "".join(f"film {n} {'good' if n % 2 else 'bad'},{'good' if n % 2 else 'bad'}\n" for n in range(40))
    )
    return path


@pytest.mark.parametrize(
    ("link", "code"),
    [(".lock", 2), ("metrics.jsonl", 3), ("model/config.json", 0), ("model/tokenizer.json", 0), ("model", 2), ("", 0)],
)
def test_training_writes_through_no_link_in_its_folder(
    model: Path, texts: Path, tmp_path: Path, link: str, code: int
) -> None:
    """The folder itself may be one."""
    out, mine = tmp_path / "out", tmp_path / "mine"
    if "." in link:
        mine.write_text("my file")
    else:
        mine.mkdir()
    (out / link).parent.mkdir(parents=True, exist_ok=True)
    (out / link).symlink_to(mine)
    data = ["--task", texts, "--max-length", "16", "--set", "epochs=1"]
    assert code_of("train", model, *data, "--out", out) == code
    if link:
        assert mine.is_dir() and not list(mine.iterdir()) if "." not in link else mine.read_text() == "my file"
    else:
        assert (mine / "model" / "config.json").is_file()


def test_predicting_writes_through_no_link(model: Path, texts: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("my file")
    for name in ("out.csv", "out.csv.answers.part"):
        (tmp_path / name).symlink_to(tmp_path / "mine")
    asked = ["predict", model, "--data", texts, "--out", tmp_path / "out.csv"]
    assert code_of(*asked) == 3
    (tmp_path / "out.csv.answers.part").unlink()
    assert code_of(*asked) == 0
    assert (tmp_path / "mine").read_text() == "my file"
