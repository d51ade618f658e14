"""FreeLB (Zhu et al., ICLR 2020): K ascent passes whose parameter gradients are all kept and averaged.

Passes 1..K each cost one forward and one backward; the gradient of a pass with respect to ``delta`` moves ``delta``,
its gradient with respect to the parameters is accumulated at weight 1/K. So K passes make K-1 ascent moves and one
descent step.

| point            | here (default)     | switch              | who does the other                                    |
|------------------|--------------------|---------------------|-------------------------------------------------------|
| passes           | K                  | ``extra_pass=True`` | FreeLB's fairseq code: K+1 passes, loss/(K+1)         |
| dropout          | fresh in each pass | ``dropout="shared"``| FreeLB: one mask in all passes                        |
| projection       | none               | ``max_norm=rho``    | FreeLB: 0.15 to 0.7; the papers' equations, no radius |
| token types      | reach every pass   | ``token_types=False``| EarlyRobust's and RobustT's code drop them           |

Both as in EarlyRobust's and RobustT's code: no paper says whether dropout is fresh, and EarlyRobust's A.2.3 has no
bound. ``norm="linf"`` is projected too (``max_norm``); EarlyRobust's and RobustT's code forget the clamp there, which
is ``max_norm=0``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robust_tickets.adversary.embedding import EmbeddingPerturbation
from robust_tickets.adversary.objective import Objective
from robust_tickets.config import setting


@dataclass(frozen=True, kw_only=True)
class FreeLB(EmbeddingPerturbation):
    """Defaults: EarlyRobust's Table 6 for IMDB (K 5, step .01, init .05, no projection)."""

    steps: int = setting(5, at_least=1)
    step_size: float = 0.01
    extra_pass: bool = False

    @property
    def passes(self) -> int:
        """Forward-backward passes of one step."""
        return self.steps + int(self.extra_pass)

    def __call__(self, objective: Objective) -> Tensor:
        """Accumulate the step's gradients; returns the mean loss over the passes, detached."""
        objective, rewind = self.seen(objective), self.rewinding(objective)
        delta = self.start(objective)
        total = torch.zeros((), device=delta.device)
        for k in range(1, self.passes + 1):
            last = k == self.passes
            delta.requires_grad_(not last)  # the last pass moves delta no more
            rewind()
            loss = objective.loss(delta)
            objective.backward(loss / self.passes + (objective.penalty() if last else 0.0))
            total = total + loss.detach()
            if last:
                break
            gradient = delta.grad
            assert gradient is not None
            delta = self.move(objective, delta, gradient)
        return total / self.passes


REGISTERED = FreeLB
