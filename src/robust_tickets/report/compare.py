"""Two arms on the same attacked examples: the difference in accuracy under attack, its interval, and the exact paired test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

from robust_tickets.measure.metrics import ERROR, FAILED, bootstrap_difference, mcnemar_exact, paired_interval
from robust_tickets.measure.verdict import holm
from robust_tickets.report.run_data import Arm, Attack, Interval, Run

ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """``arm`` minus ``other``, in percentage points, over the ``n`` examples that both were attacked on."""

    arm: Arm
    other: Arm
    n: int
    difference: float
    low: float  # Newcombe's interval, which has width at any n
    high: float
    p: float
    adjusted: float  # p, adjusted for ``of`` comparisons
    of: int
    outcomes: tuple[tuple[bool, bool], ...]  # per shared example: did each stay right

    @property
    def clear(self) -> bool:
        return self.adjusted < ALPHA and self.difference != 0

    @property
    def bootstrap(self) -> Interval:
        """The percentile bootstrap interval of the difference; without width where the two never differ."""
        _, low, high = bootstrap_difference([a for a, _ in self.outcomes], [b for _, b in self.outcomes], seed=0)
        return 100 * low, 100 * high

    def turned(self) -> Comparison:
        """The same, seen from the other arm."""
        return replace(
            self,
            arm=self.other,
            other=self.arm,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
            outcomes=tuple((b, a) for a, b in self.outcomes),
        )


def compare(arm: Arm, other: Arm, attack: str) -> Comparison | None:
    """The paired comparison by itself, or None where the two share no attacked example."""
    first, second = arm.attack(attack), other.attack(attack)
    if first is None or second is None:
        return None
    a, b = _stood(first), _stood(second)
    shared = sorted(a.keys() & b.keys())
    if not shared:
        return None
    mine, theirs = [a[i] for i in shared], [b[i] for i in shared]
    low, high = paired_interval(mine, theirs)
    p = mcnemar_exact(mine, theirs)
    return Comparison(
        arm=arm,
        other=other,
        n=len(shared),
        difference=100 * (sum(mine) - sum(theirs)) / len(shared),
        low=100 * low,
        high=100 * high,
        p=p,
        adjusted=p,
        of=1,
        outcomes=tuple(zip(mine, theirs, strict=True)),
    )


@dataclass(frozen=True, kw_only=True)
class Contest:
    """All arms against one another under one attack; p-values are adjusted for all pairs, since the best arm is picked from the data."""

    pairs: tuple[Comparison, ...]

    def between(self, arm: Arm | None, other: Arm | None) -> Comparison | None:
        for pair in self.pairs:
            if pair.arm is arm and pair.other is other:
                return pair
            if pair.arm is other and pair.other is arm:
                return pair.turned()
        return None


def contest(run: Run, attack: str | None) -> Contest:
    found = [pair for a, b in combinations(run.arms, 2) if attack and (pair := compare(a, b, attack)) is not None]
    adjusted = holm([pair.p for pair in found])
    return Contest(
        pairs=tuple(replace(pair, adjusted=p, of=len(found)) for pair, p in zip(found, adjusted, strict=True))
    )


def _stood(attack: Attack) -> dict[str, bool]:
    """Whether each example was right and stayed right; one that was wrong before, or whose attack failed, counts as fallen, one whose clean
    text was not answered not at all.
    """
    return {example.id: example.status == FAILED for example in attack.examples if example.status != ERROR}
