"""Watch: coefficients at the end of every mini-epoch, the masks they draw, and whether the search may stop.

Only these points are recorded (20 an epoch, not every step), as copies: a record that aliases the live parameter makes all points equal,
and a search that compares them "converges" at once. The rule sees masks, never the coefficients; the ticket is drawn at the point it names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.search import stopping
from robust_tickets.ticket.ticket import Ticket

GROUPS = ("heads", "neurons")
Scores = Mapping[str, Sequence[np.ndarray]]


def mini_epochs(per_epoch: int, epochs: int, mini: float, least: int = 1) -> list[int]:
    """Updates after which a point is recorded: the ends of the mini-epochs, or every ``least`` updates where those lie closer."""
    if mini * per_epoch < least:
        return list(range(least, epochs * per_epoch + 1, least))
    count = max(1, round(epochs / mini))
    ends = sorted({min(epochs * per_epoch, max(1, round(i * mini * per_epoch))) for i in range(1, count + 1)})
    return ends[:-1] if len(ends) > 1 and ends[-1] - ends[-2] < least else ends  # the last one may be cut short


class Watch:
    """The loop's callback and memory: ``draw`` turns scores into a ticket, ``rule`` a matrix of distances into a point or None."""

    def __init__(
        self,
        *,
        snapshot: Callable[[], Scores],
        draw: Callable[[Scores], Ticket],
        rule: Callable[[np.ndarray], int | None],
        points: Sequence[int],
        per_epoch: int,
    ) -> None:
        self.snapshot, self.draw, self.rule = snapshot, draw, rule
        self.points, self.per_epoch = frozenset(points), per_epoch
        self.records: list[dict[str, list[np.ndarray]]] = []  # scores at each point
        self.steps: list[int] = []
        self.losses: list[float] = []
        self.apart = stopping.Apart()
        self.drawn_at: int | None = None
        self.loss_sum: Tensor | None = None  # since the last point; stays on the device
        self.loss_count = 0

    def __call__(self, step: int, loss: Tensor) -> bool:
        """After an update; True when the rule has fired."""
        self.loss_sum = loss if self.loss_sum is None else self.loss_sum + loss
        self.loss_count += 1
        if step not in self.points:
            return False
        scores = {group: [np.array(layer) for layer in layers] for group, layers in self.snapshot().items()}
        mean = float(self.loss_sum) / self.loss_count
        if not math.isfinite(mean) or not all(
            np.isfinite(layer).all() for layers in scores.values() for layer in layers
        ):
            raise TicketsError(
                f"the search diverged by step {step}: loss {mean}",
                hint="lower its learning rate or step size",
                exit_code=FAILED,
            )
        self.losses.append(mean)
        self.loss_sum, self.loss_count = None, 0
        self.steps.append(step)
        self._record(scores)
        self.drawn_at = self.rule(self.apart.far())
        return self.drawn_at is not None

    def _record(self, scores: dict[str, list[np.ndarray]]) -> None:
        self.records.append(scores)
        self.apart.add(self.draw(scores).masks)

    def distances(self) -> dict[str, np.ndarray]:
        return self.apart.matrices

    @property
    def chosen(self) -> int:
        """The point to draw at: the rule's, or the last one if it never fired."""
        return self.drawn_at if self.drawn_at is not None else len(self.records) - 1

    def trace(self) -> list[dict[str, Any]]:
        """One line per point; ``heads`` and ``neurons`` are distances to the point before."""
        apart = self.distances()
        return [
            {
                "point": i,
                "step": step,
                "epoch": self.epoch(i),
                **{group: float(apart[group][i, i - 1]) if i else None for group in GROUPS},
                "loss": self.losses[i],
            }
            for i, step in enumerate(self.steps)
        ]

    def epoch(self, point: int) -> float:
        return round(self.steps[point] / self.per_epoch, 4)

    # the loop's Memory

    def tensors(self) -> dict[str, Tensor]:
        saved = {
            f"{point}/{group}/{layer}": torch.from_numpy(values.copy())
            for point, record in enumerate(self.records)
            for group, layers in record.items()
            for layer, values in enumerate(layers)
        }
        return saved | ({"loss": self.loss_sum} if self.loss_sum is not None else {})

    def values(self) -> dict[str, Any]:
        layers = {group: len(record) for group, record in self.records[0].items()} if self.records else {}
        return {
            "steps": list(self.steps),
            "losses": list(self.losses),
            "layers": layers,
            "drawn_at": self.drawn_at,
            "loss_count": self.loss_count,
        }

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self.steps, self.losses = list(values["steps"]), list(values["losses"])
        self.drawn_at, self.loss_count = values["drawn_at"], int(values["loss_count"])
        self.loss_sum = tensors.get("loss")
        self.records, self.apart = [], stopping.Apart()
        for point in range(len(self.steps)):
            self._record(
                {g: [tensors[f"{point}/{g}/{i}"].numpy() for i in range(n)] for g, n in values["layers"].items()}
            )
