"""The temperature of an attacked victim, fitted so that its confidence matches its accuracy (Guo et al., 2017).

An over-confident victim's probabilities are all 1 in float32, and an attack that follows them sees no way; dividing the logits by a
temperature changes no prediction, only how much of the way the attack sees.

The fit is exact: in 1/T the likelihood has one maximum, at which the mean logit of the right class equals the mean expected logit. It
has none where the victim is right on every row (no T is small enough) or right no more often than its logits would be by chance (none is
large enough). Then the victim is attacked as it is, and the result says so: a temperature near 0 would hide the way it was to uncover.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.attack.options import CALIBRATED
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.base import probabilities
from robust_tickets.errors import TicketsError
from robust_tickets.progress import warn

if TYPE_CHECKING:
    from robust_tickets.data.task import Split

ROWS = 1000  # at most, of the calibration rows; the fit has one parameter
LEAST = 30  # rows below which nothing is fitted
# temperatures a fit may find; beyond them the rows say nothing about the victim's confidence
LOWEST, HIGHEST = (0.1, 10_000.0)
BINS = 15  # of the expected calibration error, as Guo et al. take it


def held_out(asked: float | str, split: Split, rows: np.ndarray, calibration: Split | None) -> Split | None:
    """The rows to fit on: of ``calibration``, or those of ``split`` that are not attacked; none that holds an attacked text.

    None where a number is asked for.
    """
    if asked != CALIBRATED:
        if calibration is not None:
            message, hint = f"a split to calibrate on was given, but the temperature is {asked}", "ask for temperature"
            raise TicketsError(message, hint=f'{hint}="{CALIBRATED}"', code="attack.calibration")
        return None
    source = split if calibration is None else calibration
    if len(source.columns) != len(split.columns):
        message = (
            f"the rows to calibrate on have {len(source.columns)} text column(s), those to attack {len(split.columns)}"
        )
        raise TicketsError(message, hint="give a split of the same task", code="attack.calibration")
    # the same text under another id is an attacked text too
    free = np.flatnonzero(~np.isin(source.keys, split.keys[rows]))
    if len(free) < LEAST:
        raise TicketsError(
            f"calibration needs at least {LEAST} labelled rows whose texts are not attacked, got {len(free)} of {source.name!r}",
            hint="give another split (calibration=, --calibration), or attack fewer rows",
            code="attack.calibration",
        )
    return source.select(free[np.linspace(0, len(free) - 1, min(ROWS, len(free)), dtype=int)])


def calibrate(clf: Classifier, held: Split, classes: Sequence[int]) -> tuple[float, dict[str, Any]]:
    """The fitted temperature and how well it fits; costs a query a row."""
    logits = clf.logits([example.texts for example in held]).astype(np.float64)
    labels = np.asarray(classes)[held.labels]
    found, why = fit(logits, labels)
    value = 1.0 if found is None else found
    if found is None:
        warn(f"the temperature was not fitted: {why}; the victim is attacked as it is")
    after = logits / value
    measures = {"nll_before": nll(logits, labels), "nll_after": nll(after, labels)}
    measures |= {"ece_before": ece(logits, labels), "ece_after": ece(after, labels)}
    about = {"split": held.name, "n": len(held), "digest": held.digest, "fitted": found is not None, "why": why}
    return value, {**about, **{name: round(number, 6) for name, number in measures.items()}}


def fit(logits: np.ndarray, labels: np.ndarray) -> tuple[float | None, str]:
    """The temperature of the highest likelihood to four digits, or none and why."""
    n, right = len(labels), logits[np.arange(len(labels)), labels]
    if (right >= logits.max(axis=1)).all():
        return None, f"the victim is right on all {n} calibration rows, and no temperature is low enough for that"

    def slope(beta: float) -> float:  # of the loss in beta = 1/T; rises with beta
        return float(((probabilities(logits * beta) * logits).sum(axis=1) - right).mean())

    low, high = math.log(1 / HIGHEST), math.log(1 / LOWEST)
    if slope(math.exp(low)) >= 0:
        return None, f"on the {n} calibration rows the victim's confidence has nothing to do with being right"
    if slope(math.exp(high)) <= 0:
        return None, f"on the {n} calibration rows the best temperature is below {LOWEST}"
    for _ in range(60):  # halving: 60 times is beyond float64
        middle = (low + high) / 2
        low, high = (middle, high) if slope(math.exp(middle)) < 0 else (low, middle)
    # four digits, so that the rounding of a batch cannot make it another attack
    return float(f"{math.exp(-(low + high) / 2):.4g}"), ""


def nll(logits: np.ndarray, labels: np.ndarray) -> float:
    """Mean negative log-likelihood in nats."""
    top = logits.max(axis=1, keepdims=True)
    whole = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
    return float((whole - logits[np.arange(len(labels)), labels]).mean())


def ece(logits: np.ndarray, labels: np.ndarray) -> float:
    """Expected calibration error: how far confidence lies from accuracy, over bins of equal width weighted by their rows."""
    p = probabilities(logits)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(labels))
