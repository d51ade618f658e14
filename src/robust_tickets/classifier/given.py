"""What a training or a search is given first: a classifier, and one with a model inside."""

from __future__ import annotations

from typing import Any

from robust_tickets.errors import TicketsError


def model_of(clf: Any, what: str) -> Any:
    """The model that is to be ``what``. Refused is what is no classifier (the task, or the name of a model), and one with none."""
    if not hasattr(clf, "needs_model"):
        order = "load_classifier(name, task) gives one" if isinstance(clf, str) else "give the classifier and the task in this order"
        raise TicketsError(f"expected a classifier to be {what}, got a {type(clf).__name__}", hint=order)
    return clf.needs_model(what)
