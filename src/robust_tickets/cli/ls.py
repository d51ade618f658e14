"""The verb ``ls``. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import robust_tickets
from robust_tickets.cli.options import Answer, Common
from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.progress import say
from robust_tickets.registry import REGISTRIES
from robust_tickets.stages import COMMAND, RunFolder, command_of

if TYPE_CHECKING:
    from robust_tickets.reproduce.arms import Arm

Kind = Literal[
    "methods", "adversaries", "attacks", "constraints", "transforms", "backbones", "tasks", "recipes", "arms", "runs"
]


def ls(kind: Kind, *, folder: Path = Path("runs"), common: Common = Common()) -> Answer:  # noqa: B008
    """List what there is.

    Parameters
    ----------
    kind
        What to list.
    folder
        Where runs lie, for `ls runs`.
    """
    found: Sequence[Any]
    if kind == "runs":
        found = [about for config in sorted(folder.glob("*/config.json")) if (about := _run(config.parent))]
        lines = _lines(found)
        if not found:
            say(f"no runs in {folder}" if folder.is_dir() else f"no folder {folder}: `tickets run` makes it")
    else:
        names = REGISTRIES[kind].names if kind in REGISTRIES else getattr(robust_tickets, kind, _arms)
        found = sorted(names())
        wide = max(map(len, found), default=0)
        lines = [f"{name:<{wide}}  {_about(kind, name)}".rstrip() for name in found]
    if kind == "recipes":
        say(f"their files, to copy and edit: {files('robust_tickets.experiment.recipes')}")
    return Answer(data={kind: found}, show=lambda console: print(*lines, sep="\n") if lines else None)


def _arms() -> Mapping[str, Arm]:
    from robust_tickets.reproduce.arms import arms  # reads its tables

    return arms()


def _about(kind: str, name: str) -> str:
    """One line on a thing; none of ours is imported for it."""
    if kind == "tasks":
        return TASKS[name].about
    if kind == "arms":
        return _arms()[name].title
    if kind == "recipes":
        from robust_tickets.experiment.recipe import recipe_tree

        return str(recipe_tree(name)["title"])
    return REGISTRIES[kind].about(name)


def _run(run: Path) -> dict[str, str] | None:
    """What its files say of a run; ``when`` it was finished, or begun where it is not; none of a folder that is no run of ours."""
    try:
        recipe = read_json(run / "config.json")["recipe"]
        done = RunFolder(folder=run).done()
        file = run / ("manifest.json" if done else COMMAND)
        when = (file if file.is_file() else run / "config.json").stat().st_mtime
        return {
            "name": run.name,
            "state": "done" if done else "unfinished",
            "when": datetime.fromtimestamp(when).isoformat(" ", "minutes"),
            "task": str(recipe.get("source", {}).get("task", "")),
            "model": str(recipe.get("model", "")),
            "title": str(recipe["title"]),
            "folder": str(run),
            "command": "" if done else command_of(run),
        }
    except (TicketsError, KeyError, TypeError, AttributeError, OSError):
        return None


def _lines(found: Sequence[Mapping[str, str]]) -> list[str]:
    """A line for every run, and one for how it is resumed; of files the last part of their path."""
    short = [{**run, **{name: _short(run[name]) for name in ("task", "model")}} for run in found]
    rows = [[run[name] for name in ("name", "state", "when", "task", "model", "title")] for run in short]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for run, row in zip(found, rows, strict=True):
        lines.append("  ".join(f"{value:<{width}}" for value, width in zip(row, wide, strict=True)).rstrip())
        lines += [f"  resume: {run['command']}"] if run["command"] else []
    return lines


def _short(name: str) -> str:
    return Path(name).name if os.path.exists(name) else name
