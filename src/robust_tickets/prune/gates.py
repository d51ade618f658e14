"""Gates: one coefficient per head and per neuron, multiplied into the two output projections of every layer.

A head's coefficient multiplies its context vector before W_O, which equals multiplying its attention probabilities
(EarlyRobust Eq. 3), so fast attention kernels stay usable; a neuron's multiplies its activation before W_D (Eq. 4).
Both are done by scaling the columns of the projection's weight while it runs: x (W diag(c))^T = (x diag(c)) W^T. That
costs no copy of the activations, and it keeps the product in float32: coefficients travel about 1 % in a search, and a
bf16 activation times 0.998 is the same bf16 activation. The model's modules and state dict are left alone: the
coefficients live here, in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from robust_tickets.backbone.layout import Layout, layout_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Entry = tuple[nn.Module, nn.ParameterList, int]  # a projection, and the coefficients of its columns


class Gating(Protocol):
    """What gives a module its gated weight."""

    aside: bool  # the working weights are gated already: the modules run as they are

    def gated(self, entry: Any, kind: torch.dtype) -> Tensor: ...


class WeightOverride:
    """While ``module`` runs, its weight is the gated one of ``entry``.

    An attribute of the instance is found before its parameter of that name, which stays registered and unchanged.
    """

    def __init__(self, module: nn.Module, gating: Gating, entry: Any) -> None:
        self.gating, self.entry, self.before = gating, entry, None
        self.hooks = (
            module.register_forward_pre_hook(self.begin),
            module.register_forward_hook(self.end, always_call=True),
        )

    def begin(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if not self.gating.aside:
            self.before = module.__dict__.get("weight")  # a working copy in half precision, see train.bf16
            module.__dict__["weight"] = self.gating.gated(self.entry, args[0].dtype)

    def end(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not self.gating.aside:
            module.__dict__.pop("weight", None)
            if self.before is not None:
                module.__dict__["weight"] = self.before

    def remove(self) -> None:
        for hook in self.hooks:
            hook.remove()


class Gates(nn.Module):
    """Trainable coefficients, one vector per layer, ones at the start; ``with Gates(model):`` scales."""

    def __init__(self, model: PreTrainedModel, layout: Layout | None = None) -> None:
        super().__init__()
        layout = layout or layout_of(model)
        device = next(model.parameters()).device
        self.heads = nn.ParameterList([nn.Parameter(torch.ones(n, device=device)) for n in layout.heads_of(model)])
        self.neurons = nn.ParameterList([nn.Parameter(torch.ones(n, device=device)) for n in layout.neurons_of(model)])
        self._model, self._layout = (model,), layout  # in a tuple: no part of this module and of its state dict
        self._overrides: tuple[WeightOverride, ...] = ()
        self.aside = False

    def attach(self) -> Gates:
        """Start scaling; does nothing when it already does."""
        if not self._overrides:
            self._overrides = tuple(WeightOverride(entry[0], self, entry) for entry in self.entries())
        return self

    def detach(self) -> Gates:
        """Stop scaling; the model is as it was before."""
        for override in self._overrides:
            override.remove()
        self._overrides = ()
        return self

    def __enter__(self) -> Gates:
        return self.attach()

    def __exit__(self, *_: object) -> None:
        self.detach()

    @torch.no_grad()
    def set_masks(self, masks: Mapping[str, Sequence[np.ndarray]]) -> None:
        """1 for what the masks of a ticket keep, 0 for the rest."""
        for group, parameters in (("heads", self.heads), ("neurons", self.neurons)):
            for parameter, mask in zip(parameters, masks[group], strict=True):
                parameter.copy_(torch.from_numpy(mask.astype(np.float32)))

    def snapshot(self) -> dict[str, list[np.ndarray]]:
        """Copies of all coefficients, float32; later training does not move them."""
        return {  # numpy() alone would alias on the CPU
            group: [parameter.detach().float().cpu().numpy().copy() for parameter in parameters]
            for group, parameters in (("heads", self.heads), ("neurons", self.neurons))
        }

    def gated(self, entry: Entry, kind: torch.dtype) -> Tensor:
        """The scaled weight of a projection, in its own precision."""
        module, coefficients, i = entry
        weight = weight_of(module)
        return (weight * spread(coefficients[i], weight)).to(weight.dtype)

    def l1(self, head_weight: float, neuron_weight: float) -> Tensor:
        """head_weight * sum |c_H| + neuron_weight * sum |c_F|: plain sums over all layers."""
        heads = torch.stack([c.abs().sum() for c in self.heads]).sum()
        neurons = torch.stack([c.abs().sum() for c in self.neurons]).sum()
        return head_weight * heads + neuron_weight * neurons

    def entries(self) -> Iterator[Entry]:
        """Every projection, with its coefficients."""
        for i, layer in enumerate(self._layout.layers_of(self._model[0])):
            yield layer.get_submodule(self._layout.attention_output), self.heads, i
            yield layer.get_submodule(self._layout.down), self.neurons, i


def spread(coefficients: Tensor, weight: Tensor) -> Tensor:
    """A coefficient for each column: several columns of a head share one."""
    each = weight.shape[1] // len(coefficients)
    return coefficients.repeat_interleave(each) if each > 1 else coefficients


def weight_of(module: nn.Module) -> nn.Parameter:
    """The matrix itself, also while another stands in its place."""
    weight = module._parameters["weight"]
    assert weight is not None
    return weight
