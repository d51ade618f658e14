"""What the published numbers say against one another, worked out from the numbers themselves.

Four kinds. ``equal``: accuracy, accuracy under attack and, where both print it, the number of queries equal those of a row in
another paper. ``disagrees``: a paper prints two values for the same thing. ``success``: Suc is not what Clean and Aua give.
``granularity``: no count out of SST-2's 872 examples rounds to the value. None proves anything by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from robust_tickets.reproduce.published import Cell, cells, table, tables

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
