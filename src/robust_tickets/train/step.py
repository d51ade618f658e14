"""One step of gradients: plain, or handed to an adversary. The loop owns everything around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from robust_tickets.adversary._objective import Objective, cross_entropy
from robust_tickets.errors import TicketsError
from robust_tickets.layout import layout_of

Precision = Literal["fp32", "bf16"]
Step = Callable[[Mapping[str, Tensor], Callable[[Tensor], None]], Tensor]


def make_step(
    model: Any,
    *,
    generator: torch.Generator,
    adversary: Any = None,
    precision: Precision = "fp32",
    regulariser: Callable[[], Tensor] | None = None,
    loss_fn: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
) -> Step:
    """A step for the loop: it takes a batch and ``backward``, leaves gradients behind and returns the loss, detached."""
    if precision not in ("fp32", "bf16"):
        raise TicketsError(f"unknown precision {precision!r}", hint="choose fp32 or bf16")
    layout = layout_of(model)

    def step(batch: Mapping[str, Tensor], backward: Callable[[Tensor], None]) -> Tensor:
        objective = Objective(
            model=model,
            layout=layout,
            batch=batch,
            backward=backward,
            generator=generator,
            loss_fn=loss_fn,
            regulariser=regulariser,
            half=precision == "bf16",
        )
        return plain(objective) if adversary is None else adversary(objective)

    return step


def plain(objective: Objective) -> Tensor:
    """Cross-entropy at the text itself."""
    loss = objective.loss()
    objective.backward(loss + objective.penalty())
    return loss.detach()
