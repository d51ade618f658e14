"""Scores to masks: exact top-k, documented ties, floors. numpy only.

``draw`` keeps exactly ``N - floor(removed * N)`` units. Equal scores are settled by position: the earlier layer, then the lower index,
is kept. That is stable across machines, which a threshold on floats is not: coefficients travel about 1 % in a search and tie often.
Every layer keeps at least ``floor`` units: the best of each layer are reserved first, the rest of the budget goes to the best of the
others, so the total stays exact (EarlyRobust's repair, without its re-computed threshold).

``rounded`` brings the number that each layer keeps to a multiple that matrix kernels like, for neurons: a head is such a unit already.

``draw_weights`` does the same for single weights, without a floor. It partitions one float32 copy of the scores instead of sorting them:
85 million take 0.5 GB and a few seconds.
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


def _fraction(value: Any) -> bool:
    """Also of a ticket's file, which may say anything."""
    return isinstance(value, numbers.Real) and 0 <= float(value) < 1


def draw(
    scores: Sequence[np.ndarray], removed: float, *, scope: Scope = "global", floor: int = 1, rule: Rule = "exact"
) -> Group:
    """Boolean masks (True = kept), one per layer, that remove the fraction ``removed`` of the units with the lowest scores."""
    if not _fraction(removed):
        raise TicketsError(
            f"the fraction to remove must be in [0, 1), got {removed!r}", hint="0.3 removes 30 %", code="draw.fraction"
        )
    one_of("the scope of a draw", scope, get_args(Scope))
    one_of("the rule of a draw", rule, get_args(Rule))
    layers = [np.asarray(s, dtype=np.float64).reshape(-1) for s in scores]
    if any(not np.isfinite(s).all() for s in layers):
        raise TicketsError(
            "scores must be finite, got NaN or infinity",
            hint="the search diverged: lower its learning rate",
            code="draw.scores",
        )
    if any(len(s) < floor for s in layers):
        raise TicketsError(f"a layer has fewer than {floor} units to keep", hint="lower the floor", code="draw.floor")
    groups = [[i] for i in range(len(layers))] if scope == "layer" else [list(range(len(layers)))]
    choose = _exact if rule == "exact" else _quantile
    masks: list[np.ndarray] = [np.empty(0)] * len(layers)
    for group in groups:
        for layer, mask in zip(group, choose([layers[i] for i in group], removed, floor), strict=True):
            mask.flags.writeable = False
            masks[layer] = mask
    return tuple(masks)


def _exact(layers: list[np.ndarray], removed: float, floor: int) -> list[np.ndarray]:
    total = sum(map(len, layers))
    keep = total - removed_count(total, removed)
    if keep < floor * len(layers):
        raise TicketsError(
            f"removing {removed:.4g} of {total} units leaves {keep}, fewer than {floor} in each of {len(layers)} layers",
            hint="remove less",
            code="draw.floor",
        )
    masks = [np.zeros(len(s), dtype=bool) for s in layers]
    for mask, score in zip(masks, layers, strict=True):
        mask[np.argsort(-score, kind="stable")[:floor]] = True
    flat = np.concatenate(masks)
    order = np.argsort(-np.concatenate(layers), kind="stable")
    rest = order[~flat[order]]
    flat[rest[: keep - int(flat.sum())]] = True
    return [part.copy() for part in np.split(flat, np.cumsum([len(s) for s in layers])[:-1])]


def _quantile(layers: list[np.ndarray], removed: float, floor: int) -> list[np.ndarray]:
    """The released rule: strictly above numpy's interpolated quantile, with repair; over-prunes under ties."""
    work = [s.copy() for s in layers]
    while True:
        with np.errstate(
            invalid="ignore"
        ):  # between two reserved units (inf) the threshold is NaN, which the next line refuses
            threshold = np.quantile(np.concatenate(work), removed, method="linear")
        if not np.isfinite(threshold):
            raise TicketsError(
                f"removing {removed:.4g} cannot leave {floor} units in every layer",
                hint="remove less, or rule='exact'",
                code="draw.floor",
            )
        masks = [s > threshold for s in work]
        empty = [i for i, mask in enumerate(masks) if mask.sum() < floor]
        if not empty:
            return masks
        for i in empty:
            best = np.where(np.isinf(work[i]), -np.inf, work[i])
            work[i][int(np.argmax(best))] = np.inf


def rounded(
    masks: Sequence[np.ndarray], scores: Sequence[np.ndarray], multiple: int, *, scope: Scope = "global"
) -> Group:
    """``masks`` with a multiple of ``multiple`` units kept in every layer, or all of its units; never none.

    Each layer goes to the multiple below or above. In the global scope the layers with the largest remainders go up, as many of them as
    bring the total closest to what it was; in the layer scope every layer goes to its nearest. Of two that are as near, the smaller. The
    units added are the best of those that were out, the units dropped the worst of those that were in.
    """
    one_of("the multiple that units are rounded to", multiple, get_args(Multiple))
    multiple = int(multiple)
    counts, sizes = [int(np.count_nonzero(m)) for m in masks], [len(m) for m in masks]
    groups = [[i] for i in range(len(masks))] if scope == "layer" else [list(range(len(masks)))]
    kept = list(counts)
    for group in groups if multiple > 1 else ():
        for i, count in zip(
            group, _round([counts[i] for i in group], [sizes[i] for i in group], multiple), strict=True
        ):
            kept[i] = count
    made = []
    for mask, score, count in zip(masks, scores, kept, strict=True):
        new = np.zeros(len(mask), dtype=bool)
        new[np.lexsort((-np.asarray(score, dtype=np.float64), ~mask))[:count]] = (
            True  # those in first, each by falling score
        )
        new.flags.writeable = False
        made.append(new)
    return tuple(made)


def _round(counts: list[int], sizes: list[int], multiple: int) -> list[int]:
    low = [count if count == size else count // multiple * multiple for count, size in zip(counts, sizes, strict=True)]
    high = [min(size, -(-count // multiple) * multiple) for count, size in zip(counts, sizes, strict=True)]
    low = [down or up for down, up in zip(low, high, strict=True)]  # no layer is left without units
    between = [i for i in range(len(counts)) if low[i] < high[i]]
    between.sort(
        key=lambda i: (low[i] - counts[i]) / (high[i] - low[i])
    )  # the largest remainder first; stable: then the earlier layer
    best, off = low, abs(sum(low) - sum(counts))
    for i in between:
        low = [*low[:i], high[i], *low[i + 1 :]]
        if abs(sum(low) - sum(counts)) < off:
            best, off = low, abs(sum(low) - sum(counts))
    return best


def draw_weights(scores: Sequence[np.ndarray], sparsity: float, *, scope: WeightScope = "global") -> Group:
    """Boolean masks in the shapes of ``scores`` that remove the fraction ``sparsity`` of the weights with the lowest ones."""
    if not _fraction(sparsity):
        raise TicketsError(
            f"the sparsity must be in [0, 1), got {sparsity!r}", hint="0.3 removes 30 %", code="draw.fraction"
        )
    one_of("the scope of a draw", scope, get_args(WeightScope))
    groups = [[s] for s in scores] if scope == "matrix" else [scores]
    sizes = [sum(s.size for s in group) for group in groups]
    return tuple(
        mask
        for group, total in zip(groups, sizes, strict=True)
        for mask in keep_best(group, total - removed_count(total, sparsity))
    )


def keep_best(scores: Sequence[np.ndarray], keep: int) -> Group:
    """Masks that keep exactly the ``keep`` highest of all scores together; of equal ones the earlier array's, then the lower index."""
    if any(not np.isfinite(s).all() for s in scores):
        raise TicketsError(
            "scores must be finite, got NaN or infinity",
            hint="the search diverged: lower its learning rate",
            code="draw.scores",
        )
    total = sum(s.size for s in scores)
    if not 0 < keep < total:
        masks = tuple(np.full(np.shape(s), keep > 0) for s in scores)
    else:
        work = np.concatenate([np.asarray(s, dtype=np.float32).reshape(-1) for s in scores])
        work.partition(total - keep)
        threshold = work[total - keep]  # the lowest score that is kept
        del work
        masks = tuple(np.asarray(s, dtype=np.float32) > threshold for s in scores)
        missing = keep - sum(int(np.count_nonzero(m)) for m in masks)
        for mask, score in zip(masks, scores, strict=True):
            if missing == 0:
                break
            tied = np.flatnonzero(np.asarray(score, dtype=np.float32) == threshold)[:missing]
            mask.reshape(-1)[tied] = True
            missing -= len(tied)
    for mask in masks:
        mask.flags.writeable = False
    return masks
