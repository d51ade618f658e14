"""Arms: every distinct model that the tables, figures and campaigns ask for, from ``arms.toml``, ``sweeps.toml``
and ``sturdy.toml``.

An arm is a shipped recipe, the arm of it that is trained, and settings written over it. A flavour adds its own: ``as-published`` the
paper's lengths where the recipe has not got them already, ``as-released`` the quirks of the released code (``ways``). Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce.job import Flavour
from robust_tickets.reproduce.toml import toml

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
    return tuple((float(value), table["base"] if value == itself else f"{name}_{tag}") for value, tag in _points(table))


@cache
def _all() -> dict[str, _Told]:
    words = toml("arms.toml")
    told: dict[str, _Told] = {}
    for name, table in words["arms"].items():
        told[name] = _changed(told[table["base"]], name, table) if "base" in table else _told(name, table)
    for name, table in toml("sweeps.toml")["sweeps"].items():
        for value, tag in _points(table):
            told[f"{name}_{tag}"] = _changed(told[table["base"]], f"{name}_{tag}", _filled(table, value))
    return told


def _told(name: str, table: Mapping[str, Any]) -> _Told:
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


def _points(table: Mapping[str, Any]) -> list[tuple[float, str]]:
    return list(zip(table["values"], table.get("tags", map(str, table["values"])), strict=True))


def _filled(table: Mapping[str, Any], value: float) -> dict[str, Any]:
    """A sweep's table with ``value`` in place of every {}; in its title {%} is the value in percent."""
    said = {"title": table["title"].replace("{}", f"{value:.4g}").replace("{%}", f"{100 * value:.3g} %")}
    for key in ("settings", "own"):
        said[key] = [one.replace("{}", repr(value)) for one in table.get(key, ())]
    return {**table, **said}
