"""Campaigns: sets of runs that answer a question, fixed beforehand in ``campaign.toml``. A campaign is planned and run as a table is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from robust_tickets.config import build
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce import published
from robust_tickets.reproduce.attacks import CONFIRM, attacks, confirms
from robust_tickets.reproduce.claims import EQUAL, first_seed, form_of, winner
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.places import Places
from robust_tickets.reproduce.plan import Asked, Plan, of_table, settle
from robust_tickets.reproduce.rows import arm
from robust_tickets.reproduce.toml import toml
from robust_tickets.reproduce.unit import BERT, Flavour, Unit


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
    fresh: bool = False  # what took part in a screening is run with seeds that did not


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """In an arm's name ``{winner}`` is the configuration that the screening chose, ``{own}`` its ticket, ``{plain}`` the fine-tuning
    that it is to beat; ``{finetune}`` and ``{freelb3}`` are those two for as many epochs as the winner has.
    """

    title: str
    parts: tuple[Part, ...]

    @property
    def waits(self) -> bool:
        return any("{" in arm for part in self.parts for arm in part.arms)


@cache
def campaigns() -> Mapping[str, Campaign]:
    """All of them, by letter."""
    tables = toml("campaign.toml")["campaigns"]
    return {name: build(Campaign, table, f"campaign.toml: {name}") for name, table in tables.items()}


def campaign(
    name: str, places: Places, *, only: Sequence[tuple[str, str]] = (), flavour: Flavour = "corrected", seeds: int | None = None,
    groups: Sequence[str] | None = None, outcomes: Sequence[Outcome] = (),
) -> Plan:  # fmt: skip
    """The plan of a campaign, or of several (``A,B``), one after the other; ``seeds`` and ``groups``, if given, replace its own.

    ``outcomes`` tell who won a screening before it.
    """
    named = [_called(one.strip()) for one in name.split(",")]
    parts = [lines for one in dict.fromkeys(named) for lines in _asked(one, seeds, groups, flavour, outcomes)]
    asked = [replace(line, part=i) for i, lines in enumerate(parts) for line in lines]
    title = "; ".join(f"campaign {one}: {campaigns()[one].title}" for one in dict.fromkeys(named))
    return settle(title, asked, only=only, flavour=flavour, places=places)


def _called(name: str) -> str:
    known = {one.upper(): one for one in campaigns()}
    if name.upper() not in known:
        raise TicketsError(f"no campaign is called {name!r}", hint=did_you_mean(name, campaigns()))
    return known[name.upper()]


def _asked(
    name: str, seeds: int | None, groups: Sequence[str] | None, flavour: Flavour, outcomes: Sequence[Outcome]
) -> list[list[Asked]]:
    """What a campaign asks for, part by part."""
    one = campaigns()[name]
    roles = chosen(outcomes) if one.waits else {}
    if one.waits and not roles:
        raise TicketsError(
            f"campaign {name} confirms the configuration that the screening chooses, and the screening is not all run",
            hint="run `tickets reproduce --campaign A` and `--campaign B` first, with the same --results",
        )
    if any(map(confirms, groups or ())) and not any(confirms(own) for part in one.parts for own in part.attacks):
        raise TicketsError(
            f"campaign {name} does not confirm: the split for that is attacked once, for the claims about the recipe that wins",
            hint="`tickets reproduce --campaign B2` does it",
        )
    return [_lines(name, part, roles, seeds, groups, flavour) for part in one.parts]


def chosen(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """The arms behind the names in braces, once the screening has chosen; before, none."""
    won, plain = winner(outcomes), winner(outcomes, among="plain")
    if not (won and plain):
        return {}
    return {"winner": won, "plain": plain, **{role: form_of(f"@{role}", won) for role in ("own", *EQUAL)}}


def may_confirm(unit: Unit, outcomes: Sequence[Outcome]) -> bool:
    """Whether a campaign attacks the split that confirms for a unit: of what was screened for the chosen ones alone, and fresh runs."""
    roles = chosen(outcomes)
    parts = [part for one in campaigns().values() for part in one.parts if any(map(confirms, part.attacks))]
    arms = {written.format(**roles) for part in parts for written in part.arms if roles or "{" not in written}
    return unit.arm in arms and unit.seed >= first_seed(unit.arm)


def _lines(
    name: str, part: Part, roles: Mapping[str, str], seeds: int | None, groups: Sequence[str] | None, flavour: Flavour
) -> list[Asked]:
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
            for own in dict.fromkeys(written.format(**roles) for written in part.arms):
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
