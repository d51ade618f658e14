"""Bootstrap over runs and examples, permutation over runs: beside plain loops, scipy's own test, and what they promise to cover."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from refusing import refused
from robust_tickets.seeds import numpy_generator
from robust_tickets.stats import resampling
from robust_tickets.stats.compare_runs import RunSet, TrainedRun, compare_runs, summarise_runs
from robust_tickets.stats.intervals import mean_interval, welch
from robust_tickets.stats.resampling import percent, permutation_p, two_level_difference, two_level_interval

values = st.lists(st.integers(0, 12).map(lambda x: x / 10), min_size=1, max_size=6)  # few values: many ties
SIDES = ("two-sided", "greater", "less")


def arm(generator, hard, level, n=5, between=0.3, noise=0.3):
    """Runs that share what makes an example hard; each has its own luck, and its own with every example."""
    rows = level + generator.normal(0, between, (n, 1)) + hard + generator.normal(0, noise, (n, hard.size)) > 0
    return [{str(i): bool(x) for i, x in enumerate(row)} for row in rows]


def truth(level, spread):
    return 100 * NormalDist().cdf(level / spread)


@given(values, values, st.sampled_from(SIDES))
def test_permutation_is_the_slow_count_of_splits(a, b, side):
    pool, n = [*a, *b], len(a)
    seen = sum(a) / n - sum(b) / len(b)
    far = 0
    splits = list(combinations(range(len(pool)), n))
    for split in splits:
        rest = [pool[i] for i in range(len(pool)) if i not in split]
        gap = sum(pool[i] for i in split) / n - sum(rest) / len(rest)
        far += {"two-sided": abs(gap) >= abs(seen) - 1e-9, "greater": gap >= seen - 1e-9, "less": gap <= seen + 1e-9}[
            side
        ]
    assert permutation_p(a, b, side=side) == pytest.approx(far / len(splits))


def test_permutation_by_hand():
    assert permutation_p([1, 2, 3, 4, 5], [11, 12, 13, 14, 15]) == pytest.approx(2 / 252)
    assert permutation_p([1, 2, 3, 4, 5], [11, 12, 13, 14, 15], side="less") == pytest.approx(1 / 252)
    assert permutation_p([0.1] * 3, [0.1] * 4) == 1.0


@pytest.mark.parametrize("side", SIDES)
def test_drawn_splits_come_close_to_all_and_follow_the_seed(monkeypatch, side):
    a, b = [3.0, 5, 6, 8, 9, 4], [1.0, 2, 5, 4, 7, 3]
    exact = permutation_p(a, b, side=side)
    monkeypatch.setattr(resampling, "SPLITS", 900)  # of 924
    drawn = [permutation_p(a, b, side=side, seed=seed) for seed in range(40)]
    assert len(set(drawn)) > 5
    assert drawn[0] == permutation_p(a[::-1], b[::-1], side=side, seed=0)
    assert np.mean(drawn) == pytest.approx(exact, abs=0.01)
    assert permutation_p([0.0] * 6, [1.0] * 6) >= 1 / 901  # the split that was seen is one of them: never 0


def slow_means(runs, resamples, seed):
    """Percentage of every run in every resample of the examples, one by one."""
    ids = sorted({name for run in runs for name in run})
    generator = numpy_generator(seed, "two-level", "examples", resamples)
    table = generator.integers(0, len(ids), size=(resamples, len(ids)))
    rows = []
    for row in table:
        drawn = [ids[i] for i in row]
        rows.append([100 * float(np.mean([run[name] for name in drawn if name in run])) for run in runs])
    return rows


def slow_arm(rows, generator, reach):
    n = len(rows[0])
    times = generator.multinomial(n, [1 / n] * n, size=len(rows))
    found = []
    for row, counts in zip(rows, times, strict=True):
        picked = [x for x, count in zip(row, counts, strict=True) for _ in range(count)]
        stretch = reach / 1.959963984540054 * math.sqrt(n / (n - 1))
        found.append(np.mean(row) + stretch * (np.mean(picked) - np.mean(row)))
    return np.array(found)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**16), st.integers(2, 4), st.integers(2, 3))
def test_two_levels_are_the_slow_loops_also_on_different_examples(seed, n, m):
    generator = np.random.default_rng(seed)
    runs = [
        {f"e{i}": bool(generator.random() < 0.6) for i in generator.permutation(30)[: generator.integers(20, 31)]}
        for _ in range(n + m)
    ]
    rows = slow_means(runs[:n], 1000, seed)
    ends = np.quantile(
        slow_arm(rows, numpy_generator(seed, "two-level", "runs", 1000), stats.t.ppf(0.975, n - 1)), [0.025, 0.975]
    )
    assert two_level_interval(runs[:n], resamples=1000, seed=seed) == pytest.approx(tuple(ends))
    rows, draws = slow_means(runs, 1000, seed), numpy_generator(seed, "two-level", "runs", 1000)
    reach = stats.t.ppf(0.975, welch([percent(r) for r in runs[:n]], [percent(r) for r in runs[n:]]).degrees)
    gaps = slow_arm([row[:n] for row in rows], draws, reach) - slow_arm([row[n:] for row in rows], draws, reach)
    assert two_level_difference(runs[:n], runs[n:], resamples=1000, seed=seed) == pytest.approx(
        tuple(np.quantile(gaps, [0.025, 0.975]))
    )


def test_slices_of_a_large_set_are_drawn_as_one(monkeypatch):
    runs = arm(np.random.default_rng(0), np.random.default_rng(1).normal(size=40), 0.1)
    whole = two_level_interval(runs, resamples=1500)
    monkeypatch.setattr(resampling, "CELLS", 40 * 7)  # 1500 is no multiple of 7
    assert two_level_interval(runs, resamples=1500) == whole


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**16), st.integers(2, 6), st.integers(2, 6))
def test_two_levels_hold_their_mean_turn_with_their_arms_and_ignore_the_order_of_examples(seed, n, m):
    generator = np.random.default_rng(seed)
    hard = generator.normal(size=60)
    a, b = arm(generator, hard, 0.2, n), arm(generator, hard, -0.2, m)
    low, high = two_level_interval(a, resamples=1000, seed=seed)
    assert low <= np.mean([percent(run) for run in a]) <= high
    assert two_level_interval([dict(reversed(run.items())) for run in a], resamples=1000, seed=seed) == (low, high)
    wide = two_level_interval(a, level=0.99, resamples=1000, seed=seed)
    assert wide[0] <= low
    assert high <= wide[1]
    ends = two_level_difference(a, b, resamples=1000, seed=seed)
    turned = two_level_difference(b, a, resamples=1000, seed=seed)
    gap = np.mean([percent(run) for run in a]) - np.mean([percent(run) for run in b])
    assert ends[0] <= gap <= ends[1]
    assert turned == pytest.approx((-ends[1], -ends[0]), abs=0.25 * (ends[1] - ends[0]) + 1e-9)  # other draws


def test_without_luck_between_runs_the_examples_alone_decide():
    hard = np.random.default_rng(2).normal(size=400)
    runs = arm(np.random.default_rng(3), hard, 0.0, between=0, noise=0)  # five times the same
    low, high = two_level_interval(runs)
    share = percent(runs[0]) / 100
    assert high - low == pytest.approx(2 * 1.96 * 100 * math.sqrt(share * (1 - share) / 400), rel=0.05)
    assert two_level_difference(runs, runs) == (0.0, 0.0)  # what is hard for both cancels


def test_with_much_luck_between_runs_it_is_students_interval():
    generator = np.random.default_rng(4)
    runs = [
        {str(i): i < round(share * 2000) for i in generator.permutation(2000)} for share in (0.3, 0.42, 0.5, 0.55, 0.7)
    ]
    low, high = two_level_interval(runs)
    theirs = mean_interval([percent(run) for run in runs])
    assert high - low == pytest.approx(theirs[1] - theirs[0], rel=0.1)


def test_it_covers_further_runs_on_further_examples_where_student_over_runs_does_not():
    generator = np.random.default_rng(5)
    between, noise = 0.12, 0.3
    spread = math.sqrt(between**2 + 1 + noise**2)
    both = student = gap = 0
    for i in range(60):
        hard = generator.normal(size=100)
        a, b = (arm(generator, hard, level, 5, between, noise) for level in (0.2, -0.2))
        low, high = two_level_interval(a, resamples=1000, seed=i)
        both += low <= truth(0.2, spread) <= high
        low, high = mean_interval([percent(run) for run in a])
        student += low <= truth(0.2, spread) <= high
        low, high = two_level_difference(a, b, resamples=1000, seed=i)
        gap += low <= truth(0.2, spread) - truth(-0.2, spread) <= high
    assert both >= 0.92 * 60
    assert gap >= 0.92 * 60
    assert student < 0.85 * 60  # it speaks of the examples at hand


def test_too_little_to_draw_from_is_refused():
    run = {str(i): i % 2 == 0 for i in range(30)}
    assert two_level_interval([run]) is None
    assert two_level_difference([run, run], [run]) is None
    with refused("stats.few_examples"):
        two_level_interval([run, dict(list(run.items())[:10])])
    with refused("stats.resamples"):
        two_level_interval([run, run], resamples=10)
    with refused("stats.empty"):
        two_level_difference([run, run], [{}, run])


def test_arms_carry_the_bootstrap_where_all_their_units_have_outcomes():
    generator = np.random.default_rng(6)
    hard = generator.normal(size=80)
    sets = [
        RunSet(
            name=name,
            runs=tuple(TrainedRun.of_outcomes(run, seed=i) for i, run in enumerate(arm(generator, hard, level))),
        )
        for name, level in (("a", 0.3), ("b", 0.0))
    ]
    found, summary = compare_runs(*sets, resamples=1000, seed=3), summarise_runs(sets[0], resamples=1000, seed=3)
    assert found.over_examples == two_level_difference(sets[0].outcomes, sets[1].outcomes, resamples=1000, seed=3)
    assert summary.over_examples == two_level_interval(sets[0].outcomes, resamples=1000, seed=3)
    assert compare_runs(*sets, resamples=0).over_examples is None
    part = RunSet(name="a", runs=(*sets[0].runs, TrainedRun(value=50, seed=9)))
    assert part.outcomes is None
    assert summarise_runs(part).over_examples is None
    assert compare_runs(part, sets[1]).over_examples is None
    repeated = RunSet(name="a", runs=(*sets[0].runs, TrainedRun(value=50, seed=0, repeat=1)))
    assert repeated.outcomes == sets[0].outcomes
