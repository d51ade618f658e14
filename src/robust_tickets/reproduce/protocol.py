"""The protocol, enforced: the settings that hold for every arm of a task, and what is refused because it breaks them.

The numbers stand in ``protocol.toml`` and ``attacks.toml``. ``settings`` is written over a recipe, ``check`` looks at the resolved recipe
before anything is loaded, ``check_task`` at the rows before anything is trained.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError
from robust_tickets.reproduce.attacks import CONFIRM, GROUPS, HALF
from robust_tickets.reproduce.attacks import NamedAttack as NamedAttack
from robust_tickets.reproduce.attacks import attack as attack
from robust_tickets.reproduce.attacks import attacks as attacks
from robust_tickets.reproduce.job import Flavour, Unit
from robust_tickets.reproduce.paths import ROLES
from robust_tickets.reproduce.rules import CARVED, NOTHING, Rules, told
from robust_tickets.reproduce.rules import rules as rules

if TYPE_CHECKING:
    from robust_tickets.data.task import Task
    from robust_tickets.experiment.arms import Arm, Origin
    from robust_tickets.experiment.recipe import AttackPlan, Recipe

WHOLE = (
    "test",
    "validation",
    "max_rows",
    "max_test_rows",
    "selects",
    "attacked",
    "drop_seen",
    "split_seed",
)  # of a recipe's source
LENGTHS = ("train.epochs", "train.run_epochs", "train.max_steps")  # which an arm may have of its own
LENGTH = 128  # tokens of a text, where the task does not say its own
_PART = re.compile(r"\w+: [\d,]+ of the [\d,]+ rows of \w+")  # as check_task says it of a subset
LEAST, MOST = 0.09, 0.11  # of train, where a tenth is carved: rows with equal texts go together


def settings(unit: Unit, *, cuda: bool | None = None) -> tuple[str, ...]:
    """``key=value`` to be written over the recipe of the unit's arm; what an arm says of itself, its length say, still comes after them.

    Training runs in bf16 on a CUDA device, the search too; ``cuda`` left out asks torch, which takes seconds to import.
    """
    train = {**(told()["training"] if unit.flavour == "corrected" else {}), **told()["always"]}
    pairs = {**rules(unit.task).source, **{f"train.{key}": value for key, value in train.items()}, **_rounding(unit)}
    if on_cuda() if cuda is None else cuda:
        pairs |= dict.fromkeys(("train.precision", *_searches(unit)), "bf16")
    return tuple(f"{key}={_text(value)}" for key, value in pairs.items())


def _rounding(unit: Unit) -> dict[str, Any]:
    """How a ticket of heads and neurons is rounded; other tickets of the recipe follow the search that it names first."""
    from robust_tickets.reproduce.arms import tree

    rule = told()["tickets"]
    search = tree(unit).get("search") or {}
    return (
        {"search.round_to": rule["round_to"]}
        if unit.flavour == "corrected" and search.get("name") in rule["methods"]
        else {}
    )


def on_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _searches(unit: Unit) -> list[str]:
    """The precisions of the unit's searches, those that have one, and of the fine-tuning that some begin with."""
    from robust_tickets.registry import METHODS
    from robust_tickets.reproduce.arms import tree

    whole = tree(unit)
    tables = {
        "search": whole.get("search"),
        **{f"arms.{name}.search": table.get("search") for name, table in whole["arms"].items()},
    }
    found = []
    for key, table in tables.items():
        method = table.get("name") if isinstance(table, Mapping) else table
        known = {field.name for field in fields(METHODS.get(method))} if isinstance(method, str) else set()
        found += [
            f"{key}.{name}" for name, of in (("precision", "precision"), ("tuning.precision", "tuning")) if of in known
        ]
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def check(recipe: Recipe, unit: Unit) -> None:
    """Refuse a recipe that is not the unit's under the protocol; the error names the rule."""
    held = rules(unit.task)
    expected = {**dict.fromkeys(WHOLE), "drop_seen": False, **held.source, "task": unit.task}
    for name, value in expected.items():
        if getattr(recipe.source, name) != value:
            raise _broken(unit, "splits", f"{name} is {value!r}", getattr(recipe.source, name))
    length = TASKS[unit.task].max_length or LENGTH
    if recipe.max_length != length:
        raise _broken(unit, "the same training for every arm", f"texts of {length} tokens", recipe.max_length)
    if recipe.seed != unit.seed:
        raise _broken(unit, "seed", f"the unit's seed {unit.seed}", recipe.seed)
    for arm in recipe.arms:
        _check_training(arm, unit)
        _check_origin(arm.origin, unit)
    for plan in recipe.attacks:
        _check_attack(plan, unit)


def _check_training(arm: Arm, unit: Unit) -> None:
    from robust_tickets.reproduce.arms import arm as arm_of
    from robust_tickets.train.finetune import FineTune

    own = {setting.partition("=")[0].strip() for setting in arm_of(unit.arm, unit.flavour, unit.task).settings}
    rule = {**(told()["training"] if unit.flavour == "corrected" else {}), **told()["always"]}
    if any(key == length or key.endswith(f".{length}") for key in own for length in LENGTHS):
        rule.pop("epochs", None)
    else:
        rule |= {"run_epochs": 0, "max_steps": None}
    if unit.flavour == "corrected":
        rule["horizon"] = None  # the learning rate falls to 0 at the end, for all
        rule["batch_size"] = TASKS[unit.task].batch_size or FineTune.batch_size
    for name, value in rule.items():
        if getattr(arm.train, name) != value:
            which = "last epoch only" if name == "evaluate" else "the same training for every arm"
            raise _broken(unit, which, f"train.{name} is {value!r}", getattr(arm.train, name))
    if arm.train.seed != unit.seed:
        raise _broken(unit, "seed", f"the unit's seed {unit.seed} in the training", arm.train.seed)


def _check_origin(origin: Origin | None, unit: Unit) -> None:
    if origin is None:
        return
    if origin.searched_on is not None and origin.searched_on.task in told()["refused"]:
        said = told()["refused"][origin.searched_on.task]
        raise _broken(unit, "splits", f"no search on {origin.searched_on.task}: {said}", origin.searched_on.task)
    _check_origin(origin.like, unit)


def _check_attack(plan: AttackPlan, unit: Unit) -> None:
    """It has to be one of the protocol's in all but where its resources lie."""
    from robust_tickets.config import to_plain

    held = rules(unit.task)
    if (
        plan.split is not None
        and plan.split == held.confirm
        and not any(fnmatchcase(unit.arm, one) for one in told()[CONFIRM]["arms"])
    ):
        raise _broken(
            unit,
            "splits",
            f"{held.confirm} is attacked for the recipe that wins alone",
            unit.arm,
            "leave the confirming attacks out",
        )
    found, near = _flat(to_plain(plan)), ""
    for name, expected, roles in _expected(unit.task, unit.flavour):
        if found["precision"] == HALF:  # as on a GPU
            expected = {**expected, "precision": HALF}
        differs = [key for key in expected if key not in roles and found.get(key) != expected[key]]
        differs += [key for key in roles if found.get(key) == "none"]
        if not differs:
            return
        if found["name"] == expected["name"] and not near:
            near = f"; {name} has {differs[0]} {roles.get(differs[0], expected.get(differs[0]))!r}"
    said = ", ".join(f"{key} {value!r}" for key, value in found.items() if value is not None)
    raise _broken(unit, "attacks", f"one of the protocol's attacks{near}", said)


@cache
def _expected(task: str, flavour: Flavour) -> tuple[tuple[str, dict[str, Any], dict[str, str]], ...]:
    """Every named attack with all its settings, and which of them are resources."""
    from robust_tickets.config import to_plain
    from robust_tickets.experiment.recipe import attack_plan

    made = []
    for named in attacks(task, GROUPS, flavour):
        roles = {key: value for key, value in named.table.items() if value in ROLES}
        table = {key: value for key, value in named.table.items() if key not in roles}
        made.append((named.name, _flat(to_plain(attack_plan(named.name, table))), roles))
    return tuple(made)


def _flat(plan: Mapping[str, Any]) -> dict[str, Any]:
    call = {name: value for name, value in plan.items() if name not in ("attack", "token_budget")}
    return {**call, **plan["attack"]}


def check_task(task: Task, unit: Unit, *, subset: bool = False) -> tuple[str, ...]:
    """Refuse rows that are not the protocol's; what is to be said of them in the result.

    ``subset``: the data are meant to be a part of the official ones. Their sizes are then told instead of held to.
    """
    held = rules(unit.task)
    if task.name != unit.task:
        raise _broken(unit, "splits", f"the rows of {unit.task}", task.name)
    for role, expected in (("train", "train"), ("test", held.attacked)):
        if getattr(task, f"{role}_split") != expected:
            raise _broken(unit, "splits", f"{expected} in the role {role}", getattr(task, f"{role}_split"))
    _check_selection(task, held, unit)
    _check_leaks(task, held, unit)
    whole = len(task.train) + (len(task.validation) if held.selects == CARVED else 0)
    notes = [held.subsets[whole]] if whole in held.subsets else []
    sizes = [("train", whole, held.train[0]), (held.attacked, len(task.test), held.rows)]
    if held.confirm is not None and held.confirm in task.splits:
        sizes.append((held.confirm, len(task.split(held.confirm)), held.confirm_rows))
    for name, size, official in sizes:
        if official is None or size == official or (name == "train" and size in held.train):
            continue
        if not subset:
            raise _broken(
                unit,
                "splits",
                f"{official:,} rows in {name}",
                f"{size:,}",
                "get the official files, or say --subset: results then say so too",
            )
        notes.append(f"{size:,} of the {official:,} rows of {name}")
    return tuple(f"{unit.task}: {note}" for note in notes)


def part_of(notes: Iterable[str]) -> str | None:
    """What ``check_task`` said of rows that are a part of the official ones, if it did."""
    return next((note for note in notes if _PART.fullmatch(note)), None)


def _check_selection(task: Task, held: Rules, unit: Unit) -> None:
    rows, left = len(task.validation), len(task.train)
    if held.selects == NOTHING and rows:
        raise _broken(unit, "splits", "no row is held out for selection", f"{rows} rows of {task.validation_split}")
    if held.selects not in (CARVED, NOTHING) and task.validation_split != held.selects:
        raise _broken(unit, "splits", f"{held.selects} selects", task.validation_split)
    if held.selects == CARVED and (rows + left >= 1000 and not LEAST <= rows / (rows + left) <= MOST):
        raise _broken(unit, "splits", "a tenth of train carved for selection", f"{rows} of {rows + left} rows")


def _check_leaks(task: Task, held: Rules, unit: Unit) -> None:
    """No attacked or confirming text may have been trained on or selected on."""
    for name in [name for name in (held.attacked, held.confirm) if name is not None and name in task.splits]:
        for other in (task.train_split, task.validation_split):
            shared = int(np.isin(task.split(name).keys, task.split(other).keys).sum())
            if shared:
                raise _broken(
                    unit, "splits", f"no text of {name} in {other}", f"{shared} of them", "load the task with drop_seen"
                )


def _broken(unit: Unit, rule: str, expected: str, got: Any, hint: str = "") -> TicketsError:
    told = f"{unit.id} breaks the protocol's rule {rule!r}: expected {expected}, got {got!r}"
    return TicketsError(told, hint=hint or "take the recipe as protocol.settings writes it")
