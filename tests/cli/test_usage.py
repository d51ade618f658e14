"""Slips on the command line: what to type instead is said, with the words that may stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from robust_tickets.cli.main import main
from robust_tickets.data.load import load_task

Capture = pytest.CaptureFixture[str]


def refused(capsys: Capture, *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert end.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ls"], "one of: methods, adversaries, attacks, backbones, tasks, recipes, arms, runs"),
        (["run"], "run: RECIPE is missing"),
        (["attack", "model"], "attack: --out is missing"),
        (["run", "earlyrobust", "task=reviews.csv", "seed=3"], "--set task=reviews.csv --set seed=3"),
        (["demo", "task=reviews.csv"], "--set task=reviews.csv"),
        (["run", "earlyrobust", "more"], "run: not understood: more"),
        (["run", "earlyrobust", "--sett", "a=b"], "Did you mean --set?"),
    ],
)
def test_a_slip_says_what_to_type(capsys: Capture, arguments: list[str], words: str) -> None:
    assert words in refused(capsys, *arguments)


def test_set_is_not_offered_where_there_is_none(capsys: Capture) -> None:
    assert "--set" not in refused(capsys, "ls", "runs", "folder=here")


def test_a_file_of_nearly_the_same_name_is_offered(capsys: Capture, three_classes: Path, tmp_path: Path) -> None:
    near = three_classes.with_name("review.csv")
    assert f"did you mean {three_classes}?" in refused(capsys, "run", "finetune", "--set", f"task={near}")
    assert f"did you mean {three_classes}?" in refused(
        capsys, "run", "finetune", "--set", f"task={three_classes}", "--set", f"test={near}"
    )
    assert f"there is no folder {tmp_path / 'no'}" in refused(
        capsys, "run", "finetune", "--set", f"task={tmp_path / 'no' / 'review.csv'}"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--n", "-2"), "--n must be at least 0, got -2"),
        (("--query-budget", "0"), "--query-budget must be at least 1, got 0"),
        (("--live", "0"), "--live must be at least 1, got 0"),
        (("--workers", "-1"), "--workers must be at least 0, got -1"),
        (("--batch-size", "0"), "--batch-size must be at least 1, got 0"),
        (("--retries", "-1"), "--retries must be at least 0, got -1"),
        (("--rate-limit", "0"), "--rate-limit must be above 0"),
        (("--timeout", "nan"), "--timeout must be above 0"),
    ],
)
def test_a_number_out_of_range_is_told_by_its_flag_before_anything_is_opened(
    capsys: Capture, three_classes: Path, tmp_path: Path, given: tuple[str, str], words: str
) -> None:
    said = refused(
        capsys,
        "attack",
        "nowhere_to_be_found:judge",
        "--data",
        str(three_classes),
        "--out",
        str(tmp_path / "o"),
        *given,
    )
    assert f"error: {words}" in said
    assert "nowhere_to_be_found could not" not in said


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("train.lr=nan", "train.lr: expected a finite number, got nan"),
        ("train.weight_decay=inf", "train.weight_decay: expected a finite number, got inf"),
        ("attack.n=-2", "attack.n must be at least 0, got -2"),
        ("attack.query_budget=0", "attack.query_budget must be at least 1, got 0"),
    ],
)
def test_a_number_that_no_recipe_takes_is_told_by_its_key(
    capsys: Capture, three_classes: Path, tmp_path: Path, setting: str, words: str
) -> None:
    given = ("--set", f"task={three_classes}", "--set", "model=nowhere", "--set", setting)
    said = refused(capsys, "run", "finetune", *given, "--out", str(tmp_path / "r"))
    assert words in said
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("verb", [("train", "nowhere"), ("search", "earlyrobust", "--model", "nowhere")])
def test_a_file_for_a_folder_is_told_before_anything_is_loaded(
    capsys: Capture, three_classes: Path, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    (tmp_path / "here").write_text("")
    said = refused(capsys, *verb, "--task", str(three_classes), "--out", str(tmp_path / "here"))
    assert said.startswith(f"error: --out {tmp_path / 'here'} is a file")


def test_predict_names_its_own_flag(capsys: Capture, model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("a,b\nx,y\n")
    said = refused(
        capsys, "predict", str(model_folder), "--data", str(tmp_path / "odd.csv"), "--out", str(tmp_path / "o.csv")
    )
    assert "--text COLUMN" in said
    assert "--label" not in said
    assert "--set" not in said


def test_labels_of_another_kind_are_listed_with_what_can_be_said(capsys: Capture, tmp_path: Path) -> None:
    rows = [(f"a {word} film {i}", str(k)) for i in range(60) for k, word in enumerate(("bad", "good"))]
    for name, called in (("numbers", {}), ("names", {"0": "neg", "1": "pos"}), ("answers", {"0": "no", "1": "yes"})):
        lines = [f"{text},{called.get(label, label)}" for text, label in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *lines, ""]))
    run = ["run", "finetune", "--set", f"task={tmp_path / 'numbers.csv'}", "--set", f"test={tmp_path / 'names.csv'}"]
    assert "it has neg, pos" in refused(capsys, *run)
    task = load_task(tmp_path / "numbers.csv", test=tmp_path / "names.csv", labels=("neg", "pos"))
    assert task.labels == ("neg", "pos")
    run[5] = f"test={tmp_path / 'answers.csv'}"
    run[3] = f"task={tmp_path / 'names.csv'}"
    said = refused(capsys, *run)
    assert "it has no, yes" in said
    assert "--set label=COLUMN" in said


@pytest.mark.parametrize("value", ["1" + 5000 * "0", 3000 * "[" + 3000 * "]"])
def test_a_value_that_pythons_reader_refuses_is_the_files_fault(capsys: Capture, tmp_path: Path, value: str) -> None:
    recipe = tmp_path / "own.toml"
    recipe.write_text(f"seed = {value}\n")
    assert f"{recipe} is not valid TOML" in refused(capsys, "run", str(recipe))
    assert "seed" in refused(capsys, "run", "finetune", "--set", f"seed={value}")
