"""How long an attack says that it will take."""

from __future__ import annotations

import heapq
import random

import pytest

from robust_tickets.attack.pace import Pace


def told(examples: int, live: int, starting: float, seconds: float, skipped: float = 0.3) -> tuple[float | None, float]:
    """What is said of an attack whose examples take about ``seconds`` each, after so many of ``starting``; and how long it takes."""
    rng, pace, said, now = random.Random(examples), Pace(examples, live), None, 0.0
    under_way: list[tuple[float, bool]] = []
    for left in range(examples, -live, -1):
        if len(under_way) == live or left <= 0:
            if not under_way:
                break
            now, attacked = heapq.heappop(under_way)
            whole = pace.after(now, "failed" if attacked else "skipped")
            said = whole if whole is not None else said
        if left > 0:
            attacked = rng.random() >= skipped
            took = rng.uniform(0.5, 1.5) * seconds if attacked else seconds / 100
            heapq.heappush(under_way, (max(now, starting) + took, attacked))
    return said, now


@pytest.mark.parametrize("starting", [0.0, 12.0, 90.0])
@pytest.mark.parametrize(
    ("examples", "live", "seconds"), [(12, 8, 1.0), (60, 8, 0.1), (200, 8, 5.0), (60, 64, 2.0), (1000, 128, 30.0)]
)
def test_a_start_is_counted_once(examples: int, live: int, seconds: float, starting: float) -> None:
    """By the first outcome a start of 11 s had 60 examples take 2 min 27 s, which took 12 s."""
    said, took = told(examples, live, starting, seconds)
    if said is None:  # nobody waits for it
        assert took - starting < 20
    else:
        assert 0.5 * took < said < 1.5 * took


def test_it_is_told_once_and_not_by_examples_that_are_not_attacked() -> None:
    pace = Pace(100, 8)
    assert [pace.after(0.01 * n, "skipped") for n in range(20)] == [None] * 20
    assert pace.after(2.0, "success") is None
    assert [pace.after(2.0 + n, "failed") is not None for n in range(1, 9)] == [False] * 7 + [True]
    slow = Pace(100, 1)
    assert slow.after(30.0, "error") is None
    assert slow.after(60.0, "failed") is None
    assert slow.after(90.0, "failed") == pytest.approx(90 + 30 * 96.5)


def test_of_one_example_nothing_is_told() -> None:
    assert Pace(1, 8).after(400.0, "failed") is None
