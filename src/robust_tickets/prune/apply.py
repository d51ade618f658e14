"""apply: an unstructured ticket on a model. Shapes and speed stay; the weights outside are zero and training keeps them so.

A ticket fits every checkpoint of its backbone, with or without a pooler: a mask for a pooler that the model lacks is left out, and a pooler
that the ticket does not know stays whole. Any other difference is refused. Applied to a masked model, a ticket keeps what both keep.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from robust_tickets.backbone.layout import layout_of
from robust_tickets.errors import TicketsError
from robust_tickets.ticket.ticket import Ticket, expect_ticket

AnyModel = TypeVar("AnyModel")  # a Classifier or a transformers model: what goes in comes out


def apply(model: AnyModel, ticket: Ticket) -> AnyModel:
    """A copy of ``model`` whose weights outside ``ticket`` are exactly zero and stay so through training, copies, saving and reloading."""
    from robust_tickets.backbone.weight_masks import attach

    expect_ticket(ticket)
    given: Any = model
    inner = given.needs_model("masked") if hasattr(given, "with_model") else given
    if not hasattr(inner, "config"):
        raise TicketsError(
            f"expected a Classifier or a transformers model, got {type(model).__name__}",
            hint="load one with load_classifier",
        )
    masks = fitting(inner, ticket)
    masked = copy.deepcopy(inner)
    attach(masked, masks)
    return given.with_model(masked) if hasattr(given, "with_model") else masked  # type: ignore[no-any-return]


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
