"""Arms that give every text one class: the verdict says so first, and compares the others only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fake_run import ARMS, make_run, set_outcomes
from robust_tickets.experiment.execute import train
from robust_tickets.files import read_json, write_json
from robust_tickets.report.html import write_report
from robust_tickets.report.run_data import read_attacks, read_run
from robust_tickets.report.verdict import Verdict, one_answer, verdicts
from robust_tickets.stages import Stage
from robust_tickets.train.evaluate import evaluate
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task

OUTCOMES = ("h" * 60 + "t" * 40, "h" * 20 + "t" * 80, "h" * 20 + "t" * 80)


def flat(folder: Path, arm: int) -> None:
    """An evaluation of a model that says "negative" of every row."""
    path = folder / f"train/{arm:08x}/evaluation.json"
    rows = [{"label": "negative", "n": 425, "precision": 50.0, "recall": 100.0, "f1": 66.7}]
    rows.append({"label": "positive", "n": 425, "precision": 0.0, "recall": 0.0, "f1": 0.0})
    write_json(path, {**read_json(path), "accuracy": 50.0, "per_class": rows})


def judged(folder: Path, *arms: int, count: int = 3) -> Verdict:
    make_run(folder, n=5, arms=ARMS[:count])
    for k in range(count):
        set_outcomes(folder, k, OUTCOMES[k])
    for arm in arms:
        flat(folder, arm)
    (found,) = verdicts(read_run(folder))
    return found


def test_the_best_arm_does_not_lead_with_a_number_that_means_nothing(tmp_path: Path) -> None:
    assert "EarlyRobust ticket is the hardest to fool" in judged(tmp_path / "sound").headline
    found = judged(tmp_path / "r", 0)
    assert found.headline.startswith(
        "EarlyRobust ticket gives every text one class: train longer or on more rows; its numbers under attack say nothing. No difference"
    )
    assert not any("EarlyRobust" in words for words in found.sentences)
    assert not found.sure
    page = write_report(tmp_path / "r.html", tmp_path / "r").read_text("utf-8")
    assert "EarlyRobust ticket gives every text one class" in page


def test_pairs_of_the_others_are_still_judged(tmp_path: Path) -> None:
    found = judged(tmp_path / "r", 2)
    assert found.headline.startswith("Random ticket gives every text one class")
    assert "Under PWWS, EarlyRobust" in found.headline or "hardest to fool" in found.headline
    assert found.sure
    assert not any("Random" in words for words in found.sentences)


def test_where_all_arms_are_such_nothing_else_is_said(tmp_path: Path) -> None:
    found = judged(tmp_path / "r", 0, 1, count=2)
    assert found.headline == (
        "EarlyRobust ticket and Plain fine-tuning give every text one class: train longer or on more rows; their numbers under attack "
        "say nothing."
    )
    assert (found.sentences, found.sure) == ((), False)


def test_a_flag_of_the_attack_says_it_too(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", n=5, arms=ARMS[:1]) / "attack/00000000"
    told = {**read_json(folder / "result.json"), "flags": ["one answer: …"], "flag_codes": ["one-answer"], "schema": 2}
    write_json(folder / "result.json", told)
    (found,) = verdicts(read_run(tmp_path / "r"))
    assert "one class" not in found.headline, "the evaluation, of more texts, shows several"
    path = tmp_path / "r" / f"train/{0:08x}/evaluation.json"
    write_json(path, {**read_json(path), "per_class": []})
    (found,) = verdicts(read_run(tmp_path / "r"))
    assert found.headline.startswith("EarlyRobust ticket gives every attacked text one class: train longer")
    (found,) = verdicts(read_attacks([folder]))
    assert "every attacked text one class: see what the victim does with its texts;" in found.headline


@pytest.mark.parametrize("odd", [{}, {"n": "x"}, {"n": 3}, {"n": None, "precision": 1, "recall": 2}])
def test_odd_rows_of_an_evaluation_say_nothing(odd: dict[str, Any]) -> None:
    assert one_answer([odd, {"label": "b", "n": 2, "precision": 0, "recall": 0}]) is None


def test_training_warns_of_such_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clf, task = tiny_classifier(), toy_task(24)
    head = [p for name, p in clf.model.named_parameters() if "classifier" in name and p.shape == (2,)]
    head[-1].data[:] = head[-1].data.new_tensor([50.0, -50.0])  # the bias decides alone
    assert evaluate(clf, task.test).only == task.labels[0]
    trainer = FineTune(epochs=1, batch_size=8, lr=1e-9, evaluate="never")
    train(Stage(folder=tmp_path / "a", key={"a": 1}), trainer, clf, task, None)
    said = capsys.readouterr().err
    assert f"warning: train: the model gives all {len(task.test)} rows of test one class ({task.labels[0]})" in said
