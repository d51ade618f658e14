"""What every search begins with: a classifier, and one with a model inside."""

from __future__ import annotations

from typing import Any

from robust_tickets.errors import TicketsError


def expect_classifier(clf: Any) -> None:
    """Refuse what is no classifier: task and classifier the other way round, or the name of a model."""
    if not hasattr(clf, "needs_model"):
        hint = "load_classifier(name, task) gives one" if isinstance(clf, str) else "search(classifier, task), in this order"
        raise TicketsError(f"a search begins with a classifier, got a {type(clf).__name__}", hint=hint)


def needs_model(clf: Any, units: str = "heads to search") -> None:
    expect_classifier(clf)
    if clf.model is None:
        raise TicketsError(f"a wrapped callable has no {units}", hint="load a model with load_classifier")
