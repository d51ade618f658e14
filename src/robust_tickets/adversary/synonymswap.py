"""SynonymSwap: train on texts whose words are swapped at random within a synonym table.

    x'_t  =  a uniform candidate of x_t with probability p, else x_t          (the word itself is one of its candidates)
    loss  =  mix · CE(f(x), y) + (1 - mix) · CE(f(x'), y)

No gradient is needed to find x', so the step costs two plain ones, or one with ``mix=0``. Not from the three papers:
the simplest rival of training in an embedding ball. A word with n synonyms changes with probability p · n/(n + 1). A
pass each for clean and swapped texts: the memory is that of a plain step. Defaults: p .5, half of the loss on the clean
texts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robust_tickets.adversary.objective import Objective
from robust_tickets.adversary.words import WordSpace, chosen, table_of
from robust_tickets.config import setting


@dataclass(frozen=True, kw_only=True)
class SynonymSwap(WordSpace):
    """``p`` per word; ``mix`` is the clean texts' share of the loss."""

    p: float = setting(0.5, at_least=0, at_most=1)
    mix: float = setting(0.5, at_least=0, at_most=1)

    @property
    def passes(self) -> int:
        return (self.mix > 0) + (self.mix < 1)

    def __call__(self, objective: Objective) -> Tensor:
        """Accumulate the step's gradients; returns the loss, detached."""
        total = torch.zeros((), device=objective.inputs["input_ids"].device)
        parts = ((self.mix, None), (1 - self.mix, self.swapped(objective)))
        shares = [(share, ids) for share, ids in parts if share > 0]
        for k, (share, ids) in enumerate(shares, start=1):
            loss = share * objective.loss(ids=ids)
            objective.backward(loss + (objective.penalty() if k == len(shares) else 0.0))
            total = total + loss.detach()
        return total

    def swapped(self, objective: Objective) -> Tensor:
        """The batch's ids with words swapped."""
        words, ids = table_of(objective), objective.inputs["input_ids"]
        positions = chosen(objective, words.swappable(objective.inputs, objective.labels), self.p)
        count = words.counts[ids]
        which = (torch.rand(ids.shape, generator=objective.generator, device=ids.device) * count).long()
        which = torch.minimum(which, count - 1).unsqueeze(-1)  # a draw just below 1 may round up to the count
        return torch.where(positions, words.of(ids).gather(-1, which).squeeze(-1), ids)


REGISTERED = SynonymSwap
