"""Draws keep exactly what they promise: counts, ties by position, floors, scopes, and nested masks; checked against a slow reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.ticket.topk import draw, removed_count

few = st.integers(-3, 3).map(float)  # few values: ties everywhere
layers = st.lists(st.lists(few, min_size=1, max_size=8).map(np.array), min_size=1, max_size=5)
fractions = st.floats(0, 0.999)


def slow(scores: list[np.ndarray], removed: float) -> list[list[bool]]:
    """Sort units by falling score, then layer, then index; give each layer its best, then the best of the rest."""
    units = sorted((-float(s[i]), layer, i) for layer, s in enumerate(scores) for i in range(len(s)))
    keep = len(units) - removed_count(len(units), removed)
    kept: set[tuple[int, int]] = set()
    for layer in range(len(scores)):
        kept |= {(at, i) for _, at, i in [u for u in units if u[1] == layer][:1]}
    for _, layer, i in units:
        if len(kept) < keep:
            kept.add((layer, i))
    return [[(layer, i) in kept for i in range(len(s))] for layer, s in enumerate(scores)]


@settings(deadline=None)
@given(layers, fractions)
def test_exact_draw_is_the_slow_reference(scores: list[np.ndarray], removed: float) -> None:
    total = sum(map(len, scores))
    if total - removed_count(total, removed) < len(scores):
        with refused("draw.floor"):
            draw(scores, removed)
        return
    masks = draw(scores, removed)
    assert [m.tolist() for m in masks] == slow(scores, removed)
    assert sum(int(m.sum()) for m in masks) == total - removed_count(total, removed)
    assert all(m.any() and not m.flags.writeable and m.dtype == bool for m in masks)


@settings(deadline=None)
@given(layers, fractions, fractions)
def test_more_removed_is_a_subset_of_less_removed(scores: list[np.ndarray], a: float, b: float) -> None:
    few_gone, many_gone = sorted((a, b))
    total = sum(map(len, scores))
    assume(total - removed_count(total, many_gone) >= len(scores))
    for large, small in zip(draw(scores, few_gone), draw(scores, many_gone), strict=True):
        assert not (small & ~large).any()


@settings(deadline=None)
@given(layers, st.floats(0, 0.9))
def test_layer_scope_is_one_draw_a_layer(scores: list[np.ndarray], removed: float) -> None:
    masks = draw(scores, removed, scope="layer")
    assert [m.tolist() for m in masks] == [draw([s], removed)[0].tolist() for s in scores]
    assert [int(m.sum()) for m in masks] == [len(s) - removed_count(len(s), removed) for s in scores]


@settings(deadline=None)
@given(layers, st.floats(0, 0.9), st.floats(0.1, 10), st.floats(-5, 5))
def test_only_the_order_of_scores_matters(scores: list[np.ndarray], removed: float, scale: float, shift: float) -> None:
    assume(sum(map(len, scores)) - removed_count(sum(map(len, scores)), removed) >= len(scores))
    moved = [s * scale + shift for s in scores]
    assert [m.tolist() for m in draw(scores, removed)] == [m.tolist() for m in draw(moved, removed)]


@settings(deadline=None)
@given(st.lists(st.integers(4, 9), min_size=1, max_size=4), st.floats(0.05, 0.6), st.randoms(use_true_random=False))
def test_quantile_rule_without_ties_is_the_definition(sizes: list[int], removed: float, dice: object) -> None:
    values = list(range(sum(sizes)))
    dice.shuffle(values)  # type: ignore[attr-defined]
    scores = [np.array(part, dtype=float) for part in np.split(np.array(values), np.cumsum(sizes)[:-1])]
    threshold = np.quantile(values, removed, method="linear")
    expected = [(s > threshold).tolist() for s in scores]
    assume(all(any(mask) for mask in expected))
    assert [m.tolist() for m in draw(scores, removed, rule="quantile")] == expected


def test_counts_from_the_papers() -> None:
    assert removed_count(144, 1 / 6) == 24
    assert removed_count(36_864, 0.3) == 11_059
    assert removed_count(100, 0.29) == 29  # 0.29 * 100 is 28.999999999999996
    equal = [np.ones(12)] * 12
    assert (
        sum(m.sum() for m in draw(equal, 1 / 6, rule="quantile")) == 12
    )  # the released rule at c == 1: one head a layer is left
    assert sum(m.sum() for m in draw(equal, 1 / 6)) == 120


def test_quantile_repair_leaves_a_survivor_in_every_layer() -> None:
    masks = draw([np.array([0.1, 0.2]), np.array([1.0, 2.0, 3.0, 4.0])], 0.5, rule="quantile")
    assert masks[0].tolist() == [False, True]
    assert int(masks[1].sum()) >= 1


BAD = [([np.ones(4)], {"removed": removed}, "draw.fraction") for removed in (-0.1, 1.0, float("nan"))]
BAD += [([np.array([1.0, bad])], {}, "draw.scores") for bad in (np.nan, -np.inf)]
BAD += [
    ([np.ones(2), np.ones(2)], {"removed": 0.9, "rule": "quantile"}, "draw.floor"),
    ([np.arange(4.0)], {"scope": "layerwise"}, "settings.choice"),  # a typo does not choose the other branch
    ([np.arange(4.0)], {"rule": "exakt"}, "settings.choice"),
]


@pytest.mark.parametrize(("scores", "how", "code"), BAD)
def test_impossible_draws_are_refused(scores: list[np.ndarray], how: dict[str, Any], code: str) -> None:
    with refused(code):
        draw(scores, **{"removed": 0.5, **how})
