"""tickets.json: what a saved classifier needs beyond what transformers saves. Read with care, for people edit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json, write_json

NAME = "tickets.json"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class About:
    max_length: int | None = None
    columns: tuple[str, ...] | None = None  # None where nobody says what the model reads
    masked: bool = False  # whether the masks of an unstructured ticket lie beside it


def write_about(
    folder: Path, *, max_length: int, columns: Sequence[str], labels: Sequence[str], masked: bool = False
) -> Path:
    told = {"schema": SCHEMA, "max_length": max_length, "columns": list(columns), "labels": list(labels)}
    return write_json(folder / NAME, {**told, "masked": True} if masked else told)


def read_about(folder: Path) -> About:
    """What ``folder`` says; nothing where it has no such file."""
    path = folder / NAME
    if not path.is_file():
        return About()
    told: Any = read_json(path)
    if not isinstance(told, dict) or told.get("schema") != SCHEMA:
        found = told.get("schema") if isinstance(told, dict) else type(told).__name__
        raise TicketsError(
            f"{path} has schema {found!r}, this version reads {SCHEMA}",
            hint="update the package, or save the model again",
        )
    length, columns = told.get("max_length"), told.get("columns")
    if type(length) is not int:
        raise TicketsError(
            f"{path}: max_length must be a whole number, got {length!r}",
            hint="the file is damaged: save the model again",
        )
    if (
        not isinstance(columns, list)
        or len(columns) not in (1, 2)
        or not all(isinstance(name, str) for name in columns)
    ):
        raise TicketsError(
            f"{path}: columns must be a list of one or two names, got {columns!r}",
            hint="the file is damaged: save the model again",
        )
    return About(max_length=length, columns=tuple(columns), masked=told.get("masked") is True)
