"""Functions as classifiers: micro-batches, retries with back-off, a rate limit, a time limit, and nothing asked or counted twice."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.callable import HOPELESS
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError


class Far:
    """A judge that fails when told to, and notes every text it answered."""

    def __init__(self, fails: Any = lambda call, texts: False) -> None:
        self.fails, self.calls, self.answered = fails, 0, []
        self.sizes: list[int] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.calls += 1
        if self.fails(self.calls, texts):
            raise ConnectionError("busy")
        self.sizes.append(len(texts))
        self.answered += texts
        return [[0.9, 0.1] if "good" in text else [0.3, 0.7] for text in texts]


def rows(*texts: str) -> Split:
    return Split.of(texts, [0] * len(texts))


def again(far: Far) -> dict[str, int]:
    """The texts that were answered more than once, and how often."""
    return {text: times for text, times in Counter(far.answered).items() if times > 1}


WORDS = ("good film", "a good story", "good plot, fine end", "what a good movie this is", "good")


def test_a_call_has_at_most_batch_size_texts_and_full_ones() -> None:
    far = Far()
    clf = Classifier.wrap(far, labels=["x", "y"], batch_size=4)
    texts = [f"good {'word ' * i}" for i in range(10)]
    np.testing.assert_allclose(clf.predict(texts)[1][:, 0], 0.9, atol=1e-6)
    assert far.sizes == [4, 4, 2]


def test_retries_change_no_result_and_no_count() -> None:
    calm = PWWS()(Classifier.wrap(Far(), labels=["x", "y"]), rows(*WORDS), n=0)
    far = Far(lambda call, texts: call % 3 == 0)
    shaky = PWWS()(Classifier.wrap(far, labels=["x", "y"], retries=2, backoff=0.001, batch_size=3), rows(*WORDS), n=0)
    told = [[(e.status, e.queries, e.perturbed) for e in result.examples()] for result in (calm, shaky)]
    assert told[0] == told[1]
    assert shaky.errors == 0
    assert again(far) == dict.fromkeys(
        WORDS, 2
    )  # none is paid for twice, but those that tell it from others and whether it is steady


def test_an_example_whose_text_fails_for_good_is_an_error_and_asks_nothing_twice() -> None:
    far = Far(lambda call, texts: any("poison" in text for text in texts))
    texts = ("good film", "good poison", "a good story", "what a good movie")
    result = PWWS()(Classifier.wrap(far, labels=["x", "y"], retries=1, backoff=0.001), rows(*texts), n=0)
    assert [e.status for e in result.examples()] == ["success", "error", "success", "success"]
    assert next(e.error for e in result.examples() if e.error) == "ConnectionError: busy"
    assert again(far) == {text: 2 for text in texts if "poison" not in text}


@pytest.mark.parametrize("calls", [{"batch_size": 4}, {"retries": 1}, {"rate_limit": 1e5}, {"timeout": 60.0}])
def test_a_victim_that_draws_at_random_is_told_though_its_answers_are_kept(calls: dict[str, Any]) -> None:
    """The attack was given the kept answers to the texts asked about before it, which never differ. The queries are those of the attack."""
    drawn = np.random.default_rng(0)

    def random(texts: list[str]) -> Any:
        p = drawn.uniform(0, 1, len(texts))
        return np.stack([p, 1 - p], axis=1)

    assert "unsteady" in PWWS()(Classifier.wrap(random, labels=["x", "y"], **calls), rows(*WORDS), n=0).flag_codes
    steady, plain = Classifier.wrap(Far(), labels=["x", "y"], **calls), Classifier.wrap(Far(), labels=["x", "y"])
    first, second, other = (PWWS()(clf, rows(*WORDS), n=0) for clf in (steady, steady, plain))
    assert not {"unsteady"} & {*first.flag_codes, *second.flag_codes}
    assert first.queries == second.queries == other.queries


def test_a_victim_that_changed_between_two_attacks_is_told() -> None:
    """The second attack has the first one's answers, and the texts asked about before it those of the moment."""
    told = [0.9]
    clf = Classifier.wrap(lambda texts: [[told[0], 1 - told[0]]] * len(texts), labels=["x", "y"], batch_size=4)
    assert "unsteady" not in PWWS()(clf, rows(*WORDS), n=0).flag_codes
    told[0] = 0.7
    assert "unsteady" in PWWS()(clf, rows(*WORDS), n=0).flag_codes


def test_whether_a_victim_still_answers_is_no_kept_answer() -> None:
    """It answered the ordinary text once; every later time the kept answer would say that it is still there."""
    ordinary = iter([False])
    far = Far(lambda call, texts: texts != ["a good film"] or next(ordinary, True))
    with pytest.raises(TicketsError, match=r"failed on 20 example\(s\) in a row"):
        PWWS()(Classifier.wrap(far, labels=["x", "y"], batch_size=4), rows(*(f"good {i}" for i in range(60))), n=0)


def test_a_function_that_is_gone_ends_the_run() -> None:
    far = Far(lambda call, texts: call > 12)
    clf = Classifier.wrap(far, labels=["x", "y"], retries=1, backoff=0.001, batch_size=1)
    with pytest.raises(TicketsError, match=f"failed {HOPELESS} calls in a row: ConnectionError: busy") as caught:
        PWWS()(clf, rows(*(f"good {i}" for i in range(40))), n=0)
    assert caught.value.exit_code == 3
    assert far.calls <= 12 + 2 * HOPELESS


def test_waiting_doubles_and_calls_are_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    clf = Classifier.wrap(Far(lambda call, texts: True), labels=["x", "y"], retries=3)
    with pytest.raises(ConnectionError):
        clf.logits(["good"])
    assert slept == [0.5, 1.0, 2.0]
    slept.clear()
    clock = iter(np.arange(0, 1, 0.001))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    Classifier.wrap(Far(), labels=["x", "y"], rate_limit=2, batch_size=1).logits(["a", "b", "c"])
    np.testing.assert_allclose(slept, [0.499, 0.998])


def test_an_answer_that_takes_too_long() -> None:
    def slow(texts: list[str]) -> Any:
        time.sleep(0.5 if "slow" in texts else 0)
        return [[0.5, 0.5]] * len(texts)

    clf = Classifier.wrap(slow, labels=["x", "y"], timeout=0.1)
    assert clf.logits(["quick"]).shape == (1, 2)
    with pytest.raises(TimeoutError, match=r"within 0\.1 s"):
        clf.logits(["slow"])


@pytest.mark.parametrize(
    "wrong", [{"batch_size": 0}, {"retries": -1}, {"rate_limit": 0}, {"timeout": -1.0}, {"batch_size": 1.5}]
)  # fmt: skip
def test_bad_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(TicketsError, match=next(iter(wrong))):
        Classifier.wrap(Far(), labels=["x", "y"], **wrong)
