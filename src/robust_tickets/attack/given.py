"""What is given to an attack in Python beside a classifier: splits of a task."""

from __future__ import annotations

from typing import Any

from robust_tickets.errors import TicketsError


def a_split(value: Any, what: str) -> None:
    """Refuse anything else, a whole task and a list of texts among it; ``what`` it is to be."""
    if hasattr(value, "splits"):
        raise TicketsError(
            f"{what} is a split of a task, got a {type(value).__name__}", hint="give one of its splits: task.test"
        )
    if not hasattr(value, "digest"):
        hint = "task.test of a loaded task, or data.task.Split.of(texts, labels)"
        raise TicketsError(f"{what} is a split of a task, got a {type(value).__name__}", hint=hint)
