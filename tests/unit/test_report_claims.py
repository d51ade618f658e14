"""What the report claims and what it is made of: pairwise verdicts, the attacked texts' own accuracy, plans, bytes, accessibility."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fake_run import ARMS, add_plan, make_run, set_outcomes
from robust_tickets.experiment.execute import train
from robust_tickets.experiment.recipe import read_recipe
from robust_tickets.files import read_json, sha256_file, write_json
from robust_tickets.report import format as numbers
from robust_tickets.report.html import write_report
from robust_tickets.report.run_data import read_attacks, read_run
from robust_tickets.report.verdict import Verdict, contest, holm, verdict, warnings
from robust_tickets.stages import Stage
from robust_tickets.train.evaluate import evaluate
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task


def judged(folder, *outcomes, starts=(0, 0, 0)):
    make_run(folder, n=5, arms=ARMS[: len(outcomes)])
    for k, statuses in enumerate(outcomes):
        set_outcomes(folder, k, statuses, start=starts[k])
    run = read_run(folder)
    return run, verdict(run, "pwws")


def test_the_highest_arm_may_lose_on_the_shared_texts(tmp_path):
    # over all 75 % against 60 %, on the 50 shared texts 0 % against 60 %
    _, found = judged(tmp_path / "r", "t" * 50 + "h" * 150, "h" * 30 + "t" * 20)
    assert "Plain fine-tuning is harder to fool than EarlyRobust ticket" in found.headline
    assert found.sure


def test_hardest_needs_a_comparison_with_every_arm(tmp_path):
    outcomes = ("h" * 60 + "t" * 40, "h" * 20 + "t" * 80, "h" * 20 + "t" * 80)
    _, found = judged(tmp_path / "all", *outcomes)
    assert "EarlyRobust ticket is the hardest to fool" in found.headline
    _, found = judged(tmp_path / "some", *outcomes, starts=(0, 0, 5000))
    assert "hardest" not in found.headline


def test_three_texts_have_a_wide_interval_though_the_arms_never_differ(tmp_path):
    run, found = judged(tmp_path / "r", "hht", "hht")
    pair, _ = contest(run, "pwws").values()
    assert pair.bootstrap == (0.0, 0.0)
    assert pair.interval[0] < -40
    assert pair.interval[1] > 40
    assert numbers.signed_span(pair.interval) in found.sentences[1]
    page = write_report(tmp_path / "r.html", tmp_path / "r").read_text("utf-8")
    assert numbers.signed_span(pair.interval) in page
    assert numbers.signed_span((0.0, 0.0)) in page  # the bootstrap's, in the table of pairs


def test_claims_carry_the_p_adjusted_for_all_pairs(tmp_path):
    # 8 discordant texts, all for the first arm: p = 2 / 256; the second and third arm differ by less
    run, said = judged(tmp_path / "r", "h" * 18 + "t" * 2, "h" * 10 + "t" * 10, "h" * 11 + "t" * 9)
    found = contest(run, "pwws")
    assert len(found) == 2 * 3
    once = list(found.values())[::2]
    assert [c.adjusted for c in once] == pytest.approx(holm([c.p for c in once]))
    pair, back = found["earlyrobust", "finetune"], found["finetune", "earlyrobust"]
    assert pair.p == pytest.approx(2 / 256)
    assert pair.adjusted == pytest.approx(3 * 2 / 256)
    assert any(f"{3 * 2 / 256:.3f}, adjusted" in words for words in said.sentences)
    assert (back.difference, back.p, back.alone) == (-pair.difference, pair.p, pair.alone[::-1])
    assert back.interval == pytest.approx((-pair.interval[1], -pair.interval[0]))


@pytest.mark.parametrize(
    ("change", "titles"),
    [
        ({"query_budget": 50}, ("PWWS (no query budget)", "PWWS (query budget 50)")),
        ({"split": "validation"}, ("PWWS (split test)", "PWWS (split validation)")),
        ({}, ("PWWS (plan 1)", "PWWS (plan 2)")),
    ],
)
def test_two_plans_of_one_attack_are_both_shown(tmp_path, change, titles):
    folder = make_run(tmp_path / "r")
    add_plan(folder, **change)
    run = read_run(folder)
    assert tuple(run.attack_titles.items()) == (("pwws", titles[0]), ("pwws-2", titles[1]))
    assert all([a.key for a in arm.attacks] == ["pwws", "pwws-2"] for arm in run.arms)
    page = write_report(tmp_path / "r.html", folder).read_text("utf-8")
    for title in titles:
        assert f"The numbers: {title}" in page
    assert page.count('data-key="queries"><data value="50.0">') == 3
    assert ("attacked split: test, validation" in page) == ("split" in change)


def test_plans_are_matched_by_what_they_asked_for_not_by_place(tmp_path):
    folder = make_run(tmp_path / "r")
    add_plan(folder, query_budget=50)
    about = read_json(folder / "arms.json")
    about["arms"][1]["attacks"].reverse()
    write_json(folder / "arms.json", about)
    run = read_run(folder)
    assert [arm.attack("pwws-2").queries for arm in run.arms] == [50.0] * 3


def test_equal_files_give_equal_pages_whatever_was_written_before(tmp_path):
    folder = make_run(tmp_path / "r")
    (folder / "manifest.json").unlink()
    first = write_report(folder / "report.html", folder).read_bytes()
    write_json(folder / "manifest.json", {"schema": 1, "files": {"arms.json": {"sha256": "cd" * 32}}})
    assert write_report(folder / "report.html", folder).read_bytes() == first
    assert b"cd" * 32 not in first
    examples = folder / "attack/00000000/examples.jsonl"
    examples.write_bytes(examples.read_bytes() + b"\n")
    assert write_report(folder / "report.html", folder).read_bytes() != first
    shown = read_run(folder, hashes=True).hashes
    assert shown["arms.json"] == sha256_file(folder / "arms.json")
    assert shown["train/00000000/cost.json"] == sha256_file(folder / "train/00000000/cost.json")
    assert not {"report.html", "manifest.json"} & shown.keys()


OUTCOMES = ("h" * 60 + "t" * 40, "h" * 20 + "t" * 80, "h" * 20 + "t" * 80)


def flat(folder: Path, arm: int) -> None:
    """An evaluation of a model that says "negative" of every row."""
    path = folder / f"train/{arm:08x}/evaluation.json"
    rows = [{"label": "negative", "n": 425, "precision": 50.0, "recall": 100.0, "f1": 66.7}]
    rows.append({"label": "positive", "n": 425, "precision": 0.0, "recall": 0.0, "f1": 0.0})
    write_json(path, {**read_json(path), "accuracy": 50.0, "per_class": rows})


def judged_flat(folder: Path, *arms: int, count: int = 3) -> Verdict:
    make_run(folder, n=5, arms=ARMS[:count])
    for k in range(count):
        set_outcomes(folder, k, OUTCOMES[k])
    for arm in arms:
        flat(folder, arm)
    return verdict(read_run(folder), "pwws")


def test_the_best_arm_does_not_lead_with_a_number_that_means_nothing(tmp_path: Path) -> None:
    found = judged_flat(tmp_path / "r", 0)
    assert "one class" in found.headline
    assert not any("EarlyRobust" in words for words in found.sentences)
    assert not found.sure


def test_pairs_of_the_others_are_still_judged(tmp_path: Path) -> None:
    found = judged_flat(tmp_path / "r", 2)
    assert "Under PWWS, EarlyRobust" in found.headline or "hardest to fool" in found.headline
    assert found.sure
    assert not any("Random" in words for words in found.sentences)


def test_a_flag_of_the_attack_says_it_too(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", n=5, arms=ARMS[:1]) / "attack/00000000"
    told = {**read_json(folder / "result.json"), "flags": ["one answer: …"], "flag_codes": ["one-answer"], "schema": 2}
    write_json(folder / "result.json", told)
    found = verdict(read_run(tmp_path / "r"), "pwws")
    assert "one class" not in found.headline, "the evaluation, of more texts, shows several"
    path = tmp_path / "r" / f"train/{0:08x}/evaluation.json"
    write_json(path, {**read_json(path), "per_class": []})
    for run in (read_run(tmp_path / "r"), read_attacks([folder])):
        assert "every attacked text one class" in verdict(run, "pwws").headline


def test_training_warns_of_such_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clf, task = tiny_classifier(), toy_task(24)
    head = [p for name, p in clf.model.named_parameters() if "classifier" in name and p.shape == (2,)]
    head[-1].data[:] = head[-1].data.new_tensor([50.0, -50.0])  # the bias decides alone
    assert evaluate(clf, task.test).only == task.labels[0]
    trainer = FineTune(epochs=1, batch_size=8, lr=1e-9, evaluate="never")
    train(Stage(folder=tmp_path / "a", key={"a": 1}), trainer, clf, task, None)
    assert "warning: train" in capsys.readouterr().err


WORDNET = {
    "kind": "synonyms",
    "name": "WordNet 3.0",
    "origin": "this package",
    "digest": "8bd5caab" + "0" * 56,
    "substitute": False,
}
SAME, OTHER = "draws from the same table as the training", "does not draw from the table of the training"


def _run(folder: Path, *, attack: Any, trained: Any = WORDNET, searched: Any = None, coverage: Any = None) -> list[str]:
    make_run(folder, n=5)
    about = {"name": "synonymswap", "resources": {"source": trained}, "coverage": coverage or {"swappable": 0.414}}
    write_json(folder / "train/00000000/adversary.json", about)
    if searched:
        key = {
            "method": {"name": "earlyrobust", "adversary": {"name": "ascc"}},
            "resources": {"adversary": {"source": searched}},
        }
        write_json(folder / "search/00000000/stage.json", {"key": key})
    for k in range(3):
        result = folder / f"attack/{k:08x}/result.json"
        write_json(result, read_json(result) | {"resources": {"synonyms": attack}})
    return [words for words in warnings(read_run(folder)) if "table" in words or "words from" in words]


def test_the_same_table_is_called_the_same(tmp_path: Path) -> None:
    named, same = _run(tmp_path / "r", attack=WORDNET)
    assert named == (
        "EarlyRobust ticket was trained under synonymswap with words from WordNet 3.0 (sha256 8bd5caab…), "
        "which can swap 41.4\N{NO-BREAK SPACE}% of the words of its training texts."
    )
    assert SAME in same
    page = write_report(tmp_path / "report.html", tmp_path / "r").read_text()
    assert SAME in page
    assert "WordNet 3.0" in page


def test_the_demo_trains_one_searched_ticket_twice() -> None:
    arms = {arm.name: arm for arm in read_recipe("demo").arms}
    assert list(arms) == ["earlyrobust", "finetune", "random", "synonymswap"]
    assert arms["synonymswap"].origin == arms["earlyrobust"].origin
    assert type(arms["synonymswap"].train.adversary).__name__ == "SynonymSwap"
    assert [arm.train.passes for arm in arms.values()] == [1, 1, 1, 1]  # as long as the others
