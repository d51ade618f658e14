"""Checks of a component's settings that its type hints already state: Python calls get the strictness that TOML has."""

from __future__ import annotations

import dataclasses
import numbers
import typing
from collections.abc import Iterable
from functools import cache
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


def check_literals(component: Any) -> None:
    """Check every field of a dataclass whose hint is a Literal or a number; for ``__post_init__``, before a number is compared."""
    for name, known in _literals(type(component)):  # type: ignore[arg-type]
        one_of(f"{type(component).__name__}.{name}", getattr(component, name), known)
    for name, kinds in _numbers(type(component)):  # type: ignore[arg-type]
        value = getattr(component, name)
        if not isinstance(value, kinds):
            raise TicketsError(
                f"{type(component).__name__}.{name} must be a number, got {value!r}",
                hint="give a number, without quotes",
                code="settings.number",
            )


def at_least(what: str, value: int | None, least: int, hint: str) -> None:
    """Refuse what is no whole number, and a number below ``least``; none is left out."""
    if value is not None and not isinstance(value, numbers.Integral):
        raise TicketsError(f"{what} must be a whole number, got {value!r}", hint=hint, code="settings.whole_number")
    if value is not None and value < least:
        raise TicketsError(f"{what} must be at least {least}, got {value}", hint=hint, code="settings.limit")


def at_least_one(component: Any, *names: str) -> None:
    """Check that these fields are whole numbers from 1."""
    for name in names:
        value = getattr(component, name)
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
            raise TicketsError(
                f"{type(component).__name__}.{name} must be at least 1, got {value!r}",
                hint="give a whole number from 1",
                code="settings.limit",
            )


def not_negative(component: Any, *names: str) -> None:
    """Check that these fields are 0 or more."""
    for name in names:
        value = getattr(component, name)
        if not isinstance(value, numbers.Real) or not float(value) >= 0:  # also catches NaN
            raise TicketsError(
                f"{type(component).__name__}.{name} must not be negative, got {value!r}",
                hint="0 switches it off",
                code="settings.limit",
            )


@cache
def _literals(cls: Any) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    return tuple(
        (name, typing.get_args(hint)) for name, hint in _hints(cls) if typing.get_origin(hint) is typing.Literal
    )


@cache
def _numbers(cls: Any) -> tuple[tuple[str, tuple[type, ...]], ...]:
    """Fields that take a number or, where the hint says so, None. A seed has a check of its own (``seeds.py``)."""
    found = ((name, set(typing.get_args(hint) or (hint,))) for name, hint in _hints(cls) if name != "seed")
    return tuple(
        (name, (numbers.Real, type(None)) if type(None) in kinds else (numbers.Real,))
        for name, kinds in found
        if kinds & {int, float} and kinds <= {int, float, type(None)}
    )


def _hints(cls: Any) -> list[tuple[str, Any]]:
    hints = typing.get_type_hints(cls)
    return [(f.name, hints[f.name]) for f in dataclasses.fields(cls)]
