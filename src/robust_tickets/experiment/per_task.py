"""What the papers' tables say for a task, filled in where a recipe leaves it out.

A search brings its table as ``PER_TASK`` (task → settings); batch size and text length of a task stand in ``data/tasks.py``. A key that
the recipe or ``--set`` gives is never touched. An inner component's settings (a step size, say) are meant for the method's own default
component and go nowhere else: PGD is not given FreeLB's step size. What is filled in is said, and lands in the resolved recipe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from robust_tickets.data.tasks import TASKS, task_named
from robust_tickets.registry import METHODS, name_of


def with_row(
    settings: Mapping[str, Any], task: str, searched: str | None, of_target: Sequence[str]
) -> tuple[dict[str, Any], str]:
    """``settings`` of a search with the row of its task, and a line that says so, or nothing.

    ``searched`` is the task searched on where it is another one: the row is its, but ``of_target`` (sparsities) are those of ``task``.
    """
    if settings.get("name") not in METHODS.names():
        return dict(settings), ""  # the builder says what is wrong with it
    method = METHODS.get(settings["name"])
    table: Mapping[str, Mapping[str, Any]] = getattr(method, "PER_TASK", {})
    task, searched = task_named(task, table), task_named(searched, table) if searched else None
    row = dict(table.get(searched or task, {}))
    if searched:
        row |= {key: value for key, value in table.get(task, {}).items() if key in of_target}
    if settings.get("sparsity") is not None:  # single weights are drawn: no neurons
        row.pop("neurons", None)
    added = _missing(row, settings, {f.name: f.default for f in fields(method)})
    if not added:
        return dict(settings), ""
    filled = {
        **settings,
        **{k: {**_table(settings.get(k)), **v} if isinstance(v, Mapping) else v for k, v in added.items()},
    }
    return filled, f"{settings['name']}: {_said(added)}, as in its table for {searched or task}"


def for_training(settings: Mapping[str, Any], task: str) -> tuple[dict[str, Any], str]:
    """``settings`` of the training with the batch size of a registered task."""
    task = task_named(task)
    size = TASKS[task].batch_size if task in TASKS else None
    if size is None or "batch_size" in settings:
        return dict(settings), ""
    return {**settings, "batch_size": size}, f"train: batch_size {size}, as the papers have it for {task}"


def length_for(task: str, given: int | None) -> tuple[int, str]:
    """Tokens of a text: what the recipe says, else the registered task's, else 128."""
    if given is not None:
        return given, ""
    task = task_named(task)
    if task in TASKS and TASKS[task].max_length is not None:
        return TASKS[task].max_length, f"max_length {TASKS[task].max_length}, as the papers have it for {task}"  # type: ignore[return-value]
    return 128, ""


def _missing(row: Mapping[str, Any], settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    added: dict[str, Any] = {}
    for key, value in row.items():
        if not isinstance(value, Mapping):
            if key not in settings:
                added[key] = value
        elif key not in settings or _same(settings[key], defaults.get(key)):
            inner = {k: v for k, v in value.items() if k not in _table(settings.get(key))}
            if inner:
                added[key] = inner
    return added


def _same(given: Any, default: Any) -> bool:
    """Whether a component given by name or table is of the default's kind."""
    if given in (None, False, "none") or default is None:
        return False
    return bool(_table(given).get("name", name_of(default)) == name_of(default))


def _table(given: Any) -> dict[str, Any]:
    return {"name": given} if isinstance(given, str) else dict(given or {})


def _said(added: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} ({_said(v)})" if isinstance(v, Mapping) else f"{k} {v}" for k, v in added.items())
