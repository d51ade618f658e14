"""What numbers an attack takes, said once for Python, recipes and flags, each of which has its own names for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from robust_tickets.checks import at_least
from robust_tickets.errors import TicketsError

LEAST = {"n": (0, "0 attacks all rows"), "workers": (0, "0 attacks in one process; leave it out for the default")}
OTHERS = (1, "leave it out for the default")


def check_numbers(given: Mapping[str, int | None], called: Callable[[str], str] = str) -> None:
    """Refuse a number that no attack takes, by the name that its user ``called`` it."""
    for name, value in given.items():
        at_least(called(name), value, *LEAST.get(name, OTHERS))


def check_failed(percent: float, called: str = "max_failed") -> None:
    if not 0 <= percent <= 100:
        raise TicketsError(f"{called} is a percentage from 0 to 100, got {percent!r}", hint="leave it out for 1")
