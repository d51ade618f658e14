"""Bootstrap over runs and examples at once, permutation test over runs, bootstrap over paired examples; all seeded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from statistics import NormalDist
from typing import Literal

import numpy as np

from robust_tickets.errors import TicketsError
from robust_tickets.seeds import numpy_generator
from robust_tickets.stats.intervals import LEVEL, Interval, Values, as_values, check_paired, quantile, welch

Outcomes = Mapping[str, bool]  # of one run, by example id
Side = Literal["two-sided", "greater", "less"]
RESAMPLES = 10_000
EXAMPLE_RESAMPLES = 2000  # the ends of a 95 % interval then move by about 2 % of its width from seed to seed
SPLITS = 200_000  # all are tried up to here (10 runs against 10); beyond, this many are drawn
CELLS = 1_000_000  # held at a time, 8 bytes each
FEWEST_EXAMPLES = 20  # of a run; fewer may all be missing from a resample


def two_level_interval(
    runs: Sequence[Outcomes], *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> Interval | None:
    """Interval, in percent, of an arm's mean for further runs on further examples; ``None`` for one run.

    Runs are drawn with replacement, and so are examples: one draw of examples for all runs, since runs share what makes
    an example hard. Runs may hold different examples; each counts its own. Percentile interval, not cut at 0 or 100.
    What the draw of runs moves is stretched so that it alone would reach as far as Student's t for this number of runs;
    unstretched, five runs cover about 84 % (Hesterberg 2015, The American Statistician 69, 371-386). Assumes
    independent runs and independent examples. Errs to the wide side: what one run does on one example is drawn at both
    levels (Owen 2007, Annals of Applied Statistics 1, 386-411).
    """
    if len(runs) < 2:
        return None
    means, generator = _resampled(runs, resamples, seed)
    return _percentiles(_arm_means(means, generator, quantile(len(runs) - 1, level), level), level)


def two_level_difference(
    a: Sequence[Outcomes], b: Sequence[Outcomes], *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> Interval | None:
    """Interval, in points, of ``a`` minus ``b`` for further runs on further examples; ``None`` where one has one run.

    As ``two_level_interval``: the arms' runs are drawn separately (equal seeds are no pairs), the examples together, so
    that what is hard for both cancels. The stretch follows Welch's degrees of freedom.
    """
    found = welch([percent(run) for run in a], [percent(run) for run in b])
    if found is None:
        return None
    means, generator = _resampled([*a, *b], resamples, seed)
    reach = quantile(found.degrees, level)
    first, second = (_arm_means(part, generator, reach, level) for part in np.split(means, [len(a)], axis=1))
    return _percentiles(first - second, level)


def permutation_p(a: Values, b: Values, *, side: Side = "two-sided", seed: int = 0) -> float:
    """p that two arms come from one distribution: the share of splits whose means differ at least as much.

    Exact, whatever the distribution, over all splits of the runs into arms of these sizes; beyond ``SPLITS``, over as
    many drawn ones, the observed one among them. Assumes that under the null hypothesis the arms also spread alike. Its
    least value is 2 of 252 for five runs against five, so within a large family it cannot replace Welch's test.
    """
    first, second = as_values(a), as_values(b)
    pool, n = np.concatenate([first, second]), first.size
    slack = 1e-12 * float(np.abs(pool).max())  # equal splits summed in another order are equal
    pool = pool - pool.mean()  # then the difference of means is the first arm's sum times a constant
    seen = float(pool[:n].sum())
    sums, drawn = _split_sums(np.sort(pool), n, seed)  # sorted: the order of the runs changes no draw
    as_far = {
        "two-sided": np.abs(sums) >= abs(seen) - slack,
        "greater": sums >= seen - slack,
        "less": sums <= seen + slack,
    }[side]
    return (int(as_far.sum()) + drawn) / (sums.size + drawn)


def percent(run: Outcomes) -> float:
    """How many of a run's examples came out true, in percent."""
    if not run:
        hint = "leave out the run, or give its value without outcomes"
        raise TicketsError("a run's outcomes hold no example", hint=hint, code="stats.empty")
    return 100 * sum(map(bool, run.values())) / len(run)


def _split_sums(pool: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, int]:
    """Sums over the first arm of every split, or of drawn ones; and how many seen ones are to be added to them."""
    splits = math.comb(pool.size, n)
    if splits <= SPLITS:
        places = np.fromiter(chain.from_iterable(combinations(range(pool.size), n)), dtype=np.int64, count=splits * n)
        return pool[places.reshape(splits, n)].sum(axis=1), 0
    generator = numpy_generator(seed, "permutation", SPLITS)
    step = max(1, CELLS // pool.size)
    sizes = [min(step, SPLITS - i) for i in range(0, SPLITS, step)]
    sums = [generator.permuted(np.tile(pool, (size, 1)), axis=1)[:, :n].sum(axis=1) for size in sizes]
    return np.concatenate(sums), 1


def _resampled(runs: Sequence[Outcomes], resamples: int, seed: int) -> tuple[np.ndarray, np.random.Generator]:
    """The percentage of every run in each resample of the examples, and the generator that draws the runs."""
    if resamples < 1000:
        message, hint = f"a bootstrap needs at least 1000 resamples, got {resamples}", f"{RESAMPLES} are usual"
        raise TicketsError(message, hint=hint, code="stats.resamples")
    fewest = min(map(len, runs))
    if fewest < FEWEST_EXAMPLES:
        message = f"a bootstrap over examples needs {FEWEST_EXAMPLES} a run, got {fewest}"
        raise TicketsError(message, hint="use the interval over runs", code="stats.few_examples")
    ids = sorted(set().union(*runs))
    column = {name: i for i, name in enumerate(ids)}
    there, true = np.zeros((len(ids), len(runs))), np.zeros((len(ids), len(runs)))
    for r, run in enumerate(runs):
        rows = [column[name] for name in run]
        there[rows, r], true[rows, r] = 1, [bool(x) for x in run.values()]
    own = np.array([percent(run) for run in runs])
    generator = numpy_generator(seed, "two-level", "examples", resamples)
    step = max(1, CELLS // len(ids))
    means = np.empty((resamples, len(runs)))
    for i in range(0, resamples, step):
        size = min(step, resamples - i)
        drawn = generator.integers(0, len(ids), size=(size, len(ids))) + np.arange(size)[:, None] * len(ids)
        times = np.bincount(drawn.reshape(-1), minlength=size * len(ids)).reshape(size, len(ids)).astype(np.float64)
        of = times @ there  # whole numbers: exact in any order of summing
        means[i : i + size] = np.where(of > 0, 100 * (times @ true) / np.maximum(of, 1), own)
    return means, numpy_generator(seed, "two-level", "runs", resamples)


def _arm_means(means: np.ndarray, generator: np.random.Generator, reach: float, level: float) -> np.ndarray:
    """Mean over the drawn runs of an arm (``means``: resamples x runs), stretched away from the mean over all of them.

    Drawing n of n runs shows (n - 1) / n of their variance, and percentiles reach as far as a normal distribution, not
    ``reach``.
    """
    resamples, n = means.shape
    times = generator.multinomial(n, np.full(n, 1 / n), size=resamples)
    drawn, whole = (means * times).sum(axis=1) / n, means.mean(axis=1)
    stretch = reach / NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(n / (n - 1))
    stretched: np.ndarray = whole + stretch * (drawn - whole)
    return stretched


def _percentiles(values: np.ndarray, level: float) -> Interval:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bootstrap_difference(
    a: Values, b: Values, *, seed: int = 0, level: float = LEVEL, resamples: int = EXAMPLE_RESAMPLES
) -> tuple[float, float, float]:
    """Mean of ``a - b`` over paired examples, and its percentile bootstrap interval: (difference, low, high)."""
    first, second = np.asarray(a, dtype=np.float64).reshape(-1), np.asarray(b, dtype=np.float64).reshape(-1)
    check_paired(first, second)
    gaps = first - second
    generator = numpy_generator(seed, "bootstrap", resamples)
    # in slices, so that 100,000 examples do not ask for gigabytes of indices
    step = max(1, 4_000_000 // gaps.size)
    means = [
        gaps[generator.integers(0, gaps.size, size=(min(step, resamples - i), gaps.size))].mean(axis=1)
        for i in range(0, resamples, step)
    ]
    return float(gaps.mean()), *_percentiles(np.concatenate(means), level)
