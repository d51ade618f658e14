"""The goals of the recipe that trains on word swaps, fixed beforehand in ``claims.toml``: what was reached, with numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robust_tickets.report.format import points, signed_span
from robust_tickets.reproduce.aggregate import Wanted, read_runs
from robust_tickets.reproduce.arms import arm_title, attack_title
from robust_tickets.reproduce.claims import Judged, after_choice, family, here, judge, told
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.stats.compare_runs import FEWEST_RUNS, compare_runs
from robust_tickets.stats.intervals import Interval


@dataclass(frozen=True, kw_only=True)
class Goal:
    """``reached`` is None where the runs cannot tell; ``told`` has the number and its interval, or why there is none."""

    name: str
    asked: str
    reached: bool | None
    told: str
    few: bool = False  # judged by fewer runs than a claim would need, being a measurement of the machine

    @property
    def verdict(self) -> str:
        return {True: "reached", False: "not reached", None: "cannot be told"}[self.reached]


def goals(
    outcomes: Sequence[Outcome], folder: Path | None = None, judged: Sequence[Judged] | None = None
) -> tuple[Goal, ...]:
    """All of them: gain, other attacks, clean accuracy, cost, size. ``judged``: their family, where it is judged already."""
    given = told()["goals"]
    under = {one.claim.attack: one for one in (judge(given["family"], outcomes, folder) if judged is None else judged)}
    return (
        _gain(given, under[given["seen"]]),
        _unseen(given, under),
        *(_measured(given, name, outcomes) for name in ("clean", "cost", "size")),
    )


def reached_of(found: Sequence[Goal]) -> str:
    """How many goals are, in a line."""
    sure = [goal for goal in found if goal.reached]
    few = sum(goal.few for goal in sure)
    said = f"{len(sure)} of {len(found)} goals {'is' if len(sure) == 1 else 'are'} reached"
    return said + (f", {few} of them measured in fewer than {FEWEST_RUNS} runs" if few else "")


def _gain(given: dict[str, Any], one: Judged) -> Goal:
    asked = given["asked"]["gain"]
    if one.comparison is None:
        return Goal(name="gain", asked=asked, reached=None, told=one.why)
    found = one.comparison
    reached = found.different and found.difference >= given["gain"] if found.enough else None
    return Goal(
        name="gain",
        asked=asked,
        reached=reached,
        told=_difference(found.difference, found.shown, found.n) + here(found),
    )


def _unseen(given: dict[str, Any], judged: dict[str, Judged]) -> Goal:
    parts, reached = [], []
    for name in given["unseen"]:
        found = judged[name].comparison
        if found is None:
            parts.append(f"{attack_title(name)}: {judged[name].why}")
        else:
            parts.append(f"{attack_title(name)}: {_difference(found.difference, found.shown, found.n)}{here(found)}")
        reached.append(found.different and found.difference > 0 if found is not None and found.enough else None)
    return Goal(
        name="unseen",
        asked=given["asked"]["unseen"],
        reached=False if False in reached else None if None in reached else True,
        told="; ".join(parts),
    )


def _measured(given: dict[str, Any], name: str, outcomes: Sequence[Outcome]) -> Goal:
    limit = given["clean_below" if name == "clean" else name]
    arm, against = given["arm"], given["cost_against"] if name == "cost" else given["against"]
    asked = given["asked"][name]
    about = family(given["family"]).claims[0]
    metric = {"clean": "clean", "cost": "seconds", "size": "total_millions"}[name]
    attack, split = (given["seen"], about.split) if name == "clean" else (None, None)
    first, second = (
        read_runs(
            Wanted(arm=one, task=about.task, metric=metric, attack=attack, split=split),
            after_choice(one, outcomes),
            None,
        )
        for one in (arm, against)
    )
    missing = [f"{arm_title(one.runs.name)}: {one.why}" for one in (first, second) if not one.runs.units]
    if missing:
        return Goal(name=name, asked=asked, reached=None, told="; ".join(missing))
    a, b = (one.runs.mean for one in (first, second))
    n = (len(first.runs.values), len(second.runs.values))
    if name == "clean":
        found = compare_runs(first.runs, second.runs, margin=limit, resamples=0)
        return Goal(
            name=name, asked=asked, reached=a - b >= -limit if min(n) >= FEWEST_RUNS else None, told=_difference(a - b, found.shown, n)
        )  # fmt: skip
    unit = " s" if name == "cost" else " M"
    words = f"{a / b:.2f} times: {a:.1f}{unit} against {b:.1f}{unit}, means of {n[0]} and {n[1]} runs"
    if name == "cost":
        timed = {*first.units, *second.units}
        codes = {one.inputs.get("code") for one in outcomes if one.unit.id in timed}
        words += ", each alone on the device" + (f", by {len(codes)} versions of the code" if len(codes) > 1 else "")
    reached = a / b <= limit if name == "cost" else a / b < limit
    return Goal(name=name, asked=asked, reached=reached, told=words, few=name == "cost" and min(n) < FEWEST_RUNS)


def _difference(value: float, interval: Interval | None, n: tuple[int, int]) -> str:
    span = f" ({signed_span(interval)})" if interval else ""
    return f"{points(value)} points{span}, {n[0]} and {n[1]} runs"
