"""The protocol, enforced: the settings that hold for every arm of a task, and what is refused because it breaks them.

The numbers stand in ``protocol.toml`` and ``attacks.toml``. ``settings`` is written over a recipe, ``check`` looks at the resolved recipe
before anything is loaded, ``check_task`` at the rows before anything is trained.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce.attacks import NamedAttack as NamedAttack
from robust_tickets.reproduce.attacks import attack as attack
from robust_tickets.reproduce.attacks import attacks as attacks
from robust_tickets.reproduce.unit import Unit

CARVED, NOTHING = "carved", "nothing"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What holds for a task."""

    task: str
    train: tuple[int, ...]  # rows before anything is carved: the official number, then those of known subsets
    subsets: Mapping[int, str]  # what is said of a subset
    selects: str  # CARVED, NOTHING or a split
    attacked: str
    rows: int | None  # of the attacked split
    confirm: str | None
    confirm_rows: int | None
    n: int

    @property
    def source(self) -> dict[str, Any]:
        """What a recipe says of the data (``walk.source.Source``)."""
        selects = {"selects": self.selects} if self.selects not in (CARVED, NOTHING) else {}
        nothing = {"validation": "none"} if self.selects == NOTHING else {}
        return {**selects, **nothing, "attacked": self.attacked, "drop_seen": True, "split_seed": _told()["splits"]["seed"]}

    @property
    def needs(self) -> tuple[str, ...]:
        """Splits that the data must have."""
        named = [self.selects] if self.selects not in (CARVED, NOTHING) else []
        return ("train", *named, self.attacked)


@cache
def rules(task: str) -> Rules:
    """The rules of a task; one that the protocol refuses or does not know is an error."""
    told, refused = _told()["tasks"], _told()["refused"]
    if task in refused:
        raise TicketsError(f"{task} is never trained on: {refused[task]}", hint=f"one of {', '.join(told)}")
    if task not in told:
        raise TicketsError(f"the protocol has no task {task!r}", hint=did_you_mean(task, told))
    one = told[task]
    confirm = one.get("confirm", {})
    return Rules(
        task=task,
        train=tuple(one["train"]),
        subsets={int(rows): said for rows, said in one.get("subsets", {}).items()},
        selects=one["selects"],
        attacked=one["attacked"]["split"],
        rows=one["attacked"].get("rows"),
        confirm=confirm.get("split"),
        confirm_rows=confirm.get("rows"),
        n=one["n"],
    )


def settings(unit: Unit, *, cuda: bool | None = None) -> tuple[str, ...]:
    """``key=value`` to be written over the recipe of the unit's arm; what an arm says of itself, its length say, still comes after them.

    Training runs in bf16 on a CUDA device, the search too; ``cuda`` left out asks torch, which takes seconds to import.
    """
    told = _told()
    train = {**(told["training"] if unit.flavour == "corrected" else {}), **told["always"]}
    pairs = {**rules(unit.task).source, **{f"train.{key}": value for key, value in train.items()}}
    if _cuda() if cuda is None else cuda:
        pairs |= dict.fromkeys(("train.precision", *_searches(unit)), "bf16")
    return tuple(f"{key}={_text(value)}" for key, value in pairs.items())


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _searches(unit: Unit) -> list[str]:
    """The precisions of the unit's searches, those that have one."""
    from robust_tickets.registry import METHODS
    from robust_tickets.reproduce.arms import arm
    from robust_tickets.reproduce.rows import tree

    whole, name = tree(unit, (), ()), arm(unit.arm).arm
    found = []
    for key, table in (("search", whole.get("search")), (f"arms.{name}.search", whole["arms"].get(name, {}).get("search"))):
        method = table.get("name") if isinstance(table, Mapping) else table
        if isinstance(method, str) and "precision" in {field.name for field in fields(METHODS.get(method))}:
            found.append(f"{key}.precision")
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _told() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "protocol.toml").read_text("utf-8"))
