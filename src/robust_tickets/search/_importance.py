"""Importance of heads and neurons: |d loss / d mask| at every example, summed over the data (Michel et al., 2019).

The mask multiplies what a unit contributes: a head's context before the output projection, a neuron's activation before the down
projection. Each example has masks of its own in a pass, so that one backward gives every example's gradient by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from robust_tickets.backbone.layout import Layout

NOT_INPUTS = ("labels", "index")


@dataclass(frozen=True, kw_only=True)
class Importance:
    """Sums over the examples, one array a layer (``mlps``: one number a layer)."""

    heads: list[np.ndarray]
    neurons: list[np.ndarray]
    mlps: np.ndarray


def importance(model: Any, layout: Layout, batches: Iterable[Mapping[str, Tensor]]) -> Importance:
    """Of every unit of ``model`` as it runs now, in eval mode; its weights get no gradients."""
    device = next(model.parameters()).device
    sizes = {layout.attention_output: layout.heads_of(model), layout.down: layout.neurons_of(model)}
    places = [(path, i, layer.get_submodule(path)) for i, layer in enumerate(layout.layers_of(model)) for path in sizes]
    sums = {(path, i): torch.zeros(sizes[path][i], device=device) for path, i, _ in places}
    whole = torch.zeros(len(sizes[layout.down]), device=device)  # a feed-forward layer's mask scales all its neurons
    required = [p.requires_grad for p in model.parameters()]
    training = model.training
    model.requires_grad_(False).eval()
    try:
        for batch in batches:
            batch = {name: value.to(device, non_blocking=True) for name, value in batch.items()}
            masks = {
                key: torch.ones((len(batch["labels"]), len(total)), device=device, requires_grad=True)
                for key, total in sums.items()
            }
            hooks = [module.register_forward_pre_hook(_scaling(masks[path, i])) for path, i, module in places]
            try:
                logits = model(**{k: v for k, v in batch.items() if k not in NOT_INPUTS}).logits
            finally:
                for hook in hooks:
                    hook.remove()
            loss = F.cross_entropy(logits.float(), batch["labels"], reduction="sum")
            for (path, i), gradient in zip(masks, torch.autograd.grad(loss, list(masks.values())), strict=True):
                sums[path, i] += gradient.abs().sum(dim=0)
                if path == layout.down:
                    whole[i] += gradient.sum(dim=1).abs().sum()
    finally:
        for parameter, before in zip(model.parameters(), required, strict=True):
            parameter.requires_grad_(before)
        model.train(training)
    found = {path: [sums[path, i].double().cpu().numpy() for i in range(len(counts))] for path, counts in sizes.items()}
    return Importance(
        heads=found[layout.attention_output], neurons=found[layout.down], mlps=whole.double().cpu().numpy()
    )


def _scaling(mask: Tensor) -> Any:
    def scale(_module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        x = args[0]
        spread = mask.repeat_interleave(x.shape[-1] // mask.shape[1], dim=1)
        shape = [len(mask), *[1] * (x.ndim - 2), x.shape[-1]]
        return (x * spread.view(shape).to(x.dtype), *args[1:])

    return scale
