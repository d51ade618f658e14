"""Rows: which arm makes each published row and each point of each figure, from ``rows/*.toml``. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from robust_tickets.errors import TicketsError
from robust_tickets.reproduce import published
from robust_tickets.reproduce.arms import Arm as Arm
from robust_tickets.reproduce.arms import arm as arm
from robust_tickets.reproduce.arms import arms as arms
from robust_tickets.reproduce.arms import swept
from robust_tickets.reproduce.job import BERT, Flavour
from robust_tickets.reproduce.toml import toml
from robust_tickets.reproduce.tree import tree as tree

KEYS = {"name", "arm", "sweep", "published", "tasks", "backbone", "x", "seeds", "why", "unreleased"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """``name`` is the published row's, in a figure that of a line; ``x`` a figure's abscissa."""

    table: str
    name: str
    arm: str
    backbone: str
    tasks: tuple[str, ...]
    x: float | None = None
    seeds: int = 0  # runs that the paper has; 0: it does not say
    why: str = ""  # not empty: it cannot be made


def rows(id: str, flavour: Flavour = "corrected") -> tuple[Row, ...]:
    """Every row of a table, every point of a figure, in the papers' order."""
    return _rows(published.table(id).id, flavour)


def over(id: str) -> str | None:
    """The arm whose time a table's speed-ups are over."""
    return _told().get("over", {}).get(published.table(id).id)


@cache
def _rows(id: str, flavour: Flavour) -> tuple[Row, ...]:
    return tuple(row for entry in _told()["rows"][id] for row in _expanded(id, entry, flavour))


def _expanded(id: str, entry: Mapping[str, Any], flavour: Flavour) -> Iterator[Row]:
    if entry.keys() - KEYS or "name" not in entry or len({"arm", "sweep", "why"} & entry.keys()) != 1:
        raise TicketsError(
            f"{id}: a row has a name and either an arm, a sweep or why there is none, got {dict(entry)}",
            hint="see rows/er.toml",
        )
    printed = [row for row in published.table(id).rows if row.name == entry["name"]]
    backbone = entry.get("backbone", printed[0].backbone if printed else BERT)
    tasks = tuple(entry.get("tasks", dict.fromkeys(row.task for row in printed)))
    one = {"table": id, "name": entry["name"], "backbone": backbone, "seeds": entry.get("seeds", 0)}
    why = entry.get("why", "") or (entry.get("unreleased", "") if flavour == "as-released" else "")
    if "sweep" in entry:
        points = _points(entry["sweep"], tasks)
    else:
        other = flavour != "corrected" and "published" in entry
        points = {(entry.get("x"), entry["published"] if other else entry.get("arm", "")): tasks}
    for (x, name), own in points.items():
        yield Row(**one, arm="" if why else name, x=x, why=why, tasks=own)


def _points(sweep: str, tasks: Sequence[str]) -> dict[tuple[float | None, str], tuple[str, ...]]:
    """Every point of a sweep with the tasks on which it is that arm: at its own value on a task the base stands for itself."""
    found: dict[tuple[float | None, str], tuple[str, ...]] = {}
    for points in zip(*(swept(sweep, task) for task in tasks), strict=True):
        for task, point in zip(tasks, points, strict=True):
            found[point] = (*found.get(point, ()), task)
    return found


@cache
def _told() -> dict[str, Any]:
    """The three files as one."""
    told: dict[str, Any] = {"rows": {}, "over": {}}
    for paper in published.PAPERS:
        one = toml(f"rows/{paper}.toml")
        told["rows"] |= one["rows"]
        told["over"] |= one.get("over", {})
    return told
