"""What the three papers printed: every table and figure by one id, every number with its source, and what is known against it.

Numbers come from ``published.json`` (made by ``scripts/published_numbers.py``), words from ``contents.toml``. Tasks have this package's
names, rows the paper's, but for sparsities, which the papers write as subscripts. The attack ``bertattack`` is what a paper calls so.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from robust_tickets.config import build
from robust_tickets.errors import TicketsError, did_you_mean


@cache
def toml(name: str) -> dict[str, Any]:
    """Read a TOML file of the package; its result is shared and must not be changed."""
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
        of, what = paper(self.paper), "Table" if self.kind == "table" else "Figure"
        return f"{of.name} ({of.venue}), {what} {self.id.rpartition('-')[2][1:]}"


@dataclass(frozen=True, kw_only=True)
class _Contents:
    """A table or figure of ``contents.toml``, in our words."""

    id: str
    title: str
    recipes: tuple[str, ...]
    notes: tuple[str, ...]
    tasks: tuple[str, ...] = ()
    shows: str = ""
    redrawn: str = ""
    runs: Mapping[str, int] = field(default_factory=dict)


@cache
def _numbers() -> dict[str, Any]:
    return json.loads((files(__package__) / "published.json").read_text("utf-8"))  # type: ignore[no-any-return]


def _unknown(message: str, hint: str) -> TicketsError:
    return TicketsError(message, hint=hint, code="published.unknown")


def papers() -> tuple[Paper, ...]:
    """The three papers."""
    return tuple(paper(name) for name in PAPERS)


@cache
def paper(name: str) -> Paper:
    """The paper ``er``, ``rt`` or ``or``."""
    if name not in PAPERS:
        raise _unknown(f"{name!r} is none of the papers", did_you_mean(name, PAPERS))
    found: Paper = build(Paper, {"id": name, **toml("contents.toml")["papers"][name]}, f"contents.toml: {name}")
    return found


@cache
def tables() -> tuple[Table, ...]:
    """All tables and figures, in the papers' order: a paper's tables, then its figures."""
    return tuple(_table(build(_Contents, one, "contents.toml")) for one in toml("contents.toml")["contents"])


def table(id: str) -> Table:
    """The table or figure called ``id``: ``ER-T1``, in capitals or not."""
    found = {one.id: one for one in tables()}
    name = id.strip().upper()
    if name not in found:
        why = left_out().get(name)
        hint = f"`tickets reproduce --list` shows what there is; {name} is left out: {why}"
        raise _unknown(f"{id!r} is none of the tables and figures", hint if why else did_you_mean(name, found))
    return found[name]


def left_out() -> Mapping[str, str]:
    """Tables and figures of the papers that are none of these, and why."""
    return toml("contents.toml")["left_out"]  # type: ignore[no-any-return]


def cells(id: str, **where: Any) -> tuple[Cell, ...]:
    """The numbers of a table, row by row; ``where`` keeps those with these values: ``cells("ER-T1", task="sst2", metric="aua")``."""
    found = everything = _cells(table(id).id)
    for key, value in where.items():
        names = [field.name for field in fields(Cell)]
        if key not in names:
            raise _unknown(f"a cell has no {key!r}", did_you_mean(key, names))
        known = {getattr(cell, key) for cell in everything}
        if known and value not in known:
            hint = did_you_mean(str(value), map(str, known))
            raise _unknown(f"{id} has no cell whose {key} is {value!r}", hint)
        found = tuple(cell for cell in found if getattr(cell, key) == value)
    return found


def averaged(id: str, row: str, metric: str) -> int:
    """The number of runs that a printed number is the mean of, as the paper states; 1 if it does not."""
    one, of = table(id), paper(table(id).paper)
    return one.runs.get(row) or (of.timed if metric.startswith("speedup") and of.timed > 1 else of.runs)


def settings(id: str) -> dict[str, Any]:
    """The published hyper-parameters: ``ER-T6`` (by task), ``RT-T5`` (fine-tuning), ``RT-T6`` (by attack), ``RT-T7`` (by task)."""
    known = _numbers()["settings"]
    if id not in known:
        raise _unknown(f"{id!r} is no table of hyper-parameters", did_you_mean(id, known))
    return copy.deepcopy(known[id])  # type: ignore[no-any-return]  # the caller may change it


def _table(words: _Contents) -> Table:
    printed = _numbers()["tables"].get(words.id, {"columns": [], "rows": []})
    rows = tuple(Row(task=task, name=name, backbone=backbone) for task, name, backbone, _ in printed["rows"])
    own = {**vars(words), "tasks": tuple(dict.fromkeys(row.task for row in rows)) or words.tasks}
    return Table(
        **own,
        paper=words.id[:2].lower(),
        kind="figure" if words.id[3] == "F" else "table",
        columns=tuple(Column(metric=metric, attack=attack) for metric, attack in printed["columns"]),
        rows=rows,
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
    """A note on one number of a table; ``others`` are the tables it is compared with."""

    kind: Kind
    table: str
    task: str
    row: str
    metric: str
    attack: str | None
    text: str
    others: tuple[str, ...] = ()


def findings(id: str) -> tuple[Finding, ...]:
    """The notes on the numbers of one table; empty for a figure."""
    name = table(id).id
    return tuple(one for one in _findings() if one.table == name)


@cache
def _findings() -> tuple[Finding, ...]:
    everything = [cell for one in tables() for cell in cells(one.id)]
    kinds: dict[Kind, Callable[[list[Cell]], Iterator[_Found]]] = {
        "equal": _equal, "disagrees": _disagreeing, "success": _success, "granularity": _granular
    }  # fmt: skip
    found = []
    for kind, look in kinds.items():
        for cell, words, others in look(everything):
            own: dict[str, Any] = {name: getattr(cell, name) for name in ("table", "task", "row", "metric", "attack")}
            text = ", ".join(filter(None, (cell.task, cell.row, cell.attack))) + f": {words}"
            found.append(Finding(kind=kind, **own, text=text, others=tuple(dict.fromkeys(o.table for o in others))))
    return tuple(found)


_Found = tuple[Cell, str, list[Cell]]
_Values = dict[tuple[str, str, str, str, str | None], float]


def _values(everything: list[Cell]) -> _Values:
    return {(c.table, c.task, c.row, c.metric, c.attack): c.value for c in everything}


def _equal(everything: list[Cell]) -> Iterator[_Found]:
    """Accuracies, clean and under attack, that another paper prints too; with equal queries where both have them."""
    value, alike = _values(everything), defaultdict(list)
    for cell in everything:
        if cell.metric == "aua":
            clean = value[cell.table, cell.task, cell.row, "clean", None]
            alike[cell.task, cell.backbone, cell.attack, clean, cell.value].append(cell)
    for group in alike.values():
        asked = {cell: value.get((cell.table, cell.task, cell.row, "queries", cell.attack)) for cell in group}
        for cell in group:
            others = [
                other
                for other in group
                if other.table[:2] != cell.table[:2]
                and (None in (asked[cell], asked[other]) or asked[cell] == asked[other])
            ]
            if others:
                too = {o: "" if None in (asked[cell], asked[o]) else " (queries too)" for o in others}
                where = "; ".join(f"{o.table}, {o.row}{words}" for o, words in too.items())
                yield cell, f"clean and attacked accuracy are those of {where}", others


def _disagreeing(everything: list[Cell]) -> Iterator[_Found]:
    """Numbers of one model that a paper prints twice, and not alike."""
    groups = defaultdict(list)
    for c in everything:
        groups[c.table[:2], c.task, c.backbone, SAME.get(c.row, c.row), c.metric, c.attack].append(c)
    for group in groups.values():
        for cell in group:
            others = [other for other in group if other.value != cell.value]
            if others:
                where = ", ".join(f"{other.value} in {other.table}" for other in others)
                yield cell, f"{cell.metric} is {cell.value} here, {where}", others


def _success(everything: list[Cell]) -> Iterator[_Found]:
    """Rates of success that do not follow from the accuracies beside them."""
    value = _values(everything)
    for cell in everything:
        if cell.metric == "suc":
            clean = value[cell.table, cell.task, cell.row, "clean", None]
            given = 100 * (clean - value[cell.table, cell.task, cell.row, "aua", cell.attack]) / clean
            if abs(given - cell.value) > SLACK:
                yield cell, f"suc is {cell.value}, clean and aua give {given:.1f}", []


def _granular(everything: list[Cell]) -> Iterator[_Found]:
    """Shares that no count of SST-2's examples gives, where a number is of one run: RobustT's are means of five."""
    possible = {round(100 * count / SST2, 1) for count in range(SST2 + 1)}
    for cell in everything:
        one_run = cell.table[:2] in ("ER", "OR") and cell.row != "Random Tickets" and cell.task == "sst2"
        if one_run and cell.metric in ("clean", "aua") and cell.value not in possible:
            yield cell, f"no count out of {SST2} rounds to {cell.value} (one cut off would)", []


def summary(id: str) -> tuple[str, ...]:
    """The findings of a table as few lines: equal rows are put together by task and by the tables that have them too."""
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in findings(id):
        for other in one.others if one.kind == "equal" else ():
            rows[one.task, other].append(one.row)
    where: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (task, other), names in rows.items():
        where[task, tuple(names)].append(other)  # a row's name stands there once for every attack
    equal = [
        f"{task}: accuracy, clean and under attack, is to the digit that of {', '.join(others)} for {', '.join(dict.fromkeys(who))} "
        f"(attacks: {len(who)})"
        for (task, who), others in where.items()
    ]
    return (*equal, *(one.text for one in findings(id) if one.kind != "equal"))
