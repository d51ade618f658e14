"""A published table filled with our runs: beside each printed number ours, the difference, and whether ours might give it.

Made from outcomes and the published numbers alone. An attack of a paper may have been run with several candidate sets: each is a cell
of its own, under its name in the protocol, since they differ by more than the methods do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError
from robust_tickets.reproduce.aggregate import ATTACK_METRICS, Wanted, attacks_of, read_runs
from robust_tickets.reproduce.arms import arm_title, older
from robust_tickets.reproduce.claims import Judged, families_of, judge, told
from robust_tickets.reproduce.job import Flavour
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.plan import TICKET, Only, columns_of
from robust_tickets.reproduce.protocol import GROUPS, attacks
from robust_tickets.reproduce.published import PERCENT, Table, averaged, cells, table, tables
from robust_tickets.reproduce.wording import MEASURES, listed
from robust_tickets.stats.compare_runs import FEWEST_SHOWN, RunSummary, summarise_runs
from robust_tickets.stats.intervals import Interval


@dataclass(frozen=True, kw_only=True)
class Ours(RunSummary):
    """What the training runs behind a cell say together, with intervals at 95 % on these examples; and which they are."""

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
    inside: (
        bool | None
    )  # published inside the prediction interval; None: fewer than five runs, or nothing to hold against
    split: str
    substituted: tuple[str, ...]
    notes: tuple[str, ...]
    why: str

    @property
    def number(self) -> tuple[object, ...]:
        """Which number of the table it is beside, whatever attack of ours it is by."""
        return self.table, self.task, self.row, self.backbone, self.arm, self.metric, self.attack, self.x


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A table with our numbers, in the paper's order; or a campaign's lines, which nothing published stands beside."""

    id: str
    title: str
    source: str
    flavour: Flavour
    cells: tuple[FilledCell, ...]
    claims: tuple[Judged, ...]  # of the table, each task adjusted by itself, or of a campaign's families
    aside: int = 0  # claims of the same families about what a plan leaves out: not told, but adjusted for

    @property
    def table(self) -> Table:
        """What was published; a campaign has no table."""
        return table(self.id)

    @property
    def ran(self) -> tuple[FilledCell, ...]:
        return tuple(cell for cell in self.cells if cell.ours is not None)

    @property
    def printed(self) -> bool:
        """Whether numbers of a paper stand beside ours: they do in a table, not in a campaign, nor in figures."""
        return any(cell.published is not None for cell in self.cells)

    @property
    def attacks(self) -> tuple[str, ...]:
        """Ours, each once."""
        return tuple(dict.fromkeys(cell.by for cell in self.cells if cell.by is not None))

    @property
    def numbers(self) -> tuple[FilledCell, ...]:
        """Each number of the table once: of our attacks that stand for the paper's, by the nearest that was run.

        Further candidates and constraints would count a number again for each of them.
        """
        first: dict[tuple[object, ...], FilledCell] = {}
        for cell in (cell for cell in self.cells if not cell.beside):
            if cell.number not in first or _far(cell, self.flavour) < _far(first[cell.number], self.flavour):
                first[cell.number] = cell
        return tuple(first.values())

    def counts(self) -> dict[str, int]:
        """Numbers of the table, those with runs of ours, and of those where five runs can tell: inside and outside."""
        told = self.numbers
        inside = [cell.inside for cell in told]
        filled = sum(cell.ours is not None for cell in told)
        return {"numbers": len(told), "filled": filled, "inside": inside.count(True), "outside": inside.count(False)}


def _far(cell: FilledCell, flavour: Flavour) -> tuple[bool, int]:
    """How far a cell's attack is from the paper's: those that ``attacks.toml`` holds against it come first, in its order."""
    near = (
        [one.name for one in attacks(cell.task, GROUPS, flavour) if one.stands_for == cell.attack]
        if cell.attack
        else []
    )
    return cell.ours is None, near.index(cell.by) if cell.by in near else len(near)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A printed number, or a point of a figure, and the arm that makes it."""

    row: str
    task: str
    backbone: str
    arm: str
    metric: str
    attack: str | None
    published: float | None
    flavour: Flavour
    why: str = ""
    x: float | None = None
    named: tuple[str, ...] = ()  # attacks of ours; empty: all that were run and stand for the paper's
    beside: bool = False


def fill(
    asked: str | Iterable[Any],
    outcomes: Sequence[Outcome],
    folder: Path | None = None,
    *,
    flavour: Flavour = "corrected",
    only: Sequence[tuple[str, str]] = (),
    without: Iterable[tuple[str, str, str, str]] = (),
) -> Filled:
    """A whole table by its id, or cells of a plan (``plan.Cell``), all of one table or campaign. ``folder`` is where the outcomes lie.

    ``only`` and ``without``: the plan's, what it was narrowed by and what that leaves out. Claims about the latter are judged with the
    others, since their family is fixed, and not told.
    """
    if isinstance(asked, str):
        id, wanted = table(asked).id, _of_table(table(asked), flavour)
    else:
        given = list(asked)
        names = list(dict.fromkeys(cell.table for cell in given))
        if len(names) != 1:
            raise TicketsError(
                f"a filled table is of one table, got cells of {', '.join(names) or 'none'}",
                hint="fill_all takes a whole plan",
            )
        id, wanted = (
            names[0],
            [_of_plan(cell) for cell in given if cell.metric != TICKET],
        )  # of a search alone: a figure draws it
    if not id.startswith("campaign "):
        wanted = [one for line in wanted for one in (line, *_older(line, outcomes))]
    known = next((one for one in tables() if one.id == id), None)
    judged = [one for name in families_of(id) for one in judge(name, outcomes, folder, flavour=flavour)]
    chosen = Only(only)
    left_out = {(task, backbone, arm) for name, task, backbone, arm in without if name == id}
    claims = [one for one in judged if chosen.takes_claim(one.claim, left_out)]
    return Filled(
        id=id,
        title=known.title if known else _title(id),
        source=known.source if known else "",
        flavour=flavour,
        cells=tuple(cell for one in wanted for cell in _cells(id, one, outcomes, folder, chosen)),
        claims=tuple(claims),
        aside=len(judged) - len(claims),
    )


def _title(id: str) -> str:
    """Of a campaign, by the name that its plan's cells have."""
    from robust_tickets.reproduce.plan import campaigns

    found = campaigns().get(id.removeprefix("campaign "))
    return found.title if found else id


def fill_all(
    plan: Any, outcomes: Sequence[Outcome], folder: Path | None = None, *, flavour: Flavour = "corrected"
) -> list[Filled]:
    """The cells of a ``plan.Plan``, table by table."""
    by_table: dict[str, list[Any]] = {}
    for cell in plan.cells:
        by_table.setdefault(cell.table, []).append(cell)
    return [
        fill(found, outcomes, folder, flavour=flavour, only=plan.only, without=plan.without)
        for found in by_table.values()
    ]


def _of_table(of: Table, flavour: Flavour) -> list[_Asked]:
    from robust_tickets.reproduce.arms import rows

    made = rows(of.id, flavour)
    if of.kind == "figure":
        points = [(metric, attack) for metric, attack in columns_of(of) if metric != TICKET]
        return [
            _Asked(
                row=row.name, task=task, backbone=row.backbone, arm=row.arm, metric=metric, attack=attack, published=None, flavour=flavour,
                why=row.why, x=row.x,
            )
            for row in made
            for task in row.tasks
            for metric, attack in points
        ]  # fmt: skip
    arms = {(row.name, task, row.backbone): row for row in made for task in row.tasks}
    found = []
    for cell in cells(of.id):
        row = arms.get((cell.row, cell.task, cell.backbone))
        found.append(
            _Asked(
                row=cell.row, task=cell.task, backbone=cell.backbone, arm=row.arm if row else "", metric=cell.metric, attack=cell.attack,
                published=cell.value, flavour=flavour, why=row.why if row else "no arm of ours makes this row",
            )
        )  # fmt: skip
    return found


def _older(asked: _Asked, outcomes: Sequence[Outcome]) -> list[_Asked]:
    """The same of the arms that stand beside the row's, where they were run."""
    here = {
        o.unit.arm
        for o in outcomes
        if (o.unit.task, o.unit.backbone, o.unit.flavour) == (asked.task, asked.backbone, asked.flavour)
    }
    found = [name for name in older(asked.arm) if name in here]
    return [replace(asked, row=arm_title(name), arm=name, published=None, beside=True) for name in found]


def _of_plan(cell: Any) -> _Asked:
    """A plan's cell knows its arm, the attacks of ours, and why it cannot be made."""
    return _Asked(
        row=cell.row, task=cell.task, backbone=cell.backbone, arm=cell.arm, metric=cell.metric, attack=cell.attack,
        published=cell.published, flavour=cell.flavour, why=cell.why, x=cell.x, named=cell.attacks,
    )  # fmt: skip


def _cells(id: str, asked: _Asked, outcomes: Sequence[Outcome], folder: Path | None, chosen: Only) -> list[FilledCell]:
    if asked.metric not in ATTACK_METRICS:
        return [_cell(id, asked, None, outcomes, folder)]
    here = [
        o
        for o in outcomes
        if (o.unit.task, o.unit.backbone, o.unit.flavour) == (asked.task, asked.backbone, asked.flavour)
    ]
    # of all arms: an arm that one of them was not run on says so
    named = asked.named or [
        name for name in attacks_of(here, str(asked.attack)) if chosen.takes_attack(asked.attack, (name,))
    ]
    return [_cell(id, asked, name, outcomes, folder) for name in named or (None,)]


def _cell(id: str, asked: _Asked, by: str | None, outcomes: Sequence[Outcome], folder: Path | None) -> FilledCell:
    wanted = Wanted(
        arm=asked.arm, task=asked.task, metric=asked.metric, attack=by or asked.attack, backbone=asked.backbone, flavour=asked.flavour
    )  # fmt: skip
    reading = read_runs(wanted, outcomes, folder)
    further = averaged(id, asked.row, asked.metric) if asked.published is not None else 1
    summary = summarise_runs(reading.runs, resamples=0, further=further) if reading.runs.units else None
    return FilledCell(
        table=id,
        task=asked.task,
        row=asked.row,
        backbone=asked.backbone,
        arm=asked.arm,
        metric=asked.metric,
        attack=asked.attack,
        by=by,
        x=asked.x,
        beside=asked.beside,
        published=asked.published,
        ours=Ours(**vars(summary), units=reading.units, values=reading.runs.values) if summary else None,
        difference=summary.mean - asked.published if summary and asked.published is not None else None,
        inside=summary.published_inside(asked.published) if summary and asked.published is not None else None,
        split=reading.split,
        substituted=reading.substituted,
        notes=reading.notes,
        why="" if summary else (asked.why or reading.why),  # a plan knows what an attack lacks
    )


def legend(filled: Filled) -> str:
    """How to read the numbers."""
    said = "ours: mean over training runs and its 95 % interval on these examples."
    if filled.printed:
        said += f" prediction: where {expected(filled)} would lie, at 95 %."
        said += " inside: whether the published number does, said with five runs or more."
    if any(map(scattered, filled.ran)):
        said += f" “yes, of 30”: of an interval that is 30 points wide, said of more than {_most():g}: that may be scatter, no agreement."
    cut = any(shown(cell, ends) != ends for cell in filled.ran for ends in intervals(cell) if ends)
    return said + (" Intervals are shown cut at 0, and at 100 %: the CSV and the JSON have them whole." if cut else "")


def intervals(cell: FilledCell) -> tuple[Interval | None, Interval | None]:
    """Of the mean, and where the published number is to lie; ``None`` where there is none that tells something."""
    ours = cell.ours
    if ours is None:
        return None, None
    return ours.shown, ours.prediction if ours.n >= FEWEST_SHOWN and cell.published is not None else None


def shown(cell: FilledCell, ends: Interval) -> Interval:
    """An interval as far as the measure goes: none is below 0, and a percentage not above 100."""
    most = 100.0 if cell.metric in PERCENT else math.inf
    low, high = (min(max(end, 0.0), most) for end in ends)
    return low, high


def broad(ends: Interval) -> float | None:
    """Points from end to end, where that is more than what a claim calls equivalent, to both sides."""
    return ends[1] - ends[0] if ends[1] - ends[0] > _most() else None


def scattered(cell: FilledCell) -> float | None:
    """How wide the interval is that a published percentage lies inside of, as it is shown, where so wide a one says little."""
    if not cell.inside or cell.metric not in PERCENT or cell.ours is None or cell.ours.prediction is None:
        return None
    return broad(shown(cell, cell.ours.prediction))


def of_them_scattered(cells: Sequence[FilledCell]) -> str:
    """What is to be added to how many lie inside."""
    wide = sum(scattered(cell) is not None for cell in cells)
    return f", {wide} of them of an interval wider than {_most():g} points" if wide else ""


def _most() -> float:
    return 2 * float(told()["margin"])


def further(runs: int) -> str:
    """What is held against a number that is the mean of so many runs."""
    return "one further run" if runs == 1 else f"the mean of {runs} further runs"


def expected(filled: Filled) -> str:
    """The same for a table: where the paper says of some of its numbers only that they are means, of which."""
    groups: dict[int, list[FilledCell]] = {}
    for cell in filled.ran:
        if cell.ours and cell.published is not None:
            groups.setdefault(cell.ours.further, []).append(cell)
    if len(groups) == 1 and 1 not in groups:
        (runs,) = groups
        return f"{further(runs)} of ours (the paper's numbers are means of {runs})"
    means = [
        f"{further(runs)} for {_about(found, filled)} (a mean of {runs} in the paper)"
        for runs, found in groups.items()
        if runs > 1
    ]
    return " or ".join(["one further run of ours", *means] if 1 in groups or not groups else means)


def _about(found: Sequence[FilledCell], filled: Filled) -> str:
    """The measures that these cells have to themselves, or else their rows."""
    others = {cell.metric for cell in filled.ran if cell not in found}
    metrics = {cell.metric for cell in found}
    names = (
        [MEASURES[name] for name in MEASURES if name in metrics]
        if not metrics & others
        else [cell.row for cell in found]
    )
    return listed(list(dict.fromkeys(names)))
