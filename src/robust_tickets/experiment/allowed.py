"""What can be refused before anything is searched: a draw that the ticket will not give, a random ticket with nothing to match.

A search says by its settings what it finds: ``sparsity`` is of single weights, ``heads`` and ``neurons`` are of units; one whose ticket has
no scores says ``drawable = False``, and one whose settings alone do not tell says what it ``finds``. A ticket in a folder is looked at.
What a plug-in with other settings finds is known when it is there.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from robust_tickets.errors import TicketsError

if TYPE_CHECKING:
    from robust_tickets.experiment.arms import Origin
    from robust_tickets.experiment.recipe import Recipe

DRAWN_BY = {
    "structured": ("heads", "neurons", "head_scope", "neuron_scope", "round_to"),
    "unstructured": ("sparsity", "scope"),
}


def check(recipe: Recipe) -> None:
    """Go through the tickets of every arm; reads folders, loads no model."""
    for arm in recipe.arms:
        if arm.origin is not None:
            _check(arm.origin, f"{recipe.name}.arms.{arm.name}")


def check_like(method: Any, matched: bool, kind: str | None, where: str) -> None:
    """Refuse a search that cannot match another ticket, or lacks the one it needs; ``kind`` is that of the other, where known."""
    if "like" not in inspect.signature(type(method).__call__).parameters:
        if matched:
            hint = "leave like out; the method random matches others, with match layer or matrix"
            raise TicketsError(f"{where}: {type(method).__name__} matches no other ticket, got like", hint=hint)
    elif hasattr(method, "matches") and (kind or not matched):
        method.matches(kind)


def _check(origin: Origin, where: str) -> None:
    if origin.like is not None:
        _check(origin.like, f"{where}.like")
    if origin.search is not None:
        check_like(origin.search, origin.like is not None, kind_of(origin.like) if origin.like else None, where)
    if origin.draw is None:
        return
    if not getattr(origin.search, "drawable", True):
        said = f"{where}.draw: the ticket of {type(origin.search).__name__} has no scores to draw from"
        raise TicketsError(said, hint="how much goes is the method's own answer; leave draw out")
    kind = kind_of(origin)
    for name in origin.draw.asked():
        if kind and name not in DRAWN_BY[kind]:
            said = f"{where}.draw: {name} cannot be drawn from a{'n' if kind[0] == 'u' else ''} {kind} ticket"
            raise TicketsError(said, hint=f"draw it by {', '.join(DRAWN_BY[kind])}")


def kind_of(origin: Origin) -> str | None:
    """Structured or unstructured, as far as it is known before the search."""
    if origin.search is None:
        from robust_tickets.ticket.ticket import Ticket

        return Ticket.load(str(origin.folder)).kind
    if hasattr(origin.search, "finds"):
        return str(origin.search.finds)
    if getattr(origin.search, "sparsity", None) is not None or (
        origin.like is not None and kind_of(origin.like) == "unstructured"
    ):
        return "unstructured"
    return "structured" if hasattr(origin.search, "neurons") else None
