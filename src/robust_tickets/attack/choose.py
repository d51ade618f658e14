"""Which examples are attacked, and how the labels of data and classifier correspond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from robust_tickets.errors import TicketsError

if TYPE_CHECKING:
    from robust_tickets.data.task import Split


def rows_of(split: Split, ids: Sequence[str | int] | None, n: int, seed: int, n_labels: int) -> np.ndarray:
    """Row numbers of the attack set: a seeded, class-balanced sample, or the examples asked for in the order they were named."""
    from robust_tickets.data.sample import attack_set

    if not len(split):
        raise TicketsError(f"the split {split.name!r} has no rows to attack", hint="give a split with labelled texts")
    if ids is None:
        return attack_set(split, n, seed, n_labels)
    wanted = list(ids)
    if len(set(wanted)) != len(wanted) or not wanted:
        raise TicketsError("ids must name at least one example, each once", hint="take them from a result's ids")
    if all(isinstance(i, int | np.integer) for i in wanted):
        outside = [i for i in wanted if not 0 <= int(i) < len(split)]
        if outside:
            raise TicketsError(f"row {outside[0]} is not in the split {split.name!r} of {len(split)} rows", hint="rows count from 0")
        return np.array(wanted, dtype=np.int64)
    names = set(wanted)
    where = {example.id: row for row, example in enumerate(split) if example.id in names}
    missing = [i for i in wanted if i not in where]
    if missing:
        raise TicketsError(f"the split {split.name!r} has no example {missing[0]!r}", hint="take ids from a result on the same split")
    return np.array([where[str(i)] for i in wanted], dtype=np.int64)


def classes_of(task: Sequence[str] | None, model: tuple[str, ...]) -> tuple[int, ...] | None:
    """Which of the classifier's classes each of the task's labels is, by name."""
    if task is None:
        return None
    missing = [label for label in task if label not in model]
    if missing:
        raise TicketsError(
            f"the data has the label {missing[0]!r}, the classifier knows {', '.join(model)}",
            hint="rename the labels so that they are called alike; they are matched by name, never by order",
        )
    return tuple(model.index(label) for label in task)
