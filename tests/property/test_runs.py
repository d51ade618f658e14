"""Training runs as the unit: Student's intervals and Welch's tests beside scipy's, summaries, spreads, verdicts, families."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from refusing import refused
from robust_tickets.stats.compare_runs import (
    FEWEST_RUNS,
    FEWEST_SHOWN,
    RunSet,
    TrainedRun,
    compare_runs,
    holm,
    judge_family,
    seed_spread,
    summarise_runs,
)
from robust_tickets.stats.intervals import mean_interval, predicted_difference, prediction_interval, welch

numbers = st.integers(0, 1000).map(lambda x: x / 10)  # a percentage as tables print it
some = st.lists(numbers, min_size=2, max_size=12).filter(lambda x: len(set(x)) > 1)
enough = st.lists(numbers, min_size=5, max_size=9)
levels = st.sampled_from([0.8, 0.9, 0.95, 0.99])


@given(some, levels)
def test_the_interval_of_a_mean_is_scipys(values, level):
    theirs = stats.ttest_1samp(values, 0).confidence_interval(level)
    assert mean_interval(values, level) == pytest.approx((theirs.low, theirs.high))


@given(some, levels, st.integers(1, 9))
def test_the_mean_of_further_runs_is_nearer_than_one_and_wider_than_the_mean_of_ours(values, level, further):
    n, (low, high) = len(values), prediction_interval(values, level, further)
    reach = float(stats.t.ppf((1 + level) / 2, n - 1)) * math.sqrt(1 / n + 1 / further) * float(stats.tstd(values))
    assert (low, high) == pytest.approx((np.mean(values) - reach, np.mean(values) + reach))
    summary = summarise_runs(RunSet.of_values("a", values), level=level, resamples=0, further=further)
    assert (summary.prediction, summary.further) == ((low, high), further)
    inner = summary.interval
    assert high - low == pytest.approx((inner[1] - inner[0]) * math.sqrt(n / further + 1))


@given(some, some, levels)
def test_welch_is_scipys(a, b, level):
    found, theirs = welch(a, b), stats.ttest_ind(a, b, equal_var=False)
    ends = theirs.confidence_interval(level)
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-6)
    assert found.interval(level) == pytest.approx((ends.low, ends.high), abs=1e-9)
    assert found.degrees == pytest.approx(theirs.df)


@given(some, some, levels)
def test_means_of_many_further_runs_differ_as_welch_s_means_do(a, b, level):
    assert predicted_difference(a, b, level, (10**12, 10**12)) == pytest.approx(welch(a, b).interval(level), abs=1e-3)


def test_a_further_difference_by_hand():
    """Variances 10 and 2.5 of five runs each: one further run a side adds both whole, a mean of five a fifth."""
    a, b = [40.0, 42.0, 44.0, 46.0, 48.0], [38.0, 39.0, 40.0, 41.0, 42.0]
    for further, parts in (((1, 1), (12.0, 3.0)), ((1, 5), (12.0, 1.0)), ((5, 5), (4.0, 1.0))):
        degrees = sum(parts) ** 2 / sum(part**2 / 4 for part in parts)
        reach = float(stats.t.ppf(0.975, degrees)) * math.sqrt(sum(parts))
        assert predicted_difference(a, b, further=further) == pytest.approx((4 - reach, 4 + reach))
    assert predicted_difference(a, b) == pytest.approx(
        (4 - 9.52298, 4 + 9.52298), abs=1e-4
    )  # 15 ** 0.5 times 2.45882, t at 225 / 38.25
    assert predicted_difference([44.0], b) is None


@given(some, some, st.floats(0.5, 60))
def test_equivalence_is_two_one_sided_tests_of_scipy_and_an_interval_inside_the_margin(a, b, margin):
    found = welch(a, b)
    above = stats.ttest_ind(np.add(a, margin), b, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(np.subtract(a, margin), b, equal_var=False, alternative="less").pvalue
    p = found.equivalence_p(margin)
    assert p == pytest.approx(max(above, below), rel=1e-6)
    low, high = found.interval(0.90)
    assume(abs(p - 0.05) > 1e-9)
    assert (p < 0.05) == (-margin < low and high < margin)


@given(
    st.lists(numbers, min_size=1, max_size=7),
    st.lists(numbers, min_size=1, max_size=7),
    st.randoms(use_true_random=False),
)
def test_a_comparison_turns_with_its_arms_and_ignores_seeds_and_order(a, b, random):
    found, turned = compare_runs(a, b), compare_runs(b, a)
    assert turned.difference == pytest.approx(-found.difference)
    assert turned.verdict == found.verdict
    assert turned.p == (None if found.p is None else pytest.approx(found.p))
    assert turned.equivalence_p == (None if found.p is None else pytest.approx(found.equivalence_p))
    if found.interval is not None:
        assert turned.interval == pytest.approx((-found.interval[1], -found.interval[0]), abs=1e-9)
    random.shuffle(a)  # equal seeds are no pairs: which run stands beside which is nothing
    shuffled = compare_runs(a, b)
    assert shuffled.p == (None if found.p is None else pytest.approx(found.p, rel=1e-6))
    assert shuffled.permutation_p == pytest.approx(found.permutation_p)


@given(st.lists(numbers, min_size=1, max_size=4), st.lists(numbers, min_size=1, max_size=9))
def test_too_few_runs_make_no_claim_whatever_they_say(a, b):
    for found in (compare_runs(a, b, resamples=0), compare_runs(b, a, resamples=0)):
        assert found.verdict == "too few runs"
        assert (found.of, found.adjusted_p, found.adjusted_equivalence_p) == (0, None, None)
        assert not found.different
        assert not found.equivalent
        assert abs(found.difference) == pytest.approx(abs(np.mean(a) - np.mean(b)))
    shown = min(len(a), len(b)) >= FEWEST_SHOWN
    assert replace(found, over_examples=(-1.0, 2.0)).shown_over_examples == ((-1.0, 2.0) if shown else None)
    assert found.shown == (found.interval if shown else None)
    forced = replace(found, adjusted_p=1e-6, adjusted_equivalence_p=1e-6)
    assert not forced.different
    assert not forced.equivalent


@given(enough, enough, st.sampled_from([1.0, 5.0, 30.0]))
def test_a_verdict_follows_from_the_two_p_values(a, b, margin):
    found = compare_runs(a, b, margin=margin)
    expected = "different" if found.p < 0.05 else "equivalent" if found.equivalence_p < 0.05 else "undecided"
    assert found.verdict == expected
    assert found.equivalent == (found.equivalence_p < 0.05)


def test_verdicts_by_hand():
    low, high, close = [40, 41, 42, 43, 44], [50, 51, 52, 53, 54], [40.2, 41.2, 42.2, 43.2, 44.2]
    assert compare_runs(high, low).verdict == "different"
    assert compare_runs(high, low).difference == pytest.approx(10)
    assert compare_runs(close, low).verdict == "equivalent"
    assert compare_runs([x + 3 for x in close], low).verdict == "different"
    assert compare_runs([30, 40, 50, 60, 70], low).verdict == "undecided"
    assert compare_runs(high[:4], low).verdict == "too few runs"
    assert compare_runs(close, low, margin=0.5).verdict == "undecided"
    small = compare_runs([42, 42.1, 42.2, 42.3, 42.4], [41, 41.1, 41.2, 41.3, 41.4])
    assert small.verdict == "different"  # one point, surely: both
    assert small.equivalent


def test_arms_without_any_spread_are_judged_by_permutation():
    same, apart, three = (
        compare_runs([0.0] * 5, [0.0] * 5),
        compare_runs([30.0] * 5, [0.0] * 5),
        compare_runs([3.0] * 5, [0.0] * 5),
    )
    assert (same.p, same.equivalence_p, same.interval) == (1.0, pytest.approx(1 / 252), None)
    assert same.verdict == "equivalent"
    assert (apart.p, apart.equivalence_p) == (pytest.approx(2 / 252), 1.0)
    assert apart.verdict == "different"
    assert three.verdict == "different"
    assert three.equivalent
    varied = [2.0, 2.0, 2.0, 2.0, 3.0]
    assert compare_runs([2.0] * 5, varied).p == pytest.approx(
        stats.ttest_1samp(varied, 2.0).pvalue
    )  # one that varies is enough
    summary = summarise_runs(RunSet.of_values("a", [0.1] * 6))
    assert (summary.interval, summary.prediction, summary.published_inside(0.1)) == (None, None, None)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_the_slow_step_down(values):
    expected = []
    for p in values:  # of all at or below: the largest of p times how many are not below
        expected.append(min(1.0, max(q * sum(r >= q for r in values) for q in values if q <= p)))
    assert holm(values) == pytest.approx(expected)
    for alpha in (0.01, 0.05, 0.2):
        rejected, left = set(), sorted(range(len(values)), key=values.__getitem__)
        while left and values[left[0]] * len(left) < alpha:
            rejected.add(left.pop(0))
        assert {i for i, p in enumerate(holm(values)) if p < alpha} == rejected


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.lists(numbers, min_size=3, max_size=7), st.lists(numbers, min_size=3, max_size=7)), max_size=6
    )
)
def test_a_family_counts_the_claims_that_can_be_made(pairs):
    alone = [compare_runs(a, b) for a, b in pairs]
    found = judge_family(alone)
    claims = [x for x in alone if x.enough]
    for name, adjusted in (("p", "adjusted_p"), ("equivalence_p", "adjusted_equivalence_p")):
        assert [getattr(x, adjusted) for x in found if x.enough] == holm([getattr(x, name) for x in claims])
        assert all(getattr(x, adjusted) is None for x in found if not x.enough)
    assert all(x.of == len(claims) for x in found)
    assert [
        replace(x, adjusted_p=y.adjusted_p, adjusted_equivalence_p=y.adjusted_equivalence_p, of=y.of)
        for x, y in zip(found, alone, strict=True)
    ] == alone
    assert judge_family(found) == found
    for x, y in zip(found, alone, strict=True):
        assert not x.different or y.different  # a family makes no new claim
        assert not x.equivalent or y.equivalent


def test_a_family_turns_weak_claims_undecided():
    weak = compare_runs([44.0, 46, 48, 50, 52], [40.0, 42, 44, 46, 48], margin=1)
    weak = replace(weak, p=0.03, adjusted_p=0.03)
    assert weak.verdict == "different"
    assert [x.verdict for x in judge_family([weak, weak])] == ["undecided", "undecided"]
    (early,) = judge_family([weak], of=2)
    assert (early.verdict, early.of) == ("undecided", 2)


def test_a_summary_and_the_published_number():
    values = [43.0, 49.4, 46.0, 45.0, 47.0]
    summary = summarise_runs(RunSet.of_values("fine-tune", values))
    assert (summary.n, summary.mean, summary.deviation) == (
        5,
        pytest.approx(46.08),
        pytest.approx(np.std(values, ddof=1)),
    )
    low, high = summary.prediction
    assert [summary.published_inside(x) for x in (low - 0.01, low, high, high + 0.01)] == [False, True, True, False]
    few = summarise_runs(RunSet.of_values("fine-tune", values[:4]))
    assert few.prediction is not None
    assert few.published_inside(46.0) is None
    one = summarise_runs(RunSet.of_values("fine-tune", [46.0]))
    assert (one.mean, one.deviation, one.interval, one.prediction, one.enough) == (46.0, None, None, None, False)
    assert (FEWEST_RUNS, FEWEST_SHOWN) == (5, 3)


def test_only_the_first_run_of_a_seed_is_a_unit():
    runs = [
        TrainedRun(value=v, seed=s, repeat=r)
        for v, s, r in ((40, 0, 0), (46, 0, 1), (43, 0, 2), (44, 1, 0), (48, 2, 0), (90, 3, 1))
    ]
    arm = RunSet(name="a", runs=tuple(runs))
    assert arm.values == (40, 44, 48)
    assert summarise_runs(arm).mean == pytest.approx(44)
    assert compare_runs(arm, [40, 44, 48]).p == pytest.approx(1)
    spread = seed_spread(arm)
    assert (spread.seeds, spread.between, spread.between_range) == (3, pytest.approx(4), 8)
    assert (spread.repeated, spread.within, spread.within_range) == (3, pytest.approx(3), 6)
    assert spread.within_interval == pytest.approx(
        (3 * math.sqrt(2 / stats.chi2.ppf(0.975, 2)), 3 * math.sqrt(2 / stats.chi2.ppf(0.025, 2)))
    )
    same = RunSet(
        name="a", runs=(*runs[:1], replace(runs[1], value=40))
    )  # how far further repeats would lie is not known
    assert (seed_spread(same).within, seed_spread(same).within_range, seed_spread(same).within_interval) == (0, 0, None)


@given(st.lists(st.lists(numbers, min_size=1, max_size=4), min_size=1, max_size=6))
def test_spread_pools_the_repeats_of_every_seed(seeds):
    runs = tuple(TrainedRun(value=v, seed=s, repeat=r) for s, values in enumerate(seeds) for r, v in enumerate(values))
    spread = seed_spread(RunSet(name="a", runs=runs))
    repeated = [values for values in seeds if len(values) > 1]
    assert spread.repeated == sum(map(len, repeated))
    if repeated:
        variance = sum(np.var(v, ddof=1) * (len(v) - 1) for v in repeated) / sum(len(v) - 1 for v in repeated)
        assert spread.within == pytest.approx(math.sqrt(variance))
        assert spread.within_range == pytest.approx(max(max(v) - min(v) for v in repeated))
    else:
        assert (spread.within, spread.within_interval, spread.within_range) == (None, None, None)


def test_a_run_is_counted_as_its_attack_counts():
    statuses = {"a": "failed", "b": "failed", "c": "success", "d": "skipped", "e": "error"}
    values = {m: TrainedRun.of_statuses(statuses, seed=0, measure=m).value for m in ("aua", "clean", "suc")}
    assert values == pytest.approx({"aua": 50.0, "clean": 75.0, "suc": 100 / 3})
    run = TrainedRun.of_statuses(statuses, seed=3, repeat=1, source="runs/3/result.json")
    assert (run.seed, run.repeat, run.source, run.outcomes) == (
        3,
        1,
        "runs/3/result.json",
        {"a": True, "b": True, "c": False, "d": False},
    )
    assert asdict(run)["outcomes"] == run.outcomes


def test_intervals_and_tests_err_as_often_as_they_say():
    generator = np.random.default_rng(0)
    rows = generator.normal(50, 3.4, size=(2000, 10))
    for ends, later in (
        ([mean_interval(row[:5]) for row in rows], [50] * len(rows)),
        ([prediction_interval(row[:5]) for row in rows], rows[:, 5]),
        ([prediction_interval(row[:5], further=5) for row in rows], rows[:, 5:].mean(axis=1)),
    ):
        held = [low <= value <= high for (low, high), value in zip(ends, later, strict=True)]
        assert np.mean(held) == pytest.approx(0.95, abs=0.015)
    generator = np.random.default_rng(1)
    pairs = list(zip(generator.normal(50, 1, size=(1500, 5)), generator.normal(50, 5, size=(1500, 8)), strict=True))
    assert np.mean([welch(x, y).p < 0.05 for x, y in pairs]) == pytest.approx(0.05, abs=0.015)
    assert np.mean([welch(x + 5, y).equivalence_p(5) < 0.05 for x, y in pairs]) <= 0.06  # at the margin's edge


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=6), st.lists(st.floats(1e-6, 1), max_size=5))
def test_verdicts_given_before_all_claims_are_run_hold(values, later):
    early, whole = holm(values, len(values) + len(later)), holm([*values, *later])
    assert all(a >= b - 1e-12 for a, b in zip(early, whole, strict=False))
    assert early == pytest.approx(holm([*values, *[1.0] * len(later)])[: len(values)])


RUN = TrainedRun(value=1.0, seed=0)
WRONG = [
    (lambda: RunSet(name="a", runs=(RUN, RUN)), "stats.repeated_run"),
    (lambda: TrainedRun(value=math.nan, seed=0), "stats.value"),
    (lambda: TrainedRun(value=50.0, seed=0, outcomes={"a": True}), "stats.outcomes"),
    (lambda: TrainedRun.of_outcomes({}, seed=0), "stats.empty"),
    (lambda: TrainedRun.of_statuses({"a": "lost"}, seed=0), "settings.choice"),
    (lambda: summarise_runs(RunSet(name="a", runs=())), "stats.empty"),
    (lambda: summarise_runs(RunSet.of_values("a", [1, 2]), level=1), "stats.level"),
    (lambda: mean_interval([1.0, math.nan]), "stats.value"),
    (lambda: compare_runs([], [1.0]), "stats.empty"),
    (lambda: compare_runs([1.0], [2.0], margin=0), "stats.margin"),
    (lambda: compare_runs([1.0], [2.0], level=0), "stats.level"),
    (lambda: judge_family([compare_runs([1.0], [2.0]), compare_runs([1.0], [2.0], level=0.9)]), "stats.levels"),
]


@pytest.mark.parametrize(("call", "code"), WRONG)
def test_wrong_input_is_refused(call, code):
    with refused(code):
        call()
