"""Random tickets: uniform scores instead of a search, the control of all three papers.

``match="global"`` is EarlyRobust's: one global draw at the given fractions, at least one head a layer. ``match="layer"`` is RobustT's: as
many units in every layer as a given ticket keeps (``like=``), at random places.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from robust_tickets.checks import check_literals
from robust_tickets.config import describe
from robust_tickets.errors import TicketsError
from robust_tickets.layout import layout_of
from robust_tickets.search._found import Found
from robust_tickets.seeds import numpy_generator
from robust_tickets.ticket import Ticket


@dataclass(frozen=True, kw_only=True)
class RandomTicket:
    """``RandomTicket(seed=1)(classifier)``; ``heads`` and ``neurons`` are fractions removed. The papers average five seeds."""

    heads: float = 1 / 6
    neurons: float = 0.3
    match: Literal["global", "layer"] = "global"
    seed: int = 0

    def __post_init__(self) -> None:
        check_literals(self)

    def steps(self, task: Any) -> int:
        """A random ticket takes no training."""
        return 0

    def __call__(self, clf: Any, task: Any = None, *, folder: Path | str | None = None, like: Ticket | None = None) -> Found:
        """Draw for the backbone of ``clf``, which is neither run nor changed."""
        if self.match == "layer" and like is None:
            raise TicketsError("RandomTicket(match='layer') matches the counts of a ticket, got none", hint="call it with like=ticket")
        if self.match == "global" and like is not None:
            raise TicketsError("RandomTicket(match='global') does not look at a ticket", hint="use match='layer', or leave like out")
        model = getattr(clf, "model", clf)
        layout = layout_of(model)
        sizes = {"heads": layout.heads_of(model), "neurons": layout.neurons_of(model)}
        scores = {
            group: [numpy_generator(self.seed, "random ticket", group, layer).random(n, dtype=np.float32) for layer, n in enumerate(counts)]
            for group, counts in sizes.items()
        }
        about: dict[str, Any] = {"family": layout.family, "unit_weights": layout.unit_weights(model)}
        origin: dict[str, Any] = {"method": describe(self)}
        if like is None:
            ticket = Ticket.from_scores(scores=scores, heads=self.heads, neurons=self.neurons, provenance=origin, **about)
        else:
            _same_backbone(like, layout.family, sizes)
            masks = {group: tuple(map(_top, scores[group], like.masks[group])) for group in scores}
            origin["like"] = like.digest
            kept = {group: tuple(layers) for group, layers in scores.items()}
            ticket = Ticket(kind="structured", masks=masks, scores=kept, provenance=origin, **about)
        found = Found(ticket=ticket)
        if folder:
            found.save(folder)
        return found


def _top(scores: np.ndarray, like: np.ndarray) -> np.ndarray:
    """As many of the best as ``like`` keeps."""
    mask = np.zeros(len(scores), dtype=bool)
    mask[np.argsort(-scores, kind="stable")[: int(like.sum())]] = True
    return mask


def _same_backbone(like: Ticket, family: str, sizes: dict[str, list[int]]) -> None:
    shape = {group: [len(mask) for mask in masks] for group, masks in like.masks.items()} if like.kind == "structured" else {}
    if like.family != family or shape != sizes:
        raise TicketsError(f"the ticket to match is for another backbone ({like.family}) than the model ({family})", hint="match its own")


REGISTERED = RandomTicket
