"""A published table filled with our runs: beside each printed number ours, and whether ours might give it.

Made from outcomes and the published numbers alone. An attack of a paper may have been run with several candidate sets: each is a cell
of its own, under its name in the protocol, since they differ by more than the methods do.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.files import write_json, write_text
from robust_tickets.progress import clean
from robust_tickets.report.format import NONE, brief, merged, numberless, plural, points
from robust_tickets.report.tables import Table, plain_table, to_markdown, to_terminal
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import ATTACK_METRICS, Reading, Wanted, attacks_of, cut, read_runs
from robust_tickets.reproduce.arms import arm_title, attack_title, metric_title, older, printed_as, rows, task_title
from robust_tickets.reproduce.claims import Judged, families_of, judge, sentence
from robust_tickets.reproduce.job import Flavour
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.plan import TICKET, Cell, Only, Plan, campaigns, columns_of
from robust_tickets.reproduce.protocol import GROUPS, attacks
from robust_tickets.stats.compare_runs import FEWEST_SHOWN, RunSummary, summarise_runs

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class FilledCell(Cell):
    """A cell of a plan with its runs. ``attack`` is the paper's name of it, ``by`` ours. Without runs, ``why`` says why."""

    reading: Reading
    by: str | None = None
    beside: bool = False  # runs of another arm beside a row, under its own name: nothing is printed of it

    @cached_property
    def ours(self) -> RunSummary | None:
        """Mean and intervals at 95 %; the prediction is for the mean of as many runs as the printed number's."""
        printed = self.published is not None
        runs = published.averaged(self.table, self.row, self.metric) if printed else 1
        return summarise_runs(self.reading, resamples=0, further=runs) if self.reading.units else None

    @property
    def difference(self) -> float | None:
        """Ours minus published."""
        return None if self.ours is None or self.published is None else self.ours.mean - self.published

    @property
    def inside(self) -> bool | None:
        """Published inside the prediction interval; ``None``: fewer than five runs, or nothing published."""
        return None if self.ours is None or self.published is None else self.ours.published_inside(self.published)


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A table with our numbers, in the paper's order; or the lines of a campaign, which has no published numbers."""

    id: str
    title: str
    source: str
    flavour: Flavour
    cells: tuple[FilledCell, ...]
    claims: tuple[Judged, ...]  # of the table, each task adjusted by itself, or of a campaign's families
    aside: int = 0  # claims of the same families that a filter hides: adjusted for, not shown

    @property
    def ran(self) -> tuple[FilledCell, ...]:
        return tuple(cell for cell in self.cells if cell.ours is not None)

    @cached_property
    def numbers(self) -> tuple[FilledCell, ...]:
        """Each number of the table once, from our attack nearest to the paper's, by the order of ``attacks.toml``."""

        def far(cell: FilledCell) -> tuple[bool, int]:
            alike = [one.name for one in attacks(cell.task, GROUPS, cell.flavour) if one.stands_for == cell.attack]
            return cell.ours is None, alike.index(cell.by) if cell.attack and cell.by in alike else len(alike)

        first: dict[tuple[object, ...], FilledCell] = {}
        for cell in sorted((cell for cell in self.cells if not cell.beside), key=far):
            first.setdefault(cell.key, cell)
        return tuple(first.values())

    def counts(self) -> dict[str, int]:
        """Numbers of the table, those with runs of ours, and of those with five runs or more: inside and outside."""
        inside = [cell.inside for cell in self.numbers]
        filled = sum(cell.ours is not None for cell in self.numbers)
        return {"numbers": len(inside), "filled": filled, "inside": inside.count(True), "outside": inside.count(False)}


def fill(
    id: str, outcomes: Sequence[Outcome], folder: Path | None = None, *, flavour: Flavour = "corrected", of: Plan | None = None
) -> Filled:  # fmt: skip
    """A table by its id, whole or what a plan has of it; or a campaign of the plan. ``folder`` is where the outcomes are.

    Claims about what the plan leaves out are judged with their family and not shown.
    """
    known: Any = None if id.startswith("campaign ") else published.table(id)
    id, asked = (
        (known.id if known else id),
        [cell for cell in of.cells if cell.table == id] if of else _of_table(known, flavour),
    )
    chosen, cells = Only(of.only if of else ()), list[FilledCell]()
    for cell in (cell for cell in asked if cell.metric != TICKET):  # of a search alone: a figure shows it
        where = Wanted(arm="", task=cell.task, metric=cell.metric, backbone=cell.backbone, flavour=cell.flavour)
        there = [one for one in outcomes if where.beside(one)]
        others = [name for name in older(cell.arm) if known and any(one.unit.arm == name for one in there)]
        # our attacks for the paper's: the plan's, else all that were run on any arm
        found = attacks_of(there, str(cell.attack)) if cell.metric in ATTACK_METRICS else ()
        names = cell.attacks or [name for name in found if chosen.takes_attack(cell.attack, (name,))]
        beside = [replace(cell, row=arm_title(name), arm=name, published=None) for name in others]
        for one in (cell, *beside):
            for by in names if names and cell.metric in ATTACK_METRICS else (None,):
                reading = read_runs(replace(where, arm=one.arm, attack=by or cell.attack), there)
                why = "" if reading.units else one.why or reading.why  # a plan knows what an attack lacks
                cells.append(FilledCell(**{**vars(one), "why": why}, reading=reading, by=by, beside=one is not cell))
    judged = [one for name in families_of(id) for one in judge(name, outcomes, folder, flavour=flavour)]
    left_out = {(task, backbone, arm) for name, task, backbone, arm in (of.without if of else ()) if name == id}
    claims = tuple(one for one in judged if chosen.takes_claim(one.claim, left_out))
    title, source = (known.title, known.source) if known else (campaigns()[id.removeprefix("campaign ")].title, "")
    aside = len(judged) - len(claims)
    return Filled(id=id, title=title, source=source, flavour=flavour, cells=tuple(cells), claims=claims, aside=aside)


def _of_table(of: published.Table, flavour: Flavour) -> list[Cell]:
    """Its printed numbers, or the points of a figure, each with the arm that makes it."""
    points = [(row, task) for row in rows(of.id, flavour) for task in row.tasks]
    if of.kind == "figure":
        return [
            Cell(table=of.id, row=row.name, task=task, backbone=row.backbone, arm=row.arm, metric=metric, attack=attack,
                 flavour=flavour, x=row.x, why=row.why)
            for row, task in points for metric, attack in columns_of(of)
        ]  # fmt: skip
    arms = {(row.name, task, row.backbone): row for row, task in points}
    return [
        Cell(table=of.id, row=cell.row, task=cell.task, backbone=cell.backbone, arm=row.arm if row else "", metric=cell.metric,
             attack=cell.attack, flavour=flavour, published=cell.value, why=row.why if row else "no arm of ours makes this row")
        for cell in published.cells(of.id) for row in [arms.get((cell.row, cell.task, cell.backbone))]
    ]  # fmt: skip


# --- as data, as files, and in the terminal

INSIDE = {True: "yes", False: "no", None: NONE}
HEADS = ("published", "ours", "95 %", "runs", "difference", "prediction", "inside")
OURS = HEADS[1:4]  # where nothing was printed
SAME = ("table", "task", "row", "backbone", "arm", "metric", "attack", "by", "x", "published")
SHOWN = ("mean", "n", "deviation", "interval", "prediction", "further")
LEGEND = (
    "ours: mean over training runs and its 95 % interval on these examples, cut at 0 and 100 (the CSV and the JSON have it whole). "
    "prediction: where one further run of ours would lie, at 95 %, or where a paper's number is a mean, the mean of as many. "
    "inside: whether the published number does, shown with five runs or more."
)


def data(filled: Filled) -> dict[str, Any]:
    """The table as values for JSON."""
    return {
        "id": filled.id,
        "title": filled.title,
        "source": filled.source,
        "flavour": filled.flavour,
        "counts": filled.counts(),
        "cells": [_record(cell) for cell in filled.cells],
        "claims": [{**asdict(one), "verdict": one.verdict, "sentence": sentence(one)} for one in filled.claims],
        "claims_aside": filled.aside,
    }


def _record(cell: FilledCell) -> dict[str, Any]:
    ours, reading = cell.ours, cell.reading
    runs = {"units": reading.sources, "values": reading.values}
    return {
        **{name: getattr(cell, name) for name in (*SAME, "beside")},
        "ours": {name: getattr(ours, name) for name in SHOWN} | runs if ours else None,
        **{name: getattr(cell, name) for name in ("difference", "inside")},
        **{name: getattr(reading, name) for name in ("split", "substituted", "notes")},
        "why": cell.why,
    }


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
    lines = []
    for cell in filled.cells:
        ours: Mapping[str, Any] = vars(cell.ours) if cell.ours else {}
        ends = [*(ours.get("interval") or (None, None)), *(ours.get("prediction") or (None, None))]
        numbers = [None if one is None else f"{one:.3f}" for one in (ours.get("mean"), *ends, cell.difference)]
        lines.append(
            {name: getattr(cell, name) for name in SAME}
            | {"mean": numbers[0], "runs": ours.get("n", 0)}
            | dict(zip(("low", "high", "prediction_low", "prediction_high"), numbers[1:5], strict=True))
            | {"prediction_of": ours.get("further"), "difference": numbers[5]}
            | {"inside": None if cell.inside is None else INSIDE[cell.inside], "split": cell.reading.split}
            | {name: "; ".join(getattr(cell.reading, name)) for name in ("substituted", "notes")}
            | {"why": cell.why, "units": " ".join(cell.reading.sources)}
        )
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def markdown(filled: Filled) -> str:
    """The table as a page of its own."""
    blocks = [(title, body if isinstance(body, str) else to_markdown(body)) for title, body in _blocks(filled)]
    return (
        "\n\n".join(f"{'##' if k else '#'} {title}\n\n{text.rstrip()}" for k, (title, text) in enumerate(blocks)) + "\n"
    )


def show(filled: Filled, console: Console) -> None:
    """The same in the terminal."""
    from rich.text import Text

    for title, body in _blocks(filled):
        console.print(Text(clean(title), style="bold"))
        console.print(Text(clean(body)) if isinstance(body, str) else to_terminal(body, console, console.options))
        console.print()


def _blocks(filled: Filled) -> list[tuple[str, str | Table]]:
    """What a reader sees, each with its title: where it was printed and how much was run, the numbers, the notes below."""
    counts = filled.counts()
    text = f"{filled.source or 'Not in the papers'}. {counts['filled']} of {plural(counts['numbers'], 'number')} with runs of ours"
    if judged := counts["inside"] + counts["outside"]:
        text += f"; of {judged} with five runs or more {counts['inside']} inside, by our attack nearest to the paper's"
    return [
        (f"{filled.id}: {filled.title}", text),
        *((table.caption, table) for table in _sections(filled)),
        *([("How to read it", LEGEND)] if filled.ran else []),
        *((title, "\n".join(f"- {line}" for line in lines)) for title, lines in _lists(filled) if lines),
    ]


def _sections(filled: Filled) -> list[Table]:
    """A table for each task and measure of which at least one row has a number of ours."""
    heads = HEADS if any(cell.published is not None for cell in filled.cells) else OURS
    several = len({cell.backbone for cell in filled.cells}) > 1
    tasks, found = list(dict.fromkeys(cell.task for cell in filled.cells)), dict[str, list[FilledCell]]()
    for cell in sorted(filled.cells, key=lambda cell: tasks.index(cell.task)):
        what = [task_title(cell.task), metric_title(cell.metric, None), *([attack_title(cell.by)] if cell.by else [])]
        found.setdefault(", ".join(what), []).append(cell)
    return [
        plain_table(
            title, ("row", *heads), [(_name(cell, several), *(_texts(cell)[head] for head in heads)) for cell in own]
        )
        for title, own in found.items()
        if any(cell.ours for cell in own)
    ]


def _name(cell: FilledCell, backbone: bool) -> str:
    """The row, with its place on a figure's axis: ``0.3``, and of twelve heads ``1/12``."""
    whole = Fraction(cell.x or 0).limit_denominator(12)
    x = f"{cell.x:g}" if cell.x is not None else ""
    x = str(whole) if len(x) > 5 and abs(whole - (cell.x or 0)) < 1e-6 else x
    return ", ".join(filter(None, [cell.row, x, cell.backbone if backbone else ""]))


def _texts(cell: FilledCell) -> dict[str, str]:
    """By the heads of its columns."""
    ours, value = cell.ours, NONE if cell.published is None else printed_as(cell.metric, cell.published)
    if ours is None:
        return dict.fromkeys(HEADS, "") | {"published": value, "ours": NONE}
    most = 100.0 if cell.metric in published.PERCENT else math.inf
    expected = ours.prediction if ours.n >= FEWEST_SHOWN and cell.published is not None else None
    mean, prediction = (brief(cut(ends, most)) if ends else NONE for ends in (ours.shown, expected))
    return {
        "published": value,
        "ours": f"{ours.mean:.1f}",
        "95 %": "equal" if ours.n >= FEWEST_SHOWN and ours.interval is None else mean,
        "runs": str(ours.n),
        "difference": NONE if cell.difference is None else points(cell.difference),
        "prediction": prediction,
        "inside": INSIDE[cell.inside],
    }


def _lists(filled: Filled) -> list[tuple[str, list[str]]]:
    """The notes below the numbers."""
    claims = [sentence(one) for one in filled.claims if one.comparison]
    if without := len(filled.claims) - len(claims):
        claims.append(f"{without} of {plural(len(filled.claims), 'claim')} without runs of both arms")
    if filled.aside:
        claims.append(
            f"{plural(filled.aside, 'further claim')} about what --only leaves out; Holm counts all, run or not, shown or not"
        )
    # a number of the table counts once, however many attacks of ours it lacks
    lacks = dict.fromkeys((cell.why, cell.key) for cell in filled.cells if cell.ours is None)
    # those of a run once a row, not for each attack
    of_rows = {(cell.row, words): None for cell in filled.ran if not cell.by for words in cell.reading.notes}
    of_attacks = [
        (attack_title(cell.by), words)
        for cell in filled.ran
        for words in cell.reading.notes
        if cell.by and (cell.row, words) not in of_rows
    ]
    substituted = [(attack_title(cell.by or ""), words) for cell in filled.ran for words in cell.reading.substituted]
    return [
        ("Claims", claims),
        ("Substituted", grouped(substituted)),
        ("Notes", grouped([*of_rows, *of_attacks])),
        ("Without a number", [f"{plural(n, 'cell')}: {why}" for why, n in Counter(why for why, _ in lacks).items()]),
    ]


def grouped(found: Iterable[tuple[str, str]]) -> list[str]:
    """Each text once, with all rows or attacks that it is about; numbers alone become a range."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, words in found:
        groups.setdefault(numberless(words), []).append((name, words))
    lines = []
    for some in groups.values():
        names = "; ".join(filter(None, dict.fromkeys(name for name, _ in some)))
        (words,) = merged(words for _, words in some)
        lines.append(f"{words} ({names})" if names else words)
    return lines
