"""The attack set: a seeded sample, as even over the classes as the rows allow, whose row indices are stored with every result."""

from __future__ import annotations

import numpy as np

from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.seeds import numpy_generator


def attack_set(split: Split, n: int, seed: int, n_labels: int, *, first: bool = False) -> np.ndarray:
    """Sorted row indices of ``n`` examples, as even over the classes as the split allows; all rows if ``n`` is 0 or too large.

    Classes are filled in turns, so the set for a smaller ``n`` is part of the set for a larger one with the same seed.
    ``first`` takes the first rows of each class instead of random ones.
    """
    if n < 0:
        raise TicketsError(f"the number of examples to attack cannot be {n}", hint="give a number, or 0 for all")
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
