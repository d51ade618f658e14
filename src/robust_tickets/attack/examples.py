"""Which examples are attacked, and how the labels of data and classifier correspond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

import numpy as np

from robust_tickets.attack.options import AttackOptions
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.seeds import numpy_generator

MOST = 6  # classes named with their counts


def rows_of(split: Split, options: AttackOptions, n_labels: int, ids: Sequence[str | int] | None = None) -> np.ndarray:
    """Row numbers of the attack set: a sample as the options say, or the examples asked for in the order they were named."""
    if not len(split):
        raise TicketsError(
            f"the split {split.name!r} has no rows to attack",
            hint="give a split with labelled texts",
            code="attack.empty",
        )
    if ids is not None:
        return _named(split, ids)
    count = min(options.n, len(split)) or len(split)
    if options.subset == "first":
        return np.arange(count)
    if options.subset == "random":
        return np.sort(numpy_generator(options.seed, "attack_set", "random").permutation(len(split))[:count])
    return attack_set(split, count, options.seed, n_labels, first=options.subset == "first-of-each")


def _named(split: Split, ids: Sequence[str | int]) -> np.ndarray:
    if all(isinstance(i, int | np.integer) for i in ids):
        ids, where = [int(i) for i in ids], {row: row for row in range(len(split))}
    else:
        wanted = set(ids)
        where = {example.id: row for row, example in enumerate(split) if example.id in wanted}  # type: ignore[misc]
    missing = [i for i in ids if i not in where]  # type: ignore[comparison-overlap]
    if missing or not len(ids) or len(set(ids)) != len(ids):
        raise TicketsError(
            f"the split {split.name!r} has no example {missing[0]!r}" if missing else "ids name examples, each once",
            hint="ids of a result on the same split, or row numbers from 0",
            code="attack.ids",
        )
    return np.array([where[i] for i in ids], dtype=np.int64)  # type: ignore[index]


def attack_set(split: Split, n: int, seed: int, n_labels: int, *, first: bool = False) -> np.ndarray:
    """Sorted row indices of ``n`` examples, as even over the classes as the split allows; all rows if ``n`` is 0 or too large.

    Classes are filled in turns, so the set for a smaller ``n`` is part of the set for a larger one with the same seed.
    ``first`` takes the first rows of each class instead of random ones.
    """
    if n == 0 or n >= len(split):
        return np.arange(len(split))
    pools = [np.flatnonzero(split.labels == label) for label in range(n_labels)]
    quotas = _quotas([len(p) for p in pools], n, numpy_generator(seed, "attack_set", "turns").permutation(n_labels))
    chosen = [
        (pool if first else numpy_generator(seed, "attack_set", label).permutation(pool))[:quota]
        for label, (pool, quota) in enumerate(zip(pools, quotas, strict=True))
    ]
    return np.sort(np.concatenate(chosen))


def _quotas(sizes: list[int], n: int, turns: np.ndarray) -> list[int]:
    quotas = [0] * len(sizes)
    while n > 0:
        open_classes = [int(c) for c in turns if quotas[c] < sizes[c]]
        if not open_classes:
            break
        each = min(n // len(open_classes), min(sizes[c] - quotas[c] for c in open_classes))
        for c in open_classes if each else open_classes[:n]:
            quotas[c] += max(1, each)
            n -= max(1, each)
    return quotas


def by_class(labels: np.ndarray, n_labels: int) -> list[int]:
    """Examples of each class; a label that is none of them is an error of its example, and not counted."""
    known = labels[(labels >= 0) & (labels < n_labels)]
    return np.bincount(known, minlength=n_labels).tolist()


def classes_of(
    task: Sequence[str] | None, model: tuple[str, ...], label_map: Mapping[str, int | str] | None = None
) -> tuple[int, ...]:
    """Which of the classifier's classes each of the task's labels is: by ``label_map`` where it says so, else by name, never by order.

    Case and spaces are ignored where that is unambiguous; the labels 0, 1, … are class numbers of a classifier whose classes nobody named.
    A task without label names has class numbers.
    """
    from robust_tickets.data.schema import match, pasted

    if task is None:
        return tuple(range(len(model)))
    found = match(tuple(task), model, "the data", label_map=label_map, by_id=False).ids
    unmatched = [label for label in (*(label_map or {}), *task) if label not in found]
    if unmatched:
        raise TicketsError(
            f"{unmatched[0]!r} is not a label of both: the data has {', '.join(task)}, the classifier {', '.join(model)}",
            hint=f"labels are matched by name, never by order; if these are the pairs: {pasted(tuple(task), model)}",
            code="labels.other",
        )
    return tuple(found[label] for label in task)


def how(subset: str, seed: int | None, names: Sequence[str], counts: Sequence[int], rows: int | None) -> str:
    """How the examples were chosen, and how many of each class they are; empty where ``subset`` is unknown."""
    words = {
        "balanced": f"drawn at random, as even over the classes as the rows allow, seed {seed}",
        "random": f"drawn at random, seed {seed}",
        "first": "the first of the split",
        "first-of-each": "the first of each class in the split",
        "ids": "named one by one",
    }.get(subset, "")
    if rows is not None and rows == sum(counts) and subset != "ids":
        words = f"all {rows} rows"
    if len(counts) > MOST:
        counted = f"{min(counts)} to {max(counts)} of each of {len(counts)} classes"
    else:
        counted = ", ".join(f"{name} {count}" for name, count in zip_longest(names[: len(counts)], counts))
    return f"{words} ({counted})" if words and counts else words


def short_of(asked: int | None, chosen: int) -> str:
    """A sentence where there are fewer examples than were asked for; 0 asks for all."""
    return f"{chosen} of the {asked} asked for: there are no more" if asked and asked > chosen else ""
