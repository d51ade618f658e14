"""Which adversaries make sense where: an adversary says by ``undefined`` where it does not, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from robust_tickets.checks import one_of
from robust_tickets.errors import TicketsError

Kind = Literal["classification", "mlm"]  # what is trained: a label for each text, or masked words


def defined(adversary: Any, kind: Kind) -> None:
    """Refuse an adversary that says it is undefined for ``kind``, with its reason; ``None`` (no adversary) is always fine."""
    one_of("the kind of training", kind, get_args(Kind))
    undefined: Mapping[str, str] = getattr(adversary, "undefined", {})
    if kind in undefined:
        where = "a masked-language model" if kind == "mlm" else "a classifier"
        raise TicketsError(
            f"{type(adversary).__name__} is not defined for the training of {where}: {undefined[kind]}",
            hint="choose another adversary (FreeLB works everywhere), or none",
        )


def usable(adversary: Any, accumulate: int = 1) -> None:
    """Refuse what is no adversary, and one that updates within a batch where batches are accumulated: before anything is trained."""
    if isinstance(adversary, str | type):
        name = repr(adversary) if isinstance(adversary, str) else f"the class {adversary.__name__}"
        raise TicketsError(
            f"an adversary is a configured object, got {name}", hint="for example adversary=rt.FreeLB(steps=5), or None"
        )
    updates = getattr(adversary, "updates", 1)
    if updates > 1 and accumulate > 1:
        raise TicketsError(
            f"an adversary that updates {updates} times a batch cannot accumulate {accumulate} batches",
            hint="set accumulate to 1",
        )
