"""Checks of a value that several folders need; what a setting may be is declared at its field (``config.setting``)."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

from robust_tickets.errors import TicketsError, did_you_mean


def one_of(what: str, value: Any, known: Iterable[Any]) -> None:
    """Refuse a ``value`` that is not among ``known``: a typo must not choose the other branch."""
    known = tuple(known)
    if value not in known:
        words = list(map(str, known))
        raise TicketsError(
            f"{what} is {value!r}, expected one of {', '.join(words)}",
            hint=did_you_mean(str(value), words),
            code="settings.choice",
        )


def at_least(what: str, value: int | None, least: int, hint: str) -> None:
    """Refuse what is no whole number, and a number below ``least``; none is left out."""
    if value is not None and not isinstance(value, numbers.Integral):
        raise TicketsError(f"{what} must be a whole number, got {value!r}", hint=hint, code="settings.whole_number")
    if value is not None and value < least:
        raise TicketsError(f"{what} must be at least {least}, got {value}", hint=hint, code="settings.limit")
