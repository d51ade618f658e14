"""The verb ``ls``, which only looks: it imports no torch."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from robust_tickets import names
from robust_tickets.cli.answer import Answer, Common
from robust_tickets.cli.runs import runs_in, told
from robust_tickets.data.tasks import TASKS
from robust_tickets.progress import say
from robust_tickets.registry import REGISTRIES
from robust_tickets.reproduce.arms import arms

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
        lines = told(found)
    else:
        found = sorted(arms()) if kind == "arms" else list(getattr(names, kind)())
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
        return str(names.recipe_tree(name)["title"])
    return REGISTRIES[kind].about(name)
