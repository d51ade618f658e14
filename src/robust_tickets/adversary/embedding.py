"""Base of adversaries that perturb word embeddings: the first delta, one ascent, the projection back into the ball.

One norm per example, over all its tokens and widths, as FreeLB and the three papers have it. ``init`` is the papers'
epsilon: with the l2 norm the first delta is uniform noise whose expected norm is about init/sqrt(3). Deltas are zero at
padding, always.

``token_types=False`` repeats a loss in EarlyRobust's and RobustT's released code, whose adversarial passes call the
model with ``inputs_embeds`` and without the token types, so that both sentences of a pair count as the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from robust_tickets.adversary.objective import Adversary, Objective
from robust_tickets.config import setting

TINY = 1e-8  # floor of a gradient's norm, as in FreeLB's and the papers' code


@dataclass(frozen=True, kw_only=True)
class EmbeddingPerturbation(Adversary):
    """Where deltas start, how far they move, and where they must stay."""

    step_size: float = setting(0.03, at_least=0)
    init: float = setting(0.05, at_least=0)
    max_norm: float = setting(0.0, at_least=0)  # 0: no projection
    norm: Literal["l2", "linf"] = "l2"
    dropout: Literal["fresh", "shared"] = "fresh"  # in the passes of one step
    token_types: bool = True  # False: lost on the way, as in the papers' released code

    def seen(self, objective: Objective) -> Objective:
        """The objective as this adversary's passes see it: without token types where ``token_types`` is off."""
        if self.token_types:
            return objective
        kept = {key: value for key, value in objective.inputs.items() if key != "token_type_ids"}
        return replace(objective, inputs=kept)

    def rewinding(self, objective: Objective) -> Callable[[], None]:
        """To be called before every pass: rewinds dropout where it is shared."""
        return objective.rewinding(self.dropout == "shared")

    def start(self, objective: Objective) -> Tensor:
        """delta_0: uniform noise, zero at padding."""
        if self.norm == "linf":
            return objective.uniform(-self.init, self.init) * objective.mask
        width = objective.embedding_shape()[2]
        wide = torch.promote_types(objective.mask.dtype, torch.float32)
        # numbers that an example's delta holds; over 65,504 at times
        size = objective.mask.sum(dim=1, keepdim=True, dtype=wide) * width
        return (
            objective.uniform(-1.0, 1.0)
            * objective.mask
            * (self.init / size.clamp_min(1).sqrt()).to(objective.mask.dtype)
        )

    def move(self, objective: Objective, delta: Tensor, gradient: Tensor) -> Tensor:
        """The next delta: one normalised ascent, projected, zero at padding; detached."""
        return self.project(self.ascend(delta.detach(), gradient)) * objective.mask

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
        norms: Tensor = torch.linalg.vector_norm(delta, ord=order, dim=(1, 2), keepdim=True)
        return norms
