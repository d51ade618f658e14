"""The runs of a folder, told apart: by task, model and time, and an unfinished one by the command that goes on with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.run import COMMAND, Run, command_of

COLUMNS = ("name", "state", "when", "task", "model", "title")


def runs_in(folder: Path) -> list[dict[str, str]]:
    """What the files of every run say of it; ``when`` it was finished, or begun where it is not."""
    found = []
    for config in sorted(folder.glob("*/config.json")):
        run = config.parent
        try:
            recipe = read_json(config)["recipe"]
            done = Run(folder=run).done()
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


def told(found: Sequence[Mapping[str, str]]) -> list[str]:
    """A line for every run, and one for how it goes on; of files the last part of their path."""
    rows = [[_short(run[name]) if name in ("task", "model") else run[name] for name in COLUMNS] for run in found]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for run, row in zip(found, rows, strict=True):
        lines.append("  ".join(f"{value:<{width}}" for value, width in zip(row, wide, strict=True)).rstrip())
        lines += [f"  go on: {run['command']}"] if run["command"] else []
    return lines


def _time(run: Path, names: Iterable[str]) -> str:
    """When the first of these files that is there was written, in local time."""
    file = next(run / name for name in names if (run / name).is_file())
    return datetime.fromtimestamp(file.stat().st_mtime).isoformat(" ", "minutes")


def _short(name: str) -> str:
    return Path(name).name if os.path.exists(name) else name  # which no name makes raise
