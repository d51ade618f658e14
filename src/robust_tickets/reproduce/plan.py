"""Plans of tables, figures and campaigns: their cells, the jobs behind them, and what is missing.

A cell is a measure of an arm on a task; its jobs are the arm's training runs. Jobs are in the order that makes whole tables early: all of
one seed, then all of the next; a campaign's parts one after the other; repeats of a seed last. Planning loads no torch and no data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from robust_tickets.config import build
from robust_tickets.data.registered_tasks import plain
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce import published
from robust_tickets.reproduce.arms import Row, arm_title, backbone_title, rows, task_title
from robust_tickets.reproduce.claims import Claim, first_seed
from robust_tickets.reproduce.job import BERT, Flavour, Job
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.paths import Paths, missing
from robust_tickets.reproduce.protocol import NamedAttack, attacks, constants, refuse_confirming
from robust_tickets.reproduce.published import toml

KEYS = ("task", "method", "attack", "backbone", "metric", "seed")
TICKET = "ticket"  # the measure of a figure that shows a search: its masks, its gates, what survives
SEARCHES = ("ER-F2", "ER-F5", "RT-F1", "RT-F3", "RT-F5", "OR-F1")  # figures made of searches alone
RUNS = 5  # fewer make no claim
OF_TABLES = ("main", "more")  # groups that a published column may be attacked with


def read_only(given: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """``task=sst2``, ``method=finetune,earlyrobust``: pairs of a key and one value."""
    pairs = []
    for one in given:
        key, _, values = (part.strip() for part in one.partition("="))
        if key not in KEYS or not values or "=" in values:
            hint = f"for example --only task=sst2 --only method=finetune,freelb; keys: {', '.join(KEYS)}"
            raise TicketsError(f"--only {one}: expected KEY=VALUE", hint=hint, code="plan.only")
        pairs += [(key, value.strip()) for value in values.split(",") if value.strip()]
    return tuple(pairs)


class Only:
    """The filter of a plan; ``check``, called last, refuses a value that matched nothing."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = tuple(pairs)
        self._names: dict[str, dict[str, None]] = {}
        self._matched: set[tuple[str, str]] = set()

    def takes(self, key: str, *names: str) -> bool:
        """Whether any of these names is wanted, in any case: a row may be called RobustT 30 %, a task SST-2."""
        self._names.setdefault(key, {}).update(dict.fromkeys(names))
        same = plain if key == "task" else str.lower
        values = [value for known, value in self.pairs if known == key]
        hit = [value for value in values if same(value) in map(same, names)]
        self._matched.update((key, value) for value in hit)
        return not values or bool(hit)

    def takes_attack(self, asked: str | None, ours: Sequence[str]) -> bool:
        """A column by its published name or by one of our attacks that stand for it; a column without an attack stays."""
        names = (*ours, *([asked] if asked else []), *(name.partition("-")[0] for name in ours))
        return not names or self.takes("attack", *names)

    def takes_claim(self, claim: Claim, without: Collection[tuple[str, str, str]]) -> bool:
        """Whether a claim's measure and attack are wanted and neither side is in ``without``: task, backbone, arm.

        Seeds do not matter: a claim is about all runs, as a cell is.
        """
        sides = {(claim.task, claim.backbone, arm) for arm in (claim.arm, claim.other)}
        wanted = sides.isdisjoint(without) and self.takes("metric", claim.metric)
        return wanted and self.takes_attack(None, (claim.attack,))

    def check(self) -> None:
        for key, value in self.pairs:
            if (key, value) not in self._matched:
                hint = did_you_mean(value, [name for name in self._names.get(key, {}) if "," not in name])
                message = f"--only {key}={value}: nothing here has this {key}"
                raise TicketsError(message, hint=hint, code="plan.only_value")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A number to make. ``attack`` is the published name, ``attacks`` are ours for it; ``why``: what is missing for it."""

    table: str
    row: str
    task: str
    backbone: str
    arm: str
    metric: str
    attack: str | None = None
    attacks: tuple[str, ...] = ()
    flavour: Flavour = "corrected"
    x: float | None = None  # a figure's abscissa
    published: float | None = None
    units: tuple[Job, ...] = ()
    why: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.table, self.row, self.task, self.backbone, self.arm, self.metric, self.attack, self.x)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Cells and their jobs (``units``) in running order, with attacks; for ``searches`` the ticket suffices."""

    title: str
    cells: tuple[Cell, ...]
    units: tuple[Job, ...]
    attacks: Mapping[Job, tuple[NamedAttack, ...]]
    searches: frozenset[Job] = frozenset()
    missing: tuple[str, ...] = ()  # each once, with how to supply it
    only: tuple[tuple[str, str], ...] = ()  # its filter
    without: frozenset[tuple[str, str, str, str]] = frozenset()  # table, task, backbone, arm that it left out

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.table for cell in self.cells))


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A row on a task, with its measures, runs and attacks."""

    row: Row
    task: str
    columns: tuple[tuple[str, str | None, float | None], ...]  # metric, attack, published value
    runs: tuple[tuple[int, int], ...]  # seed and repeat
    groups: tuple[str, ...]
    whole: bool = False  # every attack of the groups, not those of the columns alone
    part: int = 0  # of a campaign, in running order


def plan(
    ids: Sequence[str],
    *,
    seeds: int | None = RUNS,
    only: Sequence[tuple[str, str]] = (),
    flavour: Flavour = "corrected",
    paths: Paths,
    groups: Sequence[str] | None = None,
) -> Plan:
    """The cells of tables and figures. ``groups``: the attacks to run; by default those of the columns.

    ``seeds`` are runs of each row; ``None``: as many as the paper has, at least 5.
    """
    refuse_confirming(groups or ())
    tables = [published.table(id) for id in dict.fromkeys(ids)]
    lines = [line for table in tables for line in _of_table(table, seeds, groups, flavour)]
    return _planned(", ".join(table.id for table in tables), lines, only, flavour, paths)


def _of_table(
    table: published.Table, seeds: int | None, groups: Sequence[str] | None, flavour: Flavour
) -> Iterator[_Line]:
    values = {(c.task, c.row, c.backbone, c.metric, c.attack): c.value for c in published.cells(table.id)}
    for row in rows(table.id, flavour):
        for task in row.tasks:
            columns = [(*one, values.get((task, row.name, row.backbone, *one))) for one in columns_of(table)]
            yield _Line(
                row=row,
                task=task,
                columns=tuple(one for one in columns if one[2] is not None or table.kind == "figure"),
                runs=tuple((seed, 0) for seed in range(max(RUNS, row.seeds) if seeds is None else seeds)),
                groups=OF_TABLES if groups is None else tuple(groups),
                whole=groups is not None,
            )


def columns_of(table: published.Table) -> list[tuple[str, str | None]]:
    """The metric and attack of each column. A figure shows clean accuracy and Aua, or only the search."""
    if table.kind == "table":
        return [(column.metric, column.attack) for column in table.columns]
    return [(TICKET, None)] if table.id in SEARCHES else [("clean", None), ("aua", "textfooler")]


def _planned(
    title: str, lines: Sequence[_Line], only: Sequence[tuple[str, str]], flavour: Flavour, paths: Paths
) -> Plan:
    """Cells and jobs of lines after the filter ``only``, with what is missing."""
    chosen, cells, lacking, trained = Only(only), dict[tuple[Any, ...], Cell](), dict[str, None](), set[Job]()
    wanted, parts = dict[Job, dict[str, NamedAttack]](), dict[Job, int]()

    @cache
    def lacks(unit: Job, *asked: NamedAttack) -> str:
        found = missing(paths, unit, asked)
        lacking.update(dict.fromkeys(found))
        return "; ".join(found)

    for line in lines:
        row, task, known = line.row, line.task, attacks(line.task, line.groups, flavour)
        runs = [run for run in line.runs if chosen.takes("seed", str(run[0]))]
        names = {"task": (task,), "method": (row.arm, row.name), "backbone": (row.backbone,)}
        taken = [chosen.takes(key, *own) for key, own in names.items()]  # all are tried, so that a hint knows all names
        columns = []
        for metric, attack, value in line.columns:
            own = [one for one in known if attack is not None and attack in (one.name, one.stands_for)]
            if all([chosen.takes("metric", metric), chosen.takes_attack(attack, [one.name for one in own])]):
                own = [one for one in own if chosen.takes_attack(None, (one.name, *([attack] if attack else [])))]
                columns.append((metric, attack, value, own))
        if not all(taken) or not runs:
            continue
        job: dict[str, Any] = {"backbone": row.backbone, "task": task, "arm": row.arm, "flavour": flavour}
        units = tuple(Job(**job, seed=seed, repeat=repeat) for seed, repeat in runs) if not row.why else ()
        for metric, attack, value, own in columns:
            why = row.why or lacks(units[0])
            made = [] if why else [one for one in own if not lacks(units[0], one)]
            if attack and not why and not made:
                why = lacks(units[0], own[0]) if own else _none(attack, task, flavour)
            cell = Cell(
                table=row.table, row=row.name, task=task, backbone=row.backbone, arm=row.arm, metric=metric, attack=attack,
                attacks=tuple(one.name for one in made), flavour=flavour, x=row.x, published=value, units=units, why=why,
            )  # fmt: skip
            if before := cells.get(cell.key):  # two parts of a campaign ask for it
                named, both = (*before.attacks, *cell.attacks), (*before.units, *units)
                once = {"attacks": tuple(dict.fromkeys(named)), "units": tuple(dict.fromkeys(both))}
                cell = replace(cell, **once, why=before.why and why)  # type: ignore[arg-type]
            cells[cell.key] = cell
            if why:
                continue
            if line.whole and metric != TICKET:
                made += [one for one in known if chosen.takes_attack(None, (one.name,)) and not lacks(units[0], one)]
            for unit in units:
                wanted.setdefault(unit, {}).update({one.name: one for one in made})
                parts.setdefault(unit, line.part)
            trained.update(units if metric != TICKET else ())
    chosen.check()
    if not cells:
        raise TicketsError(f"{title}: nothing is left of it", hint="leave an --only out", code="plan.empty")
    kept = {(cell.table, cell.task, cell.backbone, cell.arm) for cell in cells.values()}
    return Plan(
        title=title,
        cells=tuple(cells.values()),
        units=tuple(sorted(wanted, key=lambda unit: (unit.repeat > 0, parts[unit], unit.seed, unit.repeat))),
        attacks={unit: tuple(named.values()) for unit, named in wanted.items()},
        searches=frozenset(wanted) - trained,
        missing=tuple(lacking),
        only=chosen.pairs,
        without=frozenset((line.row.table, line.task, line.row.backbone, line.row.arm) for line in lines) - kept,
    )


def _none(attack: str, task: str, flavour: Flavour) -> str:
    """Why none of the requested attacks fits a column."""
    for other in attacks(task, OF_TABLES, flavour):
        if attack in (other.name, other.stands_for):
            return f"{attack} is not asked for: --attacks {other.group}"
    return f"the protocol has no {attack} for {task}"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Arms on tasks, or tables of the papers; without ``tasks`` all that a table has."""

    seeds: int
    arms: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    backbones: tuple[str, ...] = (BERT,)
    repeats: int = 1  # runs of the first seed in all
    attacks: tuple[str, ...] = ()
    fresh: bool = False  # arms that were chosen by results are run with other seeds

    def runs(self, arm: str, seeds: int) -> tuple[tuple[int, int], ...]:
        first = first_seed(arm) if self.fresh else 0
        repeated = tuple((first, repeat) for repeat in range(self.repeats if seeds else 0))
        return (*repeated, *((seed, 0) for seed in range(first + 1, first + seeds)))


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """A question, and the runs that answer it."""

    title: str
    parts: tuple[Part, ...]


@cache
def campaigns() -> Mapping[str, Campaign]:
    """All campaigns, by letter."""
    tables = toml("campaign.toml")["campaigns"]
    return {name: build(Campaign, table, f"campaign.toml: {name}") for name, table in tables.items()}


def campaign(
    names: str,
    paths: Paths,
    *,
    only: Sequence[tuple[str, str]] = (),
    flavour: Flavour = "corrected",
    seeds: int | None = None,
    groups: Sequence[str] | None = None,
) -> Plan:
    """The plan of a campaign, or of several (``A,B``), one after the other; ``seeds`` and ``groups`` replace its own."""
    refuse_confirming(groups or ())
    letters = list(dict.fromkeys(one.strip().upper() for one in names.split(",")))
    lines: list[_Line] = []
    for letter in letters:
        if letter not in campaigns():
            hint = did_you_mean(letter, campaigns())
            raise TicketsError(f"no campaign is called {letter!r}", hint=hint, code="plan.unknown_campaign")
        for part in campaigns()[letter].parts:
            number = lines[-1].part + 1 if lines else 0
            lines += (replace(line, part=number) for line in _of_part(letter, part, seeds, groups, flavour))
    title = "; ".join(f"campaign {letter}: {campaigns()[letter].title}" for letter in letters)
    return _planned(title, lines, only, flavour, paths)


def _of_part(
    letter: str, part: Part, seeds: int | None, groups: Sequence[str] | None, flavour: Flavour
) -> Iterator[_Line]:
    count = part.seeds if seeds is None else seeds
    asked = part.attacks if groups is None else tuple(groups)
    for id in part.tables:
        for line in _of_table(published.table(id), count, asked if asked or groups is not None else None, flavour):
            if (not part.tasks or line.task in part.tasks) and line.row.backbone in part.backbones:
                yield line
    for task in part.tasks if part.arms else ():
        under = [("aua", one.name, None) for one in attacks(task, asked, flavour)]
        for backbone in part.backbones:
            for arm in part.arms:
                row = Row(table=f"campaign {letter}", name=arm_title(arm), arm=arm, backbone=backbone, tasks=(task,))
                columns = (("clean", None, None), *under)
                yield _Line(row=row, task=task, columns=columns, runs=part.runs(arm, count), groups=asked, whole=True)


def needs(backbone: str, task: str, outcomes: Sequence[Outcome]) -> str:
    """What a run needs that no run of these results used: “weights of RoBERTa-base and data of QNLI (104,743 training rows)”.

    It depends on the results, not on this machine, so that a page is the same wherever it is made.
    """
    parts = []
    if all(one.unit.backbone != backbone for one in outcomes):
        parts.append(f"weights of {backbone_title(backbone)}")
    if all(one.unit.task != task for one in outcomes):
        known = constants().tasks.get(task)
        parts.append(f"data of {task_title(task)}" + (f" ({known.train[0]:,} training rows)" if known else ""))
    return " and ".join(parts)
