"""What the three papers printed: every table and figure by one id, every number with its source, and what is known against it.

Numbers come from ``published.json`` (made by ``scripts/published_numbers.py``), words from ``contents.toml``. Tasks have this package's
names, rows the paper's, but for sparsities, which the papers write as subscripts. The attack ``bertattack`` is what a paper calls so.
"""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from robust_tickets.errors import TicketsError, did_you_mean


@cache
def toml(name: str) -> dict[str, Any]:
    """The file called so; what it gives is shared, and nobody's to change."""
    return tomllib.loads((files(__package__) / name).read_text("utf-8"))


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


SST2 = 872  # examples of the split that the papers attack
SLACK = 0.5  # points: Suc is counted on the attacked examples, Clean on all, so that they differ a little by rights
SAME = {  # what a paper prints under two names
    "Heads-G, Neurons-G": "EarlyRobust",
    "searched on MLM": "ORTicket",
    "BERT-base, no ticket": "Vanilla",
}
Kind = Literal["equal", "disagrees", "success", "granularity"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something about one number of a table, in words; ``others`` are the tables that it is held against."""

    kind: Kind
    table: str
    task: str
    row: str
    metric: str
    attack: str | None
    text: str
    others: tuple[str, ...] = ()


@cache
def findings(id: str) -> tuple[Finding, ...]:
    """All that is found about the numbers of one table; empty for a figure."""
    name = table(id).id
    return tuple(one for one in _all() if one.table == name)


def of_500(id: str) -> dict[str, tuple[int, int]]:
    """For each task: how many accuracies under attack are multiples of 0.2, as 500 examples give, and how many there are."""
    told: dict[str, tuple[int, int]] = {}
    for cell in cells(id):
        if cell.metric == "aua":
            even, count = told.get(cell.task, (0, 0))
            told[cell.task] = even + (round(cell.value * 10) % 2 == 0), count + 1
    return told


@cache
def _all() -> tuple[Finding, ...]:
    everything = [cell for one in tables() for cell in cells(one.id)]
    return (*_equal(everything), *_disagreeing(everything), *_success(everything), *_granular(everything))


def _finding(kind: Kind, cell: Cell, text: str, others: tuple[str, ...] = ()) -> Finding:
    return Finding(
        kind=kind,
        table=cell.table,
        task=cell.task,
        row=cell.row,
        metric=cell.metric,
        attack=cell.attack,
        text=text,
        others=others,
    )


def _named(cell: Cell) -> str:
    return f"{cell.task}, {cell.row}" + (f", {cell.attack}" if cell.attack else "")


def _equal(everything: list[Cell]) -> Iterator[Finding]:
    value = {(c.table, c.task, c.row, c.metric, c.attack): c.value for c in everything}
    alike = defaultdict(list)
    for cell in everything:
        if cell.metric == "aua":
            clean = value[cell.table, cell.task, cell.row, "clean", None]
            alike[cell.task, cell.backbone, cell.attack, clean, cell.value].append(cell)
    for group in alike.values():
        for cell in group:
            asked = value.get((cell.table, cell.task, cell.row, "queries", cell.attack))
            others = []
            for other in group:
                also = value.get((other.table, other.task, other.row, "queries", other.attack))
                if other.table[:2] != cell.table[:2] and (asked is None or also is None or asked == also):
                    others.append((other, asked is not None and also is not None))
            if others:
                where = "; ".join(f"{o.table}, {o.row}" + (" (queries too)" if both else "") for o, both in others)
                text = f"{_named(cell)}: clean and attacked accuracy are those of {where}"
                yield _finding("equal", cell, text, tuple(dict.fromkeys(o.table for o, _ in others)))


def _disagreeing(everything: list[Cell]) -> Iterator[Finding]:
    told = defaultdict(list)
    for cell in everything:
        told[cell.table[:2], cell.task, cell.backbone, SAME.get(cell.row, cell.row), cell.metric, cell.attack].append(
            cell
        )
    for group in told.values():
        for cell in group:
            others = [other for other in group if other.value != cell.value]
            if others:
                where = ", ".join(f"{other.value} in {other.table}" for other in others)
                text = f"{_named(cell)}: {cell.metric} is {cell.value} here, {where}"
                yield _finding("disagrees", cell, text, tuple(other.table for other in others))


def _success(everything: list[Cell]) -> Iterator[Finding]:
    value = {(c.table, c.task, c.row, c.metric, c.attack): c.value for c in everything}
    for cell in everything:
        if cell.metric == "suc":
            clean, left = (
                value[cell.table, cell.task, cell.row, m, a] for m, a in (("clean", None), ("aua", cell.attack))
            )
            given = 100 * (clean - left) / clean
            if abs(given - cell.value) > SLACK:
                yield _finding("success", cell, f"{_named(cell)}: suc is {cell.value}, clean and aua give {given:.1f}")


def _granular(everything: list[Cell]) -> Iterator[Finding]:
    possible = {round(100 * count / SST2, 1) for count in range(SST2 + 1)}
    for cell in everything:
        one_run = cell.table[:2] in ("ER", "OR")  # RobustT's numbers are said to be means of five
        mean = cell.row == "Random Tickets"
        if (
            one_run
            and not mean
            and cell.task == "sst2"
            and cell.metric in ("clean", "aua")
            and cell.value not in possible
        ):
            text = f"{_named(cell)}: no count out of {SST2} rounds to {cell.value} (one cut off would)"
            yield _finding("granularity", cell, text)


def summary(id: str) -> tuple[str, ...]:
    """The findings of a table as few lines: equal rows are put together by task and by the tables that have them too."""
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in findings(id):
        for other in one.others if one.kind == "equal" else ():
            rows[one.task, other].append(one.row)
    places: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (task, other), names in rows.items():
        places[task, tuple(names)].append(other)  # a row's name stands there once for every attack
    equal = [
        f"{task}: accuracy, clean and under attack, is to the digit that of {', '.join(others)} for {', '.join(dict.fromkeys(who))} "
        f"(attacks: {len(who)})"
        for (task, who), others in places.items()
    ]
    return (*equal, *(one.text for one in findings(id) if one.kind != "equal"))
