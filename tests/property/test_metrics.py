"""Intervals, paired tests and counts: bounds, symmetry, hand examples, and scipy's own answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from refusing import refused
from robust_tickets.attack.result import Tally
from robust_tickets.stats.classification import attack_metrics, classification, only_class
from robust_tickets.stats.intervals import mcnemar_exact, paired_interval, wilson
from robust_tickets.stats.resampling import bootstrap_difference

counts = st.integers(0, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
pairs = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=80)


@given(counts, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_is_scipys_and_holds_the_proportion(count, level):
    k, n = count
    low, high = wilson(k, n, level)
    assert 0 <= low <= high <= 1
    if n:
        assert low <= k / n <= high
        theirs = binomtest(k, n).proportion_ci(level, method="wilson")
        assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
        other_low, other_high = wilson(n - k, n, level)
        assert (low, high) == pytest.approx((1 - other_high, 1 - other_low), abs=1e-12)


def test_wilson_by_hand():
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0
    assert wilson(50, 100) == pytest.approx((0.40383, 0.59617), abs=1e-5)


@given(pairs)
def test_mcnemar_is_the_binomial_test_and_symmetric(rows):
    a, b = [x for x, _ in rows], [y for _, y in rows]
    p = mcnemar_exact(a, b)
    assert 0 < p <= 1
    assert p == pytest.approx(mcnemar_exact(b, a))
    more, less = sum(x and not y for x, y in rows), sum(y and not x for x, y in rows)
    assert p == pytest.approx(binomtest(more, more + less).pvalue if more + less else 1.0)
    with refused("stats.unpaired"):
        mcnemar_exact(a, [*b, True])


@settings(max_examples=40)
@given(pairs.filter(bool), st.integers(0, 5))
def test_bootstrap_is_seeded_antisymmetric_in_its_mean_and_bounded(rows, seed):
    a, b = [x for x, _ in rows], [y for _, y in rows]
    diff, low, high = bootstrap_difference(a, b, seed=seed, resamples=400)
    assert (diff, low, high) == bootstrap_difference(a, b, seed=seed, resamples=400)
    assert -1 <= low <= high <= 1
    assert diff == pytest.approx(np.mean(a) - np.mean(b))
    swapped = bootstrap_difference(b, a, seed=seed, resamples=400)
    assert swapped == pytest.approx((-diff, -high, -low))


def test_bootstrap_is_paired_and_about_normal():
    generator = np.random.default_rng(0)
    a = generator.random(500) < 0.6
    assert bootstrap_difference(a, a) == (0.0, 0.0, 0.0)  # paired: no difference, no width
    b = generator.random(500) < 0.5
    diff, low, high = bootstrap_difference(a, b, seed=1)
    half = 1.96 * np.std(a.astype(float) - b) / np.sqrt(500)
    assert (low, high) == pytest.approx((diff - half, diff + half), abs=0.01)
    assert bootstrap_difference(a, b, seed=1) != bootstrap_difference(a, b, seed=2)
    diff, low, high = bootstrap_difference(np.arange(50_000) % 2, np.zeros(50_000), resamples=100)  # in slices
    assert (diff, low < 0.5 < high) == (0.5, True)


def test_classification_by_hand():
    got = classification([0, 0, 1, 1, 1], [0, 1, 1, 1, 0], 3)
    assert got["accuracy"] == pytest.approx(60)
    assert (got["n"], got["correct"]) == (5, 3)
    assert [c["n"] for c in got["per_class"]] == [2, 3, 0]
    assert got["per_class"][0] == {"n": 2, "precision": 50.0, "recall": 50.0, "f1": 50.0}
    assert got["per_class"][1]["precision"] == pytest.approx(200 / 3)
    assert got["macro_f1"] == pytest.approx((50 + 200 / 3) / 2)  # the third class never occurs
    narrow = np.arange(200, dtype=np.int16)  # 199 * 200 does not fit int16
    assert classification(narrow, narrow, 200)["accuracy"] == 100
    for truth, code in (([0, 3], "stats.labels"), ([0, -1], "stats.labels"), ([], "stats.empty")):
        with refused(code):
            classification(truth, [0] * len(truth), 3)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60))
def test_classification_bounds(rows):
    truth, guess = [t for t, _ in rows], [g for _, g in rows]
    got = classification(truth, guess, 4)
    assert got["accuracy"] == pytest.approx(100 * np.mean(np.array(truth) == np.array(guess)))
    assert sum(c["n"] for c in got["per_class"]) == len(rows)
    for row in got["per_class"]:
        assert all(0 <= row[k] <= 100 for k in ("precision", "recall", "f1"))
        if row["precision"] and row["recall"]:
            assert row["f1"] == pytest.approx(2 * row["precision"] * row["recall"] / (row["precision"] + row["recall"]))
    assert 0 <= got["macro_f1"] <= 100


def table(both, only_a, only_b, neither):
    """Paired outcomes with these four counts."""
    cells = ((both, (True, True)), (only_a, (True, False)), (only_b, (False, True)), (neither, (False, False)))
    rows = [pair for count, pair in cells for _ in range(count)]
    return [x for x, _ in rows], [y for _, y in rows]


@pytest.mark.parametrize(
    ("counts", "want"),
    [
        ((36, 12, 2, 0), (0.0569, 0.3404)),  # Newcombe (1998), Statistics in Medicine 17, 2635-2650, method 10
        (
            (1, 1, 7, 12),
            (-0.507, -0.026),
        ),  # Bentur et al. (2009), as in Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables
    ],
)
def test_paired_intervals_are_the_published_ones(counts, want):
    digits = len(str(want[0]).partition(".")[2])
    assert paired_interval(*table(*counts)) == pytest.approx(want, abs=0.51 * 10**-digits)


def test_paired_intervals_by_hand():
    assert paired_interval([], []) == (-1.0, 1.0)
    low, high = paired_interval(*table(0, 0, 0, 3))  # both Wilson intervals are 0 to 0.5615; no correlation can be seen
    assert (low, high) == pytest.approx((-wilson(0, 3)[1], wilson(0, 3)[1]))
    # 40 of 100 each, agreeing on all: phi = (40 * 60 - 50) / 2400, both arms of the sum are the same
    (down, up), phi = wilson(40, 100), 2350 / 2400
    x, y = 0.4 - down, up - 0.4
    assert paired_interval(*table(40, 0, 0, 60))[1] == pytest.approx((x * x + y * y - 2 * phi * x * y) ** 0.5)
    with refused("stats.unpaired"):
        paired_interval([True], [True, False])


@given(pairs.filter(bool), st.sampled_from([0.5, 0.9, 0.95]))
def test_paired_intervals_hold_the_difference_have_width_and_are_antisymmetric(rows, level):
    a, b = [x for x, _ in rows], [y for _, y in rows]
    low, high = paired_interval(a, b, level)
    assert -1 <= low < high <= 1
    assert low - 1e-12 <= np.mean(a) - np.mean(b) <= high + 1e-12
    assert paired_interval(b, a, level) == pytest.approx((-high, -low))


def line(status, queries=1, words=0, changed=0):
    about = {"status": status, "label": 0, "queries": queries, "words": words, "words_changed": changed}
    return about | {"confidence": 0.9, "forward_passes": 2}


def test_attack_counts_by_hand():
    lines = [
        line("success", 10, 10, 1),
        line("success", 20, 10, 3),
        line("failed", 60),
        line("skipped"),
        line("error", 7, 10, 5),
    ]
    got = Tally(lines).metrics()
    assert (got["n"], got["errors"], got["forward_passes"]) == (4, 1, 10)
    assert got["clean"] == pytest.approx(75)
    assert got["aua"] == pytest.approx(25)
    assert got["suc"] == pytest.approx(200 / 3, abs=1e-4)
    assert got["queries"] == pytest.approx(30)
    assert got["perturbed"] == pytest.approx(20)
    assert got["intervals"]["aua"] == pytest.approx(tuple(100 * x for x in wilson(1, 4)), abs=1e-4)


def test_attack_counts_without_attacked_examples_claim_nothing():
    nothing = Tally([]).metrics()
    assert [nothing[key] for key in ("clean", "aua", "suc", "queries", "perturbed")] == [None] * 5
    skipped = Tally([line("skipped")] * 3).metrics()
    assert [skipped[key] for key in ("clean", "aua", "suc", "queries")] == [0, 0, None, None]


@given(st.lists(st.sampled_from(["success", "failed", "skipped", "error"]), max_size=50))
def test_attack_counts_add_up(statuses):
    got = Tally(map(line, statuses)).metrics()
    assert got["n"] + got["errors"] == len(statuses)
    values, intervals = attack_metrics(
        **{k: statuses.count(s) for k, s in (("successes", "success"), ("failures", "failed"), ("skipped", "skipped"))}
    )
    for name, value in values.items():
        assert got[name] == (None if value is None else pytest.approx(value, abs=1e-4))
    if got["n"]:
        assert values["aua"] <= values["clean"]
        if values["suc"] is not None:
            assert values["aua"] == pytest.approx(values["clean"] * (1 - values["suc"] / 100))
        for name, (low, high) in intervals.items():
            assert 0 <= low <= values[name] + 1e-9 <= high + 1e-9 <= 100 + 1e-9


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=8))
def test_the_only_class_is_read_off_the_rows_of_the_classes(rows):
    truth, guess = [t for t, _ in rows], [g for _, g in rows]
    only = len(set(guess)) == 1 and guess[0] in truth and len(set(truth)) > 1
    assert only_class(classification(truth, guess, 3)["per_class"]) == (guess[0] if only else None)
