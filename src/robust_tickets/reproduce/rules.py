"""The rules of each task, read from ``protocol.toml``: how many rows it has, which of them select and which are attacked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.reproduce.published import toml

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
        return {
            **selects,
            **nothing,
            "attacked": self.attacked,
            "drop_seen": True,
            "split_seed": told()["splits"]["seed"],
        }

    @property
    def needs(self) -> tuple[str, ...]:
        """Splits that the data must have."""
        named = [self.selects] if self.selects not in (CARVED, NOTHING) else []
        return ("train", *named, self.attacked)


@cache
def rules(task: str) -> Rules:
    """The rules of a task; one that the protocol refuses or does not know is an error."""
    known, refused = told()["tasks"], told()["refused"]
    if task in refused:
        raise TicketsError(f"{task} is never trained on: {refused[task]}", hint=f"one of {', '.join(known)}")
    if task not in known:
        raise TicketsError(f"the protocol has no task {task!r}", hint=did_you_mean(task, known))
    one = known[task]
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


def told() -> dict[str, Any]:
    """The file itself."""
    return toml("protocol.toml")
