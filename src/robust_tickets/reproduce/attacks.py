"""The attacks of the protocol by name, from ``attacks.toml``: which recipe, which candidates, how many examples of which split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args

from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce.job import Flavour
from robust_tickets.reproduce.paths import ROLES, Places
from robust_tickets.reproduce.published import toml
from robust_tickets.reproduce.rules import rules

HALF = "float16"
CONFIRM = "confirm"
GROUPS = ("main", "more", "probability", "first", "encoder", "calibrated", CONFIRM)


@dataclass(frozen=True, kw_only=True)
class NamedAttack:
    """One attack on one task. ``table`` is a recipe's [attack] with roles for its resources; ``placed`` has paths instead."""

    name: str
    about: str
    group: str  # of GROUPS
    table: dict[str, Any] = field(hash=False)
    candidates: str = ""  # real | substitute, where its words come from one of these
    stands_for: str | None = None  # the published attack it is compared with

    @property
    def roles(self) -> tuple[str, ...]:
        """The resources it needs, by role."""
        return tuple(value for value in self.table.values() if isinstance(value, str) and value in ROLES)

    def placed(self, places: Places, *, cuda: bool = False) -> dict[str, Any]:
        """The [attack] table with paths; what is looked for elsewhere is left out of it. ``cuda``: as it runs on a GPU."""
        return {**places.placed(self.table), **({"precision": HALF} if cuda else {})}


def attacks(task: str, groups: Sequence[str] = ("main",), flavour: Flavour = "corrected") -> tuple[NamedAttack, ...]:
    """The attacks of some groups on a task, in the order of the file; a group may have none for a task. A single attack's name does too."""
    known = [*GROUPS, *(one.name for one in _all(task, flavour))]
    for group in groups:
        if group not in known:
            raise TicketsError(
                f"no group of attacks on {task}, and no attack, is called {group!r}", hint=did_you_mean(group, known)
            )
    return tuple(attack for attack in _all(task, flavour) if attack.group in groups or attack.name in groups)


def confirms(name: str) -> bool:
    """Whether a group, or an attack, is of the split that is attacked once."""
    return name == CONFIRM or name.endswith(f"-{CONFIRM}")


def attack(task: str, name: str, flavour: Flavour = "corrected") -> NamedAttack:
    """The attack of this name on a task."""
    known = {one.name: one for one in _all(task, flavour)}
    if name not in known:
        raise TicketsError(f"no attack on {task} is called {name!r}", hint=did_you_mean(name, known))
    return known[name]


def _told() -> dict[str, Any]:
    return toml("attacks.toml")


@cache
def _all(task: str, flavour: Flavour) -> tuple[NamedAttack, ...]:
    if flavour not in get_args(Flavour):
        raise TicketsError(f"no flavour is called {flavour!r}", hint=did_you_mean(flavour, get_args(Flavour)))
    held, made = rules(task), dict[str, NamedAttack]()
    binary = len(TASKS[task].labels) == 2
    common = {**_told()["flavours"][flavour], "n": held.n}
    if flavour == "corrected":
        common["scoring"] = "log-odds" if binary else "probability"
    for entry in _told()["attacks"]:
        if entry["group"] == "calibrated" and binary:
            continue
        if (entry["group"] == CONFIRM and held.confirm is None) or task not in entry.get("tasks", (task,)):
            continue
        for one in _made(entry, common, made, held.confirm):
            made[one.name] = one
    return tuple(made.values())


def _made(
    entry: Mapping[str, Any], common: Mapping[str, Any], before: Mapping[str, NamedAttack], confirm: str | None
) -> Iterator[NamedAttack]:
    """The attacks of an entry: one for each candidate set, or for each attack that it repeats on other examples."""
    if "of" in entry:
        for other in (before[name] for name in entry["of"]):
            table = {
                **other.table,
                **{key: confirm if value == "@confirm" else value for key, value in entry["table"].items()},
            }
            about = f"{other.about}; {entry['about'].format(confirm=confirm)}"
            name = entry["name"].format(name=other.name)
            yield NamedAttack(name=name, about=about, group=entry["group"], table=table, candidates=other.candidates)
        return
    if "{set}" not in entry["name"]:
        yield _one(entry, entry["name"], {**common, **entry["table"]}, entry["about"], "")
        return
    for name, chosen in _told()["sets"].items():
        table = {key: chosen["role"] if value == "@set" else value for key, value in entry["table"].items()}
        if "accepts" in entry:
            table["sentence_similarity"] = chosen["thresholds"][entry["accepts"]]
        yield _one(
            entry, entry["name"].format(set=name), {**common, **table}, f"{entry['about']}; {chosen['about']}", name
        )


def _one(entry: Mapping[str, Any], name: str, table: Mapping[str, Any], about: str, candidates: str) -> NamedAttack:
    told = {"group": entry["group"], "stands_for": entry.get("stands_for")}
    return NamedAttack(name=name, about=about, table=dict(table), candidates=candidates, **told)
