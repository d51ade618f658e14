"""A filled table told: in the terminal, as data, and as files in JSON, Markdown and CSV.

By measure and task, a line a row: published, ours with its interval and its runs, the difference, the prediction interval and whether the
published number lies inside it. What has no number is counted by its reason, and named line by line in the CSV and the JSON.
"""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

from robust_tickets.files import write_json, write_text
from robust_tickets.progress import clean
from robust_tickets.report.format import NONE, brief, points
from robust_tickets.reproduce.arms import attack_title, printed_as, task_title
from robust_tickets.reproduce.claims import sentence, table_names
from robust_tickets.reproduce.tables import Filled, FilledCell, intervals, legend, of_them_scattered, scattered, shown
from robust_tickets.reproduce.wording import FIRST, INSIDE, count, markdown_table, measure, merged, numberless
from robust_tickets.stats.compare_runs import FEWEST_SHOWN

HEADS = ("published", "ours", "95 %", "runs", "difference", "prediction", "inside")
AGAINST = (
    "published",
    "difference",
    "prediction",
    "inside",
)  # columns of what was printed; a campaign and figures have none
LONG, TWELFTHS = 5, 12  # letters of a number that may stand for itself; what is longer is some part of twelve heads
NARROW = 80  # columns of a terminal; with fewer the prediction interval is left to the files


def data(filled: Filled) -> dict[str, Any]:
    """All of it, for JSON."""
    return {
        "id": filled.id,
        "title": filled.title,
        "source": filled.source,
        "flavour": filled.flavour,
        "counts": filled.counts(),
        "cells": [_told(cell) for cell in filled.cells],
        "claims": [{**asdict(one), "verdict": one.verdict, "sentence": sentence(one)} for one in filled.claims],
        "claims_aside": filled.aside,
    }


def _told(cell: FilledCell) -> dict[str, Any]:
    told = asdict(cell)
    for name in (
        ("name", "level", "over_examples") if cell.ours else ()
    ):  # the cell's arm, 95 %, and what a table does not ask for
        del told["ours"][name]
    return told


def write(filled: Filled, folder: Path) -> list[Path]:
    """``FOLDER/<id>.json``, ``.md`` and ``.csv``."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", filled.id)
    return [
        write_json(folder / f"{name}.json", data(filled)),
        write_text(folder / f"{name}.md", markdown(filled)),
        write_text(folder / f"{name}.csv", as_csv(filled)),
    ]


def as_csv(filled: Filled) -> str:
    """A line a cell, filled or not; lists are joined by semicolons."""
    heads = (
        "table", "task", "row", "backbone", "arm", "metric", "attack", "by", "x", "published", "mean", "runs", "low", "high",
        "prediction_low", "prediction_high", "prediction_of", "difference", "inside", "split", "substituted", "notes", "why", "units",
    )  # fmt: skip
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(heads)
    for cell in filled.cells:
        ours = cell.ours
        ends = [*((ours and ours.interval) or (None, None)), *((ours and ours.prediction) or (None, None))]
        lines.writerow([
            cell.table, cell.task, cell.row, cell.backbone, cell.arm, cell.metric, cell.attack, cell.by, cell.x, cell.published,
            _short(ours.mean if ours else None), ours.n if ours else 0, *map(_short, ends), ours.further if ours else "",
            _short(cell.difference),
            "" if cell.inside is None else INSIDE[cell.inside], cell.split, "; ".join(cell.substituted), "; ".join(cell.notes), cell.why,
            " ".join(ours.units) if ours else "",
        ])  # fmt: skip
    return text.getvalue()


def markdown(filled: Filled) -> str:
    """The table as a page of its own."""
    parts = [
        f"# {filled.id}: {filled.title}\n\n"
        + " ".join(filter(None, [f"{filled.source}." if filled.source else "", _counted(filled)]))
    ]
    heads = _heads(filled)
    for task, what, lines in _sections(filled):
        parts.append(
            f"## {task}: {what}\n\n"
            + markdown_table(("row", *heads), [(name, *_under(heads, cells)) for name, cells in lines])
        )
    if filled.ran:
        parts.append(legend(filled))
    parts += [f"## {title}\n\n" + "\n".join(f"- {line}" for line in words) for title, words in _lists(filled)]
    return "\n\n".join(parts) + "\n"


def show(filled: Filled, console: Any) -> None:
    """The same in the terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    def line(words: str, first: str = "", style: str = "") -> None:
        wrapped = textwrap.fill(
            clean(words),
            console.width,
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_on_hyphens=False,
        )
        console.print(Text(wrapped, style=style))

    line(f"{filled.id}  {filled.title}", style="bold")
    line(" ".join(filter(None, [f"{filled.source}." if filled.source else "", _counted(filled)])))
    for task, what, lines in _sections(filled):
        grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        console.print()
        line(f"{task}: {what}")
        heads = [head for head in _heads(filled) if head != "prediction" or console.width >= NARROW]
        for head in ("", *heads):
            grid.add_column(head, justify="right" if head else "left", overflow="fold", no_wrap=bool(head))
        for name, cells in lines:
            grid.add_row(Text(clean(name)), *_under(heads, cells))
        console.print(grid)
    if filled.ran:
        console.print()
        line(legend(filled))
    for title, words in _lists(filled):
        console.print()
        line(title, style="bold")
        for one in words:
            line(one, "- ")
    console.print()


def _heads(filled: Filled) -> tuple[str, ...]:
    """Those of ours alone where nothing was printed."""
    return HEADS if filled.printed else tuple(head for head in HEADS if head not in AGAINST)


def _under(heads: Sequence[str], cells: Sequence[str]) -> list[str]:
    return [cell for head, cell in zip(HEADS, cells, strict=True) if head in heads]


def _sections(filled: Filled) -> Iterator[tuple[str, str, list[tuple[str, list[str]]]]]:
    """Task by task and measure by measure, where at least one row has a number of ours."""
    groups: dict[tuple[str, str, str | None], list[FilledCell]] = {}
    for task in dict.fromkeys(cell.task for cell in filled.cells):
        for cell in (cell for cell in filled.cells if cell.task == task):
            groups.setdefault((task, cell.metric, cell.by), []).append(cell)
    several = len({cell.backbone for cell in filled.cells}) > 1
    for (task, metric, by), cells in groups.items():
        if any(cell.ours for cell in cells):
            yield task_title(task), measure(metric, by), [(_name(cell, several), _line(cell)) for cell in cells]


def _name(cell: FilledCell, backbone: bool) -> str:
    return ", ".join(
        filter(None, [cell.row, _place(cell.x) if cell.x is not None else "", cell.backbone if backbone else ""])
    )


def _place(x: float) -> str:
    """``0.3``; ``0.0833333`` is ``1/12``: of twelve heads, that is what is meant."""
    whole = Fraction(x).limit_denominator(TWELFTHS)
    return str(whole) if len(f"{x:g}") > LONG and abs(whole - x) < 1e-6 else f"{x:g}"


def _line(cell: FilledCell) -> list[str]:
    printed = NONE if cell.published is None else printed_as(cell.metric, cell.published)
    ours = cell.ours
    if ours is None:
        return [printed, NONE, *[""] * (len(HEADS) - 2)]
    difference = NONE if cell.difference is None else points(cell.difference)
    mean, prediction = (brief(shown(cell, ends)) if ends else NONE for ends in intervals(cell))
    mean = "equal" if ours.n >= FEWEST_SHOWN and ours.interval is None else mean
    wide = f", of {width:.0f}" if (width := scattered(cell)) else ""
    return [printed, f"{ours.mean:.1f}", mean, str(ours.n), difference, prediction, INSIDE[cell.inside] + wide]


def _counted(filled: Filled) -> str:
    """A published number counts once, however many attacks of ours stand for its own."""
    counts = filled.counts()
    told = f"{counts['filled']} of {count(counts['numbers'], 'number')} with runs of ours"
    judged = counts["inside"] + counts["outside"]
    wide = of_them_scattered(filled.numbers)
    return (
        f"{told}; {judged} of them with five runs or more, {FIRST}: {counts['inside']} inside{wide}" if judged else told
    )


def _lists(filled: Filled) -> list[tuple[str, list[str]]]:
    """What is said below the numbers; what is empty is left out."""
    every = {whose for cell in filled.ran if (whose := _whose(cell))}
    substituted = _alike([(_whose(cell), words) for cell in filled.ran for words in cell.substituted], every)
    of_rows = {
        (cell.row, words) for cell in filled.ran if not cell.by for words in cell.notes
    }  # said once, not for each attack again
    told = [
        (cell, words) for cell in filled.ran for words in cell.notes if not cell.by or (cell.row, words) not in of_rows
    ]
    notes = _alike([(_whose(cell) or cell.row, words) for cell, words in told], every)
    without = len([one for one in filled.claims if one.comparison is None])
    empty = [f"{without} of {count(len(filled.claims), 'claim')} without runs of both arms"] if without else []
    aside = (
        [f"{count(filled.aside, 'further claim')} about what --only leaves out; {_counts(filled.id)}"]
        if filled.aside
        else []
    )
    found = [
        ("Claims", [*(sentence(one) for one in filled.claims if one.comparison), *empty, *aside]),
        ("Substituted", substituted),
        ("Notes", notes),
        ("Without a number", _missing(filled)),
    ]
    return [(title, words) for title, words in found if words]


def _missing(filled: Filled) -> list[str]:
    """By reason; a number of the table counts once, however many attacks of ours it lacks, as in what a plan says of it."""
    has = {cell.number for cell in filled.ran}
    lacks = dict.fromkeys((cell.why, cell.number in has, cell.number) for cell in filled.cells if cell.ours is None)
    counts = Counter((why, partly) for why, partly, _ in lacks)
    return [
        f"{count(number, 'cell')}{', under some attacks' if partly else ''}: {why}"
        for (why, partly), number in counts.items()
    ]


def _whose(cell: FilledCell) -> str:
    return attack_title(cell.by) if cell.by else ""


def _alike(told: Sequence[tuple[str, str]], every: Set[str]) -> list[str]:
    """Each thing that is said, once, with all rows or attacks that it is said of; such as differ in numbers alone are one, with a range."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, words in told:
        groups.setdefault(numberless(words), []).append((name, words))
    lines = []
    for some in groups.values():
        names = list(filter(None, dict.fromkeys(name for name, _ in some)))
        whose = "all attacks" if len(every) > 1 and set(names) == every else "; ".join(names)
        (words,) = merged(words for _, words in some)
        lines.append(f"{words} ({whose})" if whose else words)
    return lines


def _counts(id: str) -> str:
    """Which claims Holm counts, for those who see some of them only."""
    whole = (
        "all claims of this table on a task"
        if id in table_names()
        else "the claims of a question as they were fixed beforehand"
    )
    return f"Holm counts {whole}, run or not, shown or not"


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
