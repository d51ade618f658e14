"""What is left of the campaigns: runs done and to do, and what these would take. Counted for fixed sizes, a fixed device and all resources
at hand, so that it says the same wherever it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robust_tickets.errors import TicketsError
from robust_tickets.reproduce.campaign import campaign, campaigns
from robust_tickets.reproduce.cost import OURS, cost, device
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.places import Places

AT_HAND = Places(**{role: Path(role) for role in ("vectors_real", "vectors_substitute", "encoder", "tagger", "masked", "corpus")})  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Left:
    """Of one campaign. ``runs`` is none where it waits for another to choose what it runs."""

    name: str
    title: str
    done: int = 0
    runs: int | None = None
    seconds: float = 0.0  # on one GPU that nothing else uses


def left(outcomes: Sequence[Outcome]) -> tuple[Left, ...]:
    """All campaigns, in their order. What an earlier one has or will have run is not counted again."""
    found, before = [], set()
    for name, one in campaigns().items():
        try:
            asked = campaign(name, AT_HAND, outcomes=outcomes)
        except TicketsError:  # it confirms what is not chosen yet
            found.append(Left(name=name, title=one.title))
            continue
        rest = cost(asked, outcomes, device(OURS))
        own = {unit: seconds for unit, seconds in rest.units.items() if unit not in before}
        before |= set(asked.units)
        found.append(Left(name=name, title=one.title, done=len(rest.done), runs=len(asked.units), seconds=sum(own.values())))
    return tuple(found)
