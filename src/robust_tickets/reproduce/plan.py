"""Plan: what a table, a figure or a campaign asks for: its cells, the units behind them, each once, and what cannot be had.

A cell is a measure of an arm on a task; its units are the arm's training runs. Units are in the order that makes whole tables early: all of
one seed, then all of the next; a campaign's parts one after the other; repeats of a seed last. Planning loads no torch and no data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from robust_tickets.data.registered_tasks import plain
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce import published
from robust_tickets.reproduce.arms import rows
from robust_tickets.reproduce.attacks import NamedAttack, attacks, confirms
from robust_tickets.reproduce.job import Flavour, Unit
from robust_tickets.reproduce.paths import Places, missing

if TYPE_CHECKING:
    from robust_tickets.reproduce.claims import Claim


KEYS = ("task", "method", "attack", "backbone", "metric", "seed")


def read_only(given: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """``task=sst2``, ``method=finetune,earlyrobust``: pairs of a key and one value."""
    pairs = []
    for one in given:
        key, equals, values = (part.strip() for part in one.partition("="))
        if not equals or not values:
            raise TicketsError(
                f"--only {one}: expected KEY=VALUE", hint=f"for example --only task=sst2; keys: {', '.join(KEYS)}"
            )
        if key not in KEYS:
            raise TicketsError(f"--only {one}: {key!r} is none of its keys", hint=did_you_mean(key, KEYS))
        parts = [value.strip() for value in values.split(",") if value.strip()]
        if any(_has_key(part) for part in parts):
            hint = f"two keys are two flags: {_flags(key, parts)}"
            raise TicketsError(f"--only {one}: a second key behind a comma, which parts the values of one", hint=hint)
        pairs += [(key, value) for value in parts]
    return tuple(pairs)


def _has_key(part: str) -> bool:
    return "=" in part and part.partition("=")[0].strip() in KEYS


def _flags(key: str, parts: Sequence[str]) -> str:
    """What was meant by ``parts`` of one flag: a value belongs to the key before it."""
    flags = [f"{key}="]
    for part in parts:
        if _has_key(part):
            flags.append(part)
        else:
            flags[-1] += part if flags[-1].endswith("=") else f",{part}"
    return " ".join(f"--only {flag}" for flag in flags if not flag.endswith("="))


def _plain(key: str, name: str) -> str:
    return plain(name) if key == "task" else name.lower()


class Only:
    """Asked while a plan is made; ``check`` afterwards refuses a value that nothing had."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = tuple(pairs)
        for key, value in self.pairs:
            if key not in KEYS:
                raise TicketsError(f"only {key}={value}: {key!r} is none of its keys", hint=did_you_mean(key, KEYS))
        self._met: dict[str, dict[str, None]] = {}
        self._hit: set[tuple[str, str]] = set()

    def __str__(self) -> str:
        return " ".join(f"--only {key}={value}" for key, value in self.pairs)

    def takes(self, key: str, *names: str) -> bool:
        """Whether something that has these names is wanted. Case does not matter: a row may be called RobustT 30 %, a task SST-2."""
        self._met.setdefault(key, {}).update(dict.fromkeys(names))
        values = [value for known, value in self.pairs if known == key]
        hit = [value for value in values if _plain(key, value) in [_plain(key, name) for name in names]]
        self._hit.update((key, value) for value in hit)
        return not values or bool(hit)

    def takes_attack(self, asked: str | None, ours: Sequence[str]) -> bool:
        """A column by its published name or by one of our attacks that stand for it; a column without an attack stays."""
        names = (*ours, *([asked] if asked else []), *(name.partition("-")[0] for name in ours))
        return not names or self.takes("attack", *names)

    def takes_claim(self, claim: Claim, without: Collection[tuple[str, str, str]]) -> bool:
        """Whether a claim's measure and attack are wanted, and no side of it is ``without``: task, backbone and arm that are left out.

        One side alone leaves nothing to compare. A seed does not matter: a claim is about all runs, as a cell is.
        """
        sides = {(claim.task, claim.backbone, arm) for arm in (claim.arm, claim.other)}
        return (
            sides.isdisjoint(without)
            and self.takes("metric", claim.metric)
            and self.takes_attack(None, (claim.attack,))
        )

    def check(self) -> None:
        for key, value in self.pairs:
            if (key, value) not in self._hit:
                known = [name for name in self._met.get(key, {}) if "," not in name]  # a comma would part it
                raise TicketsError(
                    f"--only {key}={value}: nothing here has this {key}", hint=did_you_mean(value, known)
                )


TICKET = "ticket"  # the measure of a figure that shows a search: its masks, its gates, what survives
SEARCHES = ("ER-F2", "ER-F5", "RT-F1", "RT-F3", "RT-F5", "OR-F1")  # figures made of searches alone
RUNS = 5  # fewer make no claim
OF_TABLES = ("main", "more")  # groups that a published column may be attacked with


@dataclass(frozen=True, kw_only=True)
class Cell:
    """``attack`` is the published name; ``attacks`` are ours that stand for it. ``why``, if any: it cannot be made, and what would help."""

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
    units: tuple[Unit, ...] = ()
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """``units`` can all be run; each is attacked by ``attacks[unit]``. ``searches`` are those of which the ticket alone is asked for."""

    title: str
    cells: tuple[Cell, ...]
    units: tuple[Unit, ...]
    attacks: Mapping[Unit, tuple[NamedAttack, ...]]
    searches: frozenset[Unit] = frozenset()
    missing: tuple[str, ...] = ()
    only: tuple[tuple[str, str], ...] = ()  # what it was narrowed by
    without: frozenset[tuple[str, str, str, str]] = (
        frozenset()
    )  # table, task, backbone and arm of which that leaves nothing

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.table for cell in self.cells))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One line of a table: an arm on a task, with its measures and the attacks it is to see."""

    table: str
    row: str
    task: str
    backbone: str
    arm: str
    columns: tuple[tuple[str, str | None, float | None], ...]  # metric, attack, published value
    seeds: tuple[tuple[int, int], ...]  # seed and repeat
    groups: tuple[str, ...]
    whole: bool = False  # every attack of the groups, not those of the columns alone
    part: int = 0  # of a campaign: what comes first is run first
    x: float | None = None
    why: str = ""


def plan(
    ids: Sequence[str],
    *,
    seeds: int | None = 5,
    only: Sequence[tuple[str, str]] = (),
    flavour: Flavour = "corrected",
    places: Places,
    groups: Sequence[str] | None = None,
) -> Plan:
    """The cells of tables and figures. ``groups`` names the attacks to run, all of them; by default those that the columns name.

    ``seeds`` are runs of each row; ``None``: as many as the paper has, at least 5.
    """
    if any(confirms(one) for one in groups or ()):
        raise TicketsError(
            "the split that confirms is attacked once, for the claims about the chosen recipe; no table of the papers has it",
            hint="`tickets reproduce --campaign B` does it",
        )
    tables = [published.table(id) for id in dict.fromkeys(ids)]
    asked = [line for table in tables for line in of_table(table, seeds, groups, flavour)]
    return settle(", ".join(table.id for table in tables), asked, only=only, flavour=flavour, places=places)


def of_table(
    table: published.Table,
    seeds: int | None = None,
    groups: Sequence[str] | None = None,
    flavour: Flavour = "corrected",
) -> list[Asked]:
    """What a table asks for, line by line."""
    values = {(c.task, c.row, c.backbone, c.metric, c.attack): c.value for c in published.cells(table.id)}
    columns = columns_of(table)
    return [
        Asked(
            table=table.id, row=row.name, task=task, backbone=row.backbone, arm=row.arm,
            columns=tuple(
                (metric, attack, value)
                for metric, attack in columns
                if (value := values.get((task, row.name, row.backbone, metric, attack))) is not None or table.kind == "figure"
            ),
            seeds=tuple((seed, 0) for seed in range(seeds if seeds is not None else max(RUNS, row.seeds))),
            groups=tuple(groups) if groups is not None else OF_TABLES, whole=groups is not None, x=row.x, why=row.why,
        )
        for row in rows(table.id, flavour)
        for task in row.tasks
    ]  # fmt: skip


def columns_of(table: published.Table) -> list[tuple[str, str | None]]:
    """What is measured of every row: metric and attack. A figure's points are clean accuracy and Aua, or it shows the search alone."""
    if table.kind == "table":
        return [(column.metric, column.attack) for column in table.columns]
    return [(TICKET, None)] if table.id in SEARCHES else [("clean", None), ("aua", "textfooler")]


def settle(
    title: str, asked: Sequence[Asked], *, only: Sequence[tuple[str, str]], flavour: Flavour, places: Places
) -> Plan:
    """Cells and units of lines: what ``only`` leaves, each unit once, with what cannot be had told beside it."""
    chosen = Only(only)
    look = _Look(places, flavour)
    cells: dict[
        tuple[Any, ...], Cell
    ] = {}  # of two parts that ask for the same measure there is one, with the runs of both
    wanted: dict[Unit, dict[str, NamedAttack]] = {}
    trained: set[Unit] = set()
    part: dict[Unit, int] = {}  # the first that asks for it
    for line in asked:
        runs = [(seed, repeat) for seed, repeat in line.seeds if chosen.takes("seed", str(seed))]
        names = {"task": (line.task,), "method": (line.arm, line.row), "backbone": (line.backbone,)}
        taken = [chosen.takes(key, *own) for key, own in names.items()]  # all are asked, so that a hint knows all names
        columns = [
            (metric, attack, value)
            for metric, attack, value in line.columns
            if all([chosen.takes("metric", metric), chosen.takes_attack(attack, look.names(line, attack))])
        ]
        if not all(taken) or not runs:
            continue
        units = tuple(
            Unit(backbone=line.backbone, task=line.task, arm=line.arm, flavour=flavour, seed=seed, repeat=repeat) for seed, repeat in runs
        ) if not line.why else ()  # fmt: skip
        for metric, attack, value in columns:
            named = [
                one
                for one in look.standing(line, attack)
                if chosen.takes_attack(None, (one.name, *([attack] if attack else [])))
            ]
            why = line.why or look.why(units[0], ()) or (look.none(line, attack, named, units[0]) if attack else "")
            found = [one for one in named if not look.why(units[0], (one,))] if not why else []
            key = (line.table, line.row, line.task, line.backbone, line.arm, metric, attack, line.x)
            made = Cell(
                table=line.table, row=line.row, task=line.task, backbone=line.backbone, arm=line.arm, metric=metric, attack=attack,
                attacks=tuple(one.name for one in found), flavour=flavour, x=line.x, published=value, units=units, why=why,
            )  # fmt: skip
            cells[key] = made if key not in cells else _both(cells[key], made)
            if why:
                continue
            if line.whole and metric != TICKET:
                found += [
                    one
                    for one in look.attacks(line)
                    if chosen.takes_attack(None, (one.name,)) and not look.why(units[0], (one,))
                ]
            for unit in units:
                wanted.setdefault(unit, {}).update({one.name: one for one in found})
                part.setdefault(unit, line.part)
            if metric != TICKET:
                trained.update(units)
    chosen.check()
    if not cells:
        raise TicketsError(f"{title}: nothing is left of it", hint=f"{chosen} leaves no cell: leave one of them out")
    order = {unit: i for i, unit in enumerate(wanted)}
    units_in_order = tuple(
        sorted(wanted, key=lambda unit: (unit.repeat > 0, part[unit], unit.seed, unit.repeat, order[unit]))
    )
    return Plan(
        title=title,
        cells=tuple(cells.values()),
        units=units_in_order,
        attacks={unit: tuple(wanted[unit].values()) for unit in units_in_order},
        searches=frozenset(wanted) - trained,
        missing=tuple(dict.fromkeys(look.told)),
        only=chosen.pairs,
        without=frozenset((line.table, line.task, line.backbone, line.arm) for line in asked)
        - {(cell.table, cell.task, cell.backbone, cell.arm) for cell in cells.values()},
    )


def _both(first: Cell, second: Cell) -> Cell:
    """One cell of two that measure the same; it cannot be made if neither can."""
    return replace(
        second,
        attacks=tuple(dict.fromkeys((*first.attacks, *second.attacks))),
        units=tuple(dict.fromkeys((*first.units, *second.units))),
        why=first.why and second.why,
    )


class _Look:
    """Attacks of a task and what is missing, each looked up once; ``told`` collects what is."""

    def __init__(self, places: Places, flavour: Flavour) -> None:
        self.places, self.flavour = places, flavour
        self.told: list[str] = []
        self._attacks: dict[Any, tuple[NamedAttack, ...]] = {}
        self._why: dict[Any, str] = {}

    def attacks(self, line: Asked) -> tuple[NamedAttack, ...]:
        key = (line.task, line.groups)
        if key not in self._attacks:
            self._attacks[key] = attacks(line.task, groups=line.groups, flavour=self.flavour)
        return self._attacks[key]

    def standing(self, line: Asked, attack: str | None) -> list[NamedAttack]:
        return [one for one in self.attacks(line) if attack is not None and attack in (one.name, one.stands_for)]

    def names(self, line: Asked, attack: str | None) -> tuple[str, ...]:
        return tuple(one.name for one in self.standing(line, attack))

    def why(self, unit: Unit, asked: tuple[NamedAttack, ...]) -> str:
        key = (unit.backbone, unit.task, unit.arm, tuple(one.name for one in asked))
        if key not in self._why:
            lacking = missing(self.places, unit, asked)
            self.told += lacking
            self._why[key] = "; ".join(lacking)
        return self._why[key]

    def none(self, line: Asked, attack: str, named: Sequence[NamedAttack], unit: Unit) -> str:
        """Why no attack stands for the column, if so."""
        if not named:
            known = attacks(line.task, groups=OF_TABLES, flavour=self.flavour)
            others = [one for one in known if attack in (one.name, one.stands_for)]
            return (
                f"{attack} is not asked for: --attacks {others[0].group}"
                if others
                else f"the protocol has no {attack} for {line.task}"
            )
        lacking = [self.why(unit, (one,)) for one in named]
        return "" if not all(lacking) else lacking[0]
