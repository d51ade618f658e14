"""Training runs as the unit: an arm's summary, the comparison of two arms, families of claims, seeds against repeats.

A run is one training with all that follows it, down to one number. Many examples attacked on one model say how good
that model is, not how good its method is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

import numpy as np

from robust_tickets.config import one_of
from robust_tickets.errors import TicketsError
from robust_tickets.stats.classification import ERROR, FAILED, SKIPPED, STATUSES, SUCCESS, UNKNOWN
from robust_tickets.stats.intervals import (
    LEVEL,
    Interval,
    as_values,
    check_level,
    check_margin,
    deviation_interval,
    mean_interval,
    prediction_interval,
    welch,
)
from robust_tickets.stats.resampling import RESAMPLES, percent, permutation_p, two_level_difference, two_level_interval

FEWEST_RUNS = 5  # with fewer the number is shown, and nothing is claimed
FEWEST_SHOWN = 3  # of two runs an interval reaches past any scale
ROUNDED = 0.051  # points between a value and the percentage of its outcomes: tables keep one decimal
MARGIN = 5.0  # points of accuracy under attack
Measure = Literal["aua", "clean", "suc"]
Verdict = Literal["different", "equivalent", "undecided", "too few runs"]
COUNTED: dict[Measure, tuple[tuple[str, ...], tuple[str, ...]]] = {  # statuses left out, and those that count as true
    "aua": ((ERROR,), (FAILED,)),
    "clean": ((ERROR,), (FAILED, SUCCESS, UNKNOWN)),
    "suc": ((ERROR, SKIPPED, UNKNOWN), (SUCCESS,)),
}


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """One training run: its value, and by example id whether the example came out right, where that is known.

    ``repeat`` numbers runs of one seed and one config, from 0. ``source`` says where the value can be looked up.
    """

    value: float
    seed: int
    repeat: int = 0
    outcomes: Mapping[str, bool] | None = field(default=None, repr=False, hash=False)
    source: str = ""

    def __post_init__(self) -> None:
        as_values([self.value])
        if self.outcomes is None:
            return
        share = percent(self.outcomes)
        if abs(share - self.value) > ROUNDED:
            message = f"the run of seed {self.seed} has the value {self.value}, its outcomes give {share:.3f} %"
            hint = "give the outcomes of the same measure, or the value alone"
            raise TicketsError(message, hint=hint, code="stats.outcomes")

    @classmethod
    def of_outcomes(cls, outcomes: Mapping[str, bool], *, seed: int, repeat: int = 0, source: str = "") -> TrainedRun:
        """A run whose value is the percentage of examples that came out true."""
        return cls(value=percent(outcomes), seed=seed, repeat=repeat, outcomes=outcomes, source=source)

    @classmethod
    def of_statuses(
        cls, statuses: Mapping[str, str], *, seed: int, repeat: int = 0, source: str = "", measure: Measure = "aua"
    ) -> TrainedRun:
        """A run from ``{e.id: e.status for e in result.examples()}``, counted as the attack counts.

        Examples whose clean text was not answered are left out; for ``suc`` also those that were wrong before the
        attack, and those whose attack did not end, which otherwise count as turned.
        """
        one_of("measure", measure, COUNTED)
        for status in set(statuses.values()):
            one_of("a status", status, STATUSES)
        left_out, true = COUNTED[measure]
        outcomes = {name: status in true for name, status in statuses.items() if status not in left_out}
        return cls.of_outcomes(outcomes, seed=seed, repeat=repeat, source=source)


@dataclass(frozen=True, kw_only=True)
class RunSet:
    """The runs of one arm; repeat 0 of each seed is a unit, the others serve ``seed_spread`` alone."""

    name: str
    runs: tuple[TrainedRun, ...]

    def __post_init__(self) -> None:
        found = [(run.seed, run.repeat) for run in self.runs]
        for seed, repeat in sorted({one for one in found if found.count(one) > 1}):
            message = f"{self.name} holds repeat {repeat} of seed {seed} twice"
            raise TicketsError(message, hint="number the repeats of a seed from 0", code="stats.repeated_run")

    @classmethod
    def of_values(cls, name: str, values: Sequence[float]) -> RunSet:
        """An arm of which only the numbers are known, one per run, each of another seed."""
        return cls(name=name, runs=tuple(TrainedRun(value=float(value), seed=i) for i, value in enumerate(values)))

    @property
    def units(self) -> tuple[TrainedRun, ...]:
        return tuple(run for run in self.runs if run.repeat == 0)

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(run.value for run in self.units)

    @property
    def mean(self) -> float:
        """Of the units' values, with the same bits in every Python (``sum()`` changed in 3.12)."""
        return fmean(self.values)

    @property
    def outcomes(self) -> tuple[Mapping[str, bool], ...] | None:
        """Of every unit; ``None`` where one has none."""
        found = tuple(run.outcomes for run in self.units if run.outcomes is not None)
        return found if found and len(found) == len(self.units) else None


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """Mean, deviation and intervals of an arm's runs. Intervals are ``None`` where they are not defined."""

    name: str
    n: int
    mean: float
    deviation: float | None
    interval: Interval | None  # of the mean, on these examples
    prediction: Interval | None  # of the mean of ``further`` more runs, on these examples
    over_examples: Interval | None  # of the mean, on further examples too
    further: int

    @property
    def enough(self) -> bool:
        """Whether anything may be claimed from these runs."""
        return self.n >= FEWEST_RUNS

    @property
    def shown(self) -> Interval | None:
        """The interval of the mean, from three runs on."""
        return self.interval if self.n >= FEWEST_SHOWN else None

    def published_inside(self, value: float) -> bool | None:
        """Whether a published mean of ``further`` runs lies where ours would; ``None``: too few runs."""
        inside = self.prediction is not None and self.prediction[0] <= value <= self.prediction[1]
        return inside if self.prediction is not None and self.enough else None


def summarise_runs(
    arm: RunSet, *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0, further: int = 1
) -> RunSummary:
    """Mean, spread and intervals over an arm's runs.

    ``resamples=0`` leaves out the bootstrap over examples. ``further``: of how many runs the number to compare with is
    the mean.
    """
    check_level(level)
    values, bootstrap = as_values(arm.values), None
    if resamples and arm.outcomes:
        bootstrap = two_level_interval(arm.outcomes, level=level, resamples=resamples, seed=seed)
    return RunSummary(
        name=arm.name,
        n=values.size,
        mean=float(values.mean()),
        deviation=_deviation(values),
        interval=mean_interval(values, level),
        prediction=prediction_interval(values, level, further),
        over_examples=bootstrap,
        further=further,
    )


def _deviation(values: np.ndarray) -> float | None:
    return float(values.std(ddof=1)) if values.size > 1 else None


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """``arm`` minus ``other``, in the unit of the values.

    The adjusted p values count the ``of`` claims of its family, alone one; they are ``None`` where it makes no claim.
    """

    arm: str
    other: str
    n: tuple[int, int]  # runs of each
    difference: float
    interval: Interval | None  # Welch's; on these examples, not adjusted
    over_examples: Interval | None  # two-level bootstrap; on further examples too
    p: float | None  # that there is no difference
    permutation_p: float
    equivalence_p: float | None  # that the difference is ``margin`` or more
    margin: float
    level: float
    adjusted_p: float | None = None
    adjusted_equivalence_p: float | None = None
    of: int = 0

    @property
    def enough(self) -> bool:
        return min(self.n) >= FEWEST_RUNS

    @property
    def shown(self) -> Interval | None:
        """Welch's interval, from three runs on; of two it may be short by chance, or reach past any scale."""
        return self.interval if min(self.n) >= FEWEST_SHOWN else None

    @property
    def shown_over_examples(self) -> Interval | None:
        """The bootstrap's interval, from three runs on."""
        return self.over_examples if min(self.n) >= FEWEST_SHOWN else None

    @property
    def equivalent(self) -> bool:
        """Whether the difference was shown to lie within the margin; a small one may be different too."""
        return self.enough and self.adjusted_equivalence_p is not None and self.adjusted_equivalence_p < 1 - self.level

    @property
    def different(self) -> bool:
        return self.enough and self.adjusted_p is not None and self.adjusted_p < 1 - self.level

    @property
    def verdict(self) -> Verdict:
        if not self.enough:
            return "too few runs"
        return "different" if self.different else "equivalent" if self.equivalent else "undecided"


def compare_runs(
    arm: RunSet | Sequence[float],
    other: RunSet | Sequence[float],
    *,
    margin: float = MARGIN,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> RunComparison:
    """Compare two arms over their training runs: given as run sets, or as one number per run.

    Runs are independent and not paired, whatever their seeds; ``mcnemar_exact`` is for two given models. With fewer
    than five runs in an arm the verdict is "too few runs". ``seed`` is of the resampling; ``resamples=0`` leaves out
    the bootstrap over examples, which needs the outcomes of all runs. For one claim among several see ``judge_family``.
    """
    check_margin(margin)
    check_level(level)
    first, second = (
        x if isinstance(x, RunSet) else RunSet.of_values(name, x) for x, name in ((arm, "arm"), (other, "other"))
    )
    a, b = as_values(first.values), as_values(second.values)
    found, permuted = welch(a, b), permutation_p(a, b, seed=seed)
    p, same, bootstrap = None, None, None
    if found is not None and found.error == 0:
        above = permutation_p(a + margin, b, side="greater", seed=seed)
        p, same = permuted, max(above, permutation_p(a - margin, b, side="less", seed=seed))
    elif found is not None:
        p, same = found.p, found.equivalence_p(margin)
    if resamples and first.outcomes and second.outcomes:
        bootstrap = two_level_difference(first.outcomes, second.outcomes, level=level, resamples=resamples, seed=seed)
    alone = RunComparison(
        arm=first.name,
        other=second.name,
        n=(a.size, b.size),
        difference=float(a.mean() - b.mean()),
        interval=None if found is None else found.interval(level),
        over_examples=bootstrap,
        p=p,
        permutation_p=permuted,
        equivalence_p=same,
        margin=margin,
        level=level,
    )
    return judge_family([alone])[0]


def judge_family(comparisons: Sequence[RunComparison], of: int | None = None) -> tuple[RunComparison, ...]:
    """The same comparisons as one family: p values adjusted by Holm, over those that have the runs for a claim.

    ``of``: how many claims the family will have in the end, where some are still to be run; verdicts given now then
    hold.

    Assumes nothing about how the claims depend on each other. Differences and equivalences are adjusted separately, so
    that at level 95 % a family holds a false "different" in at most 5 of 100 cases, and a false "equivalent" in at most
    5. Which comparisons form a family is fixed beforehand, such as all claims of a table on one task. Those with too
    few runs have no adjusted values.
    """
    levels = {comparison.level for comparison in comparisons}
    if len(levels) > 1:
        message = f"a family of claims has one level, got {sorted(levels)}"
        raise TicketsError(message, hint="compare all of them at the same level", code="stats.levels")
    claims = [comparison for comparison in comparisons if comparison.enough]
    count = max(of or 0, len(claims))
    # five runs an arm always have both p values
    different = iter(holm([claim.p or 0.0 for claim in claims], count))
    equivalent = iter(holm([claim.equivalence_p or 0.0 for claim in claims], count))
    return tuple(
        replace(
            comparison,
            adjusted_p=next(different) if comparison.enough else None,
            adjusted_equivalence_p=next(equivalent) if comparison.enough else None,
            of=count,
        )
        for comparison in comparisons
    )


def holm(values: Sequence[float], of: int | None = None) -> list[float]:
    """p values adjusted for their number (Holm's step-down), in the given order; ``of``: with those to come."""
    adjusted, running = [0.0] * len(values), 0.0
    count = len(values) if of is None else of
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        running = max(running, min(1.0, values[i] * (count - rank)))
        adjusted[i] = running
    return adjusted


@dataclass(frozen=True, kw_only=True)
class SeedSpread:
    """Standard deviations between seeds, and between repeats of one seed (pooled), that with its interval.

    Ranges are largest minus smallest; that of repeats, the largest among the seeds.
    """

    name: str
    seeds: int
    between: float | None
    between_range: float | None
    repeated: int  # runs of seeds that were run more than once
    within: float | None
    within_interval: Interval | None
    within_range: float | None


def seed_spread(arm: RunSet, *, level: float = LEVEL) -> SeedSpread:
    """The spread between repeats of one seed beside that between seeds.

    Assumes that repeats of every seed spread alike, and normal values for the interval. ``None`` where nothing was
    repeated; no interval where repeats agree, for how far others would lie apart is not known.
    """
    values = as_values(arm.values)
    by_seed: dict[int, list[float]] = {}
    for run in arm.runs:
        by_seed.setdefault(run.seed, []).append(run.value)
    groups = [np.array(found) for found in by_seed.values() if len(found) > 1]
    degrees = sum(group.size - 1 for group in groups)
    squares = math.fsum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    within = math.sqrt(squares / degrees) if degrees else None
    return SeedSpread(
        name=arm.name,
        seeds=values.size,
        between=_deviation(values),
        between_range=float(np.ptp(values)) if values.size > 1 else None,
        repeated=sum(group.size for group in groups),
        within=within,
        within_interval=deviation_interval(within, degrees, level) if within else None,
        within_range=max((float(np.ptp(group)) for group in groups), default=None),
    )
