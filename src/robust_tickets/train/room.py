"""Room around odd widths: matrix kernels for bf16 want multiples of 8, and a ticket keeps as many neurons as it keeps.

A layer of 2,151 neurons takes longer than one of 3,072. So the working weights of its two feed-forward projections get room up to the next
multiple: rows of zeros in the one that goes up, columns of zeros in the one that comes down, which add nothing whatever the activation in
between makes of zero. Masters, gradients and files keep the ticket's width.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from robust_tickets.backbone.layout import Layout

MULTIPLE = 8  # 16 bytes of bf16


def roomy(model: nn.Module, layout: Layout, kind: torch.dtype) -> Iterator[tuple[nn.Parameter, Tensor]]:
    """Parameters of feed-forward layers of odd widths, each with zeros of the wider shape."""
    if layout.gate:  # up and gate lie in one matrix: its rows are not one block
        return
    for layer in layout.layers_of(model):
        up, down = layer.get_submodule(layout.up), layer.get_submodule(layout.down)
        neurons = -(-up.out_features // MULTIPLE) * MULTIPLE
        if neurons == up.out_features or type(up) is not nn.Linear or type(down) is not nn.Linear:
            continue
        wide: dict[tuple[nn.Module, str], tuple[int, ...]] = {
            (up, "weight"): (neurons, up.in_features),
            (up, "bias"): (neurons,),
            (down, "weight"): (down.out_features, neurons),
        }
        for (module, name), shape in wide.items():
            parameter = module._parameters[name]
            if parameter is not None:
                yield parameter, torch.zeros(shape, dtype=kind, device=parameter.device)
