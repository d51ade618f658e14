"""What ends the two halves of a BERT layer, dropout, residual and normalisation, as one kernel forwards and one backwards.

Three elementwise operations forwards and four backwards read and write the same numbers; compiled (``prune.fused``) they are one each. That
takes some seconds, so it is done for runs that win them back (``worth``). Dropout then draws in the compiled kernel: from the same
generator, but other numbers than torch's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from robust_tickets.prune.fused import fused

SECONDS = 20.0  # that a run must win by it: twice what compiling takes
WON = 2e-7  # seconds a token and pass, and
AT_LEAST = 2e-4  # seconds a pass: what the kernels that it replaces take on an H200


def worth(device: torch.device, passes: float, tokens: int) -> bool:
    """Whether a run of so many forward and backward passes, over batches of so many tokens, wins back what compiling takes."""
    return device.type == "cuda" and passes * max(AT_LEAST, WON * tokens) > SECONDS


def is_tail(module: Any) -> bool:
    """Whether a module computes LayerNorm(dropout(dense(x)) + residual), by its parts, its arguments and its answers."""
    if list(inspect.signature(type(module).forward).parameters) != ["self", "hidden_states", "input_tensor"]:
        return False
    dense, norm = getattr(module, "dense", None), getattr(module, "LayerNorm", None)
    if type(dense) is not nn.Linear or type(norm) is not nn.LayerNorm or type(getattr(module, "dropout", None)) is not nn.Dropout:
        return False
    was, like = module.training, dense.weight
    try:
        module.eval()
        x, residual = like.new_ones((1, 2, dense.in_features)), like.new_full((1, 2, dense.out_features), 0.5)
        residual[..., 0] = 2.0
        with torch.no_grad():
            return torch.allclose(module(x, residual), norm(dense(x) + residual), atol=1e-5)
    finally:
        module.train(was)


def forwards(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, p: float, eps: float) -> tuple[Tensor, ...]:
    """The answer, and what the backward pass needs: the sum, its mean and scale, and which numbers were kept."""
    kept = torch.rand(x.shape, device=x.device) >= p
    total = (x * kept * (1 / (1 - p))).to(x.dtype) + residual
    wide = total.float()
    mean = wide.mean(-1, keepdim=True)
    scale = torch.rsqrt((wide - mean).square().mean(-1, keepdim=True) + eps)
    return ((wide - mean) * scale * weight + bias).to(x.dtype), total, mean, scale, kept


def backwards(gradient: Tensor, total: Tensor, mean: Tensor, scale: Tensor, weight: Tensor, kept: Tensor, p: float) -> tuple[Tensor, ...]:
    """The gradients of the residual and of what went into the dropout."""
    normed, wide = (total.float() - mean) * scale, gradient.float() * weight
    inward = scale * (wide - wide.mean(-1, keepdim=True) - normed * (wide * normed).mean(-1, keepdim=True))
    return inward.to(gradient.dtype), (inward * kept * (1 / (1 - p))).to(gradient.dtype)


class Tail(torch.autograd.Function):
    """As ``by_hand.Norm``: the norm's weights' gradients are made by whoever ``take`` is."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        residual: Tensor,
        weight: Tensor,
        bias: Tensor,
        anchor: Tensor,
        p: float,
        eps: float,
        take: Callable[..., None],
    ) -> Tensor:
        answer, total, mean, scale, kept = fused(forwards, x.is_cuda)(x, residual, weight, bias, p, eps)
        ctx.save_for_backward(total, mean, scale, kept, weight, bias)
        ctx.p, ctx.take = p, take
        return answer  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        total, mean, scale, kept, weight, bias = ctx.saved_tensors
        gradient = gradient.contiguous()

        def weights() -> tuple[Tensor, ...]:
            kind = mean.dtype if total.is_cuda else total.dtype  # the CPU's kernel wants one precision for all
            about, shape = (mean.to(kind), scale.to(kind)), [total.shape[-1]]
            found: tuple[Tensor, ...] = torch.ops.aten.native_layer_norm_backward(
                gradient, total, shape, *about, weight, bias, [False, True, True]
            )
            return found[1:]

        ctx.take(weights, total, gradient, mean, scale)
        of_residual, of_x = fused(backwards, gradient.is_cuda)(gradient, total, mean, scale, weight, kept, ctx.p)
        return of_x, of_residual, None, None, None, None, None, None
