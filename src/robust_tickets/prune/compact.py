"""A ticket put on a model: as smaller shapes (``compact``, ``expand``), zeros (``zero_outside``) or masks (``apply``).

The three forms of a structured ticket give the same logits: the smaller model, the gated one (``gates.py``) and the
dense one with zeros. All follow one list of cuts (``modeling.cuts``): rows of query, key, value, up and gate, columns
of the two output projections. The original is never changed. Kept indices are stored counted in the dense model, so
compacting twice composes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from robust_tickets.backbone.layout import Layout, layout_of, prefix_of
from robust_tickets.backbone.weight_masks import attach, masks_of
from robust_tickets.classifier import Classifier, ModelClassifier
from robust_tickets.classifier.loading import assemble
from robust_tickets.errors import TicketsError
from robust_tickets.prune.modeling import PREFIX, convert, cuts, kept_by, stock_of, twin_of
from robust_tickets.ticket.ticket import Ticket, expect_ticket

if TYPE_CHECKING:
    from transformers import PreTrainedModel

AnyModel = TypeVar("AnyModel")  # a Classifier or a transformers model: what goes in comes out


def compact(model: AnyModel, ticket: Ticket) -> AnyModel:
    """A smaller copy of ``model`` that holds only what ``ticket`` keeps; same logits as the gated model."""
    expect_ticket(ticket)
    inner, layout = inner_of(model, "pruned")
    ticket.check_fits(inner, layout)
    before = kept_by(inner.config)
    chosen = {group: ticket.kept(group) for group in before}
    kept = {
        f"kept_{group}": [[old[i] for i in new] for old, new in zip(before[group], chosen[group], strict=True)]
        for group in before
    }
    tensors = {name: tensor.detach() for name, tensor in inner.state_dict().items()}
    masks = _masks(inner)
    for cut in cuts(inner, layout, chosen):
        for named in (tensors, masks):
            if cut.name in named:
                named[cut.name] = named[cut.name].index_select(cut.dim, cut.kept.to(named[cut.name].device))
    twin = twin_of(inner)
    return _rewrapped(model, _rebuilt(twin, convert(inner.config, twin.config_class, **kept), tensors, inner, masks))


def expand(model: AnyModel) -> AnyModel:
    """A stock model of the dense shapes from a compact one, with zeros where the ticket cut; same logits."""
    inner, layout = inner_of(model, "pruned")
    stock = stock_of(inner)
    tensors = {name: tensor.detach() for name, tensor in inner.state_dict().items()}
    config, masks = inner.config, _masks(inner)
    dense = {group: [size] * config.num_hidden_layers for group, size in layout.sizes(config).items()}
    for cut in cuts(inner, layout, kept_by(config), dense):
        for named in (tensors, masks):
            if cut.name in named:
                small = named[cut.name]
                shape = (*small.shape[: cut.dim], cut.size, *small.shape[cut.dim + 1 :])
                named[cut.name] = small.new_zeros(shape).index_copy_(cut.dim, cut.kept.to(small.device), small)
    return _rewrapped(model, _rebuilt(stock, convert(config, stock.config_class), tensors, inner, masks))


def zero_outside(model: AnyModel, ticket: Ticket) -> AnyModel:
    """A copy of ``model`` in its own shapes with zeros in everything ``ticket`` does not keep."""
    inner, layout = inner_of(model, "pruned")
    ticket.check_fits(inner, layout)
    tensors = {name: tensor.detach().clone() for name, tensor in inner.state_dict().items()}
    for cut in cuts(inner, layout, {group: ticket.kept(group) for group in ticket.masks}):
        gone = torch.ones(tensors[cut.name].shape[cut.dim], dtype=torch.bool, device=tensors[cut.name].device)
        gone[cut.kept.to(gone.device)] = False
        tensors[cut.name].index_fill_(cut.dim, gone.nonzero().flatten(), 0.0)
    config, kept = inner.config, {}
    if config.model_type.startswith(PREFIX):
        kept = {"kept_heads": config.kept_heads, "kept_neurons": config.kept_neurons}
    return _rewrapped(
        model, _rebuilt(type(inner), convert(config, type(config), **kept), tensors, inner, _masks(inner))
    )


def apply(model: AnyModel, ticket: Ticket) -> AnyModel:
    """A copy of ``model`` whose weights outside ``ticket`` are zero and stay so in training, copies and files."""
    expect_ticket(ticket)
    inner, layout = inner_of(model, "masked")
    masks = matching(inner, layout, ticket)
    masked = copy.deepcopy(inner)
    attach(masked, masks)
    return _rewrapped(model, masked)


def matching(model: PreTrainedModel, layout: Layout, ticket: Ticket) -> dict[str, torch.Tensor]:
    """The masks of ``ticket`` that ``model`` has a matrix for; refuses a ticket of another kind, backbone or shape."""
    if ticket.kind != "unstructured":
        message = f"a {ticket.kind} ticket takes heads and neurons out: it is not applied as a mask"
        raise TicketsError(message, hint="use compact(model, ticket)", code="ticket.kind")
    ticket.check_family(layout)
    named = dict(zip(ticket.names, ticket.masks["weights"], strict=True))
    have = {name: tuple(module.weight.shape) for name, module in layout.matrices_of(model).items()}
    want = {name: mask.shape for name, mask in named.items()}
    optional = {f"{layout.pooler}.weight"}  # a ticket or a model may be without it
    for name in [*want, *have]:
        if want.get(name) != have.get(name) and not (name in optional and (name not in want or name not in have)):
            message = f"{name}: the ticket is for {want.get(name, 'none')}, the model has {have.get(name, 'none')}"
            raise TicketsError(message, hint="use a ticket found on a model of this shape", code="ticket.shape")
    return {name: torch.from_numpy(mask.copy()) for name, mask in named.items() if name in have}


def inner_of(model: Any, done: str) -> tuple[PreTrainedModel, Layout]:
    """The transformers model of a Classifier, or the model itself; ``done``: what is to be done with it."""
    if isinstance(model, Classifier):
        model = model.needs_model(done).model
    if not hasattr(model, "config"):
        message = f"expected a Classifier or a transformers model, got {type(model).__name__}"
        raise TicketsError(message, hint="load one with load_classifier", code="model.type")
    return model, layout_of(model)


def _rewrapped(like: AnyModel, model: PreTrainedModel) -> AnyModel:
    again: Any = like.with_model(model) if isinstance(like, ModelClassifier) else model
    return again  # type: ignore[no-any-return]


def _masks(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The masks on ``model``, by the name of their weight in its state dict: they are cut like it."""
    return {f"{prefix_of(model)}{name}": mask for name, mask in masks_of(model).items()}


def _rebuilt(
    model_class: Any,
    config: Any,
    tensors: dict[str, torch.Tensor],
    like: PreTrainedModel,
    masks: dict[str, torch.Tensor],
) -> PreTrainedModel:
    """A model of copies of ``tensors``, with the mode and the frozen parameters of ``like``, and its ``masks``."""
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    model: PreTrainedModel = assemble(model_class, config, copies, dict(like.named_buffers()))
    trained = {name: parameter.requires_grad for name, parameter in like.named_parameters()}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trained[name])
    attach(model, {name.removeprefix(prefix_of(model)): mask for name, mask in masks.items()})
    model.train(like.training)
    return model
