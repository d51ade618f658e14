"""The papers' settings for each of their tasks, as a table on the method: ``EarlyRobust.for_task("sst2", seed=1)``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from robust_tickets.config import build


class PerTask:
    """``PER_TASK`` has one row a task: settings as a recipe writes them; ``{"adversary": {"step_size": .02}}`` changes one of many."""

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @classmethod
    def for_task(cls, name: str, **changes: Any) -> Self:
        """The paper's settings for a task, with ``changes``; the defaults for a task that it does not have."""
        return dataclasses.replace(build(cls, cls.PER_TASK.get(name, {}), name), **changes)
