"""PGD (Madry et al., 2018) on word embeddings: K ascents, then one descent at the final point.

The clean text is never trained on. The ascents take the gradient with respect to ``delta`` alone. In units of one
fine-tuning step (a forward, the gradients of the inputs, the gradients of the weights: a third each) that costs
(2K+3)/3, 4.33 for K = 5, less than FreeLB's 5.

| point                     | here (default)     | switch               | who does the other                                    |
|---------------------------|--------------------|----------------------|-------------------------------------------------------|
| gradients in the ascents  | of delta alone     | ``naive=True``       | Flooding-X, TextDefender: all, thrown away; cost K+1  |
| dropout                   | fresh in each pass | ``dropout="shared"`` | FreeLB's fairseq code ("std-adv"): one mask           |
| projection                | none               | ``max_norm=rho``     | FreeLB's fairseq code                                 |
| floor of the norm         | 1e-8               |                      | FreeLB's fairseq code: none, so a NaN at gradient 0   |
| token types               | reach every pass   | ``token_types=False``| Flooding-X drops them                                 |

``naive`` changes the cost and nothing else: it is there to time the papers' baseline.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from robust_tickets.adversary.embedding import EmbeddingPerturbation
from robust_tickets.adversary.objective import Objective
from robust_tickets.config import setting


@dataclass(frozen=True, kw_only=True)
class PGD(EmbeddingPerturbation):
    """Defaults: those of Flooding-X and TextDefender's code (K 3, step .03, init .05, no projection)."""

    steps: int = setting(3, at_least=1)
    naive: bool = False

    @property
    def passes(self) -> float:
        """Cost of one step, in forward-backward passes."""
        return self.steps + 1 if self.naive else (2 * self.steps + 3) / 3

    def __call__(self, objective: Objective) -> Tensor:
        """Leave the gradients at the final point; returns the loss there, detached."""
        objective, rewind = self.seen(objective), self.rewinding(objective)
        delta = self.start(objective)
        for _ in range(self.steps):
            delta.requires_grad_()
            rewind()
            delta = self.move(objective, delta, self._gradient(objective, delta))
        rewind()
        loss = objective.loss(delta)
        objective.backward(loss + objective.penalty())
        return loss.detach()

    def _gradient(self, objective: Objective, delta: Tensor) -> Tensor:
        """Of the loss with respect to delta; whatever gradients the parameters hold already stay as they are."""
        wasted = [p for p in objective.model.parameters() if p.requires_grad] if self.naive else []
        loss = objective.loss(delta)
        with objective.dropping() if self.naive else nullcontext():
            return torch.autograd.grad(loss, [delta, *wasted], allow_unused=self.naive)[0]


REGISTERED = PGD
