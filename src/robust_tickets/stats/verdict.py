"""Two arms of training runs: different, equivalent, or undecided; and the same for a family of such claims.

The difference is judged by Welch's test, the equivalence by two one-sided Welch tests; a permutation test and a bootstrap over examples
stand beside them. Where neither arm varies at all, Welch has nothing to measure noise by, and permutation judges both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from robust_tickets.errors import TicketsError
from robust_tickets.stats.resample import RESAMPLES, permutation_p, two_level_difference
from robust_tickets.stats.runs import FEWEST_RUNS, FEWEST_SHOWN, RunSet
from robust_tickets.stats.student import LEVEL, Interval, as_values, check_level, check_margin, welch

Verdict = Literal["different", "equivalent", "undecided", "too few runs"]
MARGIN = 5.0  # points of accuracy under attack


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """``arm`` minus ``other``, in the unit of the values.

    The adjusted p values count the ``of`` claims of the family it stands in, by itself one; they are ``None`` where it makes no claim.
    """

    arm: str
    other: str
    n: tuple[int, int]  # runs of each
    difference: float
    interval: Interval | None  # Welch's; on these examples, not adjusted
    over_examples: Interval | None  # two-level bootstrap; on further examples too
    p: float | None  # that there is no difference
    permutation_p: float
    equivalence_p: float | None  # that the difference is ``margin`` or more
    adjusted_p: float | None
    adjusted_equivalence_p: float | None
    of: int
    margin: float
    level: float

    @property
    def enough(self) -> bool:
        return min(self.n) >= FEWEST_RUNS

    @property
    def shown(self) -> Interval | None:
        """Welch's interval where it tells a reader something; of two runs it may look sure by chance, or reach past any scale."""
        return self.interval if min(self.n) >= FEWEST_SHOWN else None

    @property
    def shown_over_examples(self) -> Interval | None:
        """The bootstrap's, likewise: two runs drawn again and again are still two."""
        return self.over_examples if min(self.n) >= FEWEST_SHOWN else None

    @property
    def equivalent(self) -> bool:
        """Whether the difference was shown to lie within the margin; one that is different may be so too, being small and sure."""
        return self.enough and self.adjusted_equivalence_p is not None and self.adjusted_equivalence_p < 1 - self.level

    @property
    def different(self) -> bool:
        return self.enough and self.adjusted_p is not None and self.adjusted_p < 1 - self.level

    @property
    def verdict(self) -> Verdict:
        if not self.enough:
            return "too few runs"
        return "different" if self.different else "equivalent" if self.equivalent else "undecided"


def compare_runs(
    arm: RunSet | Sequence[float],
    other: RunSet | Sequence[float],
    *,
    margin: float = MARGIN,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> RunComparison:
    """Compare two arms over their training runs: given as run sets, or as one number per run.

    Runs are independent and not paired, whatever their seeds; ``mcnemar_exact`` is for two given models. Fewer than five runs in an arm:
    the numbers are there, the verdict is "too few runs". ``seed`` is of the resampling; ``resamples=0`` leaves out the bootstrap over
    examples, which also needs the outcomes of all runs. A claim among several goes through ``judge_family``.
    """
    check_margin(margin)
    check_level(level)
    first, second = (
        x if isinstance(x, RunSet) else RunSet.of_values(name, x) for x, name in ((arm, "arm"), (other, "other"))
    )
    a, b = as_values(first.values), as_values(second.values)
    found, permuted = welch(a, b), permutation_p(a, b, seed=seed)
    p = None if found is None else found.p
    same = None if found is None else found.equivalence_p(margin)
    if found is not None and found.error == 0:
        p, same = (
            permuted,
            max(
                permutation_p(a + margin, b, side="greater", seed=seed),
                permutation_p(a - margin, b, side="less", seed=seed),
            ),
        )
    bootstrap = None
    if resamples and first.outcomes and second.outcomes:
        bootstrap = two_level_difference(first.outcomes, second.outcomes, level=level, resamples=resamples, seed=seed)
    alone = RunComparison(
        arm=first.name,
        other=second.name,
        n=(a.size, b.size),
        difference=float(a.mean() - b.mean()),
        interval=None if found is None else found.interval(level),
        over_examples=bootstrap,
        p=p,
        permutation_p=permuted,
        equivalence_p=same,
        adjusted_p=None,
        adjusted_equivalence_p=None,
        of=0,
        margin=margin,
        level=level,
    )
    return judge_family([alone])[0]


def judge_family(comparisons: Sequence[RunComparison], of: int | None = None) -> tuple[RunComparison, ...]:
    """The same comparisons as one family: p values adjusted by Holm, over those that have the runs for a claim.

    ``of`` is how many claims the family is to have in the end, where some are still to be run: what is said now then stands.

    Assumes nothing about how the claims depend on each other. Differences and equivalences are adjusted apart, so that at level 95 % a
    family holds a false "different" in at most 5 of 100 cases, and a false "equivalent" in at most 5. Which comparisons form a family is
    fixed beforehand, such as all claims of a table on one task. Those with too few runs make no claim, and have no adjusted values.
    """
    levels = {comparison.level for comparison in comparisons}
    if len(levels) > 1:
        raise TicketsError(
            f"a family of claims has one level, got {sorted(levels)}", hint="compare all of them at the same level"
        )
    claims = [comparison for comparison in comparisons if comparison.enough]
    count = max(of or 0, len(claims))
    different = iter(holm([_known(claim.p) for claim in claims], count))
    equivalent = iter(holm([_known(claim.equivalence_p) for claim in claims], count))
    return tuple(
        replace(
            comparison,
            adjusted_p=next(different) if comparison.enough else None,
            adjusted_equivalence_p=next(equivalent) if comparison.enough else None,
            of=count,
        )
        for comparison in comparisons
    )


def holm(values: Sequence[float], of: int | None = None) -> list[float]:
    """p values adjusted for how many are looked at (Holm's step-down), in the order they came. ``of``: with those to come."""
    adjusted, running = [0.0] * len(values), 0.0
    count = len(values) if of is None else of
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        running = max(running, min(1.0, values[i] * (count - rank)))
        adjusted[i] = running
    return adjusted


def _known(p: float | None) -> float:
    assert p is not None  # five runs an arm always have one
    return p
