"""What a temperature and a scoring may change and what they may not; a saturated victim is attacked through its log-odds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attacking import Literal, toy_victim
from robust_tickets.attack.attack import Attack
from robust_tickets.attack.components import Transformation
from robust_tickets.attack.constraints import NoRepeat
from robust_tickets.attack.example import ExampleState, Scored
from robust_tickets.attack.goals import Row, Untargeted
from robust_tickets.attack.greedy import DropScore, GreedySearch, WeightedSaliency
from robust_tickets.attack.greedy import _gains as gains_of
from robust_tickets.attack.text import Text
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from tiny import tiny_classifier

SPELT = "good bad film story great poor fine awful plot dark light house the very"
SAID = SPELT.split()


class Neighbour(Transformation):
    """Two words in the place of each: few ways, so that an attack needs several steps and may fail."""

    def replacements(self, game: Any, text: Any, index: int) -> list[str]:
        place = SAID.index(text.words[index]) if text.words[index] in SAID else 0
        return [SAID[(place + step) % len(SAID)] for step in (2, 5)]


@dataclass(frozen=True, kw_only=True)
class Plain(Attack):
    """Delete to rank and swap, no constraint: scores are compared, never multiplied; ``weighs`` ranks as PWWS does."""

    weighs: bool = False

    def prepare(self, device: str) -> GreedySearch:
        ranking = WeightedSaliency() if self.weighs else DropScore()
        return GreedySearch(title="plain", ranking=ranking, transformations=(Neighbour(),), modifiable=(NoRepeat(),))


def ends(result: Any) -> list[tuple[Any, ...]]:
    return [(e.status, e.perturbed, e.queries, e.predicted_after) for e in result.examples()]


texts = st.lists(st.lists(st.sampled_from(SAID), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=4)


@given(texts, st.integers(0, 50))
@settings(max_examples=25, deadline=None)
def test_with_two_classes_both_scorings_find_the_same(made: list[str], salt: int) -> None:
    clf = toy_victim(salt)
    split = Split.of(made, [int(Literal(clf, 0).probabilities((text,)).argmax()) for text in made])
    assert ends(Plain()(clf, split, n=0)) == ends(Plain(scoring="log-odds")(clf, split, n=0))


@given(
    st.integers(2, 5).flatmap(
        lambda classes: st.tuples(*[st.lists(st.floats(-6, 6, width=32), min_size=classes, max_size=classes)] * 2)
    )
)
@settings(max_examples=200, deadline=None)
def test_where_probability_tells_two_texts_apart_log_odds_order_them_alike(
    rows: tuple[list[float], list[float]],
) -> None:
    scores = []
    for odds in (False, True):
        made = []
        for row in rows:
            logits = torch.tensor(row)
            answer = Row(torch.softmax(logits, dim=0).numpy(), logits.numpy(), int(logits.argmax()))
            made.append(Untargeted(0, odds).score(answer))
        scores.append(made)
    (a, b), (x, y) = scores
    if abs(a - b) > 1e-6:
        assert (a < b) == (x < y)
    for p, value in zip((a, b), (x, y), strict=True):  # what it is: log of (1 - p) / p
        assert value == pytest.approx(np.log(p / (1 - p)), abs=0.05)


def scored(odds: float, label: int = 0) -> Scored:
    logits = np.array([0.0, odds], dtype=np.float32)
    return Scored(
        _Nothing(), Row(np.exp(logits) / np.exp(logits).sum(), logits, int(odds > 0)), Untargeted(label, odds=True)
    )


def test_a_gain_of_log_odds_is_the_rise_over_the_clean_text_and_never_below_0() -> None:
    game = ExampleState(
        original=Text.of(("a b c",)),
        goal=Untargeted(0, odds=True),
        column_names=("text",),
        noise=0.0,
        first=scored(-3.0),
    )
    assert gains_of(game, [[scored(-2.0), scored(-5.0)], [scored(-4.0)], []]).tolist() == [1.0, 0.0, 0.0]
    game.goal = Untargeted(0)
    assert gains_of(game, [[scored(-2.0)], []]).tolist() == [-2.0, 0.0], "TextAttack's own is the score itself"


def test_log_odds_of_larger_logits_need_a_larger_distance_to_be_told_apart() -> None:
    def game(clean: float) -> ExampleState:
        return ExampleState(
            original=Text.of(("a",)),
            goal=Untargeted(0, odds=True),
            column_names=("text",),
            noise=1e-5,
            first=scored(clean),
        )

    assert game(-3.0).tolerance(2.0) == 2e-5
    assert game(-1600.0).tolerance(2.0) == pytest.approx(2e-3)
    assert game(-3.0).tolerance(1600.0) == pytest.approx(2e-3)


@pytest.mark.parametrize("odds", [False, True])
def test_logits_that_are_all_large_need_a_larger_distance_too(odds: bool) -> None:
    """Their difference, and so the score, is that of small ones; their rounding is not."""
    found = []
    for height in (0.0, 1600.0):
        first = scored(0.5)
        first.goal = Untargeted(0, odds)
        first.row.logits = first.row.logits + np.float32(height)
        game = ExampleState(original=Text.of(("a",)), goal=first.goal, column_names=("text",), noise=1e-5, first=first)
        found.append(game.tolerance(first.score))
    assert found[1] > 50 * found[0]


@dataclass(frozen=True)
class _Nothing:
    columns: tuple[str, ...] = ()


def nearly_even(made: list[Any]) -> np.ndarray:
    """Class 1 leads by a hair: a float32 softmax at a high temperature cannot tell."""
    lead = np.array([1e-6 if "good" in text else -1e-6 for text in made])
    return np.stack([0.5 - lead, 0.5 + lead], axis=1)


VICTIMS = {
    "coarse": toy_victim(3, 3),
    "nearly even": Classifier.wrap(nearly_even, labels=["a", "b"]),
    "certain": Classifier.wrap(
        lambda made: np.array([[0.0, 1.0] if "good" in t else [1.0, 0.0] for t in made]), labels=["a", "b"]
    ),
}


@given(texts, st.floats(1e-3, 1e5), st.sampled_from(sorted(VICTIMS)))
@settings(max_examples=40, deadline=None)
def test_a_temperature_changes_no_prediction(made: list[str], temperature: float, name: str) -> None:
    clf, split = VICTIMS[name], Split.of(made, [i % 2 for i in range(len(made))])
    cold = Plain()(clf, split, n=0, query_budget=3)
    warm = Plain()(clf, split, n=0, query_budget=3, temperature=temperature)
    assert cold.clean == warm.clean
    assert [e.predicted_before for e in cold.examples()] == [e.predicted_before for e in warm.examples()]
    assert warm.temperature == temperature


MADE = [
    f"the {a} {b} was {c} a good plot"
    for a in ("good", "bad", "awful")
    for b in ("film", "story")
    for c in ("great", "poor")
]


@cache
def sharpened(factor: float) -> Classifier:
    """A tiny model that is split over the texts; its logits are multiplied, by a power of two, so that not a bit of them is lost."""
    clf = tiny_classifier("bert", max_length=24).copy()
    logits = clf.logits(MADE)
    with torch.no_grad():
        clf.model.classifier.bias[1] -= float(np.median(logits[:, 1] - logits[:, 0]))
        clf.model.classifier.weight.mul_(factor)
        clf.model.classifier.bias.mul_(factor)
    return clf


def sentences(clf: Classifier) -> Split:
    return Split.of(MADE, [clf.labels.index(label) for label in clf.predict(MADE)[0]])


@pytest.mark.parametrize("budget", [32, 512])
def test_a_saturated_victim_is_attacked_through_its_log_odds_as_the_plain_one_is(budget: int) -> None:
    plain, sharp = sharpened(8.0), sharpened(2.0**14)
    split = sentences(plain)
    wanted = ends(Plain()(plain, split, n=0, token_budget=budget))
    assert {status for status, *_ in wanted} == {"success"}
    assert ends(Plain(scoring="log-odds")(plain, split, n=0, token_budget=budget)) == wanted
    assert ends(Plain(scoring="log-odds")(sharp, split, n=0, token_budget=budget)) == wanted
    hidden = Plain()(sharp, split, n=0, token_budget=budget)
    assert hidden.outcomes["failed"] > 0, "probabilities that are all 1 show no way"
    assert {"over-confident", "saturated"} <= set(hidden.flag_codes)
    seen = Plain(scoring="log-odds")(sharp, split, n=0, token_budget=budget)
    assert not {"over-confident", "saturated"} & set(seen.flag_codes)
    assert "log-odds" in seen.flag_codes
    # a temperature does the same for the probabilities
    assert ends(Plain()(sharp, split, n=0, token_budget=budget, temperature=2.0**11)) == wanted


def test_pwws_under_log_odds_turns_what_a_saturated_probability_hides() -> None:
    sharp = sharpened(2.0**14)
    split = sentences(sharp)
    hidden, seen = Plain(weighs=True)(sharp, split, n=0), Plain(weighs=True, scoring="log-odds")(sharp, split, n=0)
    assert hidden.aua is not None
    assert seen.aua is not None
    assert seen.aua < hidden.aua
    again = Plain(weighs=True, scoring="log-odds")(sharp, split, n=0, token_budget=32)
    assert ends(again) == ends(seen), "the order does not depend on the batches"
