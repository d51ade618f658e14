"""Gates: one coefficient per head and per neuron, as hooks on the two output projections of every layer.

A head's coefficient multiplies its context vector before W_O, which equals multiplying its attention probabilities (EarlyRobust Eq. 3),
so fast attention kernels stay usable; a neuron's multiplies its activation before W_D (Eq. 4). Both are done by scaling the columns of the
projection's weight while it runs: x (W diag(c))^T = (x diag(c)) W^T. That costs no copy of the activations, and it keeps the product in
float32: coefficients travel about 1 % in a search, and a bf16 activation times 0.998 is the same bf16 activation. The model's modules and
state dict are left alone: the coefficients live here, in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robust_tickets.backbone.layout import Layout, layout_of
from robust_tickets.prune.compact import check
from robust_tickets.prune.working import Part, Passed, Working, column_sums, found, made
from robust_tickets.ticket.ticket import Ticket


class Gates(nn.Module):
    """``with Gates(model):`` scales; ``heads`` and ``neurons`` hold one trainable vector per layer, ones at the start."""

    def __init__(self, model: Any, layout: Layout | None = None) -> None:
        super().__init__()
        layout = layout or layout_of(model)
        device = next(model.parameters()).device
        self.heads = nn.ParameterList([nn.Parameter(torch.ones(n, device=device)) for n in layout.heads_of(model)])
        self.neurons = nn.ParameterList([nn.Parameter(torch.ones(n, device=device)) for n in layout.neurons_of(model)])
        # in tuples, so that the model does not become a part of this module and of its state dict
        self._model, self._layout, self._hooks = (model,), layout, ()  # type: tuple[Any], Layout, tuple[Any, ...]
        self.aside = False  # the working weights are scaled already: the hooks let them pass

    def attach(self) -> Gates:
        """Start scaling; does nothing when it already does."""
        if not self._hooks:
            hooks: list[Any] = []
            for i, layer in enumerate(self._layout.layers_of(self._model[0])):
                for path, coefficients in (
                    (self._layout.attention_output, self.heads),
                    (self._layout.down, self.neurons),
                ):
                    projection, scale = layer.get_submodule(path), _Scale(self, coefficients, i)
                    hooks.append(projection.register_forward_pre_hook(scale.begin))
                    hooks.append(projection.register_forward_hook(scale.end, always_call=True))
            self._hooks = tuple(hooks)
        return self

    def detach(self) -> Gates:
        """Stop scaling; the model is as it was before."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = ()
        return self

    def __enter__(self) -> Gates:
        return self.attach()

    def __exit__(self, *_: object) -> None:
        self.detach()

    def set_masks(self, ticket: Ticket) -> None:
        """1 for what ``ticket`` keeps, 0 for the rest."""
        check(self._model[0], ticket, self._layout)
        with torch.no_grad():
            for group, parameters in (("heads", self.heads), ("neurons", self.neurons)):
                for parameter, mask in zip(parameters, ticket.masks[group], strict=True):
                    parameter.copy_(torch.from_numpy(mask.astype(np.float32)))

    def snapshot(self) -> dict[str, list[np.ndarray]]:
        """Copies of all coefficients, float32; later training does not move them."""
        return {
            group: [
                parameter.detach().float().cpu().numpy().copy() for parameter in parameters
            ]  # numpy() alone would alias on the CPU
            for group, parameters in (("heads", self.heads), ("neurons", self.neurons))
        }

    def working(self) -> dict[nn.Module, Working]:
        """How each projection is computed with in half precision."""
        layers = enumerate(self._layout.layers_of(self._model[0]))
        groups = ((self._layout.attention_output, self.heads), (self._layout.down, self.neurons))
        return {
            layer.get_submodule(path): Scaled(layer.get_submodule(path), group[i])
            for i, layer in layers
            for path, group in groups
        }

    def l1(self, head_weight: float, neuron_weight: float) -> Tensor:
        """head_weight * sum |c_H| + neuron_weight * sum |c_F|: plain sums over all layers."""
        heads = torch.stack([c.abs().sum() for c in self.heads]).sum()
        neurons = torch.stack([c.abs().sum() for c in self.neurons]).sum()
        return head_weight * heads + neuron_weight * neurons


class _Scale:
    """While an output projection runs, its weight is the scaled one: one coefficient for each unit's columns."""

    def __init__(self, gates: Gates, coefficients: nn.ParameterList, layer: int) -> None:
        self.gates, self.coefficients, self.layer = gates, coefficients, layer

    def begin(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self.gates.aside:
            return
        weight = module._parameters["weight"]
        assert weight is not None
        # an attribute of the instance is found before its parameter of that name, which stays registered and untouched
        module.__dict__["weight"] = (weight * spread(self.coefficients[self.layer], weight)).to(weight.dtype)

    def end(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not self.gates.aside:
            module.__dict__.pop("weight", None)


class Scaled:
    """A projection whose columns are scaled: W diag(c)."""

    constant = True

    def __init__(self, module: nn.Module, coefficients: nn.Parameter) -> None:
        master = module._parameters["weight"]
        assert master is not None
        self.master, self.gate = master, coefficients

    def weight(self, kind: torch.dtype) -> tuple[Tensor, None]:
        return (self.master * spread(self.gate, self.master)).to(kind), None

    def parts(self, passed: Passed, known: None) -> Iterator[Part]:
        """With y = W diag(c) x, x's gradient is c times what c's is made of: dc = sum(x dx) / c, so no product of W's size is needed.

        A coefficient of exactly 0 gets no gradient from the loss here; in a search they stay within some percent of 1.
        """
        inward = passed.inward if passed.inward is not None else passed.gradient @ self.weight(passed.x.dtype)[0]
        sums = column_sums(passed.x * inward).view(len(self.gate), -1).sum(1)
        c = self.gate.detach()
        of_gate = sums / torch.where(c == 0, 1.0, c)
        yield found(self.gate, of_gate)
        yield made(self.master, passed.gradient, passed.x * spread(c, self.master).to(passed.x.dtype))


def spread(coefficients: Tensor, weight: Tensor) -> Tensor:
    """A coefficient for each column: several columns of a head share one."""
    return (
        coefficients.repeat_interleave(weight.shape[1] // len(coefficients))
        if weight.shape[1] != len(coefficients)
        else coefficients
    )
