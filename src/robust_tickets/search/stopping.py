"""When a search has seen enough: rules on the distances between the masks of successive mini-epochs, each decided online.

A rule gets the matrix ``far`` of distances between all points so far (the larger of heads' and neurons', so one comparison covers both)
and answers with the point to draw the ticket at, or None to continue. It keeps no state, so that a resumed search decides as before.

| rule         | fires when                                                                                   | draws at            |
|--------------|----------------------------------------------------------------------------------------------|---------------------|
| `paper`      | the last ``window`` distances between neighbours are all < gamma (EarlyRobust §3.3.2)        | first, or current   |
| `official`   | an anchor's next ``window`` points are all < gamma away from it (the released code, post hoc) | the anchor          |
| `early_bird` | the newest of the last ``window`` masks is <= gamma away from each of the others (You'20)    | current             |
| `fixed`      | ``at_epoch`` is reached (the released scripts: 0.2 epoch)                                    | there               |

`paper` draws at the first point of the run of ``window`` and ends the search at its last: the paper extracts "when the termination metric
is smaller" and ends "when … five times in a row". ``at="current"`` draws where the search ends. ``at="before"`` is the released code's slip
in ``official``: masks are compared one update after each mini-epoch's end, the ticket is drawn at the end itself; its anchor 0 means random
pruning there and is left out.

Scale to remember: two masks at ratio p differ by at most 2p, random ones by 2p(1-p).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from robust_tickets.config import refuse

Masks = Sequence[np.ndarray]  # one per layer


def mini_epochs(per_epoch: int, epochs: int, mini: float, least: int = 1) -> list[int]:
    """Updates after which a point is recorded: the ends of the mini-epochs, or every ``least`` updates where those lie closer."""
    if mini * per_epoch < least:
        return list(range(least, epochs * per_epoch + 1, least))
    count = max(1, round(epochs / mini))
    ends = sorted({min(epochs * per_epoch, max(1, round(i * mini * per_epoch))) for i in range(1, count + 1)})
    return ends[:-1] if len(ends) > 1 and ends[-1] - ends[-2] < least else ends  # the last one may be cut short


class Apart:
    """Per group, the distances (Hamming over size) between all points so far; a new point is compared once with each older one."""

    def __init__(self) -> None:
        self.matrices: dict[str, np.ndarray] = {}
        self._points: list[dict[str, np.ndarray]] = []

    def add(self, masks: Mapping[str, Masks]) -> None:
        point = {group: np.concatenate(list(layers)) for group, layers in masks.items()}
        count = len(self._points)
        for group, flat in point.items():
            matrix = np.zeros((count + 1, count + 1))
            if count:
                matrix[:count, :count] = self.matrices[group]
                matrix[count, :count] = matrix[:count, count] = [
                    float((older[group] != flat).mean()) for older in self._points
                ]
            self.matrices[group] = matrix
        self._points.append(point)

    def far(self) -> np.ndarray:
        """The larger of the groups' distances."""
        apart: np.ndarray = np.maximum.reduce(list(self.matrices.values()))
        return apart


def paper(far: np.ndarray, gamma: float, window: int, at: str = "current") -> int | None:
    last = len(far) - 1
    if last < window or any(far[t, t - 1] >= gamma for t in range(last - window + 1, last + 1)):
        return None
    return last if at == "current" else last - window + 1


def official(far: np.ndarray, gamma: float, window: int, at: str = "current") -> int | None:
    # points come in pairs: where the ticket would be drawn, and one update later, where masks are compared
    if at == "before":
        later = official(far[1::2, 1::2], gamma, window)
        return None if later is None else 2 * later
    anchor = len(far) - 1 - window
    if anchor < 0 or any(far[anchor, anchor + i] >= gamma for i in range(1, window + 1)):
        return None
    return anchor


def early_bird(far: np.ndarray, gamma: float, window: int, at: str = "current") -> int | None:
    last = len(far) - 1
    if last < window - 1 or any(far[last, last - i] > gamma for i in range(1, window)):
        return None
    return last


def fixed(far: np.ndarray, last: int) -> int | None:
    return last if len(far) > last else None


def pairs(ends: Sequence[int], total: int) -> list[int]:
    """The points of ``at="before"``: each end of a mini-epoch and the update after it, as far as there is one."""
    refuse(
        any(later - end < 2 for end, later in pairwise(ends)),
        "at='before' needs two updates a mini-epoch",
        hint="a larger mini",
    )
    found = [step for end in ends if end < total for step in (end, end + 1)]
    refuse(not found, "at='before' needs two mini-epochs", hint="a smaller mini, or more epochs")
    return found


RULES: Mapping[str, Callable[..., int | None]] = {"paper": paper, "official": official, "early_bird": early_bird}
