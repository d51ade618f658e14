"""Rounds of magnitude pruning: what goes in each, the model that the next one starts from, and the state between two of them.

A weight's score says when it went: the round (from 0) plus its share of the largest magnitude that went with it, below 1. Those that are
left at the end come last, by magnitude. So a draw at the sparsity of any round gives that round's masks exactly, and one between two
rounds removes the later one's smallest first. While the rounds go on, what is still there has the score infinity.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.errors import TicketsError
from robust_tickets.ticket.topk import keep_best, removed_count

if TYPE_CHECKING:
    from torch import Tensor

Scores = dict[str, np.ndarray]  # by matrix
BELOW_ONE = np.float32(0.999)  # the share of the largest: a round's scores must not reach the next round's


def remove(scores: Scores, magnitudes: Scores, done: int, sparsity: float) -> int:
    """Give a score to the smallest of what is still there, until the fraction ``sparsity`` of all is gone; how many went."""
    total = sum(m.size for m in scores.values())
    candidates = [np.where(np.isinf(scores[name]), magnitudes[name], np.float32(-1)) for name in scores]
    kept = keep_best(candidates, total - removed_count(total, sparsity))
    went = {name: np.isinf(scores[name]) & ~mask for name, mask in zip(scores, kept, strict=True)}
    _mark(scores, magnitudes, went, done)
    return sum(int(np.count_nonzero(mask)) for mask in went.values())


def settle(scores: Scores, magnitudes: Scores, done: int) -> None:
    """Give what is left at the end its scores."""
    _mark(scores, magnitudes, {name: np.isinf(score) for name, score in scores.items()}, done)


def _mark(scores: Scores, magnitudes: Scores, where: Mapping[str, np.ndarray], done: int) -> None:
    largest = max((float(magnitudes[name][mask].max()) for name, mask in where.items() if mask.any()), default=0.0)
    for name, mask in where.items():
        scores[name][mask] = np.float32(done) + magnitudes[name][mask] * (BELOW_ONE / np.float32(largest or 1.0))


def rewound(theta_0: Any, scores: Scores, head: Mapping[str, Tensor]) -> Any:
    """theta_0 again, without what went, and with ``head`` instead of its own classifier where one is given."""
    import torch

    from robust_tickets.backbone.weight_masks import attach

    model = copy.deepcopy(theta_0)
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in head.items():
            parameters[name].copy_(value)
    attach(model, {name: torch.from_numpy(np.isinf(score)) for name, score in scores.items()})
    return model


def head_of(model: Any) -> dict[str, Tensor]:
    """Everything that is not the encoder."""
    inside = f"{model.base_model_prefix}."
    return {name: p.detach().clone() for name, p in model.named_parameters() if not name.startswith(inside)}


@dataclass(kw_only=True)
class Rounds:
    """The search between two rounds, in memory and in ``folder/checkpoint``; each round has its own folder for the one it is in."""

    folder: Path | None
    identity: str
    scores: Scores
    head: Mapping[str, Tensor] = field(default_factory=dict)
    trace: list[dict[str, Any]] = field(default_factory=list)  # a line a round

    def at(self, number: int) -> Path | None:
        return self.folder / f"round-{number}" if self.folder else None

    def resume(self) -> None:
        """Go to the end of the last round that was finished."""
        from robust_tickets.train import checkpoint

        found = checkpoint.read(self.folder / "checkpoint") if self.folder else None
        if found is None:
            return
        if found.values["identity"] != self.identity:
            raise TicketsError(
                f"{self.folder} holds the checkpoint of another run (other settings, data or starting weights)",
                hint="give another folder, or remove this one to start anew",
            )
        self.scores = {name: found.tensors[f"score/{name}"].numpy() for name in self.scores}
        self.head = {
            name.removeprefix("head/"): value for name, value in found.tensors.items() if name.startswith("head/")
        }
        self.trace = [dict(line) for line in found.values["trace"]]

    def finish(self, line: dict[str, Any], head: Mapping[str, Tensor]) -> None:
        """A round is over: write that, then drop the round's own checkpoint, which is three times the model."""
        import torch

        from robust_tickets.train import checkpoint

        self.head, self.trace = head, [*self.trace, line]
        if self.folder is None:
            return
        tensors = {f"score/{name}": torch.from_numpy(score) for name, score in self.scores.items()}
        tensors |= {f"head/{name}": value for name, value in head.items()}
        values = {
            "identity": self.identity,
            "trace": [list(line.items()) for line in self.trace],
        }  # pairs: JSON sorts keys
        checkpoint.write(
            self.folder / "checkpoint", checkpoint.State(step=len(self.trace), tensors=tensors, values=values)
        )
        shutil.rmtree(self.folder / f"round-{len(self.trace)}" / "checkpoint", ignore_errors=True)
