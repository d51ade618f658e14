"""The verb ``ls``. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import robust_tickets
from robust_tickets.cli.options import Answer, Common
from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.progress import say
from robust_tickets.registry import REGISTRIES
from robust_tickets.reproduce.arms import arms
from robust_tickets.stages import COMMAND, RunFolder, command_of

COLUMNS = ("name", "state", "when", "task", "model", "title")


def runs_in(folder: Path) -> list[dict[str, str]]:
    """What the files of every run say of it; ``when`` it was finished, or begun where it is not."""
    found = []
    for config in sorted(folder.glob("*/config.json")):
        run = config.parent
        try:
            recipe = read_json(config)["recipe"]
            done = RunFolder(folder=run).done()
            about = {
                "name": run.name,
                "state": "done" if done else "unfinished",
                "title": str(recipe["title"]),
                "folder": str(run),
                "task": str(recipe.get("source", {}).get("task", "")),
                "model": str(recipe.get("model", "")),
                "when": _time(run, ("manifest.json",) if done else (COMMAND, "config.json")),
                "command": "" if done else command_of(run),
            }
        except (TicketsError, KeyError, TypeError, AttributeError, OSError):
            continue  # not a run of ours
        found.append(about)
    return found


def lines_of(found: Sequence[Mapping[str, str]]) -> list[str]:
    """A line for every run, and one for how it is resumed; of files the last part of their path."""
    rows = [[_short(run[name]) if name in ("task", "model") else run[name] for name in COLUMNS] for run in found]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for run, row in zip(found, rows, strict=True):
        lines.append("  ".join(f"{value:<{width}}" for value, width in zip(row, wide, strict=True)).rstrip())
        lines += [f"  resume: {run['command']}"] if run["command"] else []
    return lines


def _time(run: Path, names: Iterable[str]) -> str:
    """When the first of these files that is there was written, in local time."""
    file = next(run / name for name in names if (run / name).is_file())
    return datetime.fromtimestamp(file.stat().st_mtime).isoformat(" ", "minutes")


def _short(name: str) -> str:
    return Path(name).name if os.path.exists(name) else name  # which no name makes raise


Kind = Literal["methods", "adversaries", "attacks", "backbones", "tasks", "recipes", "arms", "runs"]


def ls(kind: Kind, *, folder: Path = Path("runs"), common: Common = Common()) -> Answer:  # noqa: B008
    """List what there is.

    Parameters
    ----------
    kind
        What to list.
    folder
        Where runs lie, for `ls runs`.
    """
    if kind == "runs":
        found: list[Any] = runs_in(folder)
        lines = lines_of(found)
    else:
        found = sorted(arms()) if kind == "arms" else list(getattr(robust_tickets, kind)())
        wide = max(map(len, found), default=0)
        lines = [f"{name:<{wide}}  {_about(kind, name)}".rstrip() for name in found]
    if kind == "runs" and not found:
        say(f"no runs in {folder}" if folder.is_dir() else f"no folder {folder}: `tickets run` makes it")
    if kind == "recipes":
        say(f"their files, to copy and edit: {files('robust_tickets.experiment.recipes')}")
    return Answer(data={kind: found}, show=lambda console: print(*lines, sep="\n") if lines else None)


def _about(kind: str, name: str) -> str:
    """One line on a thing; none of ours is imported for it."""
    if kind == "tasks":
        return TASKS[name].about
    if kind == "arms":
        return arms()[name].title
    if kind == "recipes":
        from robust_tickets.experiment.recipe import recipe_tree

        return str(recipe_tree(name)["title"])
    return REGISTRIES[kind].about(name)
