"""What is given first to a training, a search, an attack or a labelling: a classifier, at times one with a model inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from robust_tickets.backbone.layout import has_layout, layout_of
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


def shown(clf: Any) -> str:
    """``Classifier('minilm', bert, 22,713,986 parameters, kept: heads=60/72, …)``: a compact model is not to look like the whole one."""
    parts = [repr(clf.identity)]
    if clf.model is not None:
        parts.append(str(clf.model.config.model_type).removeprefix("ticket-"))
        parts.append(f"{sum(p.numel() for p in clf.model.parameters()):,} parameters")
        if units := _kept(clf.model):
            parts.append("kept: " + ", ".join(f"{group}={left}/{size}" for group, (left, size) in units.items()))
    return f"Classifier({', '.join(parts)}, labels={list(clf.labels)}, max_length={clf.max_length})"


def _kept(model: Any) -> dict[str, tuple[int, int]]:
    """Units left and units of the whole model, of the groups that a ticket cut."""
    from robust_tickets.backbone.weight_masks import masks_of

    found: dict[str, tuple[int, int]] = {}
    config = model.config
    for group, size in layout_of(config).sizes(config).items() if has_layout(config) else ():
        if (kept := getattr(config, f"kept_{group}", None)) is not None:
            found[group] = sum(map(len, kept)), size * config.num_hidden_layers
    if masks := masks_of(model):
        found["weights"] = sum(int(mask.sum()) for mask in masks.values()), sum(mask.numel() for mask in masks.values())
    return found


HINT = "load the classifier for the task: load_classifier(name, task)"


def fits(clf: Any, task: Any) -> None:
    """Refuse a classifier whose labels (names and order) or number of text columns are not the task's."""
    if not hasattr(task, "labels"):
        what = repr(str(task)) if isinstance(task, str | Path) else f"a {type(task).__name__}"
        raise TicketsError(
            f"expected a loaded task, got {what:.80}", hint="task = rt.load_task(name or file), then give task"
        )
    if tuple(clf.labels) != tuple(task.labels):
        raise TicketsError(
            f"the classifier's labels are {_list(clf.labels)}, those of {task.name} are {_list(task.labels)}", hint=HINT
        )
    same_columns(clf, task.columns, task.name)


def same_columns(clf: Any, columns: Any, name: str) -> None:
    if len(clf.columns) != len(columns):
        raise TicketsError(
            f"the classifier reads {len(clf.columns)} text(s) ({_list(clf.columns)}), {name} has {len(columns)} ({_list(columns)})",
            hint=HINT,
        )


def _list(names: Any) -> str:
    shown = ", ".join(map(str, names[:5]))
    return f"{shown}, … ({len(names)})" if len(names) > 5 else shown


T = TypeVar("T")
R = TypeVar("R")
LESS = "lower token_budget, or the classifier's max_length"


def said(problem: Exception) -> str:
    return problem.message if isinstance(problem, TicketsError) else f"{type(problem).__name__}: {problem}"


def out_of_memory(problem: BaseException) -> bool:
    """Python and CUDA have types for it; torch on a CPU or on Apple's GPU has only a message."""
    import torch

    if isinstance(problem, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(problem, RuntimeError) and any(
        words in str(problem).lower() for words in ("out of memory", "can't allocate memory")
    )
