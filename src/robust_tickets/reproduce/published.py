"""What the three papers printed: every table and figure by one id, every number with its source, and what is known against it.

Numbers come from ``published.json`` (made by ``scripts/published_numbers.py``), words from ``contents.toml``. Tasks have this package's
names, rows the paper's, but for sparsities, which the papers write as subscripts. The attack ``bertattack`` is what a paper calls so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce.toml import toml

PAPERS = ("er", "rt", "or")
PERCENT = ("clean", "aua", "suc")
METRICS = {
    "clean": "accuracy on the clean test set, %",
    "aua": "accuracy under attack, %: failed attacks out of all examples",
    "suc": "attacks that succeed, %, out of those on examples that were right",
    "queries": "mean number of questions an attack asks the model",
    "speedup_vs_pgd": "training time of PGD over this one's",
    "speedup_vs_freelb": "training time of FreeLB over this one's",
    "speedup_lost_to_search": "what is to be taken off the speed-up if the search is charged to this task alone",
    "encoder_millions": "parameters without embeddings, millions",
    "total_millions": "parameters, millions",
}


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper, and what is to be known about all of its numbers."""

    id: str
    name: str
    authors: str
    title: str
    venue: str
    notes: tuple[str, ...]
    runs: int = 1  # of which every number is the mean; 1: the paper does not say
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
    runs: int = 1  # of which it is the mean, by what the paper says; 1 where it says nothing


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table or figure. A figure has neither rows nor columns: its values are not in the papers' texts."""

    id: str
    paper: str  # er | rt | or
    title: str
    kind: Literal["table", "figure"]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    tasks: tuple[str, ...]  # empty where the text does not say, or none takes part
    notes: tuple[str, ...]  # what is known to be wrong or unclear, beyond the paper's own notes
    recipes: tuple[str, ...]  # of ours, whose arms make the rows or the points
    shows: str = ""  # of a figure
    redrawn: str = ""  # of a figure: what of our runs it takes
    runs: Mapping[str, int] = field(
        default_factory=dict, hash=False
    )  # by row, where its caption says of how many its numbers are the mean

    @property
    def source(self) -> str:
        told, what = paper(self.paper), "Table" if self.kind == "table" else "Figure"
        return f"{told.name} ({told.venue}), {what} {self.id.rpartition('-')[2][1:]}"


@cache
def _numbers() -> dict[str, Any]:
    return json.loads((files(__package__) / "published.json").read_text("utf-8"))  # type: ignore[no-any-return]


def _words() -> dict[str, Any]:
    return toml("contents.toml")


def papers() -> tuple[Paper, ...]:
    """The three papers."""
    return tuple(paper(name) for name in PAPERS)


@cache
def paper(name: str) -> Paper:
    """The paper ``er``, ``rt`` or ``or``."""
    told = _words()["papers"].get(name)
    if told is None:
        raise TicketsError(f"{name!r} is none of the papers", hint=did_you_mean(name, PAPERS))
    return Paper(id=name, **{**told, "notes": tuple(told["notes"])})


@cache
def tables() -> tuple[Table, ...]:
    """All tables and figures, in the papers' order: a paper's tables, then its figures."""
    return tuple(_table(entry) for entry in _words()["contents"])


def table(id: str) -> Table:
    """The table or figure called ``id``: ``ER-T1``, in capitals or not."""
    found = {one.id: one for one in tables()}
    name = id.strip().upper()
    if name not in found:
        why = _words()["left_out"].get(name)
        hint = (
            f"`tickets reproduce --list` shows what there is; {name} is left out: {why}"
            if why
            else did_you_mean(name, found)
        )
        raise TicketsError(f"{id!r} is none of the tables and figures", hint=hint)
    return found[name]


def cells(id: str, **where: Any) -> tuple[Cell, ...]:
    """The numbers of a table, row by row; ``where`` keeps those with these values: ``cells("ER-T1", task="sst2", metric="aua")``."""
    found = _cells(table(id).id)
    for key, value in where.items():
        names = [field.name for field in fields(Cell)]
        if key not in names:
            raise TicketsError(f"a cell has no {key!r}", hint=did_you_mean(key, names))
        known = {getattr(cell, key) for cell in _cells(table(id).id)}
        if known and value not in known:
            raise TicketsError(
                f"{id} has no cell whose {key} is {value!r}", hint=did_you_mean(str(value), map(str, known))
            )
        found = tuple(cell for cell in found if getattr(cell, key) == value)
    return found


def averaged(id: str, row: str, metric: str) -> int:
    """Of how many runs a printed number is the mean, by what the paper says of the row, the measure or all its numbers; 1: nothing."""
    one, told = table(id), paper(table(id).paper)
    return one.runs.get(row) or (told.timed if metric.startswith("speedup") and told.timed > 1 else told.runs)


def settings(id: str) -> dict[str, Any]:
    """The published hyper-parameters: ``ER-T6`` (by task), ``RT-T5`` (fine-tuning), ``RT-T6`` (by attack), ``RT-T7`` (by task)."""
    known = _numbers()["settings"]
    if id not in known:
        raise TicketsError(f"{id!r} is no table of hyper-parameters", hint=did_you_mean(id, known))
    return json.loads(json.dumps(known[id]))  # type: ignore[no-any-return]  # a copy: the caller may change it


def _table(entry: dict[str, Any]) -> Table:
    printed = _numbers()["tables"].get(entry["id"], {"columns": [], "rows": []})
    rows = tuple(Row(task=task, name=name, backbone=backbone) for task, name, backbone, _ in printed["rows"])
    return Table(
        id=entry["id"],
        paper=entry["id"][:2].lower(),
        title=entry["title"],
        kind="figure" if entry["id"][3] == "F" else "table",
        columns=tuple(Column(metric=metric, attack=attack) for metric, attack in printed["columns"]),
        rows=rows,
        tasks=tuple(dict.fromkeys(row.task for row in rows)) or tuple(entry.get("tasks", ())),
        notes=tuple(entry["notes"]),
        recipes=tuple(entry["recipes"]),
        shows=entry.get("shows", ""),
        redrawn=entry.get("redrawn", ""),
        runs=entry.get("runs", {}),
    )


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
