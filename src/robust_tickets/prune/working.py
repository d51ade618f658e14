"""Gated matrices in half precision: what a gate multiplies into the working weight, and what the weight's gradient brings the gate.

Hooks multiply gates into a weight under autograd, in every pass, and autograd then handles gradients of the weight's size one after the
other. Where the weight gradient is taken by hand (``train.half``), so is the gates' part: it is computed once, from the float32 product,
beside the rest of the backward pass. The hooks step aside meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

Part = tuple[nn.Parameter, Callable[[Tensor], Any], Callable[[Tensor], Any]]  # whose gradient; writes it to a sum; adds it to one


class Working(Protocol):
    """One gated matrix."""

    master: nn.Parameter  # the matrix itself
    gate: nn.Parameter
    constant: bool  # between two updates: then the weight is computed once an update, not once a pass

    def weight(self, kind: torch.dtype) -> tuple[Tensor, Any]:
        """The gated weight, and what ``parts`` needs to know of it."""
        ...

    def parts(self, gradient: Tensor, known: Any) -> Iterator[Part]:
        """Gradients of gate and matrix, from the gated weight's."""
        ...


def column_sums(values: Tensor) -> Tensor:
    """Sums over the rows, in float32. In two stages where there are many: one alone keeps few of a GPU's processors busy."""
    rows, columns = values.shape
    stage = 32
    if not values.is_cuda or rows % stage or rows < 8 * stage:
        return values.sum(0, dtype=torch.float32)
    return values.view(rows // stage, stage, columns).sum(1, dtype=torch.float32).sum(0)
