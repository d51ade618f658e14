"""Which examples are attacked, and how the labels of data and classifier correspond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.seeds import numpy_generator

if TYPE_CHECKING:
    from robust_tickets.data.task import Split

SUBSETS = ("balanced", "random", "first", "first-of-each")


def rows_of(split: Split, ids: Sequence[str | int] | None, n: int, seed: int, n_labels: int, subset: str) -> np.ndarray:
    """Row numbers of the attack set: a sample as ``subset`` says, or the examples asked for in the order they were named."""
    from robust_tickets.attack.sample import attack_set

    if not len(split):
        raise TicketsError(f"the split {split.name!r} has no rows to attack", hint="give a split with labelled texts")
    if subset not in SUBSETS:
        raise TicketsError(f"subset is one of {', '.join(SUBSETS)}, got {subset!r}", hint=did_you_mean(subset, SUBSETS))
    if ids is None:
        count = min(n, len(split)) or len(split)
        if subset == "first":
            return np.arange(count)
        if subset == "random":
            return np.sort(numpy_generator(seed, "attack_set", "random").permutation(len(split))[:count])
        return attack_set(split, n, seed, n_labels, first=subset == "first-of-each")
    wanted = list(ids)
    if len(set(wanted)) != len(wanted) or not wanted:
        raise TicketsError("ids must name at least one example, each once", hint="take them from a result's ids")
    if all(isinstance(i, int | np.integer) for i in wanted):
        outside = [i for i in wanted if not 0 <= int(i) < len(split)]
        if outside:
            raise TicketsError(
                f"row {outside[0]} is not in the split {split.name!r} of {len(split)} rows", hint="rows count from 0"
            )
        return np.array(wanted, dtype=np.int64)
    names = set(wanted)
    where = {example.id: row for row, example in enumerate(split) if example.id in names}
    missing = [i for i in wanted if i not in where]
    if missing:
        raise TicketsError(
            f"the split {split.name!r} has no example {missing[0]!r}", hint="take ids from a result on the same split"
        )
    return np.array([where[str(i)] for i in wanted], dtype=np.int64)


def classes_of(
    task: Sequence[str] | None, model: tuple[str, ...], label_map: Mapping[str, int | str] | None = None
) -> tuple[int, ...] | None:
    """Which of the classifier's classes each of the task's labels is: by ``label_map`` where it says so, else by name, never by order.

    Case and spaces are ignored where that is unambiguous; the labels 0, 1, … are class numbers of a classifier whose classes nobody named.
    """
    from robust_tickets.data.schema import match, pasted

    if task is None:
        return None
    unknown = [name for name in label_map or {} if name not in task]
    if unknown:
        raise TicketsError(
            f"the label map names {unknown[0]!r}; the data has {', '.join(task)}, the classifier {', '.join(model)}",
            hint="NAME_IN_THE_DATA=CLASS_OF_THE_MODEL, by number or by name",
        )
    found = match(tuple(task), model, "the data", label_map=label_map, by_id=False).ids
    missing = [label for label in task if label not in found]
    if missing:
        raise TicketsError(
            f"the data has the label {missing[0]!r}, the classifier knows {', '.join(model)}",
            hint=f"labels are matched by name, never by order; if these are the pairs: {pasted(tuple(task), model)}",
        )
    return tuple(found[label] for label in task)
