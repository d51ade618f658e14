"""The papers' settings for each of their tasks, as a table on the method: ``EarlyRobust.for_task("sst2", seed=1)``."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from robust_tickets.config import build
from robust_tickets.data.tasks import TASKS, task_named
from robust_tickets.errors import TicketsError, did_you_mean


class PerTask:
    """``PER_TASK`` has one row a task: settings as a recipe writes them; ``{"adversary": {"step_size": .02}}`` changes one of many."""

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @classmethod
    def for_task(cls, name: str, **changes: Any) -> Self:
        """The paper's settings for a task, with ``changes``; the defaults for another registered task, a file or a Hub id."""
        task = task_named(name, cls.PER_TASK)
        if task not in {**cls.PER_TASK, **TASKS} and not (os.path.exists(name) or "/" in name or Path(name).suffix):
            raise TicketsError(
                f"{name!r} is no task with settings of {cls.__name__} ({', '.join(cls.PER_TASK)}), and no registered one",
                hint=f"{did_you_mean(name.lower(), {**cls.PER_TASK, **TASKS})}; for a task of your own, {cls.__name__}() has the defaults",
            )
        return dataclasses.replace(build(cls, cls.PER_TASK.get(task, {}), task), **changes)
