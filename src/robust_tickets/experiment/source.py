"""Source: where a task's texts and labels come from, as a recipe says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Source:
    """As :func:`robust_tickets.load_task`; ``selects`` and ``attacked`` are its ``splits``."""

    task: str
    text: str | tuple[str, str] | None = None
    label: str | None = None
    labels: tuple[str, ...] | None = None
    test: str | None = None
    validation: str | None = field(default=None, metadata={"none_is_a_word": True})  # "none": no row selects
    data: str | None = None
    strict: bool = False
    max_rows: int | None = None
    max_test_rows: int | None = None
    selects: str | None = None  # the split that selects, by its name in the data
    attacked: str | None = None  # the split that is evaluated and attacked
    drop_seen: bool = False  # rows whose text stands in train leave the other splits
    split_seed: int | None = (
        None  # of what is carved from train; else the recipe's, so that every seed carves other rows
    )

    def options(self, seed: int) -> dict[str, Any]:
        """What ``load_task`` is given besides the task's name, in a recipe of this seed."""
        ours = ("task", "selects", "attacked", "split_seed")
        splits = {role: name for role, name in (("validation", self.selects), ("test", self.attacked)) if name}
        given = {name: value for name, value in vars(self).items() if name not in ours}
        return {**given, "splits": splits or None, "seed": seed if self.split_seed is None else self.split_seed}
