"""What the three papers printed: every table and figure by one id, every number with its source, and what is known against it.

Numbers come from ``published.json`` (made by ``scripts/published_numbers.py``), words from ``contents.toml``. Tasks have this package's
names, rows the paper's, but for sparsities, which the papers write as subscripts. The attack ``bertattack`` is what a paper calls so.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from robust_tickets.errors import TicketsError, did_you_mean

PAPERS = ("er", "rt", "or")
PERCENT = ("clean", "aua", "suc")


@cache
def toml(name: str) -> dict[str, Any]:
    """Read a TOML file of the package; its result is shared and must not be changed."""
    return tomllib.loads((files(__package__) / name).read_text("utf-8"))


METRICS: Mapping[str, str] = toml("contents.toml")["metrics"]  # what each is


@cache
def _numbers() -> dict[str, Any]:
    return json.loads((files(__package__) / "published.json").read_text("utf-8"))  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper, with notes on all of its numbers."""

    id: str
    name: str
    authors: str
    title: str
    venue: str
    notes: tuple[str, ...]
    runs: int = 1  # of which every number is the mean; 1: not stated
    timed: int = 1  # likewise of speed-ups


@dataclass(frozen=True, kw_only=True)
class Column:
    """What is measured, and under which attack, if any."""

    metric: str
    attack: str | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A trained model: ``name`` is what the paper calls it."""

    task: str
    name: str
    backbone: str


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One published number."""

    table: str
    row: str
    task: str
    backbone: str
    metric: str
    attack: str | None
    value: float
    source: str  # paper, venue and table
    runs: int = 1  # of which it is the mean; 1: not stated


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table or figure. A figure has neither rows nor columns: its values are not in the papers' texts."""

    id: str
    paper: str  # er | rt | or
    title: str
    kind: Literal["table", "figure"]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    tasks: tuple[str, ...]  # empty where the text names none
    notes: tuple[str, ...]  # what is known to be wrong or unclear, beyond the paper's own notes
    recipes: tuple[str, ...]  # of ours, whose arms make the rows or the points
    shows: str = ""  # of a figure
    redrawn: str = ""  # of a figure: what of our runs it takes
    runs: Mapping[str, int] = field(default_factory=dict, hash=False)  # runs of a row's mean, by the caption

    @property
    def source(self) -> str:
        of, what = paper(self.paper), self.kind.capitalize()
        return f"{of.name} ({of.venue}), {what} {self.id.rpartition('-')[2][1:]}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A note on one number of a table; ``others`` are the tables it is compared with.

    ``equal``: another paper prints the same; ``disagrees``: the same paper prints another value too; ``success``: it
    does not follow from the accuracies beside it; ``granularity``: no count of the examples rounds to it.
    """

    kind: Literal["equal", "disagrees", "success", "granularity"]
    table: str
    task: str
    row: str
    metric: str
    attack: str | None
    text: str
    others: tuple[str, ...] = ()


def papers() -> tuple[Paper, ...]:
    """The three papers."""
    return tuple(map(paper, PAPERS))


@cache
def paper(name: str) -> Paper:
    """The paper ``er``, ``rt`` or ``or``."""
    given = toml("contents.toml")["papers"][name]
    return Paper(id=name, **{**given, "notes": tuple(given["notes"])})


@cache
def tables() -> tuple[Table, ...]:
    """All tables and figures, in the papers' order: a paper's tables, then its figures."""
    found = []
    for words in toml("contents.toml")["contents"]:
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in words.items()
        }
        printed = _numbers()["tables"].get(words["id"], {"columns": [], "rows": []})
        rows = tuple(Row(task=task, name=name, backbone=backbone) for task, name, backbone, _ in printed["rows"])
        given["tasks"] = tuple(dict.fromkeys(row.task for row in rows)) or given.get("tasks", ())
        columns = tuple(Column(metric=metric, attack=attack) for metric, attack in printed["columns"])
        kind: Any = "figure" if words["id"][3] == "F" else "table"
        found.append(Table(**given, paper=words["id"][:2].lower(), kind=kind, columns=columns, rows=rows))
    return tuple(found)


def table(id: str) -> Table:
    """The table or figure called ``id``: ``ER-T1``, in capitals or not."""
    found, name = {one.id: one for one in tables()}, id.strip().upper()
    if name not in found:
        why = toml("contents.toml")["left_out"].get(name)
        hint = f"`tickets reproduce --list` shows what there is; {name} is left out: {why}"
        message = f"{id!r} is none of the tables and figures"
        raise TicketsError(message, hint=hint if why else did_you_mean(name, found), code="published.unknown")
    return found[name]


def cells(id: str, **where: str | None) -> tuple[Cell, ...]:
    """The numbers of a table, row by row; ``where`` keeps those with these values: ``cells("ER-T1", task="sst2", metric="aua")``."""
    found = everything = _cells(table(id).id)
    for key, value in where.items():
        known = {getattr(cell, key, None) for cell in everything}
        if known and value not in known:
            hint = did_you_mean(str(value), map(str, known))
            raise TicketsError(f"{id} has no cell whose {key} is {value!r}", hint=hint, code="published.unknown")
        found = tuple(cell for cell in found if getattr(cell, key) == value)
    return found


@cache
def _cells(id: str) -> tuple[Cell, ...]:
    one = table(id)
    printed = _numbers()["tables"].get(id, {"rows": []})["rows"]
    return tuple(
        Cell(
            table=id, row=row.name, task=row.task, backbone=row.backbone, metric=column.metric, attack=column.attack,
            value=value, source=one.source, runs=averaged(id, row.name, column.metric),
        )
        for row, (*_, values) in zip(one.rows, printed, strict=True)
        for column, value in zip(one.columns, values, strict=True)
        if value is not None  # a cell that the paper leaves empty
    )  # fmt: skip


def averaged(id: str, row: str, metric: str) -> int:
    """The number of runs that a printed number is the mean of, as the paper states; 1 if it does not."""
    one, of = table(id), paper(table(id).paper)
    return one.runs.get(row) or (of.timed if metric.startswith("speedup") and of.timed > 1 else of.runs)


def findings(id: str) -> tuple[Finding, ...]:
    """The notes on the numbers of one table; empty for a figure."""
    given = _numbers()["findings"].get(table(id).id, {"cells": []})["cells"]
    return tuple(Finding(table=table(id).id, **{**one, "others": tuple(one["others"])}) for one in given)


def summary(id: str) -> tuple[str, ...]:
    """The findings of a table as few lines: rows that are equal to another table's are put together."""
    return tuple(_numbers()["findings"].get(table(id).id, {"lines": []})["lines"])


def settings(id: str) -> dict[str, Any]:
    """The published hyper-parameters: ``ER-T6`` (by task), ``RT-T5`` (fine-tuning), ``RT-T6`` (by attack), ``RT-T7`` (by task)."""
    return copy.deepcopy(_numbers()["settings"][id])  # type: ignore[no-any-return]  # the caller may change it
