"""What is given to an attack in Python: a classifier, and splits of a task."""

from __future__ import annotations

from typing import Any

from robust_tickets.errors import TicketsError


def a_classifier(value: Any) -> None:
    """Refuse anything else: the name of a model, a bare function, a model of transformers."""
    if not hasattr(value, "needs_model"):
        hint = "rt.load_classifier(name) gives one of a folder or a name; a model in memory is saved to one first"
        if callable(value):
            hint += "; rt.Classifier.wrap(function, labels=[…]) gives one of a function"
        raise TicketsError(f"expected a classifier to attack, got a {type(value).__name__}", hint=hint)


def a_split(value: Any, what: str) -> None:
    """Refuse anything else, a whole task and a list of texts among it; ``what`` it is to be."""
    if hasattr(value, "splits"):
        raise TicketsError(f"{what} is a split of a task, got a {type(value).__name__}", hint="give one of its splits: task.test")
    if not hasattr(value, "digest"):
        hint = "task.test of a loaded task, or data.task.Split.of(texts, labels)"
        raise TicketsError(f"{what} is a split of a task, got a {type(value).__name__}", hint=hint)
