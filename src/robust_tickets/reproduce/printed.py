"""A difference that a paper prints, held against where as many runs of ours as it has would put it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robust_tickets.reproduce.aggregate import Wanted, read_runs
from robust_tickets.reproduce.arms import arms, rows
from robust_tickets.reproduce.claims import Claim, after_choice
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.protocol import attack as attack_of
from robust_tickets.reproduce.published import Cell, cells, tables
from robust_tickets.stats.compare_runs import FEWEST_RUNS
from robust_tickets.stats.intervals import Interval, predicted_difference


@dataclass(frozen=True, kw_only=True)
class Printed:
    """``runs``: of how many each of the two numbers is the mean, by what the paper says. Without five runs a side nothing is predicted."""

    table: str
    difference: float
    runs: tuple[int, int]
    prediction: Interval | None

    @property
    def inside(self) -> bool | None:
        return None if self.prediction is None else self.prediction[0] <= self.difference <= self.prediction[1]


def printed(claim: Claim, outcomes: Sequence[Outcome]) -> Printed | None:
    """Of the first table that prints both arms under the attack that the claim's stands for."""
    asked = attack_of(claim.task, claim.attack).stands_for
    for one in tables() if asked else ():
        names = {
            row.arm: row.name
            for row in rows(one.id)
            if claim.task in row.tasks and row.backbone == claim.backbone and row.x is None
        }
        found = [
            _cell(one.id, names.get(arm) or names.get(arms()[arm].beside), claim, asked)
            for arm in (claim.arm, claim.other)
        ]
        if found[0] and found[1]:
            runs = (found[0].runs, found[1].runs)
            return Printed(
                table=one.id, difference=found[0].value - found[1].value, runs=runs, prediction=_prediction(claim, outcomes, runs)
            )  # fmt: skip
    return None


def _cell(table: str, row: str | None, claim: Claim, attack: str | None) -> Cell | None:
    wanted = (row, claim.task, claim.backbone, claim.metric, attack)
    return next(
        (one for one in cells(table) if (one.row, one.task, one.backbone, one.metric, one.attack) == wanted), None
    )


def _prediction(claim: Claim, outcomes: Sequence[Outcome], runs: tuple[int, int]) -> Interval | None:
    first, second = (
        read_runs(
            Wanted(
                arm=arm,
                task=claim.task,
                metric=claim.metric,
                attack=claim.attack,
                split=claim.split,
                backbone=claim.backbone,
            ),
            after_choice(arm, outcomes),
            None,
        ).runs.values
        for arm in (claim.arm, claim.other)
    )
    return predicted_difference(first, second, further=runs) if min(len(first), len(second)) >= FEWEST_RUNS else None
