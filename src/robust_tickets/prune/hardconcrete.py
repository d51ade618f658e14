"""HardConcrete: stochastic gates in [0, 1] on the encoder's matrices (Louizos et al., 2018), as RobustT learns them.

A gate has one parameter, log alpha. In training ``s = sigmoid((logit u + log alpha) / beta)`` with u uniform, drawn
again in every forward pass; evaluated, ``s = sigmoid(log alpha)``; either way ``m = clip(s (zeta - gamma) + gamma, 0,
1)``, so that a gate is exactly 0 or 1 with positive probability. While a matrix's module runs, its weight is ``m *
weight``. Numbers are RobustT's released code's: gamma -0.1, zeta 1.1, beta 2/3, u clamped to [1e-4, 1 - 1e-4], log
alpha ln 5 at the start (evaluated, a gate is 0.9; sampled, 3.9 % are 0 and 50.3 % are 1).

What one gate covers (``granularity``):

| name     | one gate for                                                         | matrices left ungated |
|----------|----------------------------------------------------------------------|-----------------------|
| "weight" | each weight                                                          |                       |
| "matrix" | each matrix                                                          |                       |
| "layer"  | each layer's matrices; the pooler's has its own                      |                       |
| "head"   | each head: its rows of query, key and value, its columns of output   | feed-forward, pooler  |
| "neuron" | each feed-forward neuron: its row of up and its column of down       | attention, pooler     |

A gate has one sample in a pass, for all the matrices that it covers and however often they run (DeBERTa projects words
and positions with one matrix). Gates, their gradients and all arithmetic on them are float32 (or better) whatever the
model's precision: the regulariser's gradient is 1e-10 a gate, which float16 rounds to zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from robust_tickets.backbone.layout import Layout, encoder_of, layout_of
from robust_tickets.config import one_of
from robust_tickets.errors import TicketsError
from robust_tickets.prune.gates import WeightOverride

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GAMMA, ZETA, BETA = -0.1, 1.1, 2 / 3
START = math.log(5)
LOWEST = 1e-4  # of the uniform noise
EXACT = math.log(11)  # an evaluated gate is 0 below -EXACT and 1 above EXACT
SHIFT = BETA * math.log(-GAMMA / ZETA)  # P(m > 0) = sigmoid(log alpha - SHIFT)
HALVES = (torch.float16, torch.bfloat16)

Granularity = Literal["weight", "neuron", "head", "matrix", "layer"]
Normalisation = Literal["per_matrix", "global"]


@dataclass(frozen=True)
class Covered:
    """How gates cover one matrix: which tensor, along which axis (None: it broadcasts), how many lines each."""

    name: str
    module: Any
    gate: int
    axis: int | None = None
    each: int = 1

    def spread(self, m: Tensor) -> Tensor:
        """Gates at the shape of the matrix, or at one that broadcasts to it."""
        if self.axis is None:
            return m
        size = self.module._parameters["weight"].shape[self.axis]
        lines = m.repeat_interleave(self.each)
        lines = lines.repeat(size // len(lines))  # a fused projection is a stack of blocks
        return lines.unsqueeze(1 - self.axis)


class HardConcrete(nn.Module):
    """``with HardConcrete(model, generator=g):`` gates the matrices and freezes the weights; ``train()`` samples."""

    def __init__(
        self,
        model: PreTrainedModel,
        layout: Layout | None = None,
        *,
        generator: torch.Generator,  # on the model's device; gates draw from nothing else
        granularity: Granularity = "weight",
        freeze: bool = True,  # False: the weights keep their gradients (RobustT's released code)
    ) -> None:
        super().__init__()
        one_of("the granularity", granularity, get_args(Granularity))
        layout = layout or layout_of(model)
        shapes, covered = _plan(model, layout, granularity)
        weight = covered[0].module._parameters["weight"]
        kind = {"device": weight.device, "dtype": torch.promote_types(weight.dtype, torch.float32)}
        self.log_alpha = nn.ParameterList([nn.Parameter(torch.full(shape, START, **kind)) for shape in shapes])
        self.granularity, self.generator, self.freeze, self._layout = granularity, generator, freeze, layout
        self._model, self.covered = (model,), tuple(covered)  # in tuples: no part of this module and of its state dict
        self._hooks: tuple[Any, ...] = ()
        # this pass's samples; of a gate per weight, the gated matrix of the layer that runs; and the same without autograd, with the gates' s
        self._drawn: dict[int, Tensor] = {}
        self.explicit: dict[int, tuple[Tensor, Tensor]] = {}
        self._required: dict[str, bool] = {}
        self.aside = False
        self._weights = {name: _weights(covered, len(shapes), name).to(**kind) for name in get_args(Normalisation)}

    @property
    def names(self) -> list[str]:
        """The gated matrices, in the order of ``Layout.matrices_of``."""
        return [entry.name for entry in self.covered]

    def attach(self) -> HardConcrete:
        """Start gating; does nothing when it already does."""
        if self._hooks:
            return self
        model = self._model[0]
        renamed = hasattr(model, "is_activation_checkpointing")  # in transformers 5.23
        # no default: absent is not "no"
        if getattr(model, "is_activation_checkpointing" if renamed else "is_gradient_checkpointing"):
            message = "gates are sampled in every forward pass, and gradient checkpointing runs it twice"
            hint = "switch it off on the model, and take a smaller batch_size with accumulate"
            raise TicketsError(message, hint=hint, code="gates.checkpointing")
        hooks: list[Any] = []
        for whole in (encoder_of(model), *(self._layout.layers_of(model) if self.granularity == "weight" else ())):
            hooks.append(whole.register_forward_pre_hook(self._forget))
            hooks.append(whole.register_forward_hook(self._forget, always_call=True))
        hooks += [WeightOverride(entry.module, self, entry) for entry in self.covered]
        self._hooks = tuple(hooks)
        self._required = {name: p.requires_grad for name, p in model.named_parameters()}
        if self.freeze:
            model.requires_grad_(False)
        return self

    def detach(self) -> HardConcrete:
        """Stop gating; the model is as it was before."""
        for hook in self._hooks:
            hook.remove()
        if self._hooks:
            for name, parameter in self._model[0].named_parameters():
                parameter.requires_grad_(self._required[name])
        self._hooks = ()
        self._drawn.clear()
        return self

    def __enter__(self) -> HardConcrete:
        return self.attach()

    def __exit__(self, *_: object) -> None:
        self.detach()

    def gated(self, entry: Covered, kind: torch.dtype) -> Tensor:
        """The weight of a matrix under its gates, in the precision ``kind``."""
        weight = entry.module._parameters["weight"]
        log_alpha = self.log_alpha[entry.gate]
        if self.granularity == "weight":
            if not self.training:
                whole: Tensor = evaluated(log_alpha) * weight
                return whole.to(kind)
            if entry.gate not in self._drawn:
                sample: Any = _Sampled.apply  # type: ignore[assignment]
                self._drawn[entry.gate] = sample(log_alpha, weight, self.generator, kind)
            return self._drawn[entry.gate]
        if entry.gate not in self._drawn:
            self._drawn[entry.gate] = sampled(log_alpha, self.generator) if self.training else evaluated(log_alpha)
        gated: Tensor = entry.spread(self._drawn[entry.gate]) * weight
        return gated.to(kind)

    def regulariser(self, normalisation: Normalisation = "per_matrix") -> Tensor:
        """R: the expected share of open gates, P(m > 0).

        ``per_matrix``: the mean over matrices of each one's mean, as in the released code; ``global``: the mean over
        all weights (Eq. 4).
        """
        return _open(self.log_alpha) @ self._weights[normalisation]

    @torch.no_grad()
    def statistics(self) -> Tensor:
        """R per matrix, R global, shares of evaluated gates that are 0 or 1, and below one half; on the device."""
        means = _open(self.log_alpha)
        count = sum(p.numel() for p in self.log_alpha)
        exact = torch.stack([(p.abs() > EXACT).sum() for p in self.log_alpha]).sum() / count
        below = torch.stack([(p < 0).sum() for p in self.log_alpha]).sum() / count
        return torch.stack(
            [means @ self._weights["per_matrix"], means @ self._weights["global"], exact.to(means), below.to(means)]
        )

    def snapshot(self) -> list[np.ndarray]:
        """Copies of every log alpha, float32; later training does not move them."""
        return [p.detach().float().cpu().numpy().copy() for p in self.log_alpha]  # numpy() alone would alias on the CPU

    def scores(self) -> list[np.ndarray]:
        """log alpha of every gated matrix in its shape; float32, read-only where a gate covers many weights."""
        return [
            np.broadcast_to(
                entry.spread(self.log_alpha[entry.gate].detach()).float().cpu().numpy().copy(),
                entry.module._parameters["weight"].shape,
            )
            for entry in self.covered
        ]

    def _forget(self, *_: Any) -> None:
        self._drawn.clear()
        self.explicit.clear()

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        if fn(torch.zeros(1)).dtype in HALVES:
            message = "gates stay in float32: their gradients vanish in half precision"
            raise TicketsError(message, hint="use autocast, or move them only", code="gates.precision")
        self._weights = {name: fn(weights) for name, weights in self._weights.items()}
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]


def sampled(log_alpha: Tensor, generator: torch.Generator) -> Tensor:
    """One draw of each gate."""
    return stretched(torch.sigmoid((_noise(log_alpha, generator) + log_alpha) / BETA))


def evaluated(log_alpha: Tensor) -> Tensor:
    return stretched(torch.sigmoid(log_alpha))


def stretched(s: Tensor) -> Tensor:
    """The gates of s."""
    return (s * (ZETA - GAMMA) + GAMMA).clamp(0.0, 1.0)


def _noise(like: Tensor, generator: torch.Generator) -> Tensor:
    """logit u."""
    u = torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype)
    return u.clamp_(LOWEST, 1 - LOWEST).logit_()


def _open(log_alpha: Any) -> Tensor:
    """The mean of P(m > 0) over each tensor of gates."""
    return torch.stack([torch.sigmoid(p - SHIFT).mean() for p in log_alpha])


class _Sampled(torch.autograd.Function):
    """``sampled(log_alpha) * weight`` for a gate per weight; keeps s alone between the passes."""

    @staticmethod
    def forward(ctx: Any, log_alpha: Tensor, weight: Tensor, generator: torch.Generator, kind: torch.dtype) -> Tensor:
        s = _noise(log_alpha, generator).add_(log_alpha).div_(BETA).sigmoid_()
        ctx.save_for_backward(s, weight)
        return (s * (ZETA - GAMMA)).add_(GAMMA).clamp_(0.0, 1.0).mul_(weight).to(kind)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        s, weight = ctx.saved_tensors
        wide = (s * (ZETA - GAMMA)).add_(GAMMA)
        of_weight = (wide.clamp(0.0, 1.0) * gradient).to(weight.dtype) if ctx.needs_input_grad[1] else None
        inside = wide.eq(wide.clamp(0.0, 1.0))  # a clipped gate has no slope
        slope = (1 - s).mul_(s).mul_((ZETA - GAMMA) / BETA).mul_(inside).mul_(weight).mul_(gradient)
        return slope, of_weight, None, None


def _plan(model: PreTrainedModel, layout: Layout, granularity: str) -> tuple[list[tuple[int, ...]], list[Covered]]:
    """Shapes of the tensors of gates, and how each matrix is covered by them."""
    matrices = layout.matrices_of(model)
    for name, module in matrices.items():
        if module._parameters.get("weight") is None:
            hint = "search on a model that no other masks are applied to"
            raise TicketsError(f"{name} is not a plain matrix", hint=hint, code="gates.matrix")
    if granularity not in ("head", "neuron"):

        def covering(name: str) -> str | int:
            place = layout.place_of(name) if granularity == "layer" else None
            return name if place is None else place[0]

        order = list(dict.fromkeys(map(covering, matrices)))
        shapes: list[tuple[int, ...]] = [()] * len(order)
        if granularity == "weight":
            shapes = [tuple(module.weight.shape) for module in matrices.values()]
        return shapes, [Covered(name, module, order.index(covering(name))) for name, module in matrices.items()]
    group = f"{granularity}s"
    counts = layout.heads_of(model) if group == "heads" else layout.neurons_of(model)
    each = layout.head_size(model) if group == "heads" else 1
    covered = []
    for i, layer in enumerate(layout.layers_of(model)):
        axes = {path: 0 for path, (owner, _) in layout.rows_of(layer).items() if owner == group}
        axes |= {path: 1 for path, owner in layout.columns_of().items() if owner == group}
        for path, axis in axes.items():
            name = f"{layout.layers}.{i}.{path}.weight"
            covered.append(Covered(name, matrices[name], i, axis=axis, each=each))
    return [(n,) for n in counts], covered


def _weights(covered: list[Covered], count: int, normalisation: str) -> Tensor:
    """How much each tensor of gates weighs in R: by the matrices, or by the weights, that it covers."""
    weights = torch.zeros(count, dtype=torch.float64)
    for entry in covered:
        weights[entry.gate] += 1 if normalisation == "per_matrix" else entry.module._parameters["weight"].numel()
    return weights / weights.sum()
