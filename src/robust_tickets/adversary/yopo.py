"""YOPO (Zhang et al., 2019; as in FreeLB's fairseq code): FreeLB whose ascents run the first layer alone.

Between two full passes ``delta`` climbs n times on the Hamiltonian <p, layer_0(E + delta)>. p is the gradient of the
last full pass at the first layer's output, kept fixed: to first order it is how the loss depends on that output. An
ascent costs a layer's forward and gradient, not the model's, and drops the units that the full pass before it dropped.

| point             | here (default)     | switch                | who does the other                                     |
|-------------------|--------------------|-----------------------|--------------------------------------------------------|
| step              | eta                | ``divide_step=True``  | FreeLB's fairseq settings for MRPC: about eta/n         |
| full passes       | K                  | ``extra_pass=True``   | FreeLB's fairseq code: K+1 passes, loss/(K+1)          |
| dropout           | fresh in each full pass | ``dropout="shared"`` | FreeLB's fairseq code: one mask in all passes     |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robust_tickets.adversary.embedding import EmbeddingPerturbation
from robust_tickets.adversary.objective import Objective, SameDropout
from robust_tickets.config import setting

LAYERS = 12  # of BERT-base: what a layer's share of a pass is reckoned by


@dataclass(frozen=True, kw_only=True)
class YOPO(EmbeddingPerturbation):
    """Defaults: n 3 from FreeLB's fairseq settings (2 or 3), step and init of our PGD; no paper has YOPO."""

    steps: int = setting(3, at_least=1)  # full passes (K)
    ascents: int = setting(3, at_least=1)  # n, between two full passes
    divide_step: bool = False
    extra_pass: bool = False

    @property
    def full_passes(self) -> int:
        return self.steps + int(self.extra_pass)

    @property
    def passes(self) -> float:
        """Cost of one step, in passes of a model of 12 layers; an ascent takes no gradient of weights."""
        return self.full_passes + (self.full_passes - 1) * self.ascents * 2 / 3 / LAYERS

    def __call__(self, objective: Objective) -> Tensor:
        """Accumulate the full passes' gradients; returns their mean loss, detached."""
        objective, rewind = self.seen(objective), self.rewinding(objective)
        delta = self.start(objective)
        total = torch.zeros((), device=delta.device)
        for k in range(1, self.full_passes + 1):
            last = k == self.full_passes
            rewind()
            before = SameDropout(delta.device)
            delta.requires_grad_(not last)  # the first layer's output has a gradient even where weights are frozen
            with objective.seeing() as seen:
                loss = objective.loss(delta)
            if not last:
                seen.first.retain_grad()
            objective.backward(loss / self.full_passes + (objective.penalty() if last else 0.0))
            total = total + loss.detach()
            if last:
                break
            assert seen.first.grad is not None
            delta = self._climb(objective, delta, seen.first.grad, before)
        return total / self.full_passes

    def _climb(self, objective: Objective, delta: Tensor, costate: Tensor, dropout: SameDropout) -> Tensor:
        """n ascents on <costate, layer_0(E + delta)> with the full pass's dropout; the random stream stays."""
        after = SameDropout(delta.device)
        pace = replace(self, step_size=self.step_size / self.ascents) if self.divide_step else self
        for _ in range(self.ascents):
            delta = delta.detach().requires_grad_()
            dropout.rewind()
            wide = torch.promote_types(costate.dtype, torch.float32)
            hamiltonian = (objective.first_layer(delta) * costate).sum(dtype=wide)
            delta = pace.move(objective, delta, torch.autograd.grad(hamiltonian, delta)[0])
        after.rewind()
        return delta


REGISTERED = YOPO
