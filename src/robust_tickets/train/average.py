"""The mean of a model's weights over the last part of a run (stochastic weight averaging; Izmailov et al., UAI 2018), on its own schedule.

The mean is taken at ``POINTS`` places, evenly over the last ``share`` of the updates, and takes the weights' place when the run is over.
While training goes on, evaluations see the weights themselves. It lies on the model's device, in the weights' own precision (fp32 masters).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

POINTS = 200  # at most; an update moves weights by little, so that more would not change the mean


class Average:
    """Called after every update; a loop's ``after_step`` and ``memory``."""

    def __init__(self, model: nn.Module, share: float, total: int) -> None:
        span = max(1, round(share * total))
        self.model, self.total = model, total
        self.every = -(-span // POINTS)
        self.begins = total - span  # the last update is always one of the points
        self.count, self.mean = 0, list[Tensor]()

    def __call__(self, done: int, _loss: Tensor) -> bool:
        """Take the weights in, where this is a place to; never stops a run."""
        if done > self.begins and (self.total - done) % self.every == 0:
            self._take()
        return False

    @torch.no_grad()
    def _take(self) -> None:
        weights = [parameter.detach() for parameter in self.model.parameters()]
        self.count += 1
        if self.count == 1:
            self.mean = [weight.clone() for weight in weights]
        else:
            torch._foreach_lerp_(self.mean, weights, 1 / self.count)

    @torch.no_grad()
    def settle(self) -> None:
        """Put the mean in the weights' place."""
        torch._foreach_copy_([parameter.detach() for parameter in self.model.parameters()], self.mean)

    def tensors(self) -> dict[str, Tensor]:
        return {f"mean/{i}": value for i, value in enumerate(self.mean)}

    def values(self) -> dict[str, Any]:
        return {"count": self.count}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self.count = int(values["count"])
        device = next(self.model.parameters()).device
        self.mean = [tensors[f"mean/{i}"].to(device) for i in range(len(tensors))]
