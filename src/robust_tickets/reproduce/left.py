"""What is left of the campaigns: runs done and to do, and what these would take. Counted for fixed sizes, a fixed device and all resources
at hand, so that it says the same wherever it is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from robust_tickets.reproduce.campaign import campaign, campaigns, chosen
from robust_tickets.reproduce.cost import OURS, cost, device
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.places import Places

AT_HAND = Places(counted=True)


@dataclass(frozen=True, kw_only=True)
class Left:
    """Of one campaign. ``runs`` is none where it waits for another to choose what it runs."""

    name: str
    done: int = 0
    runs: int | None = None
    seconds: float = 0.0  # on one GPU that nothing else uses


def left(outcomes: Sequence[Outcome]) -> tuple[Left, ...]:
    """All campaigns, in their order. A run that several ask for, with all that they ask of it, is the first one's."""
    known = [name for name, one in campaigns().items() if not one.waits or chosen(outcomes)]
    rest = cost(campaign(",".join(known), AT_HAND, outcomes=outcomes), outcomes, device(OURS)).units
    found, before = [], set()
    for name in campaigns():
        if name not in known:
            found.append(Left(name=name))
            continue
        own = [unit for unit in campaign(name, AT_HAND, outcomes=outcomes).units if unit not in before]
        before |= set(own)
        to_do = [rest[unit] for unit in own if unit in rest]
        found.append(Left(name=name, done=len(own) - len(to_do), runs=len(own), seconds=math.fsum(to_do)))
    return tuple(found)
