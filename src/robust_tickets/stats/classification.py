"""Metrics of an evaluation and of an attack: percentages from 0 to 100, counts as integers.

A number that has no meaning on its data (the success rate of an attack that attacked nothing) is ``None``, never 0 or
NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robust_tickets.errors import TicketsError
from robust_tickets.stats.intervals import check_paired, wilson

SUCCESS, FAILED, SKIPPED, UNKNOWN, ERROR = "success", "failed", "skipped", "unknown", "error"
STATUSES = (SUCCESS, FAILED, SKIPPED, UNKNOWN, ERROR)
FEW = 100  # attacked examples; below, a 95 % interval of an accuracy may be 20 points wide


def classification(
    labels: Sequence[int] | np.ndarray, predictions: Sequence[int] | np.ndarray, n_classes: int | None = None
) -> dict[str, Any]:
    """Accuracy, macro-F1 and, per class, n, precision, recall and F1; percentages.

    A class that was never predicted has precision 0, one that never occurs has recall 0. Macro-F1 is the mean over the
    classes that occur among the labels or the predictions, so that an unused class of a label list does not halve it.
    """
    truth, guess = np.asarray(labels, dtype=np.int64).reshape(-1), np.asarray(predictions, dtype=np.int64).reshape(-1)
    check_paired(truth, guess)
    if truth.size == 0:
        raise TicketsError("no examples to evaluate", hint="give a split with labelled rows", code="stats.empty")
    seen = int(max(truth.max(), guess.max())) + 1
    classes = seen if n_classes is None else n_classes
    least = int(min(truth.min(), guess.min()))
    if least < 0 or seen > classes:
        message = f"labels run from 0 to {classes - 1}, got {least} to {seen - 1}"
        raise TicketsError(message, hint="check the labels", code="stats.labels")
    confusion = np.bincount(truth * classes + guess, minlength=classes * classes).reshape(classes, classes)
    hits, real, given = np.diag(confusion), confusion.sum(1), confusion.sum(0)
    precision, recall = hits / np.maximum(given, 1), hits / np.maximum(real, 1)
    f1 = 2 * hits / np.maximum(real + given, 1)
    percent = zip(real.tolist(), *((100 * share).tolist() for share in (precision, recall, f1)), strict=True)
    return {
        "n": int(truth.size),
        "correct": int(hits.sum()),
        "accuracy": 100 * float(hits.sum()) / truth.size,
        "macro_f1": 100 * float(f1[(real + given) > 0].mean()),
        "per_class": [dict(zip(("n", "precision", "recall", "f1"), row, strict=True)) for row in percent],
    }


def only_class(per_class: Sequence[Mapping[str, Any]]) -> int | None:
    """The class predicted for every row, read from ``per_class``; ``None`` where there were several.

    Also ``None`` where all rows are of that class, and where no row is: then its precision and recall say nothing.
    """
    total = sum(row["n"] for row in per_class)
    for i, row in enumerate(per_class):
        if 0 < row["n"] < total and row["recall"] == 100 and math.isclose(row["precision"], 100 * row["n"] / total):
            return i
    return None


def attack_metrics(
    *, successes: int, failures: int, skipped: int, unknown: int = 0, level: float = 0.95
) -> tuple[dict[str, float | None], dict[str, tuple[float, float]]]:
    """Percentages of an attack and their Wilson intervals, counted as by TextAttack, without unanswered clean texts.

    ``clean``: right before the attack; ``aua``: still right after it; ``suc``: turned, of those whose attack ended. An
    example whose attack did not end is unknown: it counts as turned in ``aua``, as still right in ``aua_upper``.
    """
    ended, n = successes + failures, successes + failures + skipped + unknown
    held = {"clean": ended + unknown, "aua": failures, "aua_upper": failures + unknown}
    counts = {**{name: (x, n) for name, x in held.items()}, "suc": (successes, ended)}
    values = {name: 100 * x / of if of else None for name, (x, of) in counts.items()}
    ends = {name: wilson(x, of, level) for name, (x, of) in counts.items() if of}
    return values, {name: (100 * low, 100 * high) for name, (low, high) in ends.items()}
