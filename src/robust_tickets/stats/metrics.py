"""What an evaluation and an attack say in numbers, and how sure they are. numpy; scipy only inside the exact test.

Percentages run from 0 to 100, counts are integers, ``wilson``, ``paired_interval`` and ``bootstrap_difference`` speak in fractions (their
callers scale).
A number that has no meaning on the data it got (the success rate of an attack that attacked nothing) is ``None``, never 0 or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from robust_tickets.errors import TicketsError
from robust_tickets.seeds import numpy_generator

SUCCESS, FAILED, SKIPPED, UNKNOWN, ERROR = "success", "failed", "skipped", "unknown", "error"
STATUSES = (SUCCESS, FAILED, SKIPPED, UNKNOWN, ERROR)
FEW = 100  # attacked examples; below, a 95 % interval of an accuracy may be 20 points wide
RESAMPLES = 2000  # of the bootstrap: the ends of a 95 % interval then move by about 2 % of its width from seed to seed


def wilson(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion; sensible at 0 and at ``n`` too, where the usual interval has no width."""
    if not 0 < level < 1:
        raise TicketsError(f"the level of an interval lies between 0 and 1, got {level}", hint="0.95 is usual")
    if not 0 <= successes <= n:
        raise TicketsError(
            f"a proportion needs 0 <= successes <= n, got {successes} of {n}", hint="count the successes again"
        )
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


def paired_interval(
    a: Sequence[bool] | np.ndarray, b: Sequence[bool] | np.ndarray, level: float = 0.95
) -> tuple[float, float]:
    """Interval of the difference of two proportions on the same examples, ``a`` minus ``b``: Newcombe's square-and-add of Wilson's.

    Method 10 of Newcombe (1998), Statistics in Medicine 17, 2635-2650. It has width where two arms never differ on the few examples seen,
    where a bootstrap has none.
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


def bootstrap_difference(
    a: Sequence[float] | np.ndarray,
    b: Sequence[float] | np.ndarray,
    *,
    seed: int = 0,
    level: float = 0.95,
    resamples: int = RESAMPLES,
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
        gaps[generator.integers(0, gaps.size, size=(min(step, resamples - i), gaps.size))].mean(axis=1)
        for i in range(0, resamples, step)
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
            {
                "n": int(real[c]),
                "precision": 100 * float(precision[c]),
                "recall": 100 * float(recall[c]),
                "f1": 100 * float(f1[c]),
            }
            for c in range(classes)
        ],
    }


def only_class(per_class: Sequence[Mapping[str, Any]]) -> int | None:
    """The place of the class that was given to every row, read off the rows of ``classification``; none where there were several.

    Nor where all rows are of that class: then it is right to say nothing else. A class that no row has cannot be told from its row.
    """
    total = sum(row["n"] for row in per_class)
    for place, row in enumerate(per_class):
        if 0 < row["n"] < total and row["recall"] == 100 and math.isclose(row["precision"], 100 * row["n"] / total):
            return place
    return None


def attack_metrics(
    *, successes: int, failures: int, skipped: int, unknown: int = 0, level: float = 0.95
) -> tuple[dict[str, float | None], dict[str, tuple[float, float]]]:
    """Percentages of an attack and their Wilson intervals, counted as TextAttack counts, over the examples whose clean text was answered.

    ``clean``: right before the attack; ``aua``: still right after it, where one that was wrong before counts as wrong; ``suc``: turned,
    of those whose attack came to its end. One whose attack did not is unknown: fallen in ``aua``, held in ``aua_upper``.
    """
    ended, n = successes + failures, successes + failures + skipped + unknown
    held = {"clean": ended + unknown, "aua": failures, "aua_upper": failures + unknown}
    counts = {**{name: (x, n) for name, x in held.items()}, "suc": (successes, ended)}
    values = {name: 100 * x / of if of else None for name, (x, of) in counts.items()}
    ends = {name: wilson(x, of, level) for name, (x, of) in counts.items() if of}
    return values, {name: (100 * low, 100 * high) for name, (low, high) in ends.items()}


def _paired(a: Sequence[bool] | np.ndarray, b: Sequence[bool] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(a, dtype=bool).reshape(-1), np.asarray(b, dtype=bool).reshape(-1)
    _same_length(first, second)
    return first, second


def _same_length(first: np.ndarray, second: np.ndarray) -> None:
    if first.shape != second.shape:
        raise TicketsError(
            f"paired results need the same examples, got {first.size} and {second.size}", hint="join them by id first"
        )
