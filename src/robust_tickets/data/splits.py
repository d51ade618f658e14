"""Splits by a hash of the normalised text, so that no duplicate crosses from one split to another."""

from __future__ import annotations

import numpy as np

from robust_tickets.seeds import derive

PARTS = {"train": 8, "validation": 1, "test": 1}  # tenths of a lone file
CARVED = 0.1  # of train, where a split is missing


def mixed(keys: np.ndarray, salt: int) -> np.ndarray:
    """Another well-mixed hash for every salt (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        z = keys ^ np.uint64(salt & (2**64 - 1))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def lone(keys: np.ndarray) -> dict[str, np.ndarray]:
    """Positions of the rows of each part: 80/10/10 by the hash modulo ten, so a row stays where it is when others are added.

    A file so small that a part would come out empty is divided by the rank of the hash instead.
    """
    tenth = (keys % np.uint64(10)).astype(np.int8)
    parts = {"train": tenth < 8, "validation": tenth == 8, "test": tenth == 9}
    if not all(mask.any() for mask in parts.values()):
        test = lowest(keys, CARVED)
        validation = np.zeros_like(test)
        validation[~test] = lowest(keys[~test], CARVED)
        parts = {"train": ~test & ~validation, "validation": validation, "test": test}
    return {name: np.flatnonzero(mask) for name, mask in parts.items()}


def carve(keys: np.ndarray, seed: int, name: str) -> np.ndarray:
    """A mask of about a tenth of the rows, chosen by seed; rows with equal texts go together."""
    return lowest(mixed(keys, derive(seed, "carve", name)), CARVED)


def lowest(keys: np.ndarray, fraction: float) -> np.ndarray:
    """A mask of the rows with the lowest distinct keys: ``fraction`` of the distinct keys, at least one."""
    distinct = np.unique(keys)
    if len(distinct) == 0:
        return np.zeros(len(keys), dtype=bool)
    count = max(1, round(len(distinct) * fraction))
    return keys <= distinct[count - 1]
