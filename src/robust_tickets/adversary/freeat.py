"""FreeAT (Shafahi et al., 2019; as in FreeLB's fairseq code): every batch is replayed m times, each with an update.

One backward pass serves both: its gradient of the parameters is an optimiser step, its gradient of ``delta`` an ascent.
So ``delta`` was always computed for the parameters of one update ago, which FreeLB mends. The learning rate runs over m
times as many updates.

| point             | here (default)        | switch               | who does the other                                         |
|-------------------|-----------------------|----------------------|------------------------------------------------------------|
| loss in a replay  | times 1/(1+m)         | ``scaled=False``     | Shafahi et al.: whole. The fairseq code kept FreeLB's factor |
| delta             | new for each batch    |                      | Shafahi et al.: carried on to the next batch               |
| dropout           | fresh in each replay  | ``dropout="shared"`` | FreeLB's fairseq code: one mask                            |

The factor reaches AdamW only through the clipping of the gradient. A search's regulariser is part of every update's
objective, and is multiplied by the same factor, so that its weight against the loss is what the search says.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robust_tickets.adversary.embedding import EmbeddingPerturbation
from robust_tickets.adversary.objective import Objective
from robust_tickets.config import setting
from robust_tickets.errors import TicketsError


@dataclass(frozen=True, kw_only=True)
class FreeAT(EmbeddingPerturbation):
    """Defaults: step and init are PGD's here; no table of the three papers has FreeAT."""

    replays: int = setting(3, at_least=1)  # m
    scaled: bool = True

    @property
    def updates(self) -> int:
        """Optimiser steps a batch."""
        return self.replays

    @property
    def passes(self) -> int:
        """Forward-backward passes a batch."""
        return self.replays

    @property
    def scale(self) -> float:
        """What a replay's loss is multiplied by."""
        return 1 / (1 + self.replays) if self.scaled else 1.0

    def __call__(self, objective: Objective) -> Tensor:
        """Update the model after every replay but the last, which the caller does; returns the replays' mean loss."""
        if objective.update is None and self.replays > 1:
            message = "FreeAT updates the model inside a batch, and this step has no update"
            raise TicketsError(message, hint="train with FineTune or TrainingRun", code="adversary.update")
        objective, rewind = self.seen(objective), self.rewinding(objective)
        delta = self.start(objective)
        total = torch.zeros((), device=delta.device)
        for replay in range(1, self.replays + 1):
            last = replay == self.replays
            delta.requires_grad_(not last)
            rewind()
            loss = objective.loss(delta)
            objective.backward((loss + objective.penalty()) * self.scale)
            total = total + loss.detach()
            if last or objective.update is None:
                break
            gradient = delta.grad
            assert gradient is not None
            objective.update()
            delta = self.move(objective, delta, gradient)
        return total / self.replays


REGISTERED = FreeAT
