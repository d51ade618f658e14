"""The verb ``ls``, which only looks: it imports no torch."""

from __future__ import annotations

import ast
import tomllib
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from robust_tickets import names
from robust_tickets.cli.answer import Answer, Common
from robust_tickets.cli.runs import runs_in, told
from robust_tickets.data.tasks import TASKS
from robust_tickets.progress import say
from robust_tickets.registry import REGISTRIES

Kind = Literal["methods", "adversaries", "attacks", "backbones", "tasks", "recipes", "runs"]


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
        found = list(getattr(names, kind)())
        wide = max(map(len, found), default=0)
        lines = [f"{name:<{wide}}  {_about(kind, name)}".rstrip() for name in found]
    if kind == "runs" and not found:
        say(f"no runs in {folder}" if folder.is_dir() else f"no folder {folder}: `tickets run` makes it")
    if kind == "recipes":
        say(f"their files, to copy and edit: {files('robust_tickets.recipe')}")
    return Answer(data={kind: found}, show=lambda console: print(*lines, sep="\n") if lines else None)


def _about(kind: str, name: str) -> str:
    """One line on a thing, read from its file: nothing is imported for it."""
    if kind == "tasks":
        return TASKS[name].about
    if kind == "recipes":
        return str(tomllib.loads((files("robust_tickets.recipe") / f"{name}.toml").read_text("utf-8"))["title"])
    file = files(REGISTRIES[kind].package) / f"{name}.py"
    said = (
        ast.get_docstring(ast.parse(file.read_text("utf-8")))
        if file.is_file()
        else _plugged(*REGISTRIES[kind].place_of(name))
    )
    return " ".join((said or "").partition("\n\n")[0].split())


def _plugged(module: str, name: str) -> str | None:
    """What a plug-in says of itself: its class's docstring, else its file's; none where the file cannot be read."""
    try:
        tree = ast.parse(_file_of(module).read_text("utf-8"))
    except (OSError, ValueError, SyntaxError, ImportError):  # another package's file: listing names must go on
        return None
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    own = classes.get(name)
    return (ast.get_docstring(own) if own is not None else None) or ast.get_docstring(tree)


def _file_of(module: str) -> Path:
    """Where a module lies. Asking Python for a module inside a package would import the package."""
    top, *rest = module.split(".")
    spec = find_spec(top)
    if spec is not None and not rest:
        return Path(str(spec.origin))
    for where in (spec and spec.submodule_search_locations) or ():
        at = Path(where, *rest)
        for file in (at.with_suffix(".py"), at / "__init__.py"):
            if file.is_file():
                return file
    raise FileNotFoundError(module)
