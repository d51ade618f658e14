"""Intervals and tests over training runs (Student, Welch, equivalence) and examples (Wilson, Newcombe, McNemar).

A run's value is one number, in the unit of its measure; differences and margins are in the same unit. ``wilson`` and
``paired_interval`` return fractions. Ends of an interval over runs are not cut at 0 or 100. What would need two runs
that differ is ``None`` where there is one, or where all are equal: then nothing shows how noisy a run is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from robust_tickets.errors import TicketsError

Interval = tuple[float, float]
Values = Sequence[float] | np.ndarray
Answers = Sequence[bool] | np.ndarray  # of one arm: whether each example came out right
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Welch:
    """The difference of two means over runs, ``a`` minus ``b``, its standard error and Welch's degrees of freedom."""

    difference: float
    error: float  # 0 where neither arm varies
    degrees: float

    def interval(self, level: float = LEVEL) -> Interval | None:
        if self.error == 0:
            return None
        half = quantile(self.degrees, level) * self.error
        return self.difference - half, self.difference + half

    @property
    def p(self) -> float | None:
        """Two-sided p that the means are equal."""
        return None if self.error == 0 else min(1.0, 2 * _below(self.degrees, -abs(self.difference) / self.error))

    def equivalence_p(self, margin: float) -> float | None:
        """p that the means lie ``margin`` or more apart: the larger of two one-sided tests.

        Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15, 657-680. Below 5 % exactly where the 90
        % interval of the difference lies inside the margin.
        """
        return None if self.error == 0 else _below(self.degrees, (abs(self.difference) - margin) / self.error)


def mean_interval(values: Values, level: float = LEVEL) -> Interval | None:
    """Interval of the mean over further runs on these examples; ``two_level_interval``: on further examples too.

    Assumes runs that are independent and about normal around their mean.
    """
    found = as_values(values)
    return _around(found, level, math.sqrt(1 / found.size))


def prediction_interval(values: Values, level: float = LEVEL, further: int = 1) -> Interval | None:
    """Where the mean of ``further`` more runs would fall, such as a published number.

    Same assumptions as ``mean_interval``; for one run it depends more on the normal shape.
    """
    found = as_values(values)
    return _around(found, level, math.sqrt(1 / further + 1 / found.size))


def _around(values: np.ndarray, level: float, share: float) -> Interval | None:
    """Student's interval around a mean; ``share``: standard errors in one deviation. ``None`` where runs do not differ."""
    deviation, mean = _deviation(values), float(values.mean())
    if deviation == 0:
        return None
    half = quantile(values.size - 1, level) * deviation * share
    return mean - half, mean + half


def deviation_interval(deviation: float, degrees: int, level: float = LEVEL) -> Interval:
    """Interval of a standard deviation with these degrees of freedom (chi-square; assumes normal values)."""
    from scipy.special import chdtri

    low, high = (
        deviation * math.sqrt(degrees / float(chdtri(degrees, tail))) for tail in ((1 - level) / 2, (1 + level) / 2)
    )
    return low, high


def welch(a: Values, b: Values) -> Welch | None:
    """Two arms of runs, whose spreads may differ; ``None`` where an arm has one run.

    Assumes independent runs, about normal in each arm. Equal seeds are no pairs: another method draws other numbers
    from the same seed. Satterthwaite's degrees of freedom.
    """
    first, second = as_values(a), as_values(b)
    return _satterthwaite(first, second, (0.0, 0.0)) if min(first.size, second.size) > 1 else None


def predicted_difference(
    a: Values, b: Values, level: float = LEVEL, further: tuple[int, int] = (1, 1)
) -> Interval | None:
    """Where the mean of further runs of ``a`` minus that of ``b`` would fall: for two numbers of a paper.

    As ``welch``, but each arm's variance counts 1/n + 1/k times, in the degrees of freedom too.
    """
    first, second = as_values(a), as_values(b)
    if min(first.size, second.size) < 2:
        return None
    return _satterthwaite(first, second, (1 / further[0], 1 / further[1])).interval(level)


def _satterthwaite(first: np.ndarray, second: np.ndarray, more: tuple[float, float]) -> Welch:
    """``more``: what each arm's variance counts beside 1/n."""
    parts = [
        _deviation(x) ** 2 / x.size + _deviation(x) ** 2 * own for x, own in zip((first, second), more, strict=True)
    ]
    total, difference = math.fsum(parts), float(first.mean() - second.mean())
    if total == 0:
        return Welch(difference=difference, error=0.0, degrees=float(first.size + second.size - 2))
    shares = [part / total for part in parts]  # before they are squared: tiny variances must not vanish
    degrees = 1 / math.fsum(share**2 / (x.size - 1) for share, x in zip(shares, (first, second), strict=True))
    return Welch(difference=difference, error=math.sqrt(total), degrees=degrees)


def quantile(degrees: float, level: float) -> float:
    """How many standard errors an interval of this level reaches to each side."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + level) / 2))


def as_values(values: Values) -> np.ndarray:
    """One finite number per run, as an array; at least one."""
    found = np.asarray(values, dtype=np.float64).reshape(-1)
    if found.size == 0:
        raise TicketsError(
            "an arm without a run", hint="give at least one run, or leave out the arm", code="stats.empty"
        )
    if not np.isfinite(found).all():
        message = f"a run's value is a finite number, got {found.tolist()}"
        raise TicketsError(message, hint="leave out runs without a value", code="stats.value")
    return found


def check_level(level: float) -> None:
    if not 0 < level < 1:
        message = f"the level of an interval lies between 0 and 1, got {level}"
        raise TicketsError(message, hint="0.95 is usual", code="stats.level")


def check_margin(margin: float) -> None:
    if not 0 < margin < math.inf:
        message = f"the margin of an equivalence must be above 0, got {margin}"
        raise TicketsError(message, hint="5 points of accuracy under attack is usual", code="stats.margin")


def _deviation(values: np.ndarray) -> float:
    """Standard deviation with n - 1; exactly 0 for one value or equal ones, whose mean may be off in the last digit."""
    return float(values.std(ddof=1)) if np.ptp(values) > 0 else 0.0


def _below(degrees: float, t: float) -> float:
    from scipy.special import stdtr

    return float(stdtr(degrees, t))


def wilson(successes: int, n: int, level: float = LEVEL) -> Interval:
    """Wilson's score interval for a proportion; has width at 0 and at ``n`` too."""
    if n == 0:
        return 0.0, 1.0  # nothing was seen, so nothing is known
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, shrink = successes / n, 1 + z * z / n
    middle = (share + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return low, high


def mcnemar_exact(a: Answers, b: Answers) -> float:
    """Two-sided exact McNemar test: p that ``a`` and ``b`` are right equally often; 1 when they never differ."""
    first, second = _paired(a, b)
    only_a, only_b = int((first & ~second).sum()), int((~first & second).sum())
    if only_a + only_b == 0:
        return 1.0
    from scipy.stats import binomtest

    return min(1.0, float(binomtest(only_a, only_a + only_b, 0.5).pvalue))


def paired_interval(a: Answers, b: Answers, level: float = LEVEL) -> Interval:
    """Interval of the difference of two paired proportions, ``a`` minus ``b``: Newcombe's square-and-add of Wilson's.

    Method 10 of Newcombe (1998), Statistics in Medicine 17, 2635-2650. Unlike a bootstrap it has width where two arms
    never differ.
    """
    first, second = _paired(a, b)
    n = int(first.size)
    if n == 0:
        return -1.0, 1.0
    both, neither = int((first & second).sum()), int((~first & ~second).sum())
    only_a, only_b = int((first & ~second).sum()), int((~first & second).sum())
    (low_a, high_a), (low_b, high_b) = wilson(both + only_a, n, level), wilson(both + only_b, n, level)
    share_a, share_b = (both + only_a) / n, (both + only_b) / n
    # the correlation of the two, shrunk by a continuity correction where it is positive
    spread = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    together = both * neither - only_a * only_b
    shared = max(together - n / 2, 0.0) if together > 0 else float(together)
    phi = shared / math.sqrt(spread) if spread else 0.0
    below, above = (share_a - low_a, high_b - share_b), (high_a - share_a, share_b - low_b)
    down, up = (math.sqrt(max(0.0, x * x - 2 * phi * x * y + y * y)) for x, y in (below, above))
    difference = (only_a - only_b) / n
    return max(-1.0, difference - down), min(1.0, difference + up)


def _paired(a: Answers, b: Answers) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(a, dtype=bool).reshape(-1), np.asarray(b, dtype=bool).reshape(-1)
    check_paired(first, second)
    return first, second


def check_paired(first: np.ndarray, second: np.ndarray) -> None:
    if first.shape != second.shape:
        message = f"paired results need the same examples, got {first.size} and {second.size}"
        raise TicketsError(message, hint="join them by id first", code="stats.unpaired")
