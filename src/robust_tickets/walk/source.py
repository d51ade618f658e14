"""Source: where a task's texts and labels come from, as a recipe says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Source:
    """As :func:`robust_tickets.load_task`."""

    task: str
    text: str | tuple[str, str] | None = None
    label: str | None = None
    labels: tuple[str, ...] | None = None
    test: str | None = None
    validation: str | None = None
    data: str | None = None
    strict: bool = False
    max_rows: int | None = None
    max_test_rows: int | None = None
