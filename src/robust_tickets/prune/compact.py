"""compact: a ticket as a physically smaller model. expand: the stock shapes back, zeros where the ticket cut.

The three forms of a ticket give the same logits: the smaller model, the gated one (``gates.py``) and the dense one with zeros
(``zero_outside``). All of them follow one list of cuts (``modeling.cuts``): rows of query, key, value, up and gate, columns of the two
output projections. The original is never touched. What is kept is stored counted in the dense model, so compacting twice composes.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch

from robust_tickets.backbone.layout import Layout, encoder_of, layout_of
from robust_tickets.backbone.weight_masks import attach, masks_of
from robust_tickets.classifier import Classifier, ModelClassifier
from robust_tickets.classifier.loading import assemble
from robust_tickets.errors import TicketsError
from robust_tickets.prune.configuration import PREFIX, convert, kept_by
from robust_tickets.prune.modeling import cuts, stock_of, twin_of
from robust_tickets.ticket.ticket import Ticket, expect_ticket

AnyModel = TypeVar("AnyModel")  # a Classifier or a transformers model: what goes in comes out


def compact(model: AnyModel, ticket: Ticket) -> AnyModel:
    """A smaller copy of ``model`` that holds only what ``ticket`` keeps; same logits as the gated model."""
    expect_ticket(ticket)
    inner, layout = _unwrapped(model)
    check(inner, ticket, layout)
    before = kept_by(inner.config)
    chosen = {group: ticket.kept(group) for group in before}
    kept = {
        group: [[old[i] for i in new] for old, new in zip(before[group], chosen[group], strict=True)]
        for group in before
    }
    tensors = {name: tensor.detach() for name, tensor in inner.state_dict().items()}
    masks = _masks(inner)
    for cut in cuts(inner, layout, chosen):
        for named in (tensors, masks):
            if cut.name in named:
                named[cut.name] = named[cut.name].index_select(cut.dim, cut.kept.to(named[cut.name].device))
    twin = twin_of(inner)
    config = convert(inner.config, twin.config_class, kept_heads=kept["heads"], kept_neurons=kept["neurons"])
    return _rewrapped(model, _rebuilt(twin, config, tensors, inner, masks))


def expand(model: AnyModel) -> AnyModel:
    """A stock model of the dense shapes from a compact one: same logits, zeros where the ticket cut. A dense model gives a copy."""
    inner, layout = _unwrapped(model)
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
    inner, layout = _unwrapped(model)
    check(inner, ticket, layout)
    tensors = {name: tensor.detach().clone() for name, tensor in inner.state_dict().items()}
    for cut in cuts(inner, layout, {group: ticket.kept(group) for group in ticket.masks}):
        gone = torch.ones(tensors[cut.name].shape[cut.dim], dtype=torch.bool, device=tensors[cut.name].device)
        gone[cut.kept.to(gone.device)] = False
        tensors[cut.name].index_fill_(cut.dim, gone.nonzero().flatten(), 0.0)
    return _rewrapped(
        model,
        _rebuilt(
            type(inner),
            convert(inner.config, type(inner.config), **_fields(inner.config)),
            tensors,
            inner,
            _masks(inner),
        ),
    )


def check(model: Any, ticket: Ticket, layout: Layout) -> None:
    """Refuse a ticket that is not structured or that was not drawn for this shape."""
    if ticket.kind != "structured":
        raise TicketsError(
            f"an {ticket.kind} ticket brings no smaller shapes: it masks single weights",
            hint="only tickets of heads and neurons can be compacted; use apply(model, ticket)",
        )
    if ticket.family != layout.family:
        raise TicketsError(
            f"the ticket is for {ticket.family}, the model is {layout.family}",
            hint="use a ticket found on this backbone",
        )
    have = {"heads": layout.heads_of(model), "neurons": layout.neurons_of(model)}
    for group, masks in ticket.masks.items():
        wants = [len(mask) for mask in masks]
        if wants != have[group]:
            where = next((i for i, (a, b) in enumerate(zip(wants, have[group], strict=False)) if a != b), None)
            what = f"{len(wants)} layers" if where is None else f"{wants[where]} {group} in layer {where}"
            has = f"{len(have[group])}" if where is None else f"{have[group][where]}"
            raise TicketsError(
                f"the ticket is for {what}, the model has {has}", hint="use a ticket found on a model of this shape"
            )


def _unwrapped(model: Any) -> tuple[Any, Layout]:
    if isinstance(model, Classifier):
        model = model.needs_model("pruned").model
    if not hasattr(model, "config"):
        raise TicketsError(
            f"expected a Classifier or a transformers model, got {type(model).__name__}",
            hint="load one with load_classifier",
        )
    return model, layout_of(model)


def _rewrapped(like: Any, model: Any) -> Any:
    return like.with_model(model) if isinstance(like, ModelClassifier) else model


def _fields(config: Any) -> dict[str, Any]:
    if not config.model_type.startswith(PREFIX):
        return {}
    return {"kept_heads": config.kept_heads, "kept_neurons": config.kept_neurons}


def _masks(model: Any) -> dict[str, torch.Tensor]:
    """The masks of an unstructured ticket on ``model``, by the name of their weight in its state dict: they are cut like it."""
    return {f"{_prefix(model)}{name}": mask for name, mask in masks_of(model).items()}


def _prefix(model: Any) -> str:
    return "" if encoder_of(model) is model else f"{model.base_model_prefix}."


def _rebuilt(
    model_class: Any, config: Any, tensors: dict[str, torch.Tensor], like: Any, masks: dict[str, torch.Tensor]
) -> Any:
    """A model of copies of ``tensors``, with the mode and the frozen parameters of ``like``, and its ``masks``."""
    model = assemble(
        model_class, config, {name: tensor.clone() for name, tensor in tensors.items()}, dict(like.named_buffers())
    )
    trained = {name: parameter.requires_grad for name, parameter in like.named_parameters()}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trained[name])
    attach(model, {name.removeprefix(_prefix(model)): mask for name, mask in masks.items()})
    return model.train(like.training)


AppliedModel = TypeVar("AnyModel")  # a Classifier or a transformers model: what goes in comes out


def apply(model: AppliedModel, ticket: Ticket) -> AppliedModel:
    """A copy of ``model`` whose weights outside ``ticket`` are exactly zero and stay so through training, copies, saving and reloading."""
    from robust_tickets.backbone.weight_masks import attach

    expect_ticket(ticket)
    given: Any = model
    inner = given.needs_model("masked").model if isinstance(given, Classifier) else given
    if not hasattr(inner, "config"):
        raise TicketsError(
            f"expected a Classifier or a transformers model, got {type(model).__name__}",
            hint="load one with load_classifier",
        )
    masks = fitting(inner, ticket)
    masked = copy.deepcopy(inner)
    attach(masked, masks)
    return given.with_model(masked) if isinstance(given, ModelClassifier) else masked  # type: ignore[no-any-return]


def fitting(model: Any, ticket: Ticket) -> dict[str, Any]:
    """The masks of ``ticket`` that ``model`` has a matrix for; refuses a ticket of another kind, backbone or shape."""
    import torch

    if ticket.kind != "unstructured":
        raise TicketsError(
            f"a {ticket.kind} ticket is not applied as a mask: it takes heads and neurons out",
            hint="use compact(model, ticket)",
        )
    layout = layout_of(model)
    if ticket.family != layout.family:
        raise TicketsError(
            f"the ticket is for {ticket.family}, the model is {layout.family}",
            hint="use a ticket found on this backbone",
        )
    hint = "use a ticket found on a model of this shape"
    modules, named = layout.matrices_of(model), dict(zip(ticket.names, ticket.masks["weights"], strict=True))
    pooler = f"{layout.pooler}.weight"
    for name in [*named, *modules]:
        if name == pooler and (name not in named or name not in modules):
            continue
        if name not in modules:
            raise TicketsError(f"the ticket masks {name}, which the model has not", hint=hint)
        if name not in named:
            raise TicketsError(f"the model has {name}, which the ticket does not know", hint=hint)
        have = tuple(modules[name].weight.shape)
        if named[name].shape != have:
            raise TicketsError(
                f"{name}: the ticket is for {_by(named[name].shape)}, the model has {_by(have)}", hint=hint
            )
    return {name: torch.from_numpy(mask.copy()) for name, mask in named.items() if name in modules}


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
