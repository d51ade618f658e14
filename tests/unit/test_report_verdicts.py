"""What the report claims: pairwise comparisons, degenerate models, word tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fake_run import ARMS, make_run, set_outcomes
from robust_tickets.experiment.execute import train
from robust_tickets.experiment.recipe import read_recipe
from robust_tickets.files import read_json, write_json
from robust_tickets.report import format as numbers
from robust_tickets.report.html import write_report
from robust_tickets.report.run_data import Run, read_attacks, read_run
from robust_tickets.report.verdict import Verdict, contest, verdict, warnings
from robust_tickets.stages import Stage
from robust_tickets.stats.compare_runs import holm
from robust_tickets.train.evaluate import evaluate
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task

CLEAR = ("h" * 60 + "t" * 40, "h" * 20 + "t" * 80, "h" * 20 + "t" * 80)


def judged(
    folder: Path, *outcomes: str, starts: tuple[int, ...] = (0, 0, 0), flat: tuple[int, ...] = ()
) -> tuple[Run, Verdict]:
    """A run of arms with these outcomes; those in ``flat`` answer "negative" to every row of the evaluation."""
    make_run(folder, n=5, arms=ARMS[: len(outcomes)])
    for k, statuses in enumerate(outcomes):
        set_outcomes(folder, k, statuses, start=starts[k])
    for k in flat:
        path = folder / f"train/{k:08x}/evaluation.json"
        rows = [{"label": "negative", "n": 425, "precision": 50.0, "recall": 100.0, "f1": 66.7}]
        rows.append({"label": "positive", "n": 425, "precision": 0.0, "recall": 0.0, "f1": 0.0})
        write_json(path, {**read_json(path), "accuracy": 50.0, "per_class": rows})
    run = read_run(folder)
    return run, verdict(run, "pwws")


def test_hardest_needs_a_comparison_with_every_arm(tmp_path: Path) -> None:
    _, found = judged(tmp_path / "all", *CLEAR)
    assert "EarlyRobust ticket is the hardest to fool" in found.headline
    assert found.sure
    assert "McNemar" in found.sentences[1]
    _, found = judged(tmp_path / "some", *CLEAR, starts=(0, 0, 5000))
    assert "hardest" not in found.headline
    # over all 75 % against 60 %, on the 50 shared texts 0 % against 60 %
    _, found = judged(tmp_path / "r", "t" * 50 + "h" * 150, "h" * 30 + "t" * 20)
    assert "Plain fine-tuning is harder to fool than EarlyRobust ticket" in found.headline
    assert found.sure


def test_comparisons_join_by_id_and_leave_errors_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", n=40)
    path = folder / "attack/00000000/examples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["status"], lines[0]["error"] = "error", "out of memory"
    path.write_text("".join(json.dumps(line) + "\n" for line in reversed(lines)))
    pair = contest(read_run(folder), "pwws")["earlyrobust", "finetune"]
    others = [json.loads(line) for line in (folder / "attack/00000001/examples.jsonl").read_text().splitlines()]
    held, other = ([line["status"] == "failed" for line in some[1:]] for some in (lines, others))
    assert pair.n == 39
    assert pair.difference == pytest.approx(100 * (sum(held) - sum(other)) / 39)


def test_three_texts_have_a_wide_interval_though_the_arms_never_differ(tmp_path: Path) -> None:
    run, found = judged(tmp_path / "r", "hht", "hht")
    pair, _ = contest(run, "pwws").values()
    assert pair.bootstrap == (0.0, 0.0)
    assert pair.interval[0] < -40
    assert pair.interval[1] > 40
    assert "No difference beyond noise" in found.headline
    page = write_report(tmp_path / "r.html", tmp_path / "r").read_text("utf-8")
    for ends in (pair.interval, (0.0, 0.0)):
        assert numbers.signed_span(ends) in page


def test_claims_carry_the_p_adjusted_for_all_pairs(tmp_path: Path) -> None:
    # 8 discordant texts, all for the first arm: p = 2 / 256; the second and third arm differ by less
    run, said = judged(tmp_path / "r", "h" * 18 + "t" * 2, "h" * 10 + "t" * 10, "h" * 11 + "t" * 9)
    found = contest(run, "pwws")
    once = list(found.values())[::2]
    assert len(found) == 2 * 3
    assert [c.adjusted for c in once] == pytest.approx(holm([c.p for c in once]))
    pair, back = found["earlyrobust", "finetune"], found["finetune", "earlyrobust"]
    assert (pair.p, pair.adjusted) == pytest.approx((2 / 256, 3 * 2 / 256))
    assert any(f"{3 * 2 / 256:.3f}, adjusted" in words for words in said.sentences)
    assert (back.difference, back.p, back.alone) == (-pair.difference, pair.p, pair.alone[::-1])
    assert back.interval == pytest.approx((-pair.interval[1], -pair.interval[0]))


def test_a_model_of_one_class_is_named_and_not_compared(tmp_path: Path) -> None:
    _, found = judged(tmp_path / "best", *CLEAR, flat=(0,))
    assert "EarlyRobust ticket gives every text one class" in found.headline
    assert not any("EarlyRobust" in words for words in found.sentences)
    assert not found.sure
    _, found = judged(tmp_path / "last", *CLEAR, flat=(2,))
    assert "EarlyRobust ticket is the hardest to fool" in found.headline
    assert found.sure
    assert not any("Random" in words for words in found.sentences)


def test_a_flag_of_the_attack_says_it_too(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", n=5, arms=ARMS[:1]) / "attack/00000000"
    result = {**read_json(folder / "result.json"), "flags": ["one answer: …"], "flag_codes": ["one-answer"]}
    write_json(folder / "result.json", result)
    found = verdict(read_run(tmp_path / "r"), "pwws")
    assert "one class" not in found.headline, "the evaluation, of more texts, shows several"
    path = tmp_path / "r" / f"train/{0:08x}/evaluation.json"
    write_json(path, {**read_json(path), "per_class": []})
    for run in (read_run(tmp_path / "r"), read_attacks([folder])):
        assert "every attacked text one class" in verdict(run, "pwws").headline


def test_training_warns_of_such_a_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clf, task = tiny_classifier(), toy_task(24)
    head = [p for name, p in clf.model.named_parameters() if "classifier" in name and p.shape == (2,)]
    head[-1].data[:] = head[-1].data.new_tensor([50.0, -50.0])  # the bias decides alone
    assert evaluate(clf, task.test).only == task.labels[0]
    trainer = FineTune(epochs=1, batch_size=8, lr=1e-9, evaluate="never")
    train(Stage(folder=tmp_path / "a", key={"a": 1}), trainer, clf, task, None)
    assert any(record.levelname == "WARNING" for record in caplog.records)


WORDNET = {"kind": "synonyms", "name": "WordNet 3.0", "digest": "8bd5caab" + "0" * 56, "substitute": False}
OTHER = {**WORDNET, "name": "vectors", "digest": "11" * 32}


def _run(folder: Path, *, attack: Any, searched: Any = None) -> list[str]:
    make_run(folder, n=5)
    about = {"name": "synonymswap", "resources": {"source": WORDNET}, "coverage": {"swappable": 0.414}}
    write_json(folder / "train/00000000/adversary.json", about)
    if searched:
        key = {"method": {"adversary": {"name": "ascc"}}, "resources": {"adversary": {"source": searched}}}
        write_json(folder / "search/00000000/stage.json", {"key": key})
    for k in range(3):
        result = folder / f"attack/{k:08x}/result.json"
        write_json(result, read_json(result) | {"resources": {"synonyms": attack}})
    return [words for words in warnings(read_run(folder)) if "table" in words or "words from" in words]


def test_the_tables_of_training_and_attack_are_compared(tmp_path: Path) -> None:
    named, same = _run(tmp_path / "r", attack=WORDNET)
    assert named.startswith("EarlyRobust ticket was trained under synonymswap with words from WordNet 3.0")
    assert "41.4" in named
    assert "draws from the same table as the training" in same
    page = write_report(tmp_path / "report.html", tmp_path / "r").read_text()
    assert "draws from the same table as the training" in page
    searched, _, trained, _ = _run(tmp_path / "s", attack=OTHER, searched=OTHER)
    assert "searched under ascc with words from vectors" in searched
    assert "trained under synonymswap" in trained


def test_the_demo_trains_one_searched_ticket_twice() -> None:
    arms = {arm.name: arm for arm in read_recipe("demo").arms}
    assert list(arms) == ["earlyrobust", "finetune", "random", "synonymswap"]
    assert arms["synonymswap"].origin == arms["earlyrobust"].origin
    assert type(arms["synonymswap"].train.adversary).__name__ == "SynonymSwap"
