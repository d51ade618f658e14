"""Arms, the rows of the papers that ask for them, and their titles. Imports no torch.

An arm is a shipped recipe, the arm of it that is trained, and settings written over it (``arms.toml``, ``sweeps.toml``). A flavour adds its
own: ``as-published`` the paper's lengths where the recipe has not got them already, ``as-released`` the quirks of the released code (``ways``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from robust_tickets.config import build, tree_of
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce import published
from robust_tickets.reproduce.job import BERT, Flavour, Job
from robust_tickets.reproduce.published import toml

FLAVOURS: tuple[Flavour, ...] = get_args(Flavour)
ROLE = re.compile(r"=@([a-z0-9_/]+)$")  # the value of a setting that Paths fills in
Lines = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """An arm: ``arm`` of ``recipe`` with ``settings``, key=value as ``tickets run --set``, and ``own`` ones inside the arm.

    ``beside``: the arm of the papers' row that this one's runs are shown beside.
    """

    name: str
    title: str
    base: str = ""  # the arm whose settings come first
    recipe: str = ""
    arm: str = ""
    settings: Lines = ()
    own: Lines = ()
    notes: Lines = ()
    beside: str = ""
    tasks: Mapping[str, Lines] = field(default_factory=dict)  # settings of a single task
    flavours: Mapping[str, Lines] = field(default_factory=dict)
    ways: str = ""

    @property
    def roles(self) -> Lines:
        """Resources besides model and task, as roles of Paths: ``real``, ``corpus``, ``data/imdb``."""
        return tuple(dict.fromkeys(found[1] for one in self.settings if (found := ROLE.search(one))))

    def whole(self, known: Mapping[str, Arm]) -> Arm:
        """The arm with its base's settings merged in."""
        base = known[self.base] if self.base else Arm(name="", title="", recipe=self.recipe, arm=self.arm or self.name)
        return replace(
            self,
            recipe=base.recipe,
            arm=base.arm,
            settings=(*base.settings, *self.settings, *(f"arms.{base.arm}.{own}" for own in self.own)),
            notes=(*base.notes, *self.notes),
            tasks={**base.tasks, **self.tasks},
            flavours={one: (*base.flavours.get(one, ()), *self.flavours.get(one, ())) for one in FLAVOURS},
            ways=self.ways or base.ways,
        )


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """An arm for each value of a setting; {} stands for the value, in a title {%} for it in percent."""

    base: str
    values: tuple[int | float, ...]
    title: str
    tags: Lines = ()
    own: Lines = ()
    settings: Lines = ()
    drawn: Mapping[str, float] = field(default_factory=dict)  # by task: the value of the base itself
    flavours: Mapping[str, Lines] = field(default_factory=dict)
    ways: str = ""

    @property
    def points(self) -> list[tuple[float, str]]:
        """Each value and its tag."""
        return list(zip(self.values, self.tags or map(str, self.values), strict=True))

    def arm(self, name: str, value: float) -> Arm:
        own, settings = (tuple(one.replace("{}", repr(value)) for one in all) for all in (self.own, self.settings))
        title = self.title.replace("{}", f"{value:.4g}").replace("{%}", f"{100 * value:.3g} %")
        changed: dict[str, Any] = {"own": own, "settings": settings, "flavours": self.flavours, "ways": self.ways}
        return Arm(name=name, title=title, base=self.base, **changed)


@cache
def arms() -> Mapping[str, Arm]:
    """All arms by name, in the flavour ``corrected``."""
    found: dict[str, Arm] = {}
    for name, table in toml("arms.toml")["arms"].items():
        found[name] = build(Arm, {"name": name, **table}, f"arms.toml: {name}").whole(found)
    for sweep, one in sweeps().items():
        for value, tag in one.points:
            found[f"{sweep}_{tag}"] = one.arm(f"{sweep}_{tag}", value).whole(found)
    return MappingProxyType(found)


@cache
def sweeps() -> Mapping[str, Sweep]:
    """The sweeps by name."""
    return {name: build(Sweep, table, f"sweeps.toml: {name}") for name, table in toml("sweeps.toml")["sweeps"].items()}


def arm(name: str, flavour: Flavour = "corrected", task: str | None = None) -> Arm:
    """The arm called ``name`` with the settings of ``flavour``, and of ``task`` if given."""
    if name not in arms():
        hint = did_you_mean(name, arms(), listed_by="tickets ls arms")
        raise TicketsError(f"no arm is called {name!r}", hint=hint, code="arms.unknown")
    found = arms()[name]
    settings = [*found.settings, *found.tasks.get(task or "", ())]
    if flavour == "as-released" and found.ways:
        way = toml("arms.toml")["ways"][found.ways]
        settings += [*way["settings"], *way.get("tasks", {}).get(task, ())]
    return replace(found, settings=(*settings, *found.flavours.get(flavour, ())))


def older(name: str) -> Lines:
    """The arms whose runs are shown beside this one's, under their own titles."""
    return tuple(other for other, one in arms().items() if one.beside == name) if name else ()


def swept(name: str, task: str | None = None) -> tuple[tuple[float, str], ...]:
    """The points of a sweep: each value and the arm that has it, on ``task`` its base where that has the same value."""
    one = sweeps()[name]
    itself = one.drawn.get(task or "")
    return tuple((float(value), one.base if value == itself else f"{name}_{tag}") for value, tag in one.points)


def tree(unit: Job, protocol_settings: Sequence[str] = ()) -> dict[str, Any]:
    """What ``experiment.recipe.resolve(unit.arm, tree, [arm(unit.arm).arm])`` takes; roles such as ``@real`` are still in it."""
    from robust_tickets.experiment.recipe import recipe_tree
    from robust_tickets.reproduce.protocol import rules

    own = arm(unit.arm, unit.flavour, unit.task)
    made = recipe_tree(own.recipe)
    made = {**made, "arms": _needed(made["arms"], own.arm), "title": own.title}
    made |= {"model": unit.backbone, "task": unit.task, "seed": unit.seed}
    for key in ("baseline", "attack", "about"):
        made.pop(key, None)
    if unit.flavour == "corrected":
        made.pop("train", None)
        tree_of(protocol_settings, tree_of(own.settings, made))
    else:
        common = tree_of(protocol_settings)
        made["train"] = {**common.pop("train", {}), **made.get("train", {})}
        tree_of(own.settings, _over(made, common))
    for table in made["arms"].values():
        if "searched_on" in table:
            table["searched_on"] = {**rules(table["searched_on"]["task"]).source, **table["searched_on"]}
    if not any(table.get(key) for table in made["arms"].values() for key in ("search", "ticket", "searched_on")):
        made.pop("search", None)
    return made


def _needed(tables: Mapping[str, Any], chosen: str) -> dict[str, Any]:
    """The chosen arm, and those whose ticket it takes or matches."""
    found = {chosen: tables[chosen]}
    for key in ("ticket", "like"):
        if tables[chosen].get(key) in tables:
            found |= _needed(tables, tables[chosen][key])
    return found


def _over(made: dict[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """``made`` with the tables of ``common`` merged in; single values of ``common`` win."""
    for key, value in common.items():
        if isinstance(value, Mapping) and isinstance(made.get(key), dict):
            _over(made[key], value)
        elif isinstance(value, Mapping) and isinstance(made.get(key), str):  # search = "random"
            made[key] = {"name": made[key], **value}
        else:
            made[key] = dict(value) if isinstance(value, Mapping) else value
    return made


@dataclass(frozen=True, kw_only=True)
class Row:
    """``name`` is the published row's, in a figure that of a line; ``x`` a figure's abscissa."""

    table: str
    name: str
    arm: str
    backbone: str
    tasks: Lines
    x: float | None = None
    seeds: int = 0  # runs that the paper has; 0: it does not say
    why: str = ""  # not empty: it cannot be made


def rows(id: str, flavour: Flavour = "corrected") -> tuple[Row, ...]:
    """Every row of a table, every point of a figure, in the papers' order."""
    return _rows(published.table(id).id, flavour)


def over(id: str) -> str | None:
    """The arm whose time a table's speed-ups are over."""
    table = published.table(id)
    found: str | None = toml(f"rows/{table.paper}.toml").get("over", {}).get(table.id)
    return found


@cache
def _rows(id: str, flavour: Flavour) -> tuple[Row, ...]:
    table = published.table(id)
    entries = toml(f"rows/{table.paper}.toml")["rows"][id]
    return tuple(row for entry in entries for row in _of_entry(entry, table, flavour))


def _of_entry(entry: Mapping[str, Any], table: published.Table, flavour: Flavour) -> Iterator[Row]:
    """The rows of an entry of ``rows/*.toml``, which has an arm, a sweep or why there is none."""
    printed = [row for row in table.rows if row.name == entry["name"]]
    tasks = tuple(entry.get("tasks") or dict.fromkeys(row.task for row in printed))
    why = entry.get("why") or (entry.get("unreleased", "") if flavour == "as-released" else "")
    points: dict[tuple[float | None, str], Lines] = {}
    if "sweep" in entry:
        for found in zip(*(swept(entry["sweep"], task) for task in tasks), strict=True):
            for task, point in zip(tasks, found, strict=True):  # on a task the base may stand for a point
                points[point] = (*points.get(point, ()), task)
    else:
        own = entry.get("arm", "") if flavour == "corrected" else entry.get("published", entry.get("arm", ""))
        points[float(entry["x"]) if "x" in entry else None, own] = tasks
    about = {"name": entry["name"], "seeds": entry.get("seeds", 0), "why": why}
    backbone = entry.get("backbone") or (printed[0].backbone if printed else BERT)
    for (x, arm), named in points.items():
        yield Row(table=table.id, arm="" if why else arm, backbone=backbone, tasks=named, x=x, **about)


TITLES: Mapping[str, Mapping[str, str]] = toml("contents.toml")["titles"]
ATTACKS = TITLES["attacks"]
FRESH = "_ticket"  # suffix of a chosen recipe that is run again with fresh seeds


@cache
def arm_title(name: str) -> str:
    """The arm's title in ``arms.toml``."""
    found = arms().get(name)
    return found.title if found is not None else name


def distinct_title(name: str, others: Collection[str]) -> str:
    """The arm's title; with whether its runs chose the recipe or are fresh, if ``others`` has both."""
    twin = name.removesuffix(FRESH) if name.endswith(FRESH) else name + FRESH
    known = arms()
    if twin not in others or twin not in known or name not in known or known[twin].settings != known[name].settings:
        return arm_title(name)
    return f"{arm_title(name)}, {'fresh runs' if name.endswith(FRESH) else 'runs that chose it'}"


def printed_as(metric: str, value: float) -> str:
    """A published number as the papers print it."""
    return f"{value:.0f}" if metric.endswith("_millions") else str(value)


def task_title(name: str) -> str:
    return TITLES["tasks"].get(name, name)


def backbone_title(name: str) -> str:
    return TITLES["backbones"].get(name, name)


def attack_title(name: str) -> str:
    """``textfooler-real-encoder50`` as “TextFooler, real lists, encoder that passes 50 %”."""
    first, *rest = name.split("-")
    return ", ".join([ATTACKS.get(first, first), *(TITLES["variants"].get(part, part) for part in rest)])


def attack_phrase(name: str) -> str:
    """The same inside a sentence: “TextFooler (real lists)”."""
    first, _, rest = attack_title(name).partition(", ")
    return f"{first} ({rest})" if rest else first


def variant(name: str, asked: str | None = None) -> str:
    """What distinguishes an attack from others that stand for ``asked``: its candidates and constraints, or its whole name."""
    _, _, rest = attack_title(name).partition(", ")
    return rest if rest and name.partition("-")[0] == (asked or name.partition("-")[0]) else attack_title(name)


def metric_title(metric: str, attack: str | None) -> str:
    title = TITLES["metrics"].get(metric, metric)
    return f"{ATTACKS.get(attack, attack)}, {title}" if attack else title
