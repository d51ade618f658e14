"""One step of gradients: plain, or handed to an adversary. The loop owns everything around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from robust_tickets import progress
from robust_tickets.adversary._objective import Objective
from robust_tickets.checks import one_of
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
) -> Step:
    """A step for the loop: it takes a batch and ``backward``, leaves gradients behind and returns the loss, detached."""
    one_of("the precision", precision, get_args(Precision))
    layout = layout_of(model)

    def step(batch: Mapping[str, Tensor], backward: Callable[[Tensor], None]) -> Tensor:
        objective = Objective(
            model=model,
            layout=layout,
            batch=batch,
            backward=backward,
            generator=generator,
            regulariser=regulariser,
            half=precision == "bf16",
        )
        return plain(objective) if adversary is None else adversary(objective)

    return step


def full_precision(model: Any) -> None:
    """Weights in fp32, in place: updates of 2e-5 are lost in half precision. Autocast (``bf16``) wants fp32 weights too."""
    halves = {parameter.dtype for parameter in model.parameters()} & {torch.float16, torch.bfloat16}
    if halves:
        progress.say(f"the model's weights are {', '.join(str(d).removeprefix('torch.') for d in halves)}: trained as float32")
        model.float()


def plain(objective: Objective) -> Tensor:
    """Cross-entropy at the text itself."""
    loss = objective.loss()
    objective.backward(loss + objective.penalty())
    return loss.detach()
