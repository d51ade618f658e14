"""Linear layers and layer normalisations whose weight gradients are not autograd's business: it computes the rest of the backward pass.

Each hands what its weights' gradients are made of to ``take``, which decides where and when; see ``half.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class Linear(torch.autograd.Function):
    """A linear layer whose weights' gradient is taken by hand. ``anchor`` wants a gradient: else a layer whose input wants none had no
    backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, anchor: Tensor, take: Callable[..., None]
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.take = take
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None, None, None]:
        x, weight = ctx.saved_tensors
        inward = gradient @ weight if ctx.needs_input_grad[0] else None
        ctx.take(x, gradient, inward)
        return inward, None, None, None, None


class Norm(torch.autograd.Function):
    """A layer normalisation whose weights' gradients are taken by hand."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        anchor: Tensor,
        shape: tuple[int, ...],
        eps: float,
        take: Callable[..., None],
    ) -> Tensor:
        out, mean, scale = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(x, weight, bias, mean, scale)
        ctx.shape, ctx.take = shape, take
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None, None, None, None, None]:
        x, weight, bias, mean, scale = ctx.saved_tensors
        gradient = gradient.contiguous()

        def wanted(*which: bool) -> tuple[Tensor, ...]:
            found: tuple[Tensor, ...] = torch.ops.aten.native_layer_norm_backward(
                gradient, x, ctx.shape, mean, scale, weight, bias, [*which]
            )
            return found

        ctx.take(lambda: wanted(False, True, bias is not None)[1:], x, gradient, mean, scale)
        inward = wanted(True, False, False)[0] if ctx.needs_input_grad[0] else None
        return inward, None, None, None, None, None, None
