"""A plan as the verb ``reproduce`` tells it: made from the flags, with its cost, what is done and what is missing. It imports no torch."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.errors import TicketsError
from robust_tickets.progress import duration, warn
from robust_tickets.reproduce.job import Flavour, Unit

if TYPE_CHECKING:
    from robust_tickets.reproduce.attacks import NamedAttack
    from robust_tickets.reproduce.cost import Cost, Device
    from robust_tickets.reproduce.outcome import Outcome
    from robust_tickets.reproduce.places import Places
    from robust_tickets.reproduce.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What was asked for, as the flags say it."""

    tables: tuple[str, ...]
    campaign: str | None
    jobs: tuple[str, ...]
    search_only: bool
    seeds: int | None
    flavour: Flavour
    only: tuple[str, ...]
    attacks: tuple[str, ...] | None
    data: Path | None
    models: Path | None
    resources: Path | None
    encoder: Path | None
    subset: bool
    results: Path
    out: Path

    def places(self) -> Places:
        from robust_tickets.reproduce.places import Places

        return Places.find(
            data=self.data, models=self.models, resources=self.resources, encoder=self.encoder, subset=self.subset
        )


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The plan with its places, what is done, and what the rest costs on this machine."""

    plan: Plan
    places: Places
    outcomes: tuple[Outcome, ...]
    cost: Cost
    device: Device
    refused: Mapping[Unit, str] = field(default_factory=dict)  # why results that are there are not taken
    absent: Path | None = None  # the folder of results, where there is none
    elsewhere: tuple[float, Device] | None = (
        None  # what it would take on the GPU that the numbers were measured on, where this is none
    )


def make(ask: Ask) -> Planned:
    """Plan what was asked for."""
    from robust_tickets.reproduce.campaign import campaign
    from robust_tickets.reproduce.cost import OURS, cost, device
    from robust_tickets.reproduce.foreign import foreign
    from robust_tickets.reproduce.only import read_only
    from robust_tickets.reproduce.outcome import read_all
    from robust_tickets.reproduce.plan import plan
    from robust_tickets.reproduce.protocol import part_of

    places = ask.places()
    only, on = read_only(ask.only), device()
    outcomes = read_all(ask.results)
    if ask.campaign is not None:
        made = campaign(ask.campaign, places, only=only, flavour=ask.flavour, seeds=ask.seeds, groups=ask.attacks)
    else:
        made = plan(ask.tables, seeds=ask.seeds, only=only, flavour=ask.flavour, places=places, groups=ask.attacks)
    asked = [one for one in outcomes if one.unit in made.attacks or (part_of(one.notes) and not ask.subset)]
    gpu, why = device(OURS), {one.unit: words for one in asked if (words := foreign(one, places))}
    outcomes = tuple(one for one in outcomes if one.unit not in why)
    here = cost(made, outcomes, on, places, store=ask.out)
    elsewhere = (cost(made, outcomes, gpu, places, store=ask.out).total, gpu) if on.name != OURS else None
    return Planned(
        plan=made, places=places, outcomes=outcomes, cost=here, device=on, refused=why, elsewhere=elsewhere,
        absent=None if ask.results.is_dir() else ask.results,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """Single training runs, asked for by their ids."""

    units: tuple[Unit, ...]
    attacks: Mapping[Unit, tuple[NamedAttack, ...]]
    searches: frozenset[Unit]
    places: Places


def jobs(ask: Ask) -> Jobs:
    """The jobs with the attacks that can be had here: those asked for, or the group ``main``; of a search alone none."""
    places = ask.places()
    units = tuple(Unit.of_id(id) for id in dict.fromkeys(ask.jobs))
    names = () if ask.search_only else ("main",) if ask.attacks is None else ask.attacks
    attacks = {unit: tuple(_attacks(unit, names, places)) for unit in units}
    _check_confirming(attacks)
    return Jobs(units=units, attacks=attacks, searches=frozenset(units if ask.search_only else ()), places=places)


def _attacks(unit: Unit, names: Sequence[str], places: Places) -> list[NamedAttack]:
    from robust_tickets.reproduce.attacks import attacks
    from robust_tickets.reproduce.places import missing

    there = []
    for one in attacks(unit.task, names, unit.flavour):
        lacks = [words for words in missing(places, unit, (one,)) if words not in missing(places, unit)]
        if lacks:
            warn(f"{unit.id}: {one.name} is left out: {'; '.join(lacks)}")
        else:
            there.append(one)
    return there


def _check_confirming(attacks: Mapping[Unit, Sequence[NamedAttack]]) -> None:
    """The split that confirms is attacked once: for what campaigns confirm, by runs that took no part in choosing it."""
    from robust_tickets.reproduce.attacks import CONFIRM
    from robust_tickets.reproduce.campaign import may_confirm

    for unit, own in attacks.items():
        if any(one.group == CONFIRM for one in own) and not may_confirm(unit):
            raise TicketsError(
                f"{unit.id} is not confirmed: that split is attacked once, for the chosen recipe and its rivals",
                hint="leave the confirming attacks out",
            )


def in_lines(planned: Planned, budget: float | None) -> list[str]:
    """The plan in a few lines."""
    plan, cost = planned.plan, planned.cost
    done, cannot = len(cost.done), [cell for cell in plan.cells if cell.why]
    made = {one.unit for one in planned.outcomes}
    there = sum(any(unit in made for unit in cell.units) for cell in cannot)
    barred = f", of which {len(cannot)} cannot be run here" if cannot else ""
    barred += f" ({there} of them {'has' if there == 1 else 'have'} results)" if there else ""
    searched = len(plan.searches)  # of these nothing is trained
    runs = [counted(len(plan.units) - searched, "training run")] if len(plan.units) > searched or not searched else []
    runs += [f"{searched} search{'es' * (searched != 1)} without training"] if searched else []
    lines = [plan.title, f"{counted(len(plan.cells), 'cell')}{barred}; {' and '.join(runs)}, {done or 'none'} done"]
    places = planned.places
    if planned.absent is not None:
        lines.append(
            f"results: there is no folder {planned.absent} here, so that nothing counts as done; --results names another"
        )
    for words, count in Counter(planned.refused.values()).items():
        lines.append(f"not taken: {counted(count, 'result')}: {words}; give another folder as --results")
    if places.data is None and plan.units:
        lacks = "" if find_spec("datasets") else ', which needs `pip install "robust-tickets[hub]"`'
        lines.append(f"data: from the Hub{lacks}; or --data FOLDER with one folder a task")
    if places.models is None and plan.units:
        lines.append("models: from the Hub; or --models FOLDER with one folder a backbone")
    if cost.units:
        parts = ", ".join(
            f"{kind} {duration(getattr(cost, kind))}"
            for kind in ("search", "train", "attack")
            if getattr(cost, kind) >= 1
        )
        other = f"; about {duration(planned.elsewhere[0])} on {planned.elsewhere[1].about}" if planned.elsewhere else ""
        lines.append(f"cost: about {duration(cost.total)} on {planned.device.about} ({parts}){other}")
    elif plan.units:
        lines.append("cost: nothing is left to run")
    if budget is not None and cost.units:
        lines.append(f"budget {duration(budget)}: about {_fit(cost, budget)} of {counted(len(cost.units), 'run')} fit")
    return lines


def show_plan(planned: Planned, budget: float | None, console: Any) -> None:
    """The same in the terminal, with a line for each arm, and what is missing."""
    from rich.table import Table
    from rich.text import Text

    for line in in_lines(planned, budget):
        console.print(Text(line), soft_wrap=True)
    grid = Table(box=None, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    rows = _arms(planned.plan, planned.cost)
    sets = list(
        dict.fromkeys(tuple(row["attacks"]) for row in rows if row["attacks"])
    )  # most arms have the same attacks
    for head in ("arm", "task", "runs", "done", "left", "attacks"):
        grid.add_column(head, justify="right" if head in ("runs", "done", "left") else "left", no_wrap=True)
    for row in rows:
        left = duration(row["seconds"]) if row["runs"] > row["done"] else "–"
        which = f" ({sets.index(tuple(row['attacks'])) + 1})" if len(sets) > 1 and row["attacks"] else ""
        shown = f"{len(row['attacks']) or '–'}{which}"
        grid.add_row(row["arm"], row["task"], str(row["runs"]), str(row["done"]), left, shown)
    if rows:
        console.print()
        console.print(grid)
    for i, names in enumerate(sets, start=1):
        first = f"attacks{f' ({i})' * (len(sets) > 1)}: "
        console.print(
            Text(textwrap.fill(", ".join(names), console.width, initial_indent=first, subsequent_indent="  "))
        )
    lacking = reasons(planned.plan)
    if lacking:
        console.print("\nmissing")
    for why, count in lacking.items():
        words = f"{counted(count, 'cell') if count else 'some attacks'}: {why}"
        console.print(
            Text(
                textwrap.fill(words, console.width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
            )
        )


def reasons(plan: Plan) -> dict[str, int]:
    """What is missing, each once, and how many cells cannot be made without it; none: an attack beside others."""
    found = dict.fromkeys(plan.missing, 0)
    for cell in filter(lambda cell: cell.why, plan.cells):
        for words in [words for words in plan.missing if words in cell.why] or [cell.why]:
            found[words] = found.get(words, 0) + 1
    return found


def _arms(plan: Plan, cost: Cost) -> list[dict[str, Any]]:
    """A line for each arm and task: its runs, what of them is done, what the others cost and what attacks them."""
    groups: dict[tuple[str, str, str], list[Unit]] = {}
    for unit in plan.units:
        groups.setdefault((unit.backbone, unit.task, unit.arm), []).append(unit)
    return [
        {
            "backbone": backbone, "task": task, "arm": arm, "runs": len(units), "done": len([u for u in units if u not in cost.units]),
            "seconds": sum(cost.units.get(unit, 0.0) for unit in units),
            "attacks": list(dict.fromkeys(one.name for unit in units for one in plan.attacks[unit])),
        }
        for (backbone, task, arm), units in groups.items()
    ]  # fmt: skip


def _fit(cost: Cost, budget: float) -> int:
    """How many runs of the order would be ended in time."""
    count, spent = 0, 0.0
    for seconds in cost.units.values():
        spent += seconds
        count += spent <= budget
    return count


def as_data(planned: Planned, budget: float | None) -> dict[str, Any]:
    """The same for JSON."""
    plan, cost = planned.plan, planned.cost
    told: dict[str, Any] = {
        "title": plan.title,
        "device": planned.device.about,
        "cells": [_cell(cell) for cell in plan.cells],
        "units": [unit.id for unit in plan.units],
        "arms": _arms(plan, cost),
        "done": [unit.id for unit in cost.done],
        "refused": list(planned.refused.values()),
        "seconds": {"search": cost.search, "train": cost.train, "attack": cost.attack, "total": cost.total},
        "elsewhere": {"device": planned.elsewhere[1].about, "seconds": planned.elsewhere[0]}
        if planned.elsewhere
        else None,
        "missing": list(plan.missing),
    }
    return told if budget is None else {**told, "budget": budget, "fit": _fit(cost, budget)}


def _cell(cell: Any) -> dict[str, Any]:
    return {**asdict(cell), "units": [unit.id for unit in cell.units]}


def counted(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
