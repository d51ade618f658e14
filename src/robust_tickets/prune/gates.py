"""Gates: one coefficient per head and per neuron, as forward-pre-hooks on the two output projections of every layer.

A head's coefficient multiplies its context vector before W_O, which equals multiplying its attention probabilities (EarlyRobust Eq. 3),
so fast attention kernels stay usable; a neuron's multiplies its activation before W_D (Eq. 4). The model's modules and state dict are
left alone: the coefficients live here, in float32, and are cast to the activations' dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robust_tickets.layout import Layout, layout_of
from robust_tickets.prune.compact import check
from robust_tickets.ticket import Ticket


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

    def attach(self) -> Gates:
        """Start scaling; does nothing when it already does."""
        if not self._hooks:
            hooks: list[Any] = []
            for i, layer in enumerate(self._layout.layers_of(self._model[0])):
                context, activation = (layer.get_submodule(path) for path in (self._layout.attention_output, self._layout.down))
                hooks.append(context.register_forward_pre_hook(_Scale(self.heads, i)))
                hooks.append(activation.register_forward_pre_hook(_Scale(self.neurons, i)))
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
            group: [parameter.detach().float().cpu().numpy().copy() for parameter in parameters]  # numpy() alone would alias on the CPU
            for group, parameters in (("heads", self.heads), ("neurons", self.neurons))
        }

    def l1(self, head_weight: float, neuron_weight: float) -> Tensor:
        """head_weight * sum |c_H| + neuron_weight * sum |c_F|: plain sums over all layers."""
        heads = torch.stack([c.abs().sum() for c in self.heads]).sum()
        neurons = torch.stack([c.abs().sum() for c in self.neurons]).sum()
        return head_weight * heads + neuron_weight * neurons


class _Scale:
    """Multiplies the input of an output projection, seen as (…, units, width of a unit), by one coefficient per unit."""

    def __init__(self, coefficients: nn.ParameterList, layer: int) -> None:
        self.coefficients, self.layer = coefficients, layer

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        values, scale = args[0], self.coefficients[self.layer].to(args[0].dtype)
        if values.shape[-1] != len(scale):  # heads: several values share one coefficient
            return ((values.unflatten(-1, (len(scale), -1)) * scale[:, None]).flatten(-2), *args[1:])
        return (values * scale, *args[1:])
