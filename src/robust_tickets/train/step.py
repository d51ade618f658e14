"""One step of gradients: plain, or handed to an adversary. The loop owns everything around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from robust_tickets import progress
from robust_tickets.adversary._objective import Ground, Objective
from robust_tickets.backbone.layout import layout_of
from robust_tickets.checks import one_of
from robust_tickets.train.half import Half

Precision = Literal["fp32", "bf16"]
Backward = Callable[[Tensor], None]
Update = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Unclipped:
    """A loss whose gradient joins after the others were clipped: ``weight`` of the updates done, times ``loss()``."""

    loss: Callable[[], Tensor]
    weight: Callable[[int], float]


@dataclass(frozen=True, kw_only=True)
class Step:
    """What the loop calls with a batch, ``backward`` and ``update``; it leaves gradients behind and returns the loss, detached."""

    run: Callable[[Mapping[str, Tensor], Backward, Update | None], Tensor]
    memory: nn.Module | None = None  # the adversary's: trained and saved with the model
    updates: int = 1  # optimiser steps that one batch takes (FreeAT: one a replay)
    half: Half | None = None  # bf16 working weights, where the step computes with them

    def __call__(self, batch: Mapping[str, Tensor], backward: Backward, update: Update | None = None) -> Tensor:
        return self.run(batch, backward, update)

    @property
    def parts(self) -> dict[str, nn.Module]:
        """What the loop trains and saves besides the model."""
        return {} if self.memory is None else {"adversary": self.memory}


def make_step(
    model: Any,
    *,
    generator: torch.Generator,
    adversary: Any = None,
    precision: Precision = "fp32",
    regulariser: Callable[[], Tensor] | None = None,
    tokenizer: Any = None,
    seed: int = 0,
    gates: Any = None,
    autocast: bool = False,
) -> Step:
    """A step on ``model``: plain, or ``adversary``'s. ``tokenizer`` and ``seed`` are for adversaries that set something up.

    ``gates`` are those of the model, if it has some. ``bf16`` has working weights beside the masters (``half.py``), which the loop's
    engine keeps; with ``autocast`` every pass casts the weights themselves, and their gradients lie where autograd puts them.
    """
    one_of("the precision", precision, get_args(Precision))
    layout = layout_of(model)
    memory = None
    if hasattr(adversary, "begin"):
        memory = adversary.begin(Ground(model=model, layout=layout, tokenizer=tokenizer, seed=seed)).to(
            next(model.parameters()).device
        )

    half = Half(model, layout, gates) if precision == "bf16" and not autocast else None

    def run(batch: Mapping[str, Tensor], backward: Backward, update: Update | None) -> Tensor:
        objective = Objective(
            model=model,
            layout=layout,
            batch=batch,
            backward=backward,
            generator=generator,
            regulariser=regulariser,
            half=precision == "bf16" and half is None,
            dropping=half.dropped if half else nullcontext,
            memory=memory,
            update=update,
        )
        return plain(objective) if adversary is None else adversary(objective)

    return Step(run=run, memory=memory, updates=int(getattr(adversary, "updates", 1)), half=half)


def full_precision(model: Any) -> None:
    """Weights in fp32, in place: updates of 2e-5 are lost in half precision. Autocast (``bf16``) wants fp32 weights too."""
    halves = {parameter.dtype for parameter in model.parameters()} & {torch.float16, torch.bfloat16}
    if halves:
        progress.say(
            f"the model's weights are {', '.join(str(d).removeprefix('torch.') for d in halves)}: trained as float32"
        )
        model.float()


def plain(objective: Objective) -> Tensor:
    """Cross-entropy at the text itself."""
    loss = objective.loss()
    objective.backward(loss + objective.penalty())
    return loss.detach()
