"""The protocol: the rules of each task, the named attacks, and the refusal of recipes and rows that break them.

The numbers are in ``protocol.toml`` and ``attacks.toml``. ``settings`` overrides a recipe, ``check`` checks the resolved recipe
before anything is loaded, ``check_task`` the rows before anything is trained.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from robust_tickets.config import build, to_plain
from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce.job import Flavour, Job
from robust_tickets.reproduce.published import toml

if TYPE_CHECKING:
    from robust_tickets.data.task import Task
    from robust_tickets.experiment.arms import Arm, Origin
    from robust_tickets.experiment.recipe import AttackPlan, Recipe
    from robust_tickets.reproduce.paths import Paths

CARVED, NOTHING = "carved", "nothing"
HALF = "float16"
CONFIRM = "confirm"
GROUPS = ("main", "more", "probability", "first", "encoder", "calibrated", CONFIRM)
ROLES = ("@real", "@substitute", "@encoder", "@tagger", "@masked", "@corpus")  # files that ``Paths`` finds
LENGTHS = ("train.epochs", "train.run_epochs", "train.max_steps")  # which an arm may have of its own
LENGTH = 128  # tokens of a text, where the task has none of its own
LEAST, MOST = 0.09, 0.11  # of train, where a tenth is carved: rows with equal texts go together
_PART = re.compile(r"\w+: [\d,]+ of the [\d,]+ rows of \w+")  # check_task's note on a subset


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rows of a task. ``train``: the official number, then those of known subsets."""

    task: str = ""
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
    """``protocol.toml``."""

    training: Mapping[str, Any]
    tickets: Mapping[str, Any]
    always: Mapping[str, Any]
    splits: Mapping[str, int]
    tasks: Mapping[str, Rules]
    confirm: Mapping[str, tuple[str, ...]]
    refused: Mapping[str, str]

    def train(self, flavour: Flavour) -> dict[str, Any]:
        """Settings of every arm's training."""
        return {**(self.training if flavour == "corrected" else {}), **self.always}


@cache
def constants() -> Constants:
    """The file itself."""
    found: Constants = build(Constants, toml("protocol.toml"), "protocol.toml")
    return found


@cache
def rules(task: str) -> Rules:
    """The rules of a task; one that the protocol refuses or does not know is an error."""
    known, refused = constants().tasks, constants().refused
    if task in refused:
        message = f"{task} is never trained on: {refused[task]}"
        raise TicketsError(message, hint=f"one of {', '.join(known)}", code="protocol.refused_task")
    if task not in known:
        hint = did_you_mean(task, known)
        raise TicketsError(f"the protocol has no task {task!r}", hint=hint, code="protocol.unknown_task")
    return replace(known[task], task=task)


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
        return tuple(value for value in self.table.values() if value in ROLES)

    def placed(self, paths: Paths, *, cuda: bool = False) -> dict[str, Any]:
        """The [attack] table with paths. ``cuda``: as it runs on a GPU."""
        return {**paths.placed(self.table), **({"precision": HALF} if cuda else {})}


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """An attack of ``attacks.toml``; a name with {set} is one for each candidate set, with {name} one for each of ``of``."""

    name: str
    group: str
    about: str
    table: Mapping[str, Any]
    stands_for: str | None = None
    tasks: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    accepts: str = ""  # percent of the candidates, of the sets' thresholds

    def attacks(
        self, common: Mapping[str, Any], before: Mapping[str, NamedAttack], held: Rules
    ) -> Iterator[NamedAttack]:
        for other in (before[name] for name in self.of):
            own = {key: held.confirm if value == "@confirm" else value for key, value in self.table.items()}
            about = f"{other.about}; {self.about.format(confirm=held.confirm)}"
            changed: dict[str, Any] = {"name": self.name.format(name=other.name), "table": {**other.table, **own}}
            yield replace(other, about=about, group=self.group, stands_for=None, **changed)
        if self.of:
            return
        for name, chosen in toml("attacks.toml")["sets"].items() if "{set}" in self.name else [("", {})]:
            own = {key: chosen["role"] if value == "@set" else value for key, value in self.table.items()}
            if self.accepts:
                own["sentence_similarity"] = chosen["thresholds"][self.accepts]
            yield NamedAttack(
                name=self.name.format(set=name),
                about=f"{self.about}; {chosen['about']}" if chosen else self.about,
                group=self.group,
                table={**common, **own},
                candidates=name,
                stands_for=self.stands_for,
            )


def attacks(task: str, groups: Sequence[str] = ("main",), flavour: Flavour = "corrected") -> tuple[NamedAttack, ...]:
    """The attacks of some groups on a task, in the order of the file; a group may have none. A single attack's name does too."""
    known = _named(task, flavour)
    for group in groups:
        if group not in GROUPS and group not in known:
            hint = did_you_mean(group, [*GROUPS, *known])
            message = f"no group of attacks on {task}, and no attack, is called {group!r}"
            raise TicketsError(message, hint=hint, code="protocol.unknown_group")
    return tuple(attack for attack in known.values() if attack.group in groups or attack.name in groups)


def confirms(name: str) -> bool:
    """Whether a group, or an attack, is of the split that is attacked once."""
    return name == CONFIRM or name.endswith(f"-{CONFIRM}")


def attack(task: str, name: str, flavour: Flavour = "corrected") -> NamedAttack:
    """The attack of this name on a task."""
    known = _named(task, flavour)
    if name not in known:
        hint = did_you_mean(name, known)
        raise TicketsError(f"no attack on {task} is called {name!r}", hint=hint, code="protocol.unknown_attack")
    return known[name]


@cache
def _named(task: str, flavour: Flavour) -> dict[str, NamedAttack]:
    if flavour not in get_args(Flavour):
        hint = did_you_mean(flavour, get_args(Flavour))
        raise TicketsError(f"no flavour is called {flavour!r}", hint=hint, code="protocol.unknown_flavour")
    held, binary, made = rules(task), len(TASKS[task].labels) == 2, dict[str, NamedAttack]()
    common = {**toml("attacks.toml")["flavours"][flavour], "n": held.n}
    if flavour == "corrected":
        common["scoring"] = "log-odds" if binary else "probability"
    for entry in (build(_Entry, table, "attacks.toml") for table in toml("attacks.toml")["attacks"]):
        impossible = (entry.group == "calibrated" and binary) or (entry.group == CONFIRM and held.confirm is None)
        if not impossible and (not entry.tasks or task in entry.tasks):
            made |= {one.name: one for one in entry.attacks(common, made, held)}
    return made


def settings(unit: Job, *, cuda: bool | None = None) -> tuple[str, ...]:
    """``key=value`` to be written over the recipe of the job's arm; an arm's own settings, such as its length, come after them.

    Training runs in bf16 on a CUDA device, the search too; ``cuda`` left out asks torch, which takes seconds to import.
    """
    from robust_tickets.reproduce.arms import tree

    pairs = {f"train.{key}": value for key, value in constants().train(unit.flavour).items()}
    pairs = {**rules(unit.task).source, **pairs}
    recipe, rounded = tree(unit), constants().tickets
    if unit.flavour == "corrected" and (recipe.get("search") or {}).get("name") in rounded["methods"]:
        pairs["search.round_to"] = rounded["round_to"]  # other tickets follow the search that the recipe names first
    if on_cuda() if cuda is None else cuda:
        pairs |= dict.fromkeys(("train.precision", *_precisions(recipe)), "bf16")
    return tuple(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in pairs.items())


def on_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _precisions(recipe: Mapping[str, Any]) -> Iterator[str]:
    """The keys of the precision of each search that has one, and of the fine-tuning that some begin with."""
    from robust_tickets.registry import METHODS

    tables = {f"arms.{name}.search": table.get("search") for name, table in recipe["arms"].items()}
    for key, table in {"search": recipe.get("search"), **tables}.items():
        method = table.get("name") if isinstance(table, Mapping) else table
        known = {one.name for one in fields(METHODS.get(method))} if isinstance(method, str) else set()
        yield from (f"{key}.{name}" for name in ("precision", "tuning.precision") if name.partition(".")[0] in known)


def check(recipe: Recipe, unit: Job) -> None:
    """Refuse a recipe that is not the job's under the protocol; the error names the rule."""
    held = rules(unit.task)
    same = dict.fromkeys(("test", "validation", "max_rows", "max_test_rows", "selects"))
    for name, value in {**same, **held.source, "task": unit.task}.items():
        _hold(unit, "splits", name, value, getattr(recipe.source, name))
    length = TASKS[unit.task].max_length or LENGTH
    _hold(unit, "the same training for every arm", "max_length", length, recipe.max_length)
    _hold(unit, "seed", "seed", unit.seed, recipe.seed)
    for arm in recipe.arms:
        _check_training(arm, unit)
        _check_origin(arm.origin, unit)
    for plan in recipe.attacks:
        _check_attack(plan, unit)


def _check_training(arm: Arm, unit: Job) -> None:
    from robust_tickets.reproduce.arms import arm as arm_of
    from robust_tickets.train.finetune import FineTune

    own = {setting.partition("=")[0].strip() for setting in arm_of(unit.arm, unit.flavour, unit.task).settings}
    rule = constants().train(unit.flavour)
    if any(key == length or key.endswith(f".{length}") for key in own for length in LENGTHS):
        rule.pop("epochs", None)
    else:
        rule |= {"run_epochs": 0, "max_steps": None}
    if unit.flavour == "corrected":
        rule["horizon"] = None  # the learning rate falls to 0 at the end, for all
        rule["batch_size"] = TASKS[unit.task].batch_size or FineTune.batch_size
    for name, value in {**rule, "seed": unit.seed}.items():
        which = {"evaluate": "last epoch only", "seed": "seed"}.get(name, "the same training for every arm")
        _hold(unit, which, f"train.{name}", value, getattr(arm.train, name))


def _check_origin(origin: Origin | None, unit: Job) -> None:
    while origin is not None:
        task = origin.searched_on.task if origin.searched_on is not None else ""
        if task in constants().refused:
            raise _broken(unit, "splits", f"no search on {task}: {constants().refused[task]}", task)
        origin = origin.like


def _check_attack(plan: AttackPlan, unit: Job) -> None:
    """Refuse an attack that is none of the protocol's; paths of resources may differ."""
    confirm = rules(unit.task).confirm
    if confirm and plan.split == confirm and not any(fnmatchcase(unit.arm, one) for one in constants().confirm["arms"]):
        raise _broken(unit, "splits", f"{confirm} is attacked for the recipe that wins alone", unit.arm)
    found = _flat(to_plain(plan))
    half = {"precision": HALF} if found["precision"] == HALF else {}  # as on a GPU
    nearest: tuple[str, dict[str, Any]] | None = None
    for name, table, roles in _expected(unit.task, unit.flavour):
        differs = {key: value for key, value in {**table, **half}.items() if found.get(key) != value}
        differs |= {key: role for key, role in roles.items() if found.get(key) == "none"}
        if not differs:
            return
        if nearest is None or len(differs) < len(nearest[1]):
            nearest = name, differs
    assert nearest is not None  # every task has attacks
    key, value = next(iter(nearest[1].items()))
    expected = f"one of the protocol's attacks; {nearest[0]} has {key} {value!r}"
    raise _broken(unit, "attacks", expected, f"{found['name']} with {key} {found.get(key)!r}")


@cache
def _expected(task: str, flavour: Flavour) -> tuple[tuple[str, dict[str, Any], dict[str, str]], ...]:
    """Every named attack with all its settings but its resources, and those."""
    from robust_tickets.experiment.recipe import attack_plan

    made = []
    for named in _named(task, flavour).values():
        roles = {key: value for key, value in named.table.items() if value in ROLES}
        table = {key: value for key, value in named.table.items() if key not in roles}
        flat = _flat(to_plain(attack_plan(named.name, table)))
        made.append((named.name, {key: value for key, value in flat.items() if key not in roles}, roles))
    return tuple(made)


def _flat(plan: Mapping[str, Any]) -> dict[str, Any]:
    call = {name: value for name, value in plan.items() if name not in ("attack", "token_budget")}
    return {**call, **plan["attack"]}


def check_task(task: Task, unit: Job, *, subset: bool = False) -> tuple[str, ...]:
    """Refuse rows that are not the protocol's; return the notes on them for the result.

    ``subset``: the data are meant to be a part of the official ones. Their sizes are then noted instead of held to.
    """
    held, selecting = rules(unit.task), len(task.validation)
    _hold(unit, "splits", "the task", unit.task, task.name)
    _hold(unit, "splits", "the split in the role train", "train", task.train_split)
    _hold(unit, "splits", "the split in the role test", held.attacked, task.test_split)
    whole = len(task.train) + (selecting if held.selects == CARVED else 0)
    if held.selects == NOTHING:
        _hold(unit, "splits", "the number of rows held out for selection", 0, selecting)
    elif held.selects != CARVED:
        _hold(unit, "splits", "the split that selects", held.selects, task.validation_split)
    elif whole >= 1000 and not LEAST <= selecting / whole <= MOST:
        raise _broken(unit, "splits", "a tenth of train carved for selection", f"{selecting} of {whole} rows")
    confirming = held.confirm if held.confirm is not None and held.confirm in task.splits else None
    for name in filter(None, (held.attacked, confirming)):
        for other in (task.train_split, task.validation_split):  # none may have been trained or selected on
            shared = int(np.isin(task.split(name).keys, task.split(other).keys).sum())
            _hold(unit, "splits", f"the number of texts of {name} in {other}", 0, shared)
    notes = [held.subsets[str(whole)]] if str(whole) in held.subsets else []
    sizes = [("train", whole, held.train), (held.attacked, len(task.test), (held.rows,))]
    if confirming:
        sizes.append((confirming, len(task.split(confirming)), (held.confirm_rows,)))
    for name, size, official in sizes:
        if official[0] is None or size in official:
            continue
        if not subset:
            hint = "get the official files, or give --subset: results then note it"
            raise _broken(unit, "splits", f"{official[0]:,} rows in {name}", f"{size:,}", hint)
        notes.append(f"{size:,} of the {official[0]:,} rows of {name}")
    return tuple(f"{unit.task}: {note}" for note in notes)


def part_of(notes: Iterable[str]) -> str | None:
    """The note of ``check_task`` on rows that are a part of the official ones, if any."""
    return next((note for note in notes if _PART.fullmatch(note)), None)


def _hold(unit: Job, rule: str, what: str, expected: Any, got: Any) -> None:
    if got != expected:
        raise _broken(unit, rule, f"{what} is {expected!r}", got)


def _broken(unit: Job, rule: str, expected: str, got: Any, hint: str = "") -> TicketsError:
    message = f"{unit.id} breaks the protocol's rule {rule!r}: expected {expected}, got {got!r}"
    return TicketsError(message, hint=hint or "take the recipe as the protocol writes it", code="protocol.broken_rule")
