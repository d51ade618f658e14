"""Scores to masks: exact top-k with ties by position, floors, rounding to multiples. numpy only.

``draw`` keeps exactly ``N - floor(removed * N)`` units. Of equal scores the earlier layer's, then the lower index is
kept: stable across machines, which a threshold on floats is not (coefficients travel about 1 % in a search and tie
often). Every layer keeps at least one unit: the best of each layer is reserved first, the rest of the budget
goes to the best of the others, so the total stays exact (EarlyRobust's repair, without its re-computed threshold).

``rounded`` brings the number that each layer keeps to a multiple that matrix kernels like. ``draw_weights`` draws
single weights, without a floor: it partitions one float32 copy of the scores instead of sorting them (85 million take
0.5 GB and a few seconds).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from robust_tickets.config import one_of
from robust_tickets.errors import TicketsError

Scope = Literal["global", "layer"]
WeightScope = Literal["global", "matrix"]
Rule = Literal["exact", "quantile"]
Multiple = Literal[1, 8, 16, 64]  # 1: nothing is rounded
Group = tuple[np.ndarray, ...]


def removed_count(total: int, removed: float) -> int:
    """How many of ``total`` units a ratio removes; 1/6 of 144 is 24 whatever the float says."""
    return math.floor(removed * total + 1e-9)


def draw(scores: Sequence[np.ndarray], removed: float, *, scope: Scope = "global", rule: Rule = "exact") -> Group:
    """Masks (True = kept), one per layer, that remove the fraction ``removed`` of the units with the lowest scores."""
    _check_fraction(removed)
    one_of("the scope of a draw", scope, get_args(Scope))
    one_of("the rule of a draw", rule, get_args(Rule))
    layers = [np.asarray(s, dtype=np.float64).reshape(-1) for s in scores]
    _check_finite(layers)
    choose = _exact if rule == "exact" else _quantile
    groups = [[s] for s in layers] if scope == "layer" else [layers]
    return _read_only([mask for group in groups for mask in choose(group, removed)])


def _exact(layers: list[np.ndarray], removed: float) -> list[np.ndarray]:
    total = sum(map(len, layers))
    keep = total - removed_count(total, removed)
    if keep < len(layers):
        message = f"removing {removed:.4g} of {total} units leaves {keep}, fewer than the {len(layers)} layers"
        raise TicketsError(message, hint="remove less", code="draw.floor")
    masks = [np.zeros(len(s), dtype=bool) for s in layers]
    for mask, score in zip(masks, layers, strict=True):
        mask[np.argmax(score)] = True
    flat = np.concatenate(masks)
    order = np.argsort(-np.concatenate(layers), kind="stable")
    rest = order[~flat[order]]
    flat[rest[: keep - int(flat.sum())]] = True
    return [part.copy() for part in np.split(flat, np.cumsum([len(s) for s in layers])[:-1])]


def _quantile(layers: list[np.ndarray], removed: float) -> list[np.ndarray]:
    """The released rule: strictly above numpy's interpolated quantile, with repair; over-prunes under ties."""
    work = [s.copy() for s in layers]
    while True:
        with np.errstate(invalid="ignore"):  # between two reserved units (inf) the threshold is NaN, refused below
            threshold = np.quantile(np.concatenate(work), removed, method="linear")
        if not np.isfinite(threshold):
            message = f"removing {removed:.4g} cannot leave a unit in every layer"
            raise TicketsError(message, hint="remove less, or rule='exact'", code="draw.floor")
        masks = [s > threshold for s in work]
        empty = [i for i, mask in enumerate(masks) if not mask.any()]
        if not empty:
            return masks
        for i in empty:
            work[i][int(np.argmax(np.where(np.isinf(work[i]), -np.inf, work[i])))] = np.inf


def rounded(
    masks: Sequence[np.ndarray], scores: Sequence[np.ndarray], multiple: int, *, scope: Scope = "global"
) -> Group:
    """``masks`` with a multiple of ``multiple`` units kept in every layer, or all of its units; never none.

    Each layer goes to the multiple below or above. In the global scope the layers with the largest remainders go up, as
    many of them as bring the total closest to what it was; in the layer scope every layer goes to its nearest. Of two
    that are as near, the smaller. The units added are the best of those that were out, the units dropped the worst of
    those that were in.
    """
    one_of("the multiple that units are rounded to", multiple, get_args(Multiple))
    widths = [(int(np.count_nonzero(m)), len(m)) for m in masks]
    groups = [[width] for width in widths] if scope == "layer" else [widths]
    kept = [count for group in groups for count in _round(group, int(multiple))]
    made = []
    for mask, score, count in zip(masks, scores, kept, strict=True):
        order = np.lexsort((-np.asarray(score, dtype=np.float64), ~mask))  # those in first, each by falling score
        made.append(np.zeros(len(mask), dtype=bool))
        made[-1][order[:count]] = True
    return _read_only(made)


def _round(widths: list[tuple[int, int]], multiple: int) -> list[int]:
    """The counts to keep, of pairs of count and size."""
    counts = [count for count, _ in widths]
    low = [count if count == size else count // multiple * multiple for count, size in widths]
    high = [min(size, -(-count // multiple) * multiple) for count, size in widths]
    low = [down or up for down, up in zip(low, high, strict=True)]  # no layer is left without units
    between = [i for i in range(len(counts)) if low[i] < high[i]]
    between.sort(key=lambda i: (low[i] - counts[i]) / (high[i] - low[i]))  # largest remainder first; then the earlier
    best = low
    for i in between:
        low = [*low[:i], high[i], *low[i + 1 :]]
        best = min(best, low, key=lambda kept: abs(sum(kept) - sum(counts)))  # the first of two that are as near
    return best


def draw_weights(scores: Sequence[np.ndarray], sparsity: float, *, scope: WeightScope = "global") -> Group:
    """Masks in the shapes of ``scores`` that remove the fraction ``sparsity`` of the weights with the lowest ones."""
    _check_fraction(sparsity)
    one_of("the scope of a draw", scope, get_args(WeightScope))
    masks: list[np.ndarray] = []
    for group in [[s] for s in scores] if scope == "matrix" else [scores]:
        total = sum(s.size for s in group)
        masks += keep_best(group, total - removed_count(total, sparsity))
    return tuple(masks)


def keep_best(scores: Sequence[np.ndarray], keep: int) -> Group:
    """Masks that keep exactly the ``keep`` highest scores; of equal ones the earlier array's, then the lower index."""
    _check_finite(scores)
    total = sum(s.size for s in scores)
    if not 0 < keep < total:
        return _read_only([np.full(np.shape(s), keep > 0) for s in scores])
    work = np.concatenate([np.asarray(s, dtype=np.float32).reshape(-1) for s in scores])
    work.partition(total - keep)
    threshold = work[total - keep]  # the lowest score that is kept
    del work
    masks = [np.asarray(s, dtype=np.float32) > threshold for s in scores]
    missing = keep - sum(int(np.count_nonzero(m)) for m in masks)
    for mask, score in zip(masks, scores, strict=True):
        if missing == 0:
            break
        tied = np.flatnonzero(np.asarray(score, dtype=np.float32) == threshold)[:missing]
        mask.reshape(-1)[tied] = True
        missing -= len(tied)
    return _read_only(masks)


def _check_fraction(removed: Any) -> None:
    """A ticket's file may say anything."""
    if not (isinstance(removed, numbers.Real) and 0 <= float(removed) < 1):
        message = f"the fraction to remove must be in [0, 1), got {removed!r}"
        raise TicketsError(message, hint="0.3 removes 30 %", code="draw.fraction")


def _check_finite(scores: Sequence[np.ndarray]) -> None:
    if not all(np.isfinite(s).all() for s in scores):
        hint = "the search diverged: lower its learning rate"
        raise TicketsError("scores must be finite, got NaN or infinity", hint=hint, code="draw.scores")


def _read_only(masks: Sequence[np.ndarray]) -> Group:
    for mask in masks:
        mask.flags.writeable = False
    return tuple(masks)
