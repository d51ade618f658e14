"""GateLog: what a gate search writes down as it goes, and what it must remember to go on after being killed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from robust_tickets.errors import FAILED, TicketsError


class GateLog:
    """The loop's callback and memory. A line of ``lines`` has lambda, the mean loss since the line before, and the state of the gates.

    ``R`` is the mean over matrices, ``R_global`` over weights; ``exact``: share that is 0 or 1 when evaluated; ``below_half``: under 0.5.
    """

    def __init__(self, gates: Any, *, every: int, per_epoch: int, penalty: Callable[[int], float]) -> None:
        self.gates, self.every, self.per_epoch, self.penalty = gates, every, per_epoch, penalty
        self.lines: list[dict[str, Any]] = []
        self.loss_sum: Tensor | None = None  # since the last line; stays on the device
        self.loss_count = 0
        self.stale: dict[str, Any] = {}  # weights whose gradients are kept and clipped with the gates'

    def __call__(self, step: int, loss: Tensor) -> bool:
        self.loss_sum = loss if self.loss_sum is None else self.loss_sum + loss
        self.loss_count += 1
        if step % self.every == 0 or step % self.per_epoch == 0:
            self._write(step)
        return False

    def evaluated(self, accuracy: float) -> None:
        """Validation accuracy, at the start and after an epoch's last line."""
        if not self.lines:
            self._write(0)
        self.lines[-1]["accuracy"] = accuracy

    def _write(self, step: int) -> None:
        """The only place that waits for the device."""
        loss = None if self.loss_sum is None else float(self.loss_sum) / self.loss_count
        shares = self.gates.statistics().tolist()
        if not all(math.isfinite(number) for number in (loss or 0.0, *shares)):
            raise TicketsError(
                f"the search diverged by step {step}: loss {loss}",
                hint="lower its learning rate or step size",
                exit_code=FAILED,
            )
        self.lines.append(
            {
                "step": step,
                "epoch": round(step / self.per_epoch, 4),
                "loss": loss,
                "lambda": self.penalty(max(0, step - 1)),  # of the update just made
                **dict(zip(("R", "R_global", "exact", "below_half"), shares, strict=True)),
            }
        )
        self.loss_sum, self.loss_count = None, 0

    def clipping_all(self, step: Any, model: Any, clip: float) -> Any:
        """The released clipping: gates and weights by one norm, where the weights' gradients add up over the whole run.

        What was clipped stays in the sum, scaled. The loop's own clipping then finds a norm that is small enough.
        """
        self.stale = dict(model.named_parameters())
        everything = [*self.gates.parameters(), *self.stale.values()]

        def run(batch: Any, backward: Any, update: Any) -> Tensor:
            model.train()  # not a part of the loop, which would train it
            loss = step.run(batch, backward, update)
            torch.nn.utils.clip_grad_norm_(everything, clip)
            return loss

        return replace(step, run=run)

    # the loop's Memory

    def tensors(self) -> dict[str, Tensor]:
        kept = {f"stale/{name}": p.grad for name, p in self.stale.items() if p.grad is not None}
        return kept | ({"loss": self.loss_sum} if self.loss_sum is not None else {})

    def values(self) -> dict[str, Any]:
        return {
            "lines": [list(line.items()) for line in self.lines],
            "loss_count": self.loss_count,
        }  # pairs: JSON sorts keys

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self.lines, self.loss_count = [dict(line) for line in values["lines"]], int(values["loss_count"])
        self.loss_sum = tensors.get("loss")
        if self.loss_sum is not None:
            self.loss_sum = self.loss_sum.to(self.gates.log_alpha[0].device)
        for name, parameter in self.stale.items():
            saved = tensors.get(f"stale/{name}")
            parameter.grad = None if saved is None else saved.to(parameter.device)
