"""Every flag: when it is raised, and that it has a code."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attacking import toy_victim, victim_of
from calling import Capture
from robust_tickets.attack.flags import CODES, flags_of
from robust_tickets.attack.options import AttackOptions
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from tiny import tiny_classifier

LABELS = ("neg", "pos")
CALM: dict[str, Any] = {
    "n": 200, "attacked": 180, "ended": 180, "errors": 0, "classes": {0, 1},
    "only_answer": None, "confidence": 0.9, "blind": 0, "unmoved": 0, "unsteady": 0, "stuck": 0, "seen": None, "subset": "balanced",
    "scoring": "probability", "compat": None, "temperature": 1.0, "calibration": None, "resources": {}, "dropped": (),
    "cut": 0, "query_budget": None, "precision": None, "unconfirmed": None,
}  # fmt: skip
FITTED = {"split": "validation", "n": 500, "fitted": True, "why": ""}


def codes(**changes: Any) -> list[str]:
    """The flags of a calm attack but for ``changes``."""
    now: Any = SimpleNamespace(**{**CALM, **changes})
    tally: Any = SimpleNamespace(**vars(now), reasons=Counter(x=now.errors), mean_confidence=now.confidence)
    options = AttackOptions(query_budget=now.query_budget, precision=now.precision)
    victim = SimpleNamespace(labels=LABELS, cut_at=128, function=None)
    about = {name: getattr(now, name) for name in ("seen", "subset", "temperature", "calibration", "resources", "cut")}
    run: Any = SimpleNamespace(
        **about,
        options=options,
        victim=victim,
        ids=("id",) * 200,
        labels=LABELS,
        classes=None,
        probes=[None] * 8,
        recipe=SimpleNamespace(scoring=now.scoring),
        rules=SimpleNamespace(name=now.compat),
        search=SimpleNamespace(dropped=now.dropped),
    )
    return [flag.code for flag in flags_of(run, tally)]


def test_a_calm_attack_has_no_flags() -> None:
    assert codes() == []


RAISED: list[tuple[dict[str, Any], str]] = [
    ({"attacked": 0, "ended": 0}, "below-chance"),
    ({"n": 99, "attacked": 90}, "few-examples"),
    ({"classes": {0}}, "one-class"),
    ({"subset": "first"}, "first-rows"),
    ({"seen": {"split": "train", "count": 3}}, "seen-in-training"),
    ({"cut": 1}, "cut"),
    ({"errors": 2}, "errors"),
    ({"errors": 3}, "failed-examples"),
    ({"precision": "bfloat16", "unconfirmed": 3}, "precision"),
    ({"confidence": 0.995}, "over-confident"),
    ({"blind": 19}, "saturated"),
    ({"only_answer": 0}, "one-answer"),
    ({"unmoved": 19}, "unmoved"),
    ({"unsteady": 1}, "unsteady"),
    ({"stuck": 19}, "no-candidates"),
    ({"scoring": "log-odds"}, "log-odds"),
    ({"temperature": 2.0}, "temperature"),
    ({"temperature": 2.0, "calibration": FITTED}, "temperature"),
    ({"calibration": {**FITTED, "fitted": False, "why": "x"}}, "not-calibrated"),
    ({"compat": "ta-0.3.4"}, "compat"),
    ({"query_budget": 50}, "query-budget"),
    ({"resources": {"vectors": {"name": "mine", "substitute": True}}}, "substitute"),
    ({"dropped": ["part of speech"]}, "constraint-dropped"),
]


@pytest.mark.parametrize(("changes", "code"), RAISED)
def test_each_is_raised_alone(changes: dict[str, Any], code: str) -> None:
    assert codes(**changes) == [code]


def test_the_codes_are_those_that_are_raised_and_those_of_the_page() -> None:
    assert set(CODES) == {code for _, code in RAISED}
    page = (Path(__file__).parents[2] / "docs/guides/attacks/honesty.md").read_text()
    table = page.partition("## Flags")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == list(CODES)


@pytest.mark.parametrize(
    "changes",
    [
        {"n": 100, "attacked": 90},
        {"subset": "random"},
        {"seen": {"split": "train", "count": 0}},
        {"blind": 18, "unmoved": 18, "stuck": 18, "confidence": 0.0},
        {"calibration": FITTED},
        {"resources": {"vectors": {"name": "counter-fitted", "substitute": False}}},
    ],
)
def test_what_raises_none(changes: dict[str, Any]) -> None:
    assert codes(**changes) == []


def test_log_odds_cure_over_confidence_and_a_budget_explains_missing_candidates() -> None:
    assert codes(confidence=1.0, scoring="log-odds") == ["log-odds"]
    assert codes(stuck=180, query_budget=1) == ["query-budget"]


def test_one_answer_to_texts_of_one_class_may_be_the_right_one() -> None:
    assert codes(only_answer=0, classes={0}) == ["one-class"]


CLF = victim_of("good")


def test_texts_seen_in_training_are_counted() -> None:
    split = Split.of(["a good film", "a dull film", "good", "dull"], [1, 0, 1, 0])
    trained = Split.of(["A good  film", "other", "dull", "dull"], [0, 0, 0, 1], name="train")
    result = PWWS()(CLF, split, n=0, seen=trained)
    assert result.seen == {"split": "train", "rows": 4, "digest": trained.digest, "count": 2}
    assert PWWS()(CLF, split, n=0).seen is None
    assert PWWS()(CLF, split, ids=[2], seen=trained).seen["count"] == 0  # type: ignore[index]


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_texts_that_are_cut_are_counted(family: str, capsys: Capture) -> None:
    """A text that fills the length is read to its end; both texts of a pair count. No text is put to the victim for it."""
    clf = tiny_classifier(family, max_length=8)
    full, long = ("a good film is a movie", "a good film is a movie story")  # with two special tokens 8, and one more
    assert [row.size for row in clf.encode([full, long])] == [8, 8]
    assert "cut: 1 of" in " ".join(PWWS()(clf, Split.of([full, full, long, "bad"], [1, 0, 1, 0]), n=0).flags)
    assert "1 of 4 texts are longer than the 8 tokens" in capsys.readouterr().err
    assert "cut" not in PWWS()(clf, Split.of([full, "bad"], [1, 0]), n=0).flag_codes
    pair = Split.of([("a good film", "a plot"), ("bad", "a plot")], [1, 0], columns=("one", "two"))
    twin = tiny_classifier(family, max_length=7, columns=("one", "two"))
    assert "cut: 1 of" in " ".join(PWWS()(twin, pair, n=0).flags)
    assert "cut" not in PWWS()(CLF, Split.of(["a good film " * 1000, "bad"], [1, 0]), n=0, query_budget=3).flag_codes


def test_codes_stand_beside_the_flags_and_the_choice_is_said() -> None:
    split = Split.of(["a good film", "a dull film", "good", "dull"], [1, 0, 1, 0])
    result = PWWS()(CLF, split, n=2, subset="first", query_budget=3)
    assert result.subset == "first"
    assert result.flag_codes == ("few-examples", "first-rows", "query-budget")
    assert len(result.flags) == len(result.flag_codes)
    assert PWWS()(CLF, split, ids=[0, 1]).subset == "ids"


def test_a_text_of_stop_words_has_no_candidates_and_a_certain_victim_is_blind() -> None:
    split = Split.of(["the and of", "a good film", "this is it"], [1, 1, 1])
    result = PWWS()(always(0.0, 1.0), split, n=0)
    told = [(e.candidates, e.blind) for e in result.examples()]
    assert [candidates == 0 for candidates, _ in told] == [True, False, True]
    assert [blind for _, blind in told] == [None, True, None], "nothing to rank in the first and the last"
    assert {"no-candidates", "saturated", "over-confident", "one-class"} <= set(result.flag_codes)
    plain = PWWS()(CLF, Split.of(["a good film"], [1]), n=0)
    assert [e.blind for e in plain.examples()] == [False]


def always(*row: float) -> Classifier:
    return Classifier.wrap(lambda texts: np.tile(row, (len(texts), 1)), labels=["neg", "pos"])


def test_a_victim_that_says_the_same_of_every_text_is_not_robust() -> None:
    """It was never turned, because nothing it was shown could turn it; unlike the certain one, log-odds are no cure."""
    split = Split.of(["a good film", "a dull film", "a fine story", "a bad story"], [1, 0, 1, 0])
    result = PWWS()(always(0.6, 0.4), split, n=0)
    assert (result.aua, result.suc) == (50.0, 0.0)
    assert result.flag_codes == ("few-examples", "one-answer", "unmoved")
    certain = PWWS()(always(1.0, 0.0), split, n=0).flag_codes
    assert ("one-answer" in certain, "saturated" in certain, "unmoved" in certain) == (True, True, False)


def test_a_victim_that_was_turned_reads_its_texts() -> None:
    """One class before the attack is no sign of a deaf victim where a change turned it, nor is a budget that ends before the right word."""
    split = Split.of(["a good film", "a good plot", "a good story"], [1, 1, 0])
    assert "one-answer" not in PWWS()(CLF, split, n=0).flag_codes
    assert {"one-answer", "unmoved"} <= set(PWWS()(always(0.1, 0.9), split, n=0).flag_codes)
    assert "unmoved" not in PWWS()(always(0.1, 0.9), split, n=0, query_budget=3).flag_codes


@pytest.mark.parametrize("values", [np.linspace(0, 1, 50), (0.0, 1.0), (0.3, 0.7)])
def test_a_victim_that_draws_at_random_is_told(capsys: Capture, values: Any) -> None:
    """Also where it is equally sure of every answer, as one that gives a class and no probability."""
    drawn = np.random.default_rng(0)
    split = Split.of([f"a good film {i}" for i in range(8)], [i % 2 for i in range(8)])

    def random(texts: Any) -> Any:
        p = drawn.choice(values, len(texts))
        return np.stack([p, 1 - p], axis=1)

    result = PWWS()(Classifier.wrap(random, labels=["x", "y"]), split, n=0)
    assert "unsteady" in result.flag_codes
    assert "another answer" in capsys.readouterr().err
    assert "unsteady" not in PWWS()(toy_victim(1), split, n=0).flag_codes
    assert "another answer" not in capsys.readouterr().err
