"""Splits by a hash of the normalised text, so that no duplicate crosses from one split to another."""

from __future__ import annotations

import numpy as np

from robust_tickets.errors import TicketsError
from robust_tickets.seeds import derive

CARVED = 0.1  # of train, where a split is missing


def lone(keys: np.ndarray) -> dict[str, np.ndarray]:
    """Positions of the rows of each part: 80/10/10 by the hash modulo ten, so a row stays where it is when others are added.

    A file so small that a part would come out empty is divided by the rank of the hash instead.
    """
    tenth = (keys % np.uint64(10)).astype(np.int8)
    parts = {"train": tenth < 8, "validation": tenth == 8, "test": tenth == 9}
    if not all(mask.any() for mask in parts.values()):
        test = _lowest(keys)
        validation = np.zeros_like(test)
        validation[~test] = _lowest(keys[~test])
        parts = {"train": ~test & ~validation, "validation": validation, "test": test}
    for mask in parts.values():
        _check(mask)
    return {name: np.flatnonzero(mask) for name, mask in parts.items()}


def carve(keys: np.ndarray, seed: int, name: str) -> np.ndarray:
    """A mask of about a tenth of the rows, chosen by seed; rows with equal texts stay together."""
    with np.errstate(over="ignore"):  # another well-mixed hash for every seed: the finaliser of splitmix64
        z = keys ^ np.uint64(derive(seed, "carve", name))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        carved = _lowest(z ^ (z >> np.uint64(31)))
    _check(~carved)
    return carved


def _check(mask: np.ndarray) -> None:
    if not mask.any():
        message = f"{len(mask)} rows have too few different texts to make splits of them"
        raise TicketsError(message, hint="give more rows, or test=FILE and validation=FILE", code="data.too_few_rows")


def _lowest(keys: np.ndarray) -> np.ndarray:
    """A mask of the rows with the lowest distinct keys: a tenth of the distinct keys, at least one."""
    distinct = np.unique(keys)
    if len(distinct) == 0:
        return np.zeros(len(keys), dtype=bool)
    return keys <= distinct[max(1, round(len(distinct) * CARVED)) - 1]
