"""Campaigns: sets of runs that answer a question, fixed beforehand in ``campaign.toml``. A campaign is planned and run as a table is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from robust_tickets.config import build
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce import published
from robust_tickets.reproduce.arms import arm
from robust_tickets.reproduce.attacks import CONFIRM, attacks, confirms
from robust_tickets.reproduce.claims import first_seed
from robust_tickets.reproduce.job import BERT, Flavour, Unit
from robust_tickets.reproduce.paths import Places
from robust_tickets.reproduce.plan import Asked, Plan, of_table, settle
from robust_tickets.reproduce.published import toml


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
    fresh: bool = False  # what took part in a choice is run with seeds that did not


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """A question, and the runs that answer it."""

    title: str
    parts: tuple[Part, ...]


@cache
def campaigns() -> Mapping[str, Campaign]:
    """All of them, by letter."""
    tables = toml("campaign.toml")["campaigns"]
    return {name: build(Campaign, table, f"campaign.toml: {name}") for name, table in tables.items()}


def campaign(
    name: str, places: Places, *, only: Sequence[tuple[str, str]] = (), flavour: Flavour = "corrected", seeds: int | None = None,
    groups: Sequence[str] | None = None,
) -> Plan:  # fmt: skip
    """The plan of a campaign, or of several (``A,B``), one after the other; ``seeds`` and ``groups``, if given, replace its own."""
    named = [_called(one.strip()) for one in name.split(",")]
    parts = [lines for one in dict.fromkeys(named) for lines in _asked(one, seeds, groups, flavour)]
    asked = [replace(line, part=i) for i, lines in enumerate(parts) for line in lines]
    title = "; ".join(f"campaign {one}: {campaigns()[one].title}" for one in dict.fromkeys(named))
    return settle(title, asked, only=only, flavour=flavour, places=places)


def _called(name: str) -> str:
    known = {one.upper(): one for one in campaigns()}
    if name.upper() not in known:
        raise TicketsError(f"no campaign is called {name!r}", hint=did_you_mean(name, campaigns()))
    return known[name.upper()]


def _asked(name: str, seeds: int | None, groups: Sequence[str] | None, flavour: Flavour) -> list[list[Asked]]:
    """What a campaign asks for, part by part."""
    one = campaigns()[name]
    if any(map(confirms, groups or ())) and not any(confirms(own) for part in one.parts for own in part.attacks):
        raise TicketsError(
            f"campaign {name} does not confirm: the split for that is attacked once, for the claims about the chosen recipe",
            hint="`tickets reproduce --campaign B` does it",
        )
    return [_lines(name, part, seeds, groups, flavour) for part in one.parts]


def may_confirm(unit: Unit) -> bool:
    """Whether a campaign attacks the split that confirms for a job: of what took part in a choice for fresh runs alone."""
    parts = [part for one in campaigns().values() for part in one.parts if any(map(confirms, part.attacks))]
    return any(unit.arm in part.arms for part in parts) and unit.seed >= first_seed(unit.arm)


def _lines(name: str, part: Part, seeds: int | None, groups: Sequence[str] | None, flavour: Flavour) -> list[Asked]:
    count = seeds if seeds is not None else part.seeds
    asked = part.attacks if groups is None else _narrowed(groups, part.attacks)
    found = []
    for id in part.tables:
        for line in of_table(published.table(id), count, asked if asked or groups is not None else None, flavour):
            if (not part.tasks or line.task in part.tasks) and line.backbone in part.backbones:
                found.append(line)
    for task in part.tasks if part.arms else ():
        columns: list[Any] = [
            ("clean", None, None),
            *(("aua", one.name, None) for one in attacks(task, groups=asked, flavour=flavour)),
        ]
        for backbone in part.backbones:
            for own in part.arms:
                first = first_seed(own) if part.fresh else 0
                runs = [
                    (seed, repeat)
                    for seed in range(first, first + count)
                    for repeat in range(part.repeats if seed == first else 1)
                ]
                found.append(
                    Asked(
                        table=f"campaign {name}", row=arm(own).title, task=task, backbone=backbone, arm=own, columns=tuple(columns),
                        seeds=tuple(runs), groups=asked, whole=True,
                    )
                )  # fmt: skip
    return found


def _narrowed(groups: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """The groups that are asked for; of those that confirm no more than the part has itself."""
    confirming = [one for one in own if confirms(one)]
    found = []
    for one in groups:
        if not confirms(one) or one in confirming or CONFIRM in confirming:
            found.append(one)
        elif one == CONFIRM:
            found += confirming
    return tuple(dict.fromkeys(found))
