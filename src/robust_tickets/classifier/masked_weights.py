"""The masks of a classifier on disk: an unstructured ticket, masks only, in ``ticket/`` beside the weights.

transformers alone reads the weights, zeros included, and gives the same logits; only this package knows that they are to stay zero.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from robust_tickets.backbone.layout import layout_of
from robust_tickets.errors import TicketsError
from robust_tickets.ticket.ticket import Ticket

FOLDER = "ticket"


def ticket_of(model: Any) -> Ticket | None:
    """What ``model`` is masked to, as a ticket without scores; None where it is not. Refuses weights outside that are not zero."""
    from robust_tickets.backbone.weight_masks import check_zeros, masks_of

    masks = masks_of(model)
    if not masks:
        return None
    check_zeros(model)
    return Ticket(
        kind="unstructured",
        family=layout_of(model).family,
        names=tuple(masks),
        masks={"weights": tuple(mask.cpu().numpy() for mask in masks.values())},
        unit_weights={"weights": 1},
        provenance={"method": "the masks of a model"},
    )


def put_back(model: Any, folder: Path) -> None:
    """Mask ``model`` as the ticket in ``folder`` says; the weights read must be zero outside already."""
    import torch

    from robust_tickets.backbone.weight_masks import attach

    ticket = Ticket.load(folder / FOLDER)
    if ticket.kind != "unstructured":
        raise TicketsError(
            f"{folder / FOLDER} holds a {ticket.kind} ticket, expected the masks of a model",
            hint="save the model again",
        )
    modules = layout_of(model).matrices_of(model)
    masks = {
        name: torch.from_numpy(mask.copy()) for name, mask in zip(ticket.names, ticket.masks["weights"], strict=True)
    }
    for name, mask in masks.items():
        weight = modules[name].weight.detach().cpu() if name in modules else None
        if weight is None or weight.shape != mask.shape or weight.masked_fill(mask, 0.0).any():
            raise TicketsError(
                f"the weights in {folder} are not those of the ticket beside them ({name})",
                hint=f'save the model again, or remove {FOLDER}/ and "masked" in tickets.json to load it without masks',
            )
    attach(model, masks)


def update_digest(hashed: hashlib._Hash, model: Any) -> None:
    """Two models with the same weights, one masked and one not, train differently."""
    from robust_tickets.backbone.weight_masks import masks_of

    for name, mask in sorted(masks_of(model).items()):
        hashed.update(f"mask {name}{tuple(mask.shape)}".encode())
        hashed.update(np.packbits(mask.cpu().numpy()).tobytes())
