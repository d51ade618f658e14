"""The two ablations of a ticket: without its weights, and without its structure.

``reinitialise_inside`` ("w/o initialisation") makes the weights that the ticket keeps random; cut to the ticket
afterwards, that is its structure with random weights. ``reinitialise_outside`` ("w/o structure") makes those random
that the ticket removes; nothing is cut. Together they change each entry of the ticket's matrices exactly once.

As in EarlyRobust's released code, the matrices of attention, feed-forward and pooler come from N(0,
``initializer_range``); embeddings, norms and the classifier stay as they are. Biases become 0 where the unit (inside:
the whole layer) is random; an unstructured ticket masks no bias, so none is outside. The released "w/o structure" is
not offered: it masks the wrong axis of query, key, value and output, writes zeros where the paper says random, and cuts
the neurons all the same.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch

from robust_tickets.backbone.layout import Layout, prefix_of
from robust_tickets.classifier import ModelClassifier
from robust_tickets.prune.compact import AnyModel, inner_of, matching
from robust_tickets.prune.modeling import cuts
from robust_tickets.seeds import torch_generator
from robust_tickets.ticket.ticket import Ticket

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def reinitialise_inside(model: AnyModel, ticket: Ticket, seed: int = 0) -> AnyModel:
    """A copy of ``model`` with random weights inside ``ticket``; compact it, or apply the ticket to it, afterwards."""
    return _reinitialised(model, ticket, seed, inside=True)


def reinitialise_outside(model: AnyModel, ticket: Ticket, seed: int = 0) -> AnyModel:
    """A copy of ``model`` in its own shapes with random weights outside ``ticket``."""
    return _reinitialised(model, ticket, seed, inside=False)


def _reinitialised(model: AnyModel, ticket: Ticket, seed: int, *, inside: bool) -> AnyModel:
    twin = model.copy() if isinstance(model, ModelClassifier) else copy.deepcopy(model)
    inner, layout = inner_of(twin, "drawn again")
    tensors = inner.state_dict()
    spread = float(getattr(inner.config, "initializer_range", 0.02))
    with torch.no_grad():
        for name, kept in _kept(inner, layout, ticket).items():
            old = tensors[name]
            if name.endswith(".weight"):  # by name, so that no ticket and no other matrix moves the values
                fresh = torch.randn(old.shape, generator=torch_generator(seed, "redraw", name)) * spread
            else:
                fresh = torch.zeros(old.shape)
            where = kept if inside else ~kept
            old.copy_(torch.where(where.to(old.device), fresh.to(old), old))
    return twin


def _kept(model: PreTrainedModel, layout: Layout, ticket: Ticket) -> dict[str, torch.Tensor]:
    """For every tensor of the ticket's matrices, by its name in the state dict, which entries the ticket keeps."""
    prefix, kept = prefix_of(model), {}
    for name, module in layout.matrices_of(model).items():
        for leaf, parameter in (("weight", module.weight), ("bias", module.bias)):
            if parameter is not None:
                kept[f"{prefix}{name.removesuffix('weight')}{leaf}"] = torch.ones(parameter.shape, dtype=torch.bool)
    if ticket.kind == "structured":
        ticket.check_fits(model, layout)
        for cut in cuts(model, layout, {group: ticket.kept(group) for group in ticket.masks}):
            stays = torch.zeros(cut.size, dtype=torch.bool)
            stays[cut.kept] = True
            kept[cut.name] &= stays if kept[cut.name].ndim == 1 else stays[:, None] if cut.dim == 0 else stays[None, :]
        return kept
    return kept | {f"{prefix}{name}": mask for name, mask in matching(model, layout, ticket).items()}
