"""Which examples were attacked, in true words: a set that was to be balanced is as even as the rows allow, and no larger than they are.

``counts`` are the chosen examples by class, in the order of the labels; ``rows`` is how many the split has, where that is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST = 6  # classes named with their counts
WIDEST = 40  # characters of a class's name


def by_class(labels: np.ndarray, n_labels: int) -> list[int]:
    """Examples of each class; a label that is none of them has no place here, and is an error of its example."""
    known = labels[(labels >= 0) & (labels < n_labels)]
    return np.bincount(known, minlength=n_labels).tolist()


def how(subset: str, seed: int | None, names: Sequence[str], counts: Sequence[int], rows: int | None) -> str:
    """How the examples were chosen, and how many of each class they are; empty where ``subset`` is unknown."""
    drawn = "drawn at random"
    if subset == "balanced":
        least, most = min(counts, default=0), max(counts, default=0)
        if most - least > 1:
            drawn += ", as even over the classes as the rows allow"
        elif least:  # fewer examples than classes are balanced over nothing
            drawn += ", balanced over the classes"
    seeded = f"{drawn}, seed {seed}" if seed is not None else drawn
    firsts = {"first": "the first of the split", "first-of-each": "the first of each class in the split"}
    said = {"balanced": seeded, "random": seeded, **firsts, "ids": "named one by one"}.get(subset, "")
    if rows is not None and rows == sum(counts) and subset != "ids":
        said = f"all {rows} rows"
    return f"{said} ({_counted(names, counts)})" if said and counts else said


def short_of(asked: int | None, chosen: int) -> str:
    """What is said where there are fewer examples than were asked for; 0 asks for all."""
    return f"{chosen} of the {asked} asked for: there are no more" if asked and asked > chosen else ""


def _counted(names: Sequence[str], counts: Sequence[int]) -> str:
    if len(counts) > MOST:
        return f"{min(counts)} to {max(counts)} of each of {len(counts)} classes"
    called = [
        name if len(name) <= WIDEST else name[: WIDEST - 1] + "…"
        for name in (*names, *map(str, range(len(names), len(counts))))
    ]
    return ", ".join(f"{name} {count}" for name, count in zip(called, counts, strict=False))
