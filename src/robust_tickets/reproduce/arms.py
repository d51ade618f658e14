"""Arms: every distinct model that the tables, figures and campaigns ask for, from ``arms.toml``, ``sweeps.toml``
and ``sturdy.toml``.

An arm is a shipped recipe, the arm of it that is trained, and settings written over it. A flavour adds its own: ``as-published`` the
paper's lengths where the recipe has not got them already, ``as-released`` the quirks of the released code (``ways``). Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.experiment.recipe import recipe_tree
from robust_tickets.reproduce import published
from robust_tickets.reproduce.job import BERT, Flavour, Unit
from robust_tickets.reproduce.published import toml

FLAVOURS: tuple[Flavour, ...] = get_args(Flavour)
ROLE = re.compile(r"=@([a-z0-9_/]+)$")  # the value of a setting that Places fills in


@dataclass(frozen=True, kw_only=True)
class Arm:
    """``arm`` is the one of ``recipe`` that is trained; ``settings`` are key=value as ``tickets run --set``.

    ``beside``: the arm that papers' rows ask for, beside whose runs those of this one stand.
    """

    name: str
    title: str
    recipe: str
    arm: str
    settings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    beside: str = ""

    @property
    def roles(self) -> tuple[str, ...]:
        """What it reads besides model and task, as roles of Places: ``real``, ``corpus``, ``data/imdb``."""
        return tuple(dict.fromkeys(found[1] for one in self.settings if (found := ROLE.search(one))))


@dataclass(frozen=True, kw_only=True)
class _Told:
    """An arm as it is written down: settings for all, for a task, for a flavour."""

    arm: Arm
    tasks: Mapping[str, tuple[str, ...]]
    ways: str = ""
    flavours: Mapping[str, tuple[str, ...]]


def arms() -> Mapping[str, Arm]:
    """All of them, in the flavour ``corrected``, by name."""
    return MappingProxyType({name: told.arm for name, told in _all().items()})


def arm(name: str, flavour: Flavour = "corrected", task: str | None = None) -> Arm:
    """One of them with the settings of ``flavour``, and of ``task`` where it is given."""
    if name not in _all():
        raise TicketsError(f"no arm is called {name!r}", hint=did_you_mean(name, _all(), listed_by="tickets ls arms"))
    if flavour not in FLAVOURS:
        raise TicketsError(f"no flavour is called {flavour!r}", hint=did_you_mean(flavour, FLAVOURS))
    told = _all()[name]
    settings = [*told.arm.settings, *told.tasks.get(task or "", ())]
    if flavour == "as-released" and told.ways:
        ways = toml("arms.toml")["ways"][told.ways]
        settings += [*ways["settings"], *ways.get("tasks", {}).get(task or "", ())]
    settings += told.flavours.get(flavour, ())
    return replace(told.arm, settings=tuple(settings))


def older(name: str) -> tuple[str, ...]:
    """The arms whose runs stand beside this one's, under their own titles."""
    return tuple(other for other, one in arms().items() if one.beside == name) if name else ()


def swept(name: str, task: str | None = None) -> tuple[tuple[float, str], ...]:
    """The points of a sweep: each value and the arm that has it, on ``task`` its base where that is drawn so itself."""
    sweeps = toml("sweeps.toml")["sweeps"]
    if name not in sweeps:
        raise TicketsError(f"no sweep is called {name!r}", hint=did_you_mean(name, sweeps))
    table = sweeps[name]
    itself = table.get("drawn", {}).get(task)
    return tuple(
        (float(value), table["base"] if value == itself else f"{name}_{tag}") for value, tag in _points_of(table)
    )


@cache
def _all() -> dict[str, _Told]:
    words = toml("arms.toml")
    told: dict[str, _Told] = {}
    for name, table in words["arms"].items():
        told[name] = _changed(told[table["base"]], name, table) if "base" in table else _table_of(name, table)
    for name, table in toml("sweeps.toml")["sweeps"].items():
        for value, tag in _points_of(table):
            told[f"{name}_{tag}"] = _changed(told[table["base"]], f"{name}_{tag}", _filled(table, value))
    return told


def _table_of(name: str, table: Mapping[str, Any]) -> _Told:
    chosen = table.get("arm", name)
    return _Told(
        arm=Arm(
            name=name,
            title=table["title"],
            recipe=table["recipe"],
            arm=chosen,
            settings=(*table.get("settings", ()), *_inside(chosen, table.get("own", ()))),
            notes=tuple(table.get("notes", ())),
            beside=table.get("beside", ""),
        ),
        tasks={task: tuple(settings) for task, settings in table.get("tasks", {}).items()},
        ways=table.get("ways", ""),
        flavours={flavour: tuple(table[flavour]) for flavour in FLAVOURS if flavour in table},
    )


def _changed(base: _Told, name: str, table: Mapping[str, Any]) -> _Told:
    """``base`` under another name, with settings of ``table`` after its own."""
    more = (*table.get("settings", ()), *_inside(base.arm.arm, table.get("own", ())))
    changed = {"name": name, "title": table["title"], "settings": (*base.arm.settings, *more)}
    return replace(
        base,
        arm=replace(base.arm, **changed, beside="", notes=(*base.arm.notes, *table.get("notes", ()))),
        ways=table.get("ways", base.ways),
        flavours={
            flavour: (*base.flavours.get(flavour, ()), *table.get(flavour, ()))
            for flavour in FLAVOURS
            if flavour in base.flavours or flavour in table
        },
    )


def _inside(chosen: str, own: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"arms.{chosen}.{setting}" for setting in own)


def _points_of(table: Mapping[str, Any]) -> list[tuple[float, str]]:
    return list(zip(table["values"], table.get("tags", map(str, table["values"])), strict=True))


def _filled(table: Mapping[str, Any], value: float) -> dict[str, Any]:
    """A sweep's table with ``value`` in place of every {}; in its title {%} is the value in percent."""
    said = {"title": table["title"].replace("{}", f"{value:.4g}").replace("{%}", f"{100 * value:.3g} %")}
    for key in ("settings", "own"):
        said[key] = [one.replace("{}", repr(value)) for one in table.get(key, ())]
    return {**table, **said}


def tree(
    unit: Unit, protocol_settings: Sequence[str] = (), attacks: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """What ``walk.recipe.resolve(unit.arm, tree, [arm(unit.arm).arm])`` takes; roles such as ``@real`` are still in it."""
    from robust_tickets.experiment.recipe import tree_of

    own = arm(unit.arm, unit.flavour, unit.task)
    made = recipe_tree(own.recipe)
    made = {**made, "arms": _needed(made["arms"], own.arm, own.recipe), "title": own.title}
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
            table["searched_on"] = {**_data(table["searched_on"]["task"]), **table["searched_on"]}
    if not any(table.get(key) for table in made["arms"].values() for key in ("search", "ticket", "searched_on")):
        made.pop("search", None)
    return {**made, "attack": [dict(one) for one in attacks]} if attacks else made


def _needed(tables: Mapping[str, Any], chosen: str, recipe: str) -> dict[str, Any]:
    """The chosen arm, and those whose ticket it takes or matches."""
    if chosen not in tables:
        raise TicketsError(f"the recipe {recipe} has no arm {chosen!r}", hint=did_you_mean(chosen, tables))
    found: dict[str, Any] = {}
    wanted = [chosen]
    while wanted:
        name = wanted.pop()
        found[name] = tables[name]
        wanted += [
            tables[name][key]
            for key in ("ticket", "like")
            if tables[name].get(key) in tables and tables[name][key] not in found
        ]
    return found


def _over(made: dict[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """``common`` written into ``made`` where tables meet; of single values it wins: where the data lie, say."""
    for key, value in common.items():
        if isinstance(value, Mapping) and isinstance(made.get(key), dict):
            _over(made[key], value)
        elif isinstance(value, Mapping) and isinstance(made.get(key), str):  # search = "random"
            made[key] = {"name": made[key], **value}
        else:
            made[key] = dict(value) if isinstance(value, Mapping) else value
    return made


def _data(task: str) -> dict[str, Any]:
    """What the protocol says of the data of another task that is searched on."""
    from robust_tickets.reproduce.protocol import rules

    return rules(task).source


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


TASKS = {
    "sst2": "SST-2", "imdb": "IMDB", "ag_news": "AG News", "mrpc": "MRPC", "rte": "RTE", "qnli": "QNLI", "qqp": "QQP", "mnli": "MNLI",
    "mr": "MR",
}  # fmt: skip
ATTACKS = {
    "textfooler": "TextFooler", "textbugger": "TextBugger", "bertattack": "BERT-Attack", "bertattack_papers": "BERT-Attack of the papers",
    "pwws": "PWWS", "deepwordbug": "DeepWordBug",
}  # fmt: skip
METRICS = {
    "clean": "clean", "aua": "under attack", "suc": "attack wins", "queries": "queries", "speedup_vs_pgd": "× PGD",
    "speedup_vs_freelb": "× FreeLB", "speedup_lost_to_search": "× lost to search", "encoder_millions": "M, encoder",
    "total_millions": "M, all",
}  # fmt: skip
FRESH = "_ticket"  # ends the name under which a screened ticket is run again with other seeds than those that chose it
BACKBONES = {"bert-base-uncased": "BERT-base", "roberta-base": "RoBERTa-base"}
VARIANTS = {
    "real": "real lists", "substitute": "substitute lists", "confirm": "held out", "encoder50": "encoder that passes 50 %",
    "encoder75": "encoder that passes 75 %", "encoder90": "encoder that passes 90 %",
}  # fmt: skip


@cache
def arm_title(name: str) -> str:
    """As ``arms.toml`` calls it."""
    found = arms().get(name)
    return found.title if found is not None else name


def told_apart(name: str, others: Collection[str]) -> str:
    """Its title; where one recipe stands twice among ``others``, what chose it and what was run afresh, with which of them it is."""
    twin = name.removesuffix(FRESH) if name.endswith(FRESH) else name + FRESH
    known = arms()
    if twin not in others or twin not in known or name not in known or known[twin].settings != known[name].settings:
        return arm_title(name)
    return f"{arm_title(name)}, {'fresh runs' if name.endswith(FRESH) else 'runs that chose it'}"


def printed_as(metric: str, value: float) -> str:
    """A published number as the papers print it."""
    return f"{value:.0f}" if metric.endswith("_millions") else str(value)


def task_title(name: str) -> str:
    return TASKS.get(name, name)


def backbone_title(name: str) -> str:
    return BACKBONES.get(name, name)


def attack_title(name: str) -> str:
    """``textfooler-real-encoder50`` as “TextFooler, real lists, encoder that passes 50 %”."""
    first, *rest = name.split("-")
    return ", ".join([ATTACKS.get(first, first), *(VARIANTS.get(part, part) for part in rest)])


def attack_phrase(name: str) -> str:
    """The same inside a sentence: “TextFooler (real lists)”."""
    first, _, rest = attack_title(name).partition(", ")
    return f"{first} ({rest})" if rest else first


def variant(name: str, asked: str | None = None) -> str:
    """What tells an attack from others that stand for ``asked``: its candidates and constraints; all of its name if its kind differs."""
    _, _, rest = attack_title(name).partition(", ")
    return rest if rest and name.partition("-")[0] == (asked or name.partition("-")[0]) else attack_title(name)


def metric_title(metric: str, attack: str | None) -> str:
    return f"{ATTACKS.get(attack, attack)}, {METRICS.get(metric, metric)}" if attack else METRICS.get(metric, metric)
