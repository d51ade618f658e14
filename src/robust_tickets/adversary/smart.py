"""SMART (Jiang et al., ACL 2020), its regulariser: predictions should not change under small embedding noise.

Noise starts as N(0, 1) * ``init`` and climbs K times on the sum of KL(noisy || clean), by its own gradient alone; then
the step minimises CE(clean) + weight * symmetric KL(clean, noisy). Labels see the clean text only. This is what mt-dnn,
the authors' code, computes; the paper's second half, the Bregman proximal point, is not in it.

| point               | here (default)                    | switch               | who does the other                             |
|---------------------|-----------------------------------|----------------------|------------------------------------------------|
| noise after a climb | divided by its largest number, token by token | ``radius=eps`` | the paper: projected to [-eps, eps] instead |
| symmetric KL        | both sides are trained            | ``one_sided=True``   | mt-dnn: each KL's target is a constant         |
| KL of the climb     | the divergence itself             | ``log_odds=True``    | mt-dnn: twice the difference of the log odds   |
| step                | 1e-3, mt-dnn's class              | ``step_size=1e-5``   | mt-dnn's command line                          |
| padding             | stays zero                        |                      | mt-dnn: noise there too                        |

With ``radius`` it is the climb's gradient that is divided by its largest number, token by token, so that ``step_size``
is its length there. With mt-dnn's rule a token's largest number is 1 after the climb, whatever ``step_size``: large
against BERT's embeddings (about 0.04). Where the noise's gradient is not finite, the regulariser is 0 for that batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from robust_tickets.adversary.objective import Adversary, Objective
from robust_tickets.config import setting

TINY = 1e-6  # added to a token's largest number, and inside the log odds, as in mt-dnn


@dataclass(frozen=True, kw_only=True)
class SMART(Adversary):
    """Defaults: mt-dnn's class (K 1, step 1e-3, noise 1e-5, weight 1)."""

    steps: int = setting(1, at_least=1)
    step_size: float = setting(1e-3, at_least=0)
    init: float = setting(1e-5, at_least=0)
    weight: float = setting(1.0, at_least=0)
    radius: float = setting(0.0, at_least=0)  # 0: normalised, not projected
    one_sided: bool = False
    log_odds: bool = False
    dropout: Literal["fresh", "shared"] = "fresh"

    @property
    def passes(self) -> float:
        """Cost of one step, in forward-backward passes: the clean one, the noisy one, and two thirds for each climb."""
        return 2 + 2 * self.steps / 3

    def __call__(self, objective: Objective) -> Tensor:
        """Accumulate the step's gradients; returns the cross-entropy plus the weighted regulariser, detached."""
        rewind = objective.rewinding(self.dropout == "shared")
        clean = objective.logits()
        noise = objective.normal(self.init) * objective.mask
        finite = torch.ones((), dtype=torch.bool, device=noise.device)
        for _ in range(self.steps):
            noise.requires_grad_()
            rewind()
            change = objective.total(self._divergence(objective.logits(noise), clean.detach()))
            gradient = torch.autograd.grad(change, noise)[0]
            finite = finite & torch.isfinite(gradient.norm())
            noise = self._climb(noise.detach(), gradient) * objective.mask
            noise = torch.where(finite, noise, torch.zeros_like(noise))  # the last pass needs finite gradients too
        rewind()
        rough = objective.mean(self._symmetric(clean, objective.logits(noise)))
        rough = torch.where(finite, rough, torch.zeros_like(rough))
        loss = objective.loss_fn(clean, objective.labels) + self.weight * rough
        objective.backward(loss + objective.penalty())
        return loss.detach()

    def _climb(self, noise: Tensor, gradient: Tensor) -> Tensor:
        if self.radius > 0:
            step = self.step_size * gradient / (largest(gradient) + TINY)
            return (noise + step).clamp(-self.radius, self.radius)
        noise = noise + self.step_size * gradient
        return noise / (largest(noise) + TINY)

    def _divergence(self, noisy: Tensor, clean: Tensor) -> Tensor:
        """What the noise climbs on; one number for each prediction."""
        if not self.log_odds:
            return kl(noisy, clean)
        p, q = log_softmax(noisy).exp(), log_softmax(clean).exp()
        odds = [-(1 / (share.detach() + TINY) - 1 + TINY).log() for share in (p, q)]
        return (2 * p * (odds[0] - odds[1])).sum(-1)

    def _symmetric(self, clean: Tensor, noisy: Tensor) -> Tensor:
        if self.one_sided:
            return kl(clean.detach(), noisy) + kl(noisy.detach(), clean)
        return kl(clean, noisy) + kl(noisy, clean)


def kl(one: Tensor, other: Tensor) -> Tensor:
    """KL(softmax(one) || softmax(other)), one number for each prediction."""
    p, q = log_softmax(one), log_softmax(other)
    return (p.exp() * (p - q)).sum(-1)


def log_softmax(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


def largest(noise: Tensor) -> Tensor:
    """The largest absolute number of each token."""
    return noise.abs().amax(dim=-1, keepdim=True)


REGISTERED = SMART
