"""Series: the runs behind a line of a figure, point by point. The training run is the unit; repeats of a seed are left out."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from robust_tickets.report import format as numbers
from robust_tickets.reproduce.aggregate import Reading
from robust_tickets.stats.compare_runs import FEWEST_RUNS
from robust_tickets.stats.intervals import Interval, mean_interval


@dataclass(frozen=True, kw_only=True)
class Point:
    """What runs of one arm gave: ``x`` is ``None`` where it does not depend on what is swept (the full model)."""

    x: float | None
    values: tuple[float, ...]
    sources: tuple[str, ...]

    @classmethod
    def of_reading(cls, x: float | None, reading: Reading) -> Point | None:
        """``None`` where no run has a value."""
        return cls(x=x, values=reading.runs.values, sources=reading.units) if reading.runs.values else None

    @property
    def mean(self) -> float:
        return fmean(self.values)  # the same bits in every Python: sum() is another one since 3.12

    @property
    def interval(self) -> Interval | None:
        """95 % of the mean over runs; ``None`` with fewer than five, of which nothing is claimed."""
        return mean_interval(self.values) if len(self.values) >= FEWEST_RUNS else None

    @property
    def said(self) -> str:
        runs = "1 run" if len(self.values) == 1 else f"{len(self.values)} runs"
        return f"{self.mean:.1f} ({runs}{f', {numbers.span(self.interval)}' if self.interval else ''})"


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line: ``index`` gives its colour, marker and dash, the same in every panel of a figure."""

    name: str
    index: int
    points: tuple[Point, ...]

    @property
    def level(self) -> Point | None:
        """The one point of a line that is level all the way."""
        return next((point for point in self.points if point.x is None), None)

    @property
    def swept(self) -> tuple[Point, ...]:
        return tuple(sorted((point for point in self.points if point.x is not None), key=lambda point: point.x or 0.0))
