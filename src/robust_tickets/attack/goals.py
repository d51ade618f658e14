"""Goals of an attack: the score of a text, and whether the text reaches the goal.

The search compares scores and asks whether the goal is reached; it knows neither labels nor probabilities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

ULP = 2.0**-23  # rounding of 1 - p in float32, generously
ORDINARY = 16.0  # logits up to which the noise was measured; larger ones come from larger weights, whose rounding is larger alike


@dataclass(slots=True, eq=False)
class Row:
    """The victim's answer to one input of one example; texts with equal token ids share it."""

    probabilities: np.ndarray  # float32, one per class
    logits: np.ndarray  # float32, divided by the temperature; of a callable, log p
    predicted: int  # the most probable class at temperature 1, so that no rounding at another one changes it
    exact: bool = False  # run alone, so that it depends on nothing but the text
    score: float | None = None  # by the example's goal, once it was asked for

    @property
    def size(self) -> float:
        """How many times larger than ordinary the logits are."""
        return float(np.abs(self.logits).max()) / ORDINARY

    def close(self, noise: float) -> bool:
        """Whether a batch that moves log-odds by ``noise`` could change the predicted class, whichever two compete."""
        below, top = (float(p) for p in np.sort(self.probabilities)[-2:])
        return top - below <= 2 * (noise * max(1.0, self.size) * top * (1 - top) + ULP)


class Goal(ABC):
    """What is sought on one example."""

    odds: bool = False  # scores are log-odds: they may be negative

    @abstractmethod
    def score(self, row: Row) -> float:
        """How far the text has come; higher is nearer."""

    @abstractmethod
    def reached(self, row: Row) -> bool:
        """Whether the text is there."""

    def growth(self, row: Row) -> float:
        """How many times larger than measured the noise may be for an example with this clean text."""
        return max(1.0, row.size, abs(self.score(row)) / ORDINARY if self.odds else 0.0)

    def error(self, score: float, noise: float, growth: float) -> float:
        """How far a batch that moves log-odds by ``noise`` may move a score."""
        if self.odds:
            return noise * max(growth, abs(score) / ORDINARY)
        return noise * growth * score * (1 - score) + ULP


@dataclass(frozen=True)
class Untargeted(Goal):
    """Another class than ``label`` has the highest probability.

    The score is TextAttack's 1 - p(label) in float32, or with ``odds`` the log-odds against the label in float64, which do not saturate.
    """

    label: int
    odds: bool = False

    def score(self, row: Row) -> float:
        if not self.odds:
            return float(np.float32(1) - row.probabilities[self.label])
        logits = row.logits.astype(np.float64)
        others = np.delete(logits, self.label)
        top = others.max()
        return float(top + np.log(np.exp(others - top).sum()) - logits[self.label])

    def reached(self, row: Row) -> bool:
        return row.predicted != self.label
