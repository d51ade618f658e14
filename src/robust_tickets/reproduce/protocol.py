"""The protocol: the rules of each task, the named attacks, and the settings that they write over a job's recipe.

The numbers are in ``protocol.toml`` and ``attacks.toml``. ``check_task`` refuses rows that are not the protocol's, before anything is trained.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.config import build
from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce.job import Flavour, Job
from robust_tickets.reproduce.published import toml

if TYPE_CHECKING:
    from robust_tickets.data.task import Task
    from robust_tickets.reproduce.paths import Paths

CARVED, NOTHING = "carved", "nothing"
HALF = "float16"
CONFIRM = "confirm"
GROUPS = ("main", "more", "probability", "first", "encoder", "calibrated", CONFIRM)
ROLES = ("@real", "@substitute", "@encoder", "@tagger", "@masked", "@corpus")  # files that ``Paths`` finds
_PART = re.compile(r"\w+: [\d,]+ of the [\d,]+ rows of \w+")  # check_task's note on a subset


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rows of a task. ``train``: the official number, then those of known subsets."""

    train: tuple[int, ...]
    selects: str  # CARVED, NOTHING or a split
    attacked: str
    rows: int | None = None  # of the attacked split
    confirm: str | None = None
    confirm_rows: int | None = None
    n: int  # examples of an attack; 0: all
    subsets: Mapping[str, str] = field(default_factory=dict)  # a note on one, by its rows

    @property
    def source(self) -> dict[str, Any]:
        """A recipe's settings of the data (``data.source.TaskSource``)."""
        selects = {NOTHING: {"validation": "none"}, CARVED: {}}.get(self.selects, {"selects": self.selects})
        return {**selects, "attacked": self.attacked, "drop_seen": True, "split_seed": constants().splits["seed"]}

    @property
    def needs(self) -> tuple[str, ...]:
        """Splits that the data must have."""
        named = () if self.selects in (CARVED, NOTHING) else (self.selects,)
        return ("train", *named, self.attacked)


@dataclass(frozen=True, kw_only=True)
class Constants:
    """``protocol.toml``. ``training``: of every arm in the flavour corrected; ``always``: in all flavours."""

    training: Mapping[str, Any]
    tickets: Mapping[str, Any]
    always: Mapping[str, Any]
    splits: Mapping[str, int]
    tasks: Mapping[str, Rules]
    refused: Mapping[str, str]


@cache
def constants() -> Constants:
    """The file itself."""
    return build(Constants, toml("protocol.toml"), "protocol.toml")  # type: ignore[no-any-return]


def rules(task: str) -> Rules:
    """The rules of a task; one that the protocol refuses or does not know is an error."""
    known, refused = constants().tasks, constants().refused
    if task not in known:
        message = f"the protocol has no task {task!r}" + (f": {refused[task]}" if task in refused else "")
        raise TicketsError(message, hint=did_you_mean(task, known), code="protocol.unknown_task")
    return known[task]


@dataclass(frozen=True, kw_only=True)
class NamedAttack:
    """One attack on one task. ``table`` is a recipe's [attack] with roles for its resources; ``placed`` has paths instead."""

    name: str
    group: str  # of GROUPS
    table: dict[str, Any] = field(hash=False)
    candidates: str = ""  # real | substitute, where its words come from one of these
    stands_for: str | None = None  # the published attack it is compared with

    @property
    def roles(self) -> tuple[str, ...]:
        """The resources it needs, by role."""
        return tuple(value for value in self.table.values() if value in ROLES)

    def placed(self, paths: Paths, *, cuda: bool = False) -> dict[str, Any]:
        """The [attack] table with paths. ``cuda``: as it runs on a GPU."""
        return {**paths.placed(self.table), **({"precision": HALF} if cuda else {})}


def attacks(task: str, groups: Sequence[str] = ("main",), flavour: Flavour = "corrected") -> tuple[NamedAttack, ...]:
    """The attacks of some groups on a task, in the order of the file; a group may have none. A single attack's name does too."""
    known = _named(task, flavour)
    for group in groups:
        if group not in GROUPS and group not in known:
            hint = did_you_mean(group, [*GROUPS, *known])
            raise TicketsError(f"no attack or group on {task}: {group!r}", hint=hint, code="protocol.unknown_group")
    return tuple(attack for attack in known.values() if attack.group in groups or attack.name in groups)


def attack(task: str, name: str, flavour: Flavour = "corrected") -> NamedAttack:
    """The attack of this name on a task."""
    known = _named(task, flavour)
    if name not in known:
        hint = did_you_mean(name, known)
        raise TicketsError(f"no attack on {task} is called {name!r}", hint=hint, code="protocol.unknown_attack")
    return known[name]


def refuse_confirming(names: Iterable[str]) -> None:
    """Refuse groups or attacks of the split that is attacked once, for the claims about the chosen recipe."""
    if any(name == CONFIRM or name.endswith(f"-{CONFIRM}") for name in names):
        message = "the split that confirms is attacked once, for the claims about the chosen recipe"
        raise TicketsError(message, hint="`tickets reproduce --campaign B` does it", code="protocol.confirm")


@cache
def _named(task: str, flavour: Flavour) -> dict[str, NamedAttack]:
    """All attacks on a task. A name with {set} is one for each candidate set, with {name} one for each of ``of``."""
    file, held, binary = toml("attacks.toml"), rules(task), len(TASKS[task].labels) == 2
    common = {**file["flavours"][flavour], "n": held.n}
    if flavour == "corrected":
        common["scoring"] = "log-odds" if binary else "probability"
    found: dict[str, NamedAttack] = {}
    for entry in file["attacks"]:
        group = entry["group"]
        impossible = (group == "calibrated" and binary) or (group == CONFIRM and held.confirm is None)
        if impossible or task not in entry.get("tasks", [task]):
            continue
        for name in entry.get("of", ()):
            table = {**found[name].table, **entry["table"], **({"split": held.confirm} if group == CONFIRM else {})}
            own = entry["name"].format(name=name)
            found[own] = replace(found[name], name=own, group=group, table=table, stands_for=None)
        if "of" in entry:
            continue
        for candidates, about in (file["sets"] if "{set}" in entry["name"] else {"": {}}).items():
            own, table = entry["name"].format(set=candidates), {**common, **entry["table"]}
            if candidates:
                table["vectors"] = about["role"]
            if "accepts" in entry:  # so many percent of the candidates
                table["sentence_similarity"] = about["thresholds"][entry["accepts"]]
            found[own] = NamedAttack(
                name=own, group=group, table=table, candidates=candidates, stands_for=entry.get("stands_for")
            )
    return found


def settings(unit: Job, *, cuda: bool | None = None) -> tuple[str, ...]:
    """``key=value`` to be written over the recipe of the job's arm; an arm's own settings, such as its length, come after them.

    Training runs in bf16 on a CUDA device, the search too; ``cuda`` left out asks torch, which takes seconds to import.
    """
    from robust_tickets.reproduce.arms import tree

    file, corrected = constants(), unit.flavour == "corrected"
    training = {**(file.training if corrected else {}), **file.always}
    pairs = {**rules(unit.task).source, **{f"train.{key}": value for key, value in training.items()}}
    recipe = tree(unit)
    if corrected and (recipe.get("search") or {}).get("name") in file.tickets["methods"]:
        pairs["search.round_to"] = file.tickets[
            "round_to"
        ]  # other tickets follow the search that the recipe names first
    if on_cuda() if cuda is None else cuda:
        pairs |= dict.fromkeys(("train.precision", *_precisions(recipe)), "bf16")
    return tuple(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in pairs.items())


def on_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _precisions(recipe: Mapping[str, Any]) -> list[str]:
    """The keys of the precision of each search that has one, and of the fine-tuning that some begin with."""
    from robust_tickets.registry import METHODS

    tables = {"search": recipe.get("search")}
    tables |= {f"arms.{name}.search": table.get("search") for name, table in recipe["arms"].items()}
    found = []
    for key, table in tables.items():
        method = table.get("name") if isinstance(table, Mapping) else table
        known = {one.name for one in fields(METHODS.get(method))} if isinstance(method, str) else set()
        found += [f"{key}.{name}" for name in ("precision", "tuning.precision") if name.partition(".")[0] in known]
    return found


def check_task(task: Task, unit: Job, *, subset: bool = False) -> tuple[str, ...]:
    """Refuse rows that are not the protocol's; return the notes on them for the result.

    ``subset``: the data are meant to be a part of the official ones. Their sizes are then noted instead of held to.
    """
    held = rules(unit.task)
    whole = len(task.train) + (len(task.validation) if held.selects == CARVED else 0)
    sizes = [("train", whole, held.train), (held.attacked, len(task.test), (held.rows,))]
    if held.confirm in task.splits:
        sizes.append((str(held.confirm), len(task.split(str(held.confirm))), (held.confirm_rows,)))
    for name, _, _ in sizes[1:]:
        for other in (task.train_split, task.validation_split):  # nothing attacked was trained or selected on
            if shared := int(np.isin(task.split(name).keys, task.split(other).keys).sum()):
                message = f"{unit.id}: {shared} texts of {name} are in {other}"
                raise TicketsError(message, hint="get the official files", code="protocol.leak")
    notes = [held.subsets[str(whole)]] if str(whole) in held.subsets else []
    for name, size, official in sizes:
        if official[0] is None or size in official:
            continue
        notes.append(f"{size:,} of the {official[0]:,} rows of {name}")
        if not subset:
            hint = "get the official files, or give --subset: results then note it"
            raise TicketsError(f"{unit.id}: {notes[-1]} are there", hint=hint, code="protocol.rows")
    return tuple(f"{unit.task}: {note}" for note in notes)


def part_of(notes: Iterable[str]) -> str | None:
    """The note of ``check_task`` on rows that are a part of the official ones, if any."""
    return next((note for note in notes if _PART.fullmatch(note)), None)
