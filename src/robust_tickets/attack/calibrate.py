"""The temperature an attack sees the victim at: as it is, a given one, or one fitted so that its confidence matches its accuracy.

An over-confident victim's probabilities are all 1 in float32, and an attack that follows them sees no way; dividing the logits by a
temperature changes no prediction, only how much of the way the attack sees (Guo et al., 2017, fit it by the likelihood of held-out rows).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from robust_tickets.classifier import Classifier
from robust_tickets.errors import TicketsError

if TYPE_CHECKING:
    from robust_tickets.data.task import Split

CALIBRATED = "calibrated"
ROWS = 1000  # at most, of the calibration rows; the fit has one parameter
LEAST = 30  # rows below which nothing is fitted


def temperature_for(
    asked: float | str, clf: Classifier, split: Split, rows: np.ndarray, classes: tuple[int, ...] | None, calibration: Split | None
) -> float:
    """The number that ``asked`` stands for."""
    if asked != CALIBRATED:
        value = float(asked) if not isinstance(asked, str) else float("nan")
        if not 0 < value < float("inf"):
            raise TicketsError(f"temperature is a number above 0 or {CALIBRATED!r}, got {asked!r}", hint="1 leaves the victim as it is")
        return value
    held = calibration if calibration is not None else split.select(np.setdiff1d(np.arange(len(split)), rows))
    if len(held) < LEAST:
        raise TicketsError(
            f"calibration needs at least {LEAST} labelled rows that are not attacked, got {len(held)}",
            hint="give another split (calibration=, --calibration), or attack fewer rows",
        )
    held = held.select(np.linspace(0, len(held) - 1, min(ROWS, len(held)), dtype=int))
    logits = clf.logits([example.texts for example in held]).astype(np.float64)
    labels = held.labels if classes is None else np.asarray(classes)[held.labels]
    return fit(logits, labels)


def fit(logits: np.ndarray, labels: np.ndarray) -> float:
    """The temperature of the highest likelihood, by a bounded search on its logarithm."""
    from scipy.optimize import minimize_scalar

    def loss(log_t: float) -> float:
        z = logits / np.exp(log_t)
        z = z - z.max(axis=1, keepdims=True)
        return float((np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), labels]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(np.log(0.05), np.log(100.0)), method="bounded").x))
