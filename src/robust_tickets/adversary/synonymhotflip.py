"""SynonymHotFlip: train on texts whose words are swapped for the synonyms that the gradient favours.

    g_t   =  the gradient of CE(f(x), y) with respect to E[x_t]
    c_t   =  the candidate c of x_t with the largest (E[c] - E[x_t]) · g_t, if that is positive, else x_t
    x'_t  =  c_t with probability p, else x_t
    loss  =  1/2 CE(f(x), y) + 1/2 CE(f(x'), y)

The first-order estimate of a swap is HotFlip's (Ebrahimi et al., ACL 2018), who flip one character at a time; here all
chosen words are swapped at once, and only within the table. The clean half's backward pass gives g, so the step costs
two plain ones. Not from the three papers. Default: p .5.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robust_tickets.adversary.objective import Objective
from robust_tickets.adversary.words import WordSpace, chosen, table_of
from robust_tickets.config import setting


@dataclass(frozen=True, kw_only=True)
class SynonymHotFlip(WordSpace):
    """``p`` per word."""

    p: float = setting(0.5, at_least=0, at_most=1)

    @property
    def passes(self) -> int:
        return 2

    def __call__(self, objective: Objective) -> Tensor:
        """Accumulate the step's gradients; returns the loss, detached."""
        delta = torch.zeros(
            objective.embedding_shape(), dtype=objective.words.dtype, device=objective.words.device, requires_grad=True
        )
        clean = 0.5 * objective.loss(delta)
        objective.backward(clean)
        assert delta.grad is not None
        flipped = 0.5 * objective.loss(ids=self.flipped(objective, delta.grad))
        objective.backward(flipped + objective.penalty())
        return (clean + flipped).detach()

    @torch.no_grad()
    def flipped(self, objective: Objective, gradient: Tensor) -> Tensor:
        """The batch's ids with words swapped for the candidates that ``gradient`` favours."""
        words, ids, table = table_of(objective), objective.inputs["input_ids"], objective.words
        positions = chosen(objective, words.swappable(objective.inputs, objective.labels), self.p)
        candidates, own = words.of(ids), table[ids]
        best, gain = ids, torch.zeros(ids.shape, dtype=gradient.dtype, device=ids.device)
        # one candidate at a time: all at once would hold (batch, tokens, candidates, width) numbers
        for k in range(1, words.most):
            gains = ((table[candidates[..., k]] - own) * gradient).sum(-1)  # 0 where a word has fewer candidates
            best = torch.where(gains > gain, candidates[..., k], best)
            gain = torch.maximum(gains, gain)
        return torch.where(positions, best, ids)


REGISTERED = SynonymHotFlip
