"""A published table filled with our runs: beside each printed number ours, and whether ours might give it.

Made from outcomes and the published numbers alone. An attack of a paper may have been run with several candidate sets: each is a cell
of its own, under its name in the protocol, since they differ by more than the methods do.
"""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.errors import TicketsError
from robust_tickets.files import write_json, write_text
from robust_tickets.progress import clean
from robust_tickets.report.format import NONE, brief, listed, merged, numberless, plural, points
from robust_tickets.report.tables import Table, plain_table, to_markdown, to_terminal
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import ATTACK_METRICS, Wanted, attacks_of, read_runs
from robust_tickets.reproduce.arms import arm_title, attack_title, older, printed_as, rows, task_title
from robust_tickets.reproduce.claims import Judged, families_of, fixed, judge, sentence, table_names
from robust_tickets.reproduce.job import Flavour
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.plan import TICKET, Only, Plan, columns_of
from robust_tickets.reproduce.plan import Cell as Asked
from robust_tickets.reproduce.protocol import GROUPS, attacks
from robust_tickets.reproduce.published import PERCENT, averaged, cells, tables
from robust_tickets.stats.compare_runs import FEWEST_SHOWN, RunSummary, summarise_runs
from robust_tickets.stats.intervals import Interval

if TYPE_CHECKING:
    from rich.console import Console

MEASURES = {
    "clean": "clean accuracy, %", "aua": "accuracy under attack, %", "suc": "attacks that succeed, %", "queries": "queries an example",
    "speedup_vs_pgd": "speed-up over PGD", "speedup_vs_freelb": "speed-up over FreeLB",
    "speedup_lost_to_search": "speed-up lost to the search",
    "encoder_millions": "parameters without embeddings, millions", "total_millions": "parameters, millions",
}  # fmt: skip
FIRST = "under an attack by that of ours which is most like the paper's"  # by the order of attacks.toml, not by results


@dataclass(frozen=True, kw_only=True)
class Ours(RunSummary):
    """The training runs of a cell: their mean, intervals at 95 %, and ids."""

    units: tuple[str, ...]  # ids of the outcomes behind it
    values: tuple[float, ...]  # of each of them


@dataclass(frozen=True, kw_only=True)
class FilledCell:
    """One number of a table. ``attack`` is the paper's name of it, ``by`` ours. Without ``ours``, ``why`` says why."""

    table: str
    task: str
    row: str
    backbone: str
    arm: str
    metric: str
    attack: str | None
    by: str | None
    x: float | None  # of a figure's point
    beside: bool  # runs of another arm beside a row, under its own name: nothing is printed of it
    published: float | None
    ours: Ours | None
    difference: float | None  # ours minus published
    inside: bool | None  # published inside the prediction interval; None: fewer than five runs, or nothing published
    split: str
    substituted: tuple[str, ...]
    notes: tuple[str, ...]
    why: str

    @property
    def number(self) -> tuple[object, ...]:
        """The identity of the published number beside it, whichever attack of ours it is from."""
        return self.table, self.task, self.row, self.backbone, self.arm, self.metric, self.attack, self.x

    @property
    def intervals(self) -> tuple[Interval | None, Interval | None]:
        """Of the mean, and of the published number; ``None`` where there is none or the runs are too few."""
        if self.ours is None:
            return None, None
        comparable = self.ours.n >= FEWEST_SHOWN and self.published is not None
        return self.ours.shown, self.ours.prediction if comparable else None

    def cut(self, ends: Interval) -> Interval:
        """An interval cut to the measure's range: at 0, and a percentage at 100."""
        most = 100.0 if self.metric in PERCENT else math.inf
        return min(max(ends[0], 0.0), most), min(max(ends[1], 0.0), most)

    @property
    def scattered(self) -> float | None:
        """The width of the interval around a published percentage, if too wide to mean agreement."""
        if not self.inside or self.metric not in PERCENT or self.ours is None or self.ours.prediction is None:
            return None
        low, high = self.cut(self.ours.prediction)
        return high - low if high - low > _most() else None


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
    def table(self) -> published.Table:
        """The published table; a campaign has none."""
        return published.table(self.id)

    @property
    def ran(self) -> tuple[FilledCell, ...]:
        return tuple(cell for cell in self.cells if cell.ours is not None)

    @property
    def printed(self) -> bool:
        """Whether there are published numbers beside ours: in a table, not in campaigns or figures."""
        return any(cell.published is not None for cell in self.cells)

    @property
    def numbers(self) -> tuple[FilledCell, ...]:
        """Each number of the table once, from our attack nearest to the paper's."""
        first: dict[tuple[object, ...], FilledCell] = {}
        for cell in (cell for cell in self.cells if not cell.beside):
            if cell.number not in first or _far(cell, self.flavour) < _far(first[cell.number], self.flavour):
                first[cell.number] = cell
        return tuple(first.values())

    def counts(self) -> dict[str, int]:
        """Numbers of the table, those with runs of ours, and of those with five runs or more: inside and outside."""
        own = self.numbers
        inside = [cell.inside for cell in own]
        filled = sum(cell.ours is not None for cell in own)
        return {"numbers": len(own), "filled": filled, "inside": inside.count(True), "outside": inside.count(False)}

    @property
    def wide(self) -> str:
        """How many of the numbers inside have a wide interval, in words."""
        wide = sum(cell.scattered is not None for cell in self.numbers)
        return f", {wide} of them of an interval wider than {_most():g} points" if wide else ""

    @property
    def expected(self) -> str:
        """What the prediction is for: one further run, or the mean of as many as the paper has."""
        groups: dict[int, list[FilledCell]] = {}
        for cell in self.ran:
            if cell.ours and cell.published is not None:
                groups.setdefault(cell.ours.further, []).append(cell)
        if len(groups) == 1 and 1 not in groups:
            (runs,) = groups
            return f"{further(runs)} of ours (the paper's numbers are means of {runs})"
        counts = ["one further run of ours"] if 1 in groups or not groups else []
        for runs, found in groups.items():
            metrics, others = ({cell.metric for cell in own} for own in (found, set(self.ran) - set(found)))
            apart = [MEASURES[name] for name in MEASURES if name in metrics] if not metrics & others else []
            about = listed(list(dict.fromkeys(apart or [cell.row for cell in found])))
            counts += [f"{further(runs)} for {about} (a mean of {runs} in the paper)"] if runs > 1 else []
        return " or ".join(counts)


def further(runs: int) -> str:
    """What the prediction is for, beside a mean of so many runs."""
    return "one further run" if runs == 1 else f"the mean of {runs} further runs"


def _most() -> float:
    """The width of the margin of equivalence, in points."""
    return 2 * float(fixed()["margin"])


def _far(cell: FilledCell, flavour: Flavour) -> tuple[bool, int]:
    """How far a cell's attack is from the paper's, by the order of ``attacks.toml``."""
    ours = [one for one in attacks(cell.task, GROUPS, flavour) if one.stands_for == cell.attack] if cell.attack else []
    near = [one.name for one in ours]
    return cell.ours is None, near.index(cell.by) if cell.by in near else len(near)


def fill(
    asked: str | Iterable[Asked],
    outcomes: Sequence[Outcome],
    folder: Path | None = None,
    *,
    flavour: Flavour = "corrected",
    only: Sequence[tuple[str, str]] = (),
    without: Iterable[tuple[str, str, str, str]] = (),
) -> Filled:
    """A whole table by its id, or cells of a plan, all of one table or campaign. ``folder`` is where the outcomes are.

    ``only`` and ``without``: the plan's filter and what it leaves out. Claims about the latter are judged with their family and not shown.
    """
    given = _of_table(published.table(asked), flavour) if isinstance(asked, str) else list(asked)
    found = [published.table(asked).id] if isinstance(asked, str) else list(dict.fromkeys(one.table for one in given))
    if len(found) != 1:
        raise TicketsError(
            f"a filled table is of one table, got cells of {', '.join(found) or 'none'}",
            hint="fill_all takes a whole plan",
            code="tables.several",
        )
    (id,) = found
    lines = [(one, False) for one in given if one.metric != TICKET]  # of a search alone: a figure draws it
    if not id.startswith("campaign "):
        lines = [line for one, _ in lines for line in ((one, False), *((old, True) for old in _older(one, outcomes)))]
    judged = [one for name in families_of(id) for one in judge(name, outcomes, folder, flavour=flavour)]
    chosen = Only(only)
    left_out = {(task, backbone, arm) for name, task, backbone, arm in without if name == id}
    claims = tuple(one for one in judged if chosen.takes_claim(one.claim, left_out))
    known = next((one for one in tables() if one.id == id), None)
    return Filled(
        id=id,
        title=known.title if known else _title(id),
        source=known.source if known else "",
        flavour=flavour,
        cells=tuple(
            _cell(one, by, beside, outcomes, folder)
            for one, beside in lines
            for by in _attacks(one, outcomes, chosen) or (None,)
        ),
        claims=claims,
        aside=len(judged) - len(claims),
    )


def _title(id: str) -> str:
    """The title of a campaign, from the table name of its cells."""
    from robust_tickets.reproduce.plan import campaigns

    found = campaigns().get(id.removeprefix("campaign "))
    return found.title if found else id


def fill_all(
    plan: Plan, outcomes: Sequence[Outcome], folder: Path | None = None, *, flavour: Flavour = "corrected"
) -> list[Filled]:
    """The cells of a plan, table by table."""
    by_table: dict[str, list[Asked]] = {}
    for cell in plan.cells:
        by_table.setdefault(cell.table, []).append(cell)
    about = {"flavour": flavour, "only": plan.only, "without": plan.without}
    return [fill(found, outcomes, folder, **about) for found in by_table.values()]  # type: ignore[arg-type]


def _of_table(of: published.Table, flavour: Flavour) -> list[Asked]:
    """Its printed numbers, or the points of a figure, each with the arm that makes it."""
    made = rows(of.id, flavour)
    if of.kind == "figure":
        return [
            Asked(table=of.id, row=row.name, task=task, backbone=row.backbone, arm=row.arm, metric=metric, attack=attack,
                  flavour=flavour, x=row.x, why=row.why)
            for row in made for task in row.tasks for metric, attack in columns_of(of)
        ]  # fmt: skip
    arms = {(row.name, task, row.backbone): row for row in made for task in row.tasks}
    found = []
    for cell in cells(of.id):
        row = arms.get((cell.row, cell.task, cell.backbone))
        arm, why = (row.arm, row.why) if row else ("", "no arm of ours makes this row")
        found.append(
            Asked(table=of.id, row=cell.row, task=cell.task, backbone=cell.backbone, arm=arm, metric=cell.metric, attack=cell.attack,
                  flavour=flavour, published=cell.value, why=why)
        )  # fmt: skip
    return found


def _here(asked: Asked, outcomes: Sequence[Outcome]) -> list[Outcome]:
    wanted = Wanted(arm="", task=asked.task, metric="", backbone=asked.backbone, flavour=asked.flavour)
    return [one for one in outcomes if wanted.beside(one)]


def _older(asked: Asked, outcomes: Sequence[Outcome]) -> list[Asked]:
    """The same for arms that are shown beside the row's, where they were run."""
    there = {one.unit.arm for one in _here(asked, outcomes)}
    found = [name for name in older(asked.arm) if name in there]
    return [replace(asked, row=arm_title(name), arm=name, published=None) for name in found]


def _attacks(asked: Asked, outcomes: Sequence[Outcome], chosen: Only) -> Sequence[str]:
    """Our attacks for the paper's: the plan's, else all that were run on any arm."""
    if asked.metric not in ATTACK_METRICS:
        return ()
    found = attacks_of(_here(asked, outcomes), str(asked.attack)) if not asked.attacks else ()
    return asked.attacks or [name for name in found if chosen.takes_attack(asked.attack, (name,))]


def _cell(asked: Asked, by: str | None, beside: bool, outcomes: Sequence[Outcome], folder: Path | None) -> FilledCell:
    wanted = Wanted(
        arm=asked.arm, task=asked.task, metric=asked.metric, attack=by or asked.attack, backbone=asked.backbone, flavour=asked.flavour
    )  # fmt: skip
    reading, value = read_runs(wanted, outcomes, folder), asked.published
    runs = averaged(asked.table, asked.row, asked.metric) if value is not None else 1
    summary = summarise_runs(reading.runs, resamples=0, further=runs) if reading.runs.units else None
    same = {name: getattr(asked, name) for name in ("table", "task", "row", "backbone", "arm", "metric", "attack", "x")}
    return FilledCell(
        **same,
        by=by,
        beside=beside,
        published=value,
        ours=Ours(**vars(summary), units=reading.units, values=reading.runs.values) if summary else None,
        difference=summary.mean - value if summary and value is not None else None,
        inside=summary.published_inside(value) if summary and value is not None else None,
        split=reading.split,
        substituted=reading.substituted,
        notes=reading.notes,
        why="" if summary else (asked.why or reading.why),  # a plan knows what an attack lacks
    )


# --- in the terminal, as data, and as files

INSIDE = {True: "yes", False: "no", None: NONE}
OURS = ("ours", "95 %", "runs")
HEADS = ("published", *OURS, "difference", "prediction", "inside")  # those of ours alone where nothing was printed
TWELFTHS = 12  # a long fraction is some part of twelve heads
NARROW = 80  # columns of a terminal; with fewer the prediction interval is left to the files


def data(filled: Filled) -> dict[str, Any]:
    """The table as values for JSON."""
    return {
        "id": filled.id,
        "title": filled.title,
        "source": filled.source,
        "flavour": filled.flavour,
        "counts": filled.counts(),
        "cells": [_plain(cell) for cell in filled.cells],
        "claims": [{**asdict(one), "verdict": one.verdict, "sentence": sentence(one)} for one in filled.claims],
        "claims_aside": filled.aside,
    }


def _plain(cell: FilledCell) -> dict[str, Any]:
    found = asdict(cell)
    if cell.ours:  # the cell's arm, 95 %, and what a table does not ask for
        found["ours"] = {k: v for k, v in found["ours"].items() if k not in ("name", "level", "over_examples")}
    return found


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
        ours = cell.ours
        ends = [*((ours and ours.interval) or (None, None)), *((ours and ours.prediction) or (None, None))]
        numbers = [
            None if end is None else f"{end:.3f}" for end in (ours.mean if ours else None, *ends, cell.difference)
        ]
        same = ("table", "task", "row", "backbone", "arm", "metric", "attack", "by", "x", "published")
        lines.append(
            {name: getattr(cell, name) for name in same}
            | {"mean": numbers[0], "runs": ours.n if ours else 0}
            | dict(zip(("low", "high", "prediction_low", "prediction_high"), numbers[1:5], strict=True))
            | {"prediction_of": ours.further if ours else None, "difference": numbers[5]}
            | {"inside": None if cell.inside is None else INSIDE[cell.inside], "split": cell.split}
            | {"substituted": "; ".join(cell.substituted), "notes": "; ".join(cell.notes), "why": cell.why}
            | {"units": " ".join(ours.units) if ours else ""}
        )
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def markdown(filled: Filled) -> str:
    """The table as a page of its own."""
    parts = [f"# {filled.id}: {filled.title}", _head(filled)]
    for table in _sections(filled):
        parts += [f"## {table.caption}", to_markdown(table).rstrip()]
    parts += [_legend(filled)] if filled.ran else []
    parts += [f"## {title}\n\n" + "\n".join(f"- {line}" for line in words) for title, words in _lists(filled)]
    return "\n\n".join(parts) + "\n"


def show(filled: Filled, console: Console) -> None:
    """The same in the terminal."""
    from rich.text import Text

    def line(words: str, first: str = "", style: str = "") -> None:
        rest = {"initial_indent": first, "subsequent_indent": " " * len(first), "break_on_hyphens": False}
        console.print(Text(textwrap.fill(clean(words), console.width, **rest), style=style))  # type: ignore[arg-type]

    line(f"{filled.id}  {filled.title}", style="bold")
    line(_head(filled))
    for table in _sections(filled, () if console.width >= NARROW else ("prediction",)):
        console.print()
        line(table.caption)
        console.print(to_terminal(table, console, console.options))
    if filled.ran:
        console.print()
        line(_legend(filled))
    for title, words in _lists(filled):
        console.print()
        line(title, style="bold")
        for one in words:
            line(one, "- ")
    console.print()


def _sections(filled: Filled, without: Sequence[str] = ()) -> Iterator[Table]:
    """A table for each task and measure of which at least one row has a number of ours."""
    heads = [head for head in (HEADS if filled.printed else OURS) if head not in without]
    several = len({cell.backbone for cell in filled.cells}) > 1
    groups: dict[tuple[str, str, str | None], list[FilledCell]] = {}
    for task in dict.fromkeys(cell.task for cell in filled.cells):
        for cell in (cell for cell in filled.cells if cell.task == task):
            groups.setdefault((task, cell.metric, cell.by), []).append(cell)
    for (task, metric, by), own in groups.items():
        if any(cell.ours for cell in own):
            what = MEASURES.get(metric, metric) + (f": {attack_title(by)}" if by else "")
            lines = [(_name(cell, several), *(_texts(cell)[head] for head in heads)) for cell in own]
            yield plain_table(f"{task_title(task)}: {what}", ("row", *heads), lines)


def _name(cell: FilledCell, backbone: bool) -> str:
    parts = [cell.row, _place(cell.x) if cell.x is not None else "", cell.backbone if backbone else ""]
    return ", ".join(filter(None, parts))


def _place(x: float) -> str:
    """``0.3``; ``0.0833333`` is ``1/12``: of twelve heads, that is what is meant."""
    whole = Fraction(x).limit_denominator(TWELFTHS)
    return str(whole) if len(f"{x:g}") > 5 and abs(whole - x) < 1e-6 else f"{x:g}"


def _texts(cell: FilledCell) -> dict[str, str]:
    """By the heads of its columns."""
    ours, value = cell.ours, NONE if cell.published is None else printed_as(cell.metric, cell.published)
    if ours is None:
        return dict.fromkeys(HEADS, "") | {"published": value, "ours": NONE}
    mean, prediction = (brief(cell.cut(ends)) if ends else NONE for ends in cell.intervals)
    return {
        "published": value,
        "ours": f"{ours.mean:.1f}",
        "95 %": "equal" if ours.n >= FEWEST_SHOWN and ours.interval is None else mean,
        "runs": str(ours.n),
        "difference": NONE if cell.difference is None else points(cell.difference),
        "prediction": prediction,
        "inside": INSIDE[cell.inside] + (f", of {cell.scattered:.0f}" if cell.scattered else ""),
    }


def _head(filled: Filled) -> str:
    """Where it was printed, and how much of it was run; a published number counts once."""
    counts = filled.counts()
    text = f"{counts['filled']} of {plural(counts['numbers'], 'number')} with runs of ours"
    if judged := counts["inside"] + counts["outside"]:
        text += f"; {judged} of them with five runs or more, {FIRST}: {counts['inside']} inside{filled.wide}"
    return f"{filled.source}. {text}" if filled.source else text


def _legend(filled: Filled) -> str:
    """How to read the numbers."""
    text = "ours: mean over training runs and its 95 % interval on these examples."
    if filled.printed:
        text += f" prediction: where {filled.expected} would lie, at 95 %."
        text += " inside: whether the published number does, shown with five runs or more."
    if any(cell.scattered for cell in filled.ran):
        text += f" “yes, of 30”: of an interval that is 30 points wide, noted above {_most():g}: that may be scatter, no agreement."
    cut = any(cell.cut(ends) != ends for cell in filled.ran for ends in cell.intervals if ends)
    return text + (" Intervals are shown cut at 0, and at 100 %: the CSV and the JSON have them whole." if cut else "")


def _lists(filled: Filled) -> list[tuple[str, list[str]]]:
    """The notes below the numbers."""
    every = {attack_title(cell.by) for cell in filled.ran if cell.by}
    substituted = [(attack_title(cell.by or ""), words) for cell in filled.ran for words in cell.substituted]
    # once a row, not for each attack
    of_rows = {(cell.row, words) for cell in filled.ran if not cell.by for words in cell.notes}
    notes = [(cell.row, words) for cell in filled.ran if not cell.by for words in cell.notes]
    notes += [
        (attack_title(cell.by), words)
        for cell in filled.ran
        for words in cell.notes
        if cell.by and (cell.row, words) not in of_rows
    ]
    claims = [sentence(one) for one in filled.claims if one.comparison]
    if without := len(filled.claims) - len(claims):
        claims.append(f"{without} of {plural(len(filled.claims), 'claim')} without runs of both arms")
    if filled.aside:
        whole = (
            "all claims of this table on a task"
            if filled.id in table_names()
            else "the claims of a question as they were fixed beforehand"
        )
        claims.append(
            f"{plural(filled.aside, 'further claim')} about what --only leaves out; Holm counts {whole}, run or not, shown or not"
        )
    found = [
        ("Claims", claims),
        ("Substituted", _alike(substituted, every)),
        ("Notes", _alike(notes, every)),
        ("Without a number", _missing(filled)),
    ]
    return [(title, words) for title, words in found if words]


def _missing(filled: Filled) -> list[str]:
    """By reason; a number of the table counts once, however many attacks of ours it lacks."""
    has = {cell.number for cell in filled.ran}
    lacks = dict.fromkeys((cell.why, cell.number in has, cell.number) for cell in filled.cells if cell.ours is None)
    counts = Counter((why, partly) for why, partly, _ in lacks)
    return [
        f"{plural(number, 'cell')}{', under some attacks' if partly else ''}: {why}"
        for (why, partly), number in counts.items()
    ]


def _alike(found: Sequence[tuple[str, str]], every: Set[str]) -> list[str]:
    """Each text once, with all rows or attacks that it is about; numbers alone become a range."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, words in found:
        groups.setdefault(numberless(words), []).append((name, words))
    lines = []
    for some in groups.values():
        names = list(filter(None, dict.fromkeys(name for name, _ in some)))
        whose = "all attacks" if len(every) > 1 and set(names) == every else "; ".join(names)
        (words,) = merged(words for _, words in some)
        lines.append(f"{words} ({whose})" if whose else words)
    return lines
