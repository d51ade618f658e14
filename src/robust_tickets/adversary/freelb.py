"""FreeLB (Zhu et al., ICLR 2020): K ascent passes whose parameter gradients are all kept and averaged.

Passes 1..K each cost one forward and one backward; the gradient of a pass with respect to ``delta`` moves ``delta``, its gradient with
respect to the parameters is accumulated at weight 1/K. So K passes make K-1 ascent moves and one descent step.

| point            | here (default)     | switch              | who does the other                                    |
|------------------|--------------------|---------------------|-------------------------------------------------------|
| passes           | K                  | ``extra_pass=True`` | FreeLB's fairseq code: K+1 passes, loss/(K+1)         |
| dropout          | fresh in each pass | ``dropout="shared"``| FreeLB: one mask in all passes; the three papers: fresh |
| projection       | none               | ``max_norm=rho``    | FreeLB: 0.15 to 0.7; the three papers: none           |
| token types      | reach every pass   |                     | EarlyRobust's and RobustT's code drop them            |

``init`` is the papers' epsilon: with the l2 norm the first delta is uniform noise whose expected norm is about init/sqrt(3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from robust_tickets.adversary._objective import Objective, SameDropout
from robust_tickets.checks import at_least_one, check_literals, not_negative

TINY = 1e-8  # floor of a gradient's norm, as in FreeLB's and the papers' code


@dataclass(frozen=True, kw_only=True)
class FreeLB:
    """Defaults: EarlyRobust's Table 6 for IMDB (K 5, step .01, init .05, no projection). One norm per example, over tokens and width."""

    steps: int = 5
    step_size: float = 0.01
    init: float = 0.05
    max_norm: float = 0.0  # 0: no projection
    norm: Literal["l2", "linf"] = "l2"
    dropout: Literal["fresh", "shared"] = "fresh"
    extra_pass: bool = False

    def __post_init__(self) -> None:
        check_literals(self)
        at_least_one(self, "steps")
        not_negative(self, "step_size", "init", "max_norm")

    @property
    def passes(self) -> int:
        """Forward-backward passes of one step."""
        return self.steps + int(self.extra_pass)

    def __call__(self, objective: Objective) -> Tensor:
        """Accumulate the step's gradients; returns the mean loss over the passes, detached."""
        dropout = SameDropout(objective.batch["input_ids"].device) if self.dropout == "shared" else None
        delta = self.start(objective)
        total = torch.zeros((), device=delta.device)
        for k in range(1, self.passes + 1):
            last = k == self.passes
            delta.requires_grad_(not last)  # the last pass moves delta no more
            if dropout:
                dropout.rewind()
            loss = objective.loss(delta)
            objective.backward(loss / self.passes + (objective.penalty() if last else 0.0))
            total = total + loss.detach()
            if last:
                break
            gradient = delta.grad
            assert gradient is not None
            delta = self.project(self.ascend(delta.detach(), gradient)) * objective.mask
        return total / self.passes

    def start(self, objective: Objective) -> Tensor:
        """delta_0: uniform noise, zero at padding."""
        if self.norm == "linf":
            return objective.uniform(-self.init, self.init) * objective.mask
        width = objective.embedding_shape()[2]
        wide = torch.promote_types(objective.mask.dtype, torch.float32)
        size = objective.mask.sum(dim=1, keepdim=True, dtype=wide) * width  # numbers that an example's delta holds; over 65,504 at times
        return objective.uniform(-1.0, 1.0) * objective.mask * (self.init / size.clamp_min(1).sqrt()).to(objective.mask.dtype)

    def ascend(self, delta: Tensor, gradient: Tensor) -> Tensor:
        return delta + self.step_size * gradient / self.size(gradient).clamp_min(TINY)

    def project(self, delta: Tensor) -> Tensor:
        if self.max_norm == 0:
            return delta
        if self.norm == "linf":
            return delta.clamp(-self.max_norm, self.max_norm)
        return delta * (self.max_norm / self.size(delta).clamp_min(TINY)).clamp_max(1.0)

    def size(self, delta: Tensor) -> Tensor:
        """The norm of each example, shape (batch, 1, 1)."""
        order = 2.0 if self.norm == "l2" else torch.inf
        return torch.linalg.vector_norm(delta, ord=order, dim=(1, 2), keepdim=True)


REGISTERED = FreeLB
