"""What an evaluation and an attack say in numbers, and how sure they are. numpy; scipy only inside the exact test.

Percentages run from 0 to 100, counts are integers, ``wilson`` and ``bootstrap_difference`` speak in fractions (their callers scale).
A number that has no meaning on the data it got (the success rate of an attack that attacked nothing) is ``None``, never 0 or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from robust_tickets.errors import TicketsError
from robust_tickets.seeds import numpy_generator

SUCCESS, FAILED, SKIPPED, ERROR = "success", "failed", "skipped", "error"
STATUSES = (SUCCESS, FAILED, SKIPPED, ERROR)
RESAMPLES = 2000  # of the bootstrap: the ends of a 95 % interval then move by about 2 % of its width from seed to seed


def wilson(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion; sensible at 0 and at ``n`` too, where the usual interval has no width."""
    if not 0 < level < 1:
        raise TicketsError(f"the level of an interval lies between 0 and 1, got {level}", hint="0.95 is usual")
    if not 0 <= successes <= n:
        raise TicketsError(f"a proportion needs 0 <= successes <= n, got {successes} of {n}", hint="count the successes again")
    if n == 0:
        return 0.0, 1.0  # nothing was seen, so nothing is known
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, shrink = successes / n, 1 + z * z / n
    middle = (share + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return low, high


def mcnemar_exact(a: Sequence[bool] | np.ndarray, b: Sequence[bool] | np.ndarray) -> float:
    """Two-sided exact McNemar test on the same examples: p that ``a`` and ``b`` are right equally often; 1 when they never differ."""
    first, second = _paired(a, b)
    only_a, only_b = int((first & ~second).sum()), int((~first & second).sum())
    if only_a + only_b == 0:
        return 1.0
    from scipy.stats import binomtest

    return min(1.0, float(binomtest(only_a, only_a + only_b, 0.5).pvalue))


def bootstrap_difference(
    a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray, *, seed: int = 0, level: float = 0.95, resamples: int = RESAMPLES
) -> tuple[float, float, float]:
    """Mean of ``a - b`` over paired examples, and its percentile bootstrap interval: (difference, low, high)."""
    first, second = np.asarray(a, dtype=np.float64).reshape(-1), np.asarray(b, dtype=np.float64).reshape(-1)
    _same_length(first, second)
    if not 0 < level < 1:
        raise TicketsError(f"the level of an interval lies between 0 and 1, got {level}", hint="0.95 is usual")
    if first.size == 0:
        raise TicketsError("a difference needs at least one pair", hint="compare results on the same examples")
    gaps = first - second
    generator = numpy_generator(seed, "bootstrap", resamples)
    # in slices, so that 100,000 examples do not ask for gigabytes of indices
    step = max(1, 4_000_000 // gaps.size)
    means = [
        gaps[generator.integers(0, gaps.size, size=(min(step, resamples - i), gaps.size))].mean(axis=1) for i in range(0, resamples, step)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(gaps.mean()), float(low), float(high)


def classification(
    labels: Sequence[int] | np.ndarray, predictions: Sequence[int] | np.ndarray, n_classes: int | None = None
) -> dict[str, Any]:
    """Accuracy, macro-F1 and, per class, n, precision, recall and F1; percentages.

    A class that was never predicted has precision 0, one that never occurs has recall 0. Macro-F1 is the mean over the classes that
    occur among the labels or the predictions, so that an unused class of a label list does not halve it.
    """
    truth, guess = np.asarray(labels, dtype=np.int64).reshape(-1), np.asarray(predictions, dtype=np.int64).reshape(-1)
    _same_length(truth, guess)
    if truth.size == 0:
        raise TicketsError("nothing to evaluate: no examples", hint="give a split with labelled rows")
    seen = int(max(truth.max(), guess.max())) + 1
    classes = seen if n_classes is None else n_classes
    least = int(min(truth.min(), guess.min()))
    if least < 0 or seen > classes:
        raise TicketsError(f"labels run from 0 to {classes - 1}, got {least} to {seen - 1}", hint="check the labels")
    confusion = np.bincount(truth * classes + guess, minlength=classes * classes).reshape(classes, classes)
    hits, real, said = np.diag(confusion), confusion.sum(1), confusion.sum(0)
    precision, recall = hits / np.maximum(said, 1), hits / np.maximum(real, 1)
    f1 = 2 * hits / np.maximum(real + said, 1)
    return {
        "n": int(truth.size),
        "correct": int(hits.sum()),
        "accuracy": 100 * float(hits.sum()) / truth.size,
        "macro_f1": 100 * float(f1[(real + said) > 0].mean()),
        "per_class": [
            {"n": int(real[c]), "precision": 100 * float(precision[c]), "recall": 100 * float(recall[c]), "f1": 100 * float(f1[c])}
            for c in range(classes)
        ],
    }


@dataclass(frozen=True, kw_only=True)
class AttackCounts:
    """An attack in numbers. ``n`` leaves out the examples that ended in an error."""

    n: int
    successes: int
    failures: int
    skipped: int
    errors: int
    clean: float | None  # % right before the attack
    aua: float | None  # accuracy under attack: % that the attack failed on; a skipped example counts as wrong
    suc: float | None  # % of the attacked (not skipped) that were turned
    queries: float | None  # mean over the attacked
    perturbed: float | None  # mean % of words changed, over successes only
    intervals: dict[str, tuple[float, float]]  # 95 % Wilson intervals of clean, aua, suc


def attack_metrics(
    statuses: Sequence[str], queries: Sequence[int], perturbed: Sequence[float | None] | None = None, level: float = 0.95
) -> AttackCounts:
    """Count outcomes as TextAttack does: Aua = F/T, Suc = S/(S+F), queries over the non-skipped, words over the successes.

    ``perturbed`` is the share of words changed, per example, in percent.
    """
    unknown = sorted(set(statuses) - set(STATUSES))
    if unknown:
        raise TicketsError(f"unknown outcome of an attack: {unknown[0]!r}", hint=f"one of {', '.join(STATUSES)}")
    if len(queries) != len(statuses) or (perturbed is not None and len(perturbed) != len(statuses)):
        raise TicketsError(f"{len(statuses)} outcomes do not go with {len(queries)} query counts", hint="give one of each per example")
    s, f, k, e = (sum(status == kind for status in statuses) for kind in STATUSES)
    n, attacked = s + f + k, s + f
    asked = [q for q, status in zip(queries, statuses, strict=True) if status in (SUCCESS, FAILED)]
    changed = [p for p, status in zip(perturbed or [None] * len(statuses), statuses, strict=True) if status == SUCCESS and p is not None]
    counts = {"clean": (attacked, n), "aua": (f, n), "suc": (s, attacked)}
    low_high = {name: wilson(x, of, level) for name, (x, of) in counts.items() if of}
    return AttackCounts(
        n=n,
        successes=s,
        failures=f,
        skipped=k,
        errors=e,
        clean=100 * attacked / n if n else None,
        aua=100 * f / n if n else None,
        suc=100 * s / attacked if attacked else None,
        queries=sum(asked) / attacked if attacked else None,
        perturbed=sum(changed) / len(changed) if changed else None,
        intervals={name: (100 * low, 100 * high) for name, (low, high) in low_high.items()},
    )


def _paired(a: Sequence[bool] | np.ndarray, b: Sequence[bool] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(a, dtype=bool).reshape(-1), np.asarray(b, dtype=bool).reshape(-1)
    _same_length(first, second)
    return first, second


def _same_length(first: np.ndarray, second: np.ndarray) -> None:
    if first.shape != second.shape:
        raise TicketsError(f"paired results need the same examples, got {first.size} and {second.size}", hint="join them by id first")
