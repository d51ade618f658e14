"""Two arms on the same attacked examples: the difference in accuracy under attack, its interval, and the exact paired test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robust_tickets.measure.metrics import ERROR, FAILED, bootstrap_difference, mcnemar_exact
from robust_tickets.report.model import Arm, Attack

ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """``arm`` minus ``other``, in percentage points, over the ``n`` examples that both were attacked on."""

    arm: Arm
    other: Arm
    n: int
    difference: float
    low: float
    high: float
    p: float


def compare(arm: Arm, other: Arm, attack: str) -> Comparison | None:
    """The paired comparison, or None where the two share no attacked example."""
    first, second = arm.attack(attack), other.attack(attack)
    if first is None or second is None:
        return None
    a, b = _stood(first), _stood(second)
    shared = sorted(a.keys() & b.keys())
    if not shared:
        return None
    mine, theirs = [a[i] for i in shared], [b[i] for i in shared]
    difference, low, high = bootstrap_difference(mine, theirs, seed=0)
    return Comparison(
        arm=arm,
        other=other,
        n=len(shared),
        difference=100 * difference,
        low=100 * low,
        high=100 * high,
        p=mcnemar_exact(mine, theirs),
    )


def holm(values: Sequence[float]) -> list[float]:
    """p-values adjusted for how many were looked at (Holm's step-down)."""
    adjusted, running = [0.0] * len(values), 0.0
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        running = max(running, min(1.0, values[i] * (len(values) - rank)))
        adjusted[i] = running
    return adjusted


def _stood(attack: Attack) -> dict[str, bool]:
    """Whether each example was right and stayed right; one that was wrong before the attack counts as wrong, an error not at all."""
    return {example.id: example.status == FAILED for example in attack.examples if example.status != ERROR}
