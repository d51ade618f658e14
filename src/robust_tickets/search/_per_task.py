"""The papers' settings for each of their tasks, as a table on the method: ``EarlyRobust.for_task("sst2", seed=1)``."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Self

from robust_tickets.config import build
from robust_tickets.data.tasks import TASKS
from robust_tickets.progress import warn


class PerTask:
    """``PER_TASK`` has one row a task: settings as a recipe writes them; ``{"adversary": {"step_size": .02}}`` changes one of many."""

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @classmethod
    def for_task(cls, name: str, **changes: Any) -> Self:
        """The paper's settings for a task, with ``changes``; the defaults for a task that it does not have."""
        if name not in cls.PER_TASK and name not in TASKS:  # a registered task without a row is no slip of the pen
            _doubt(cls.__name__, name, tuple(cls.PER_TASK))
        return dataclasses.replace(build(cls, cls.PER_TASK.get(name, {}), name), **changes)


@cache
def _doubt(method: str, name: str, known: tuple[str, ...]) -> None:
    """Say once that ``name`` may be meant for a task of the table: its defaults look just like settings of the paper."""
    if close := difflib.get_close_matches(name, known, n=1, cutoff=0.6):
        warn(f"{method} has no settings for a task {name!r} and takes its defaults; did you mean {close[0]!r}?")
