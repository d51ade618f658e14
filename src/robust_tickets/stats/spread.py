"""Repeats of one seed beside the seeds: whether fixing the seed fixes the result. On a GPU it need not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robust_tickets.stats.runs import RunSet, unit_values
from robust_tickets.stats.student import LEVEL, Interval, deviation_interval


@dataclass(frozen=True, kw_only=True)
class SeedSpread:
    """Standard deviations, each with its interval: between seeds, and between repeats of one seed (pooled over the repeated seeds).

    ``share``: how much of the variance between seeds the repeats alone would make, at most 1. Near 1, the seed fixes nothing that matters,
    and repeats are as good as seeds. Ranges are largest minus smallest; that of repeats, the largest among the seeds.
    """

    name: str
    seeds: int
    between: float | None
    between_interval: Interval | None
    between_range: float | None
    repeated: int  # runs of seeds that were run more than once
    degrees: int  # of freedom of ``within``: those runs, less one for each such seed
    within: float | None
    within_interval: Interval | None
    within_range: float | None
    share: float | None


def seed_spread(arm: RunSet, *, level: float = LEVEL) -> SeedSpread:
    """The spread between repeats of one seed beside that between seeds.

    Assumes that repeats of every seed spread alike, and normal values for the intervals, which are wide: with three repeats the upper end
    is six times the estimate. ``None`` where nothing was repeated; no interval where runs do not differ at all.
    """
    values = unit_values(arm)
    by_seed: dict[int, list[float]] = {}
    for run in arm.runs:
        by_seed.setdefault(run.seed, []).append(run.value)
    groups = [np.array(found) for found in by_seed.values() if len(found) > 1]
    between = float(values.std(ddof=1)) if values.size > 1 else None
    degrees = sum(group.size - 1 for group in groups)
    within = (
        math.sqrt(math.fsum(float(((group - group.mean()) ** 2).sum()) for group in groups) / degrees)
        if degrees
        else None
    )
    return SeedSpread(
        name=arm.name,
        seeds=values.size,
        between=between,
        between_interval=_known(between, values.size - 1, level),
        between_range=None if between is None else float(np.ptp(values)),
        repeated=sum(group.size for group in groups),
        degrees=degrees,
        within=within,
        within_interval=_known(within, degrees, level),
        within_range=max((float(np.ptp(group)) for group in groups), default=None),
        share=min(1.0, (within / between) ** 2) if within is not None and between else None,
    )


def _known(deviation: float | None, degrees: int, level: float) -> Interval | None:
    """Runs that agree to the last digit say nothing of how far others would lie apart: an interval from 0 to 0 would."""
    return deviation_interval(deviation, degrees, level) if deviation else None
