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
from robust_tickets.reproduce.arms import arm, backbone_title, rows, task_title
from robust_tickets.reproduce.claims import Claim, first_seed
from robust_tickets.reproduce.job import BERT, Flavour, Job
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.paths import Paths, missing
from robust_tickets.reproduce.protocol import CONFIRM, NamedAttack, attacks, confirms, constants
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
        key, equals, values = (part.strip() for part in one.partition("="))
        if not equals or not values or any(f"{other}=" in values for other in KEYS):
            hint = f"for example --only task=sst2 --only method=finetune,freelb; keys: {', '.join(KEYS)}"
            raise TicketsError(f"--only {one}: expected KEY=VALUE", hint=hint, code="plan.only")
        if key not in KEYS:
            hint = did_you_mean(key, KEYS)
            raise TicketsError(f"--only {one}: {key!r} is none of its keys", hint=hint, code="plan.only_key")
        pairs += [(key, value.strip()) for value in values.split(",") if value.strip()]
    return tuple(pairs)


class Only:
    """The filter of a plan; ``check``, called last, refuses a value that matched nothing."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = tuple(pairs)
        self._names: dict[str, dict[str, None]] = {}
        self._matched: set[tuple[str, str]] = set()

    def __str__(self) -> str:
        return " ".join(f"--only {key}={value}" for key, value in self.pairs)

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

    def merged(self, other: Cell) -> Cell:
        """One cell of two parts that ask for the same measure; it lacks something if both do."""
        named, units = (*self.attacks, *other.attacks), (*self.units, *other.units)
        once = {"attacks": tuple(dict.fromkeys(named)), "units": tuple(dict.fromkeys(units))}
        return replace(other, **once, why=self.why and other.why)  # type: ignore[arg-type]


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
    """An arm on a task, with its measures and attacks."""

    table: str
    row: str
    task: str
    backbone: str
    arm: str
    columns: tuple[tuple[str, str | None, float | None], ...]  # metric, attack, published value
    runs: tuple[tuple[int, int], ...]  # seed and repeat
    groups: tuple[str, ...]
    whole: bool = False  # every attack of the groups, not those of the columns alone
    part: int = 0  # of a campaign, in running order
    x: float | None = None
    why: str = ""


def plan(
    ids: Sequence[str],
    *,
    seeds: int | None = 5,
    only: Sequence[tuple[str, str]] = (),
    flavour: Flavour = "corrected",
    paths: Paths,
    groups: Sequence[str] | None = None,
) -> Plan:
    """The cells of tables and figures. ``groups``: the attacks to run; by default those of the columns.

    ``seeds`` are runs of each row; ``None``: as many as the paper has, at least 5.
    """
    if any(confirms(one) for one in groups or ()):
        raise _not_confirmed("no table of the papers has it")
    tables = [published.table(id) for id in dict.fromkeys(ids)]
    lines = [line for table in tables for line in _of_table(table, seeds, groups, flavour)]
    return _planned(", ".join(table.id for table in tables), lines, only=only, flavour=flavour, paths=paths)


def _of_table(
    table: published.Table, seeds: int | None, groups: Sequence[str] | None, flavour: Flavour
) -> Iterator[_Line]:
    values = {(c.task, c.row, c.backbone, c.metric, c.attack): c.value for c in published.cells(table.id)}
    for row in rows(table.id, flavour):
        for task in row.tasks:
            columns = [(*one, values.get((task, row.name, row.backbone, *one))) for one in columns_of(table)]
            count = seeds if seeds is not None else max(RUNS, row.seeds)
            yield _Line(
                table=table.id, row=row.name, task=task, backbone=row.backbone, arm=row.arm, x=row.x, why=row.why,
                columns=tuple(one for one in columns if one[2] is not None or table.kind == "figure"),
                runs=tuple((seed, 0) for seed in range(count)),
                groups=tuple(groups) if groups is not None else OF_TABLES, whole=groups is not None,
            )  # fmt: skip


def columns_of(table: published.Table) -> list[tuple[str, str | None]]:
    """The metric and attack of each column. A figure shows clean accuracy and Aua, or only the search."""
    if table.kind == "table":
        return [(column.metric, column.attack) for column in table.columns]
    return [(TICKET, None)] if table.id in SEARCHES else [("clean", None), ("aua", "textfooler")]


def _planned(
    title: str, lines: Sequence[_Line], *, only: Sequence[tuple[str, str]], flavour: Flavour, paths: Paths
) -> Plan:
    """Cells and jobs of lines after the filter ``only``, with what is missing."""
    chosen, cells = Only(only), dict[tuple[Any, ...], Cell]()
    wanted, parts = dict[Job, dict[str, NamedAttack]](), dict[Job, int]()
    trained, lacking = set[Job](), dict[str, None]()

    @cache
    def lacks(unit: Job, *asked: NamedAttack) -> str:
        found = missing(paths, unit, asked)
        lacking.update(dict.fromkeys(found))
        return "; ".join(found)

    for line in lines:
        known = attacks(line.task, line.groups, flavour)
        runs = [run for run in line.runs if chosen.takes("seed", str(run[0]))]
        names = {"task": (line.task,), "method": (line.arm, line.row), "backbone": (line.backbone,)}
        taken = [chosen.takes(key, *own) for key, own in names.items()]  # all are tried, so that a hint knows all names
        columns = []
        for metric, attack, value in line.columns:
            named = [one for one in known if attack is not None and attack in (one.name, one.stands_for)]
            if all([chosen.takes("metric", metric), chosen.takes_attack(attack, [one.name for one in named])]):
                columns.append((metric, attack, value, named))
        if not all(taken) or not runs:
            continue
        job: dict[str, Any] = {"backbone": line.backbone, "task": line.task, "arm": line.arm, "flavour": flavour}
        units = tuple(Job(**job, seed=seed, repeat=repeat) for seed, repeat in runs) if not line.why else ()
        for metric, attack, value, named in columns:
            named = [one for one in named if chosen.takes_attack(None, (one.name, *([attack] if attack else [])))]
            why = line.why or lacks(units[0])
            if attack and not why:
                barred = [lacks(units[0], one) for one in named]
                why = (barred[0] if all(barred) else "") if named else _none(attack, line.task, flavour)
            found = [] if why else [one for one in named if not lacks(units[0], one)]
            cell = Cell(
                table=line.table, row=line.row, task=line.task, backbone=line.backbone, arm=line.arm, metric=metric, attack=attack,
                attacks=tuple(one.name for one in found), flavour=flavour, x=line.x, published=value, units=units, why=why,
            )  # fmt: skip
            cells[cell.key] = cells[cell.key].merged(cell) if cell.key in cells else cell
            if why:
                continue
            if line.whole and metric != TICKET:
                found += [one for one in known if chosen.takes_attack(None, (one.name,)) and not lacks(units[0], one)]
            for unit in units:
                wanted.setdefault(unit, {}).update({one.name: one for one in found})
                parts.setdefault(unit, line.part)
            trained.update(units if metric != TICKET else ())
    chosen.check()
    if not cells:
        hint = f"{chosen} leaves no cell: leave one of them out"
        raise TicketsError(f"{title}: nothing is left of it", hint=hint, code="plan.empty")
    units = tuple(sorted(wanted, key=lambda unit: (unit.repeat > 0, parts[unit], unit.seed, unit.repeat)))
    kept = {(cell.table, cell.task, cell.backbone, cell.arm) for cell in cells.values()}
    return Plan(
        title=title,
        cells=tuple(cells.values()),
        units=units,
        attacks={unit: tuple(wanted[unit].values()) for unit in units},
        searches=frozenset(wanted) - trained,
        missing=tuple(lacking),
        only=chosen.pairs,
        without=frozenset((line.table, line.task, line.backbone, line.arm) for line in lines) - kept,
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
    letters = list(dict.fromkeys(one.strip().upper() for one in names.split(",")))
    lines: list[_Line] = []
    parts = [(letter, part) for letter in letters for part in _parts(letter, groups)]
    for number, (letter, part) in enumerate(parts):
        count = part.seeds if seeds is None else seeds
        lines += (replace(line, part=number) for line in _of_part(letter, part, count, groups, flavour))
    title = "; ".join(f"campaign {letter}: {campaigns()[letter].title}" for letter in letters)
    return _planned(title, lines, only=only, flavour=flavour, paths=paths)


def _parts(letter: str, groups: Sequence[str] | None) -> tuple[Part, ...]:
    if letter not in campaigns():
        hint = did_you_mean(letter, campaigns())
        raise TicketsError(f"no campaign is called {letter!r}", hint=hint, code="plan.unknown_campaign")
    parts = campaigns()[letter].parts
    if any(map(confirms, groups or ())) and not any(confirms(own) for part in parts for own in part.attacks):
        raise _not_confirmed(f"campaign {letter} does not confirm")
    return parts


def _not_confirmed(why: str) -> TicketsError:
    message = f"{why}: the split that confirms is attacked once, for the claims about the chosen recipe"
    return TicketsError(message, hint="`tickets reproduce --campaign B` does it", code="plan.confirm")


def may_confirm(unit: Job) -> bool:
    """Whether a campaign attacks the confirming split for a job; of chosen arms only for fresh runs."""
    parts = [part for one in campaigns().values() for part in one.parts if any(map(confirms, part.attacks))]
    return any(unit.arm in part.arms for part in parts) and unit.seed >= first_seed(unit.arm)


def _of_part(letter: str, part: Part, seeds: int, groups: Sequence[str] | None, flavour: Flavour) -> Iterator[_Line]:
    asked = part.attacks if groups is None else _narrowed(groups, part.attacks)
    for id in part.tables:
        for line in _of_table(published.table(id), seeds, asked if asked or groups is not None else None, flavour):
            if (not part.tasks or line.task in part.tasks) and line.backbone in part.backbones:
                yield line
    for task in part.tasks if part.arms else ():
        under = [("aua", one.name, None) for one in attacks(task, asked, flavour)]
        for backbone in part.backbones:
            for own in part.arms:
                yield _Line(
                    table=f"campaign {letter}", row=arm(own).title, task=task, backbone=backbone, arm=own,
                    columns=(("clean", None, None), *under), runs=part.runs(own, seeds), groups=asked, whole=True,
                )  # fmt: skip


def _narrowed(groups: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """The requested groups; of the confirming ones only those of the part."""
    confirming = [one for one in own if confirms(one)]
    found = [
        found
        for one in groups
        for found in (confirming if one == CONFIRM and CONFIRM not in confirming else [one])
        if not confirms(found) or found in confirming or CONFIRM in confirming
    ]
    return tuple(dict.fromkeys(found))


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
