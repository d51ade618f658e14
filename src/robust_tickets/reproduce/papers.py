"""A paper's part of the page: its tables with ours beside them, its figures redrawn from our runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from robust_tickets.report import charts
from robust_tickets.report import format as numbers
from robust_tickets.report.format import exact, merged, plural
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import anchor_of
from robust_tickets.reproduce.answers import CHIPS, answer
from robust_tickets.reproduce.arms import arm_title, metric_title, printed_as, task_title, variant
from robust_tickets.reproduce.claims import family, word
from robust_tickets.reproduce.figures import Drawn, place
from robust_tickets.reproduce.html import PARTS
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.tables import FIRST, Filled, FilledCell, further
from robust_tickets.stats.compare_runs import FEWEST_SHOWN


def sources(found: Drawn) -> dict[str, Any]:
    """Links to the lists of runs, an arm a link."""
    units = {anchor_of(unit): unit for unit in map(Job.of_id, found.sources)}
    links = [(anchor, f"{arm_title(unit.arm)}, {place(unit.backbone, unit.task)}") for anchor, unit in units.items()]
    return {"summary": f"From {plural(len(found.sources), 'run')} of {plural(len(links), 'arm')}", "links": links}


def paper_part(
    paper: published.Paper, filled: Mapping[str, Filled], drawn: Mapping[str, Drawn], outcomes: Sequence[Outcome]
) -> Markup:
    """Tables with runs of ours first; those without are folded together, so that a reader meets results before gaps."""
    shown, idle, ran = list[Markup](), dict[str, Markup](), False
    for one in (one for one in published.tables() if one.paper == paper.id):
        if one.kind == "table":
            made, some = table(filled[one.id], outcomes), bool(filled[one.id].ran)
            ran = ran or some
        else:
            made, some = PARTS.figure(one, drawn[one.id], sources(drawn[one.id])), bool(drawn[one.id].svg)
        if some:
            shown.append(made)
        else:
            idle[one.id] = made
    return PARTS.paper(paper, shown, idle, ran)  # type: ignore[no-any-return]


def table(filled: Filled, outcomes: Sequence[Outcome]) -> Markup:
    """A table with our runs; tasks without runs are folded."""
    of, counts = filled.table, filled.counts()
    there = {one.unit.id: anchor_of(one.unit) for one in outcomes}
    ran = [task for task in of.tasks if any(cell.task == task for cell in filled.ran)]
    rest = [task for task in of.tasks if task not in ran]
    summary = f"{of.source}. {counts['filled']} of {counts['numbers']} printed numbers have runs of ours beside them"
    if judged := counts["inside"] + counts["outside"]:
        summary += (
            f"; of {judged} with five runs or more, {FIRST}, {counts['inside']} {'is' if counts['inside'] == 1 else 'are'} inside what "
            f"{filled.expected} might give{filled.wide}"
        )
    unfilled = (
        "As published, not run: " + ", ".join(map(task_title, rest)) if ran else "As published; none of it was run"
    )
    words = [word(one.comparison) for one in filled.claims if one.comparison]
    counted = ", ".join(f"{words.count(verdict)} {verdict}" for verdict in CHIPS if verdict in words)
    claims = (
        (f"{family(of.id).question}, by our runs: {counted}", answer(family(of.id), filled.claims)) if words else None
    )
    substituted = list(dict.fromkeys(words for cell in filled.ran for words in cell.substituted))
    return PARTS.table(  # type: ignore[no-any-return]
        of, summary, _grid(filled, ran, there) if ran else None, _grid(filled, rest, there) | {"summary": unfilled} if rest else None,
        claims, substituted, merged(words for cell in filled.ran for words in cell.notes), (*of.notes, *published.summary(of.id)),
    )  # fmt: skip


def _grid(filled: Filled, tasks: Sequence[str], there: Mapping[str, str]) -> dict[str, Any]:
    """A table's cells; accuracies before speed and size, since a phone shows the first columns."""
    of = filled.table
    columns = sorted(of.columns, key=lambda one: one.metric.startswith("speedup") or one.metric.endswith("_millions"))
    cells: dict[tuple[str, str, str], dict[tuple[str, str | None], list[FilledCell]]] = {}
    ends: dict[tuple[str, str, str | None], list[float]] = {}  # values of each task and column
    for cell in filled.cells:
        key = (cell.metric, cell.attack)
        cells.setdefault((cell.task, cell.row, cell.backbone), {}).setdefault(key, []).append(cell)
        values = (cell.published, *(cell.ours.values if cell.ours else ()))
        ends.setdefault((cell.task, *key), []).extend(value for value in values if value is not None)
    lines = dict.fromkeys([*((row.task, row.name, row.backbone) for row in of.rows), *cells])  # published rows first
    rows: dict[str, list[dict[str, Any]]] = {task: [] for task in tasks}
    for line in (line for line in lines if line[0] in rows):
        own = cells.get(line, {})
        shown = [
            _paired(own.get((c.metric, c.attack), []), ends.get((line[0], c.metric, c.attack), []), there)
            for c in columns
        ]
        ran = any(cell.ours for found in own.values() for cell in found)
        rows[line[0]].append({"name": line[1], "ran": ran, "cells": shown})
    return {
        "label": f"{of.id}, {', '.join(map(task_title, tasks))}",
        "heads": [metric_title(column.metric, column.attack) for column in columns],
        "tasks": [(task_title(task), rows[task]) for task in tasks],
    }


def _paired(found: Sequence[FilledCell], values: Sequence[float], there: Mapping[str, str]) -> dict[str, Any]:
    """A printed number with ours under each matching attack; constrained attacks are folded."""
    value = next((cell.published for cell in found if cell.published is not None), None)
    ran = [cell for cell in found if cell.ours is not None]
    apart = [cell for cell in ran if cell.by and cell.by.count("-") > 1]
    apart = apart if len(apart) < len(ran) else []
    return {
        "printed": None if value is None else printed_as(found[0].metric, value), "value": value,
        "ours": [_ours(cell, values, there) for cell in ran if cell not in apart],
        "folded": [_ours(cell, values, there) for cell in apart],
    }  # fmt: skip


VERDICT_WORDS = {
    "in": "apart: printed is inside what {} might give", "out": "apart: printed is outside what {} might give",
    "few": "apart: too few runs to tell", "plain": "apart",
}  # fmt: skip


def _ours(cell: FilledCell, values: Sequence[float], there: Mapping[str, str]) -> dict[str, Any]:
    """Our mean with its runs as dots, the prediction interval as a haze, the printed number as an upright stroke."""
    assert cell.ours is not None
    ours, low, high = cell.ours, min(values), max(values)
    verdict = {True: "in", False: "out", None: "plain" if ours.enough else "few"}[cell.inside]
    below = [variant(cell.by, cell.attack)] if cell.by and cell.by != cell.attack else []
    pad = 0.06 * (high - low) or 1.0
    interval = ours.prediction if ours.n >= FEWEST_SHOWN else None
    return {
        "anchor": there.get(ours.units[0]), "text": f"{ours.mean:.1f}", "value": exact(ours.mean), "verdict": verdict,
        "gap": "" if cell.difference is None else numbers.points(cell.difference),
        "description": VERDICT_WORDS[verdict].format(further(ours.further)),
        "drawing": charts.spark(ours.values, low - pad, high + pad, interval=interval, mark=cell.published),
        "below": ", ".join([*below, plural(ours.n, "run")]),
    }  # fmt: skip
