"""Sentence similarity: what is compared with what, in which metric, and what rounding may do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robust_tickets.attack.components import Candidate
from robust_tickets.attack.constraints.sentence_similarity import SentenceSimilarity
from robust_tickets.attack.example import Encode, ExampleState, Scored
from robust_tickets.attack.goals import Row, Untargeted
from robust_tickets.attack.greedy import DropScore, GreedySearch
from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import OWN
from robust_tickets.errors import TicketsError


class Talk:
    """Answers a constraint's questions and remembers them."""

    def __init__(
        self, vectors: dict[str, Any] | None = None, original: str = "one two three four five", noise: float = 0.0
    ) -> None:
        self.vectors, self.asked = vectors or {}, list[Encode]()
        self.game = ExampleState(
            original=Text.of(original), goal=Untargeted(0), column_names=("text",), noise=0.0, vector_noise=noise
        )

    def keep(self, check: SentenceSimilarity, current: Text, index: int, news: list[str]) -> list[Candidate]:
        steps = check.keep(self.game, [Candidate(current, index, new) for new in news], current)
        answer = None
        try:
            while True:
                question = steps.send(answer)
                self.asked.append(question)
                answer = [self.vector(text, question.alone) for text in question.texts]
        except StopIteration as end:
            return list(end.value)

    def vector(self, text: str, alone: bool) -> np.ndarray:
        given = self.vectors.get(text, (1.0, 0.0))
        given = given[alone] if isinstance(given, list) else given
        return np.asarray(given, dtype=np.float32)

    def texts(self) -> list[str]:
        return [text for question in self.asked for text in question.texts]


def test_the_reference_is_the_original_or_the_current_text() -> None:
    current = Text.of("one two three four five").replace(0, "ONE")
    for reference, first in (("original", "one"), ("current", "ONE")):
        talk = Talk()
        talk.keep(SentenceSimilarity(0.5, reference=reference), current, 4, ["six"])
        assert talk.texts() == [f"{first} two three four five", "ONE two three four six"]


def test_windows_and_short_texts() -> None:
    talk = Talk()
    talk.keep(SentenceSimilarity(0.5, 3), talk.game.original, 2, ["six"])
    assert talk.texts() == ["two three four", "two six four"]
    for skip, asked in ((True, False), (False, True)):
        talk = Talk()
        (kept,) = talk.keep(SentenceSimilarity(0.5, 6, skip_short=skip), talk.game.original, 2, ["six"])
        assert bool(talk.asked) == asked
        assert kept.cosine == 1.0
    talk = Talk()
    (kept,) = talk.keep(
        SentenceSimilarity(0.5, 6, skip_short=True), talk.game.original, 2, ["six seven"]
    )  # six words: no longer short
    assert talk.asked


@pytest.mark.parametrize(("metric", "passing"), [("angular", 0.66), ("cosine", 0.49)])
def test_the_metric(metric: str, passing: float) -> None:
    sixty = (math.cos(math.pi / 3), math.sin(math.pi / 3))  # degrees: cosine 0.5, angular 2/3
    talk = Talk({"one": sixty}, original="two")
    assert talk.keep(SentenceSimilarity(passing, metric=metric), talk.game.original, 0, ["one"])
    assert not talk.keep(SentenceSimilarity(passing + 0.02, metric=metric), talk.game.original, 0, ["one"])


def beyond_one() -> np.ndarray:
    """A vector whose float32 cosine with itself is above 1."""
    import torch

    for seed in range(100):
        row = np.random.default_rng(seed).normal(size=24).astype(np.float32)
        given = torch.from_numpy(row)[None]
        if float(torch.nn.functional.cosine_similarity(given, given.clone())) > 1:
            return row
    raise AssertionError("no such vector")


@pytest.mark.parametrize("metric", ["angular", "cosine"])
@pytest.mark.parametrize("clamped", [True, False])
def test_a_cosine_beyond_one_is_refused_where_the_rules_do_not_clamp_it(metric: str, clamped: bool) -> None:
    row = beyond_one()
    talk = Talk({"one": row, "two": row}, original="two")
    talk.game.original = Text.of("two", replace(OWN, clamped=clamped))
    kept = talk.keep(SentenceSimilarity(0.2, metric=metric), talk.game.original, 0, ["one"])
    assert bool(kept) == (clamped or metric == "cosine")  # a cosine needs no angle
    assert all(candidate.cosine == 1.0 for candidate in kept)
    short = talk.keep(SentenceSimilarity(0.2, 9, metric=metric, skip_short=True), talk.game.original, 0, ["one"])
    assert len(short) == 1  # not measured at all


def test_close_to_a_limit_windows_are_encoded_alone() -> None:
    near, far = (0.8, 0.6), (0.79999, 0.60001)
    talk = Talk({"one": [near, far]}, original="two", noise=1e-4)
    check = SentenceSimilarity(0.799995, metric="cosine")
    assert not talk.keep(check, talk.game.original, 0, ["one"])
    assert [question.alone for question in talk.asked] == [False, True]
    talk = Talk({"one": [near, far]}, original="two", noise=1e-7)
    assert talk.keep(check, talk.game.original, 0, ["one"])


def test_a_replacement_without_a_word_is_refused() -> None:
    talk = Talk()
    assert talk.keep(SentenceSimilarity(0.0), talk.game.original, 2, ["...", "", "ok"])[0].new == "ok"
    talk = Talk(original="one")
    assert talk.keep(SentenceSimilarity(0.0), talk.game.original, 0, ["..."]) == []


@pytest.mark.parametrize(
    "wrong", [{"least": -0.1}, {"least": 1.1}, {"window": 0}, {"metric": "euclid"}, {"reference": "clean"}]
)
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TicketsError):
        SentenceSimilarity(**{"least": 0.8, **wrong})
    SentenceSimilarity(-0.5, metric="cosine")


@pytest.mark.parametrize(("likeness", "chosen"), [((0.7, 0.7), 0), ((0.7, 0.8), 1), ((0.8, 0.7), 0)])
def test_the_constraints_own_metric_chooses_among_successes(likeness: tuple[float, float], chosen: int) -> None:
    game = ExampleState(original=Text.of("one"), goal=Untargeted(0), column_names=("text",), noise=0.0)
    found = [
        Candidate(game.original, 0, new, cosine, value)
        for new, cosine, value in zip("ab", (0.5, 0.5000001), likeness, strict=True)
    ]
    rows = [
        Row(probabilities=np.array([0.1, 0.9], dtype=np.float32), logits=np.zeros(2, dtype=np.float32), predicted=1)
        for _ in found
    ]
    answers = [Scored(candidate, row, game.goal) for candidate, row in zip(found, rows, strict=True)]
    search = GreedySearch(title="", ranking=DropScore(), transformations=())
    with pytest.raises(StopIteration) as end:
        next(search._winner(game, found, answers, answers[0]))
    assert end.value.value == chosen
