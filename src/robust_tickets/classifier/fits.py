"""Does a classifier fit a task? Label names decide: the same in another order would train, and measure, the wrong thing in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError

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
