"""The training run as the unit: what an arm's runs say together.

A run is one training with all that follows it, down to one number. Its examples are not the unit: 872 of them attacked on one model say how
good that model is, not how good its method is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

import numpy as np

from robust_tickets.checks import one_of
from robust_tickets.config import Settings, setting
from robust_tickets.errors import TicketsError
from robust_tickets.stats.metrics import ERROR, FAILED, SKIPPED, STATUSES, SUCCESS, UNKNOWN
from robust_tickets.stats.resample import RESAMPLES, percent, two_level_interval
from robust_tickets.stats.student import LEVEL, Interval, mean_interval, prediction_interval

FEWEST_RUNS = 5  # with fewer the number is shown, and nothing is claimed
FEWEST_SHOWN = 3  # of two runs an interval reaches past any scale
ROUNDED = 0.051  # points between a value and the percentage of its outcomes: tables keep one decimal


@dataclass(frozen=True, kw_only=True)
class TrainedRun(Settings):
    """One training run: its value, and by example id whether the example came out right, where that is known.

    ``repeat`` numbers runs of one seed and one config, from 0. ``source`` says where the value can be looked up.
    """

    value: float
    seed: int
    repeat: int = setting(0, at_least=0)
    outcomes: Mapping[str, bool] | None = field(default=None, repr=False, hash=False)
    source: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not math.isfinite(self.value):
            raise TicketsError(f"a run's value is a finite number, got {self.value}", hint="leave out the run")
        if self.outcomes is None:
            return
        share = percent(self.outcomes)
        if abs(share - self.value) > ROUNDED:
            raise TicketsError(
                f"the run of seed {self.seed} has the value {self.value}, its outcomes say {share:.3f} %",
                hint="give the outcomes of the same measure, or the value alone",
            )
        object.__setattr__(self, "outcomes", {str(name): bool(x) for name, x in self.outcomes.items()})

    @classmethod
    def of_outcomes(cls, outcomes: Mapping[str, bool], *, seed: int, repeat: int = 0, source: str = "") -> TrainedRun:
        """A run whose value is the percentage of examples that came out true."""
        return cls(value=percent(outcomes), seed=seed, repeat=repeat, outcomes=outcomes, source=source)

    @classmethod
    def of_statuses(
        cls,
        statuses: Mapping[str, str],
        *,
        seed: int,
        repeat: int = 0,
        source: str = "",
        measure: Literal["aua", "clean", "suc"] = "aua",
    ) -> TrainedRun:
        """A run from what an attack did to each example (``{e.id: e.status for e in result.examples()}``), counted as the attack counts.

        Examples whose clean text was not answered are left out; for ``suc`` also those that were not attacked, being wrong before, and
        those whose attack did not come to its end, which count as fallen elsewhere.
        """
        one_of("measure", measure, ("aua", "clean", "suc"))
        for status in set(statuses.values()):
            one_of("a status", status, STATUSES)
        left_out = (ERROR, SKIPPED, UNKNOWN) if measure == "suc" else (ERROR,)
        counted = {name: status for name, status in statuses.items() if status not in left_out}
        true = {"aua": (FAILED,), "clean": (FAILED, SUCCESS, UNKNOWN), "suc": (SUCCESS,)}[measure]
        return cls.of_outcomes(
            {name: status in true for name, status in counted.items()}, seed=seed, repeat=repeat, source=source
        )


@dataclass(frozen=True, kw_only=True)
class RunSet:
    """The runs of one arm. Of each seed its run number 0 is a unit; further repeats serve ``spread.seed_spread`` alone.

    Otherwise a seed that happened to be repeated would weigh more than the others.
    """

    name: str
    runs: tuple[TrainedRun, ...]

    def __post_init__(self) -> None:
        places = [(run.seed, run.repeat) for run in self.runs]
        twice = sorted({place for place in places if places.count(place) > 1})
        if twice:
            seed, repeat = twice[0]
            raise TicketsError(
                f"{self.name} holds repeat {repeat} of seed {seed} twice",
                hint="number the repeats of a seed from 0; give each result once",
            )

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
        """Of the units' values, the same bits in every Python: ``sum()`` is another one since 3.12."""
        return fmean(self.values)

    @property
    def outcomes(self) -> tuple[Mapping[str, bool], ...] | None:
        """Of every unit; ``None`` where one has none."""
        found = tuple(run.outcomes for run in self.units if run.outcomes is not None)
        return found if found and len(found) == len(self.units) else None


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """What an arm's runs say together. Intervals are ``None`` where they cannot be had: ``student`` and ``resample`` say when."""

    name: str
    n: int
    mean: float
    deviation: float | None
    interval: Interval | None  # of the mean, on these examples
    prediction: Interval | None  # of the mean of ``further`` more runs, on these examples
    over_examples: Interval | None  # of the mean, on further examples too
    level: float
    further: int = 1

    @property
    def enough(self) -> bool:
        """Whether anything may be claimed from these runs."""
        return self.n >= FEWEST_RUNS

    @property
    def shown(self) -> Interval | None:
        """The interval of the mean where it tells a reader something."""
        return self.interval if self.n >= FEWEST_SHOWN else None

    def published_inside(self, value: float) -> bool | None:
        """Whether a published number, the mean of ``further`` runs of others, lies where ours would; ``None``: the runs cannot say."""
        if self.prediction is None or not self.enough:
            return None
        low, high = self.prediction
        return low <= value <= high


def summarise_runs(
    arm: RunSet, *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0, further: int = 1
) -> RunSummary:
    """Mean, spread and intervals over an arm's runs; see ``student`` and ``resample`` for what each interval assumes.

    ``resamples=0`` leaves out the bootstrap over examples. ``further``: runs of which the number to be held against these is the mean.
    """
    values = unit_values(arm)
    bootstrap = (
        two_level_interval(arm.outcomes, level=level, resamples=resamples, seed=seed)
        if resamples and arm.outcomes
        else None
    )
    return RunSummary(
        name=arm.name,
        n=values.size,
        mean=float(values.mean()),
        deviation=float(values.std(ddof=1)) if values.size > 1 else None,
        interval=mean_interval(values, level),
        prediction=prediction_interval(values, level, further),
        over_examples=bootstrap,
        level=level,
        further=further,
    )


def unit_values(arm: RunSet) -> np.ndarray:
    """The values of an arm's units; at least one."""
    if not arm.units:
        raise TicketsError(f"{arm.name} has no run that is a unit", hint="give at least one run with repeat=0")
    return np.array(arm.values)
