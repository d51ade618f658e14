"""Query, key and value as one product: three projections of the same input, whose working weights lie one below the other.

Whoever asks for the query gets it with key and value computed beside it; they are handed out when they are asked for with the same input,
which is all that a layer does. Asked with another (DeBERTa projects positions with the same matrices), each is computed by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from robust_tickets.backbone.layout import Layout


def triples(model: nn.Module, layout: Layout) -> Iterator[tuple[Any, ...]]:
    """Query, key and value of every layer, where they are three plain linear layers that read the same width."""
    for layer in layout.layers_of(model):
        paths = (layout.query, layout.key, layout.value)
        found = tuple(layer.get_submodule(path) for path in paths)
        plain = len(set(paths)) == 3 and all(type(module) is nn.Linear for module in found)
        if plain and len({(module.in_features, module.bias is None) for module in found}) == 1:
            yield found


class Together:
    """The working weights of a triple, and what was computed and not yet asked for."""

    def __init__(self, modules: Sequence[Any], kind: torch.dtype) -> None:
        self.modules = tuple(modules)
        self.sizes = [module.out_features for module in modules]
        self.weight = torch.cat([module.weight.detach() for module in modules]).to(kind)
        self.bias = (
            None if modules[0].bias is None else torch.cat([module.bias.detach() for module in modules]).to(kind)
        )
        self._left: tuple[Tensor, dict[nn.Module, Tensor]] | None = None

    def works(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Each parameter with its rows of the working weights."""
        for name, whole in (("weight", self.weight), ("bias", self.bias)):
            if whole is not None:
                yield from zip(
                    (module._parameters[name] for module in self.modules), whole.split(self.sizes), strict=True
                )

    def ask(self, module: nn.Module, x: Tensor, compute: Callable[[Tensor], tuple[Tensor, ...]]) -> Tensor | None:
        """What ``module`` makes of ``x``, where that is computed together with the others' or has been."""
        if module is self.modules[0]:
            found = dict(zip(self.modules, compute(x), strict=True))
            self._left = x, found
        if self._left is None or self._left[0] is not x or module not in self._left[1]:
            return None
        answer = self._left[1].pop(module)
        if not self._left[1]:
            self._left = None
        return answer

    def forget(self) -> None:
        self._left = None


class LinearTogether(torch.autograd.Function):
    """Several linear layers of one input; ``take(place, x, gradient)`` receives what the weights' gradients are made of."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        anchor: Tensor,
        sizes: list[int],
        take: Callable[..., None],
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(x, weight)
        ctx.sizes, ctx.take = sizes, take
        return F.linear(x, weight, bias).split(sizes, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None, None, None, None]:
        x, weight = ctx.saved_tensors
        flat = [gradient.reshape(-1, gradient.shape[-1]) for gradient in gradients]
        inward = None
        if ctx.needs_input_grad[0]:
            for gradient, rows in zip(flat, weight.split(ctx.sizes), strict=True):
                inward = gradient @ rows if inward is None else inward.addmm_(gradient, rows)
            assert inward is not None
            inward = inward.view(x.shape)
        for place, gradient in enumerate(flat):
            ctx.take(place, x, gradient)
        return inward, None, None, None, None, None
