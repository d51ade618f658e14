"""Fields of JSON files that may be missing, odd or hostile, as values or None."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError
from robust_tickets.files import mapping, read_json, within
from robust_tickets.measure.metrics import wilson
from robust_tickets.report.model import Interval


def inside(folder: Path, path: Any, notes: list[str]) -> Path | None:
    if not path:
        return None
    try:
        inner = within(folder, str(path))
    except TicketsError:
        notes.append(f"arms.json names {path}, which lies outside the run folder: left out")
        return None
    if not inner.is_dir():
        notes.append(f"{path} is missing")
        return None
    return inner


def optional(path: Path, notes: list[str]) -> Mapping[str, Any]:
    """What a file that may be missing or damaged says; a note tells that it is."""
    try:
        told = read_json(path)
    except TicketsError as problem:
        notes.append(f"{path.parent.name}/{path.name}: {'missing' if not path.exists() else problem.message}")
        return {}
    if not isinstance(told, Mapping) or not told:
        notes.append(
            f"{path.parent.name}/{path.name}: expected a JSON object, got {type(told).__name__ if told else 'an empty one'}"
        )
    return mapping(told)


def number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def interval(value: Any) -> Interval | None:
    numbers = [number(v) for v in value] if isinstance(value, list | tuple) else []
    return (numbers[0], numbers[1]) if len(numbers) == 2 and None not in numbers else None  # type: ignore[return-value]


def percent_interval(value: float | None, n: float | None) -> Interval | None:
    """A percentage of ``n`` with its interval, where the file gives none."""
    if value is None or not n:
        return None
    low, high = wilson(min(int(n), max(0, round(value * n / 100))), int(n))
    return 100 * low, 100 * high
