"""Widths: the best ones are the best of all, and every batch fits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_tickets.data.batching import GRID, best, ladder, steps, widths_of

BATCHES = st.lists(st.tuples(st.integers(1, 90), st.integers(1, 32)), min_size=1, max_size=30)


def cost(widths: tuple[int, ...], batches: list[tuple[int, int]], price: float) -> float:
    least = sum(rows * min(w for w in ladder(GRID, 90) if w >= most) for most, rows in batches)
    return sum(rows * min(w for w in widths if w >= most) for most, rows in batches) + price * least * len(widths)


@given(batches=BATCHES, most=st.integers(1, 4), price=st.sampled_from([0.0, 0.005, 0.1]))
def test_best_is_the_best_of_all(batches: list[tuple[int, int]], most: int, price: float) -> None:
    longest, grid = max(m for m, _ in batches), ladder(GRID, 90)
    found = best([m for m, _ in batches], [rows for _, rows in batches], 90, most, price)
    assert 1 <= len(found) <= most
    assert list(found) == sorted(set(found))
    assert set(found) <= set(grid)
    subsets = (chosen for n in range(1, most + 1) for chosen in combinations(grid, n) if chosen[-1] >= longest)
    assert cost(found, batches, price) == pytest.approx(min(cost(chosen, batches, price) for chosen in subsets))


@given(longest=st.integers(1, 600))
def test_ladders_end_at_the_longest_and_have_the_steps_said(longest: int) -> None:
    for made, (low, middle) in [(steps(longest), (64, 128)), (ladder(GRID, longest), (128, 256))]:
        assert made[-1] == longest
        assert list(made) == sorted(set(made))
        for below, width in zip((0, *made), made[:-1], strict=False):
            assert width - below == (8 if width <= low else 16 if width <= middle else 32)
        assert longest - (0, *made)[-2] <= (8 if longest <= low else 16 if longest <= middle else 32)


@given(lengths=st.lists(st.integers(3, 200), min_size=1, max_size=200), size=st.integers(1, 9))
def test_every_batch_of_the_order_fits(lengths: list[int], size: int) -> None:
    rows = np.argsort(lengths, kind="stable")
    order = [rows[i : i + size] for i in range(0, len(rows), size)]
    found = widths_of(np.array(lengths, dtype=np.int32), iter(order), 200)
    assert found[-1] >= max(lengths)
    assert found == best([max(lengths[i] for i in batch) for batch in order], [len(batch) for batch in order], 200)


def test_edges() -> None:
    assert best([], [], 64) == widths_of(np.zeros(0), [], 64) == (64,)
    assert best([5, 60], [32, 32], 61) == (8, 61)
    assert best([5, 60], [32, 32], 61, price=0.8) == (61,)
    assert steps(7) == (7,)
