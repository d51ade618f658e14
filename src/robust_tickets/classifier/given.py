"""What is given first to a training, a search, an attack or a labelling: a classifier, at times one with a model inside."""

from __future__ import annotations

from typing import Any

from robust_tickets.errors import TicketsError


def a_classifier(value: Any, what: str, hint: str = "") -> None:
    """Refuse anything else ``to be …``: the name of a model, a bare function, a model of transformers."""
    if hasattr(value, "needs_model"):
        return
    if not hint:
        hint = "rt.load_classifier(name) gives one of a folder or a name; a model in memory is saved to one first"
        hint += "; rt.Classifier.wrap(function, labels=[…]) gives one of a function" if callable(value) else ""
    raise TicketsError(f"expected a classifier {what}, got a {type(value).__name__}", hint=hint)


def model_of(clf: Any, what: str) -> Any:
    """The model that is to be ``what``. Refused is what is no classifier (the task, or the name of a model), and one with none."""
    order = (
        "load_classifier(name, task) gives one"
        if isinstance(clf, str)
        else "give the classifier and the task in this order"
    )
    a_classifier(clf, f"to be {what}", order)
    return clf.needs_model(what)
