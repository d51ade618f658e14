"""Label values to ids: the order of classes never depends on the order of rows.

Values 0..C-1 are ids. Other whole or decimal numbers (stars 1..5) are names in numeric order. Anything else is a name, in sorted order.
``labels=`` fixes the order: it lists the names themselves, or gives names to the ids 0..C-1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from robust_tickets.errors import TicketsError


def label_text(value: Any) -> tuple[str, str]:
    """A label value as text, and what is wrong with it (or nothing)."""
    if isinstance(value, str):
        value = value.strip()
        if any("\ud800" <= c <= "\udfff" for c in value):
            return "", "broken UTF-8"
        return value, "" if value else "missing label"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "", "missing label"
    if isinstance(value, bool):
        return str(value).lower(), ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value)), ""
    if isinstance(value, int | float):
        return str(value), ""
    return "", f"the label is a {type(value).__name__}, not a name or a number"


def order(values: Iterable[str]) -> tuple[str, ...]:
    """Class names in id order, from the values that occur."""
    distinct = sorted(set(values))
    numbers = [_number(v) for v in distinct]
    if distinct and all(n is not None for n in numbers):
        return tuple(v for _, v in sorted(zip(numbers, distinct, strict=True)))
    return tuple(distinct)


def mapping(values: Sequence[str], names: Sequence[str], where: str) -> dict[str, int]:
    """Which class each of ``values`` is; a value left out is unknown."""
    by_name = {v: names.index(v) for v in values if v in names}
    if by_name:
        return by_name
    by_id = {v: int(v) for v in values if v.isdecimal() and v.isascii() and str(int(v)) == v and int(v) < len(names)}
    if not by_id and values:
        raise TicketsError(
            f"{where}: no label is one of {', '.join(names)}; it has {_few(values)}",
            hint="check the label column, or give labels= in the order of the ids",
        )
    return by_id


def check(names: Sequence[str], where: str) -> None:
    if len(set(names)) != len(names):
        raise TicketsError(f"labels= names a class twice: {', '.join(names)}", hint="name each class once")
    if len(names) < 2:
        found = f"only one class ({names[0]!r})" if names else "no class"
        raise TicketsError(f"{where} has {found}; a classifier needs at least two", hint="check the label column")


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _few(values: Sequence[str]) -> str:
    shown = ", ".join(repr(v) for v in sorted(values)[:8])
    return f"{shown}, …" if len(values) > 8 else shown
