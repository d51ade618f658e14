"""The two ablations of a ticket: what is it worth without its weights, and without its shape?

``redraw_inside`` ("w/o initialisation") draws the weights that the ticket keeps anew; cut to the ticket afterwards, that is its structure
with random weights. ``redraw_outside`` ("w/o structure") keeps them and draws those that the ticket removes anew; nothing is cut.
Together they touch each entry of the ticket's matrices exactly once.

As in EarlyRobust's released code, the matrices of attention, feed-forward and pooler are drawn from N(0, ``initializer_range``);
embeddings, norms and the classifier stay as they are. Biases are what a new layer has: 0, where the unit (inside: the whole layer) is
drawn anew; an unstructured ticket masks no bias, so none is outside. The released "w/o structure" is not offered: it masks the wrong
axis of query, key, value and output, writes zeros where the paper says random, and cuts the neurons all the same.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from robust_tickets.backbone.layout import encoder_of, layout_of
from robust_tickets.classifier import Classifier
from robust_tickets.prune.compact import check, fitting
from robust_tickets.prune.modeling import cuts
from robust_tickets.seeds import torch_generator
from robust_tickets.ticket.ticket import Ticket

AnyModel = TypeVar("AnyModel")  # a Classifier or a transformers model: what goes in comes out


def redraw_inside(model: AnyModel, ticket: Ticket, seed: int = 0) -> AnyModel:
    """A copy of ``model`` whose weights inside ``ticket`` are drawn anew; compact or apply it to have the ticket itself."""
    return _redrawn(model, ticket, seed, inside=True)


def redraw_outside(model: AnyModel, ticket: Ticket, seed: int = 0) -> AnyModel:
    """A copy of ``model``, whole, whose weights outside ``ticket`` are drawn anew."""
    return _redrawn(model, ticket, seed, inside=False)


def _redrawn(model: Any, ticket: Ticket, seed: int, *, inside: bool) -> Any:
    import copy

    twin = model.copy() if isinstance(model, Classifier) else copy.deepcopy(model)
    inner = twin.needs_model("drawn anew").model if isinstance(twin, Classifier) else twin
    tensors = inner.state_dict()
    spread = float(getattr(inner.config, "initializer_range", 0.02))
    with torch.no_grad():
        for name, kept in _kept(inner, ticket).items():
            old = tensors[name]
            if name.endswith(".weight"):  # by name, so that no ticket and no other matrix moves the values
                fresh = torch.randn(old.shape, generator=torch_generator(seed, "redraw", name)) * spread
            else:
                fresh = torch.zeros(old.shape)
            where = kept if inside else ~kept
            old.copy_(torch.where(where.to(old.device), fresh.to(old), old))
    return twin


def _kept(model: Any, ticket: Ticket) -> dict[str, torch.Tensor]:
    """For every tensor of the ticket's matrices, by its name in the state dict, which entries the ticket keeps."""
    layout = layout_of(model)
    prefix = "" if encoder_of(model) is model else f"{model.base_model_prefix}."
    matrices = layout.matrices_of(model)
    kept = {f"{prefix}{name}": torch.ones(module.weight.shape, dtype=torch.bool) for name, module in matrices.items()}
    kept |= {
        f"{prefix}{name.removesuffix('weight')}bias": torch.ones(module.bias.shape, dtype=torch.bool)
        for name, module in matrices.items()
        if module.bias is not None
    }
    if ticket.kind == "structured":
        check(model, ticket, layout)
        for cut in cuts(model, layout, {group: ticket.kept(group) for group in ticket.masks}):
            stays = torch.zeros(cut.size, dtype=torch.bool)
            stays[cut.kept] = True
            kept[cut.name] &= stays if kept[cut.name].ndim == 1 else stays[:, None] if cut.dim == 0 else stays[None, :]
        return kept
    return kept | {f"{prefix}{name}": mask for name, mask in fitting(model, ticket).items()}
