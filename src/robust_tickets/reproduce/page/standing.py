"""Standing: what the runs of one arm on one task say together, as the page shows it, each value with the runs behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from robust_tickets.reproduce.aggregate import Reading, Wanted, number, read_runs
from robust_tickets.reproduce.arms import ATTACKS, arm_title, attack_title, backbone_title, task_title, told_apart
from robust_tickets.reproduce.claims import told
from robust_tickets.reproduce.job import Flavour, Unit
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.stats.compare_runs import FEWEST_SHOWN, RunSet, RunSummary, TrainedRun, summarise_runs
from robust_tickets.stats.intervals import Interval

BASELINE = "finetune"
Key = tuple[str, str]  # task and backbone


@dataclass(frozen=True, kw_only=True, order=True)
class Against:
    """An attack; ``split`` is empty for the one that its task attacks."""

    name: str
    split: str = ""

    @property
    def title(self) -> str:
        return attack_title(self.name) + (f", on {self.split}" if self.split else "")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One value over an arm's runs, further repeats of a seed among ``runs``."""

    summary: RunSummary
    runs: tuple[TrainedRun, ...]
    substituted: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        return self.summary.mean

    @property
    def n(self) -> int:
        return self.summary.n

    @property
    def reach(self) -> Interval | None:
        """Of an accuracy, the interval of its mean as far as accuracies go: few runs may have one that begins below 0."""
        if self.summary.shown is None:
            return None
        low, high = self.summary.shown
        return max(low, 0.0), min(high, 100.0)

    @property
    def equal(self) -> bool:
        """Whether runs enough for an interval gave one value, of which none is made."""
        return self.n >= FEWEST_SHOWN and self.summary.interval is None

    @property
    def few(self) -> bool:
        """Too few runs for any claim."""
        return not self.summary.enough


@dataclass(frozen=True, kw_only=True)
class Standing:
    """All runs of one arm: ``place`` is its number on the whole page, which gives it its colour and shape."""

    backbone: str
    task: str
    arm: str
    flavour: Flavour
    place: int
    outcomes: tuple[Outcome, ...]
    named: str = ""  # told apart from what stands beside it

    @property
    def title(self) -> str:
        return (self.named or arm_title(self.arm)) + ("" if self.flavour == "corrected" else f", {self.flavour}")

    @property
    def anchor(self) -> str:
        return anchor(self.outcomes[0])

    @property
    def key(self) -> Key:
        return self.task, self.backbone

    @property
    def units(self) -> int:
        """Training runs, a seed once; of some units the search alone was run, for a figure."""
        return sum(outcome.unit.repeat == 0 for outcome in self.outcomes if trained(outcome))

    @property
    def repeated(self) -> int:
        return sum(outcome.unit.repeat > 0 for outcome in self.outcomes if trained(outcome))

    @cached_property
    def attacks(self) -> tuple[Against, ...]:
        found = [
            Against(name=attack.name, split="" if attack.split == one.clean.get("split") else attack.split)
            for one in self.outcomes
            for attack in one.attacks
        ]
        return tuple(dict.fromkeys(found))

    def measured(self, metric: str, attack: Against | None = None) -> Measured | None:
        return _measured(self.read(metric, attack))

    def read(self, metric: str, attack: Against | None = None) -> Reading:
        wanted = Wanted(
            arm=self.arm,
            task=self.task,
            metric=metric,
            attack=attack.name if attack else None,
            split=(attack.split or None) if attack else None,
            backbone=self.backbone,
            flavour=self.flavour,
        )
        return read_runs(wanted, self.outcomes, None)

    def flops(self) -> Measured | None:
        runs = tuple(
            TrainedRun(value=value, seed=one.unit.seed, repeat=one.unit.repeat, source=one.unit.id)
            for one in self.outcomes
            if (value := number(one, one.cost.get("flops_per_example"))) is not None
        )
        return _measured(Reading(runs=RunSet(name=self.arm, runs=runs)))


def anchor(outcome: Outcome) -> str:
    """Of the list of an arm's runs."""
    return anchor_of(outcome.unit)


def anchor_of(unit: Unit) -> str:
    """A name of a unit needs no escape, but dots would be odd in an address."""
    return "runs-" + re.sub(r"[^a-z0-9]+", "-", "-".join((unit.backbone, unit.task, unit.arm, unit.flavour)))


def trained(outcome: Outcome) -> bool:
    return number(outcome, outcome.clean.get("accuracy")) is not None or bool(outcome.attacks)


def exact(value: float) -> str:
    """A value as a machine reads it; the last digits of a mean may differ from one computer to another, the page may not."""
    return repr(round(value, 6))


def _measured(found: Reading) -> Measured | None:
    if not found.runs.units:
        return None
    return Measured(
        summary=summarise_runs(found.runs, resamples=0), runs=found.runs.runs, substituted=found.substituted
    )


def standings(outcomes: Sequence[Outcome]) -> tuple[Standing, ...]:
    """One for each arm on each task; the baseline first, then by name, so that colours do not depend on the results."""
    arms = sorted({outcome.unit.arm for outcome in outcomes}, key=lambda arm: (arm != BASELINE, arm))
    groups: dict[tuple[str, str, str, Flavour], list[Outcome]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.unit):
        unit = outcome.unit
        groups.setdefault((unit.backbone, unit.task, unit.arm, unit.flavour), []).append(outcome)
    found = [
        Standing(
            backbone=backbone,
            task=task,
            arm=arm,
            flavour=flavour,
            place=arms.index(arm),
            outcomes=tuple(members),
            named=told_apart(arm, arms),
        )
        for (backbone, task, arm, flavour), members in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: (one.place, one.flavour, one.key)))


def by_task(found: Sequence[Standing]) -> dict[Key, tuple[Standing, ...]]:
    """Those that can be compared: of one task and one backbone; the task with most runs first."""
    keys = {one.key for one in found}
    runs = {key: sum(len(one.outcomes) for one in found if one.key == key) for key in keys}
    return {
        key: tuple(one for one in found if one.key == key) for key in sorted(keys, key=lambda key: (-runs[key], key))
    }


def attacks_of(found: Sequence[Standing]) -> tuple[Against, ...]:
    """The attacks on any of them: those on the task's own split and without further constraints first, then those that most arms met."""
    every = {attack for one in found for attack in one.attacks}
    kinds = list(ATTACKS)

    def rank(attack: Against) -> tuple[object, ...]:
        kind, *rest = attack.name.split("-")
        met = sum(attack in one.attacks for one in found)
        return bool(attack.split), len(rest) > 1, -met, kinds.index(kind) if kind in kinds else len(kinds), attack

    return tuple(sorted(every, key=rank))


def flattered(found: Sequence[Standing]) -> str:
    """A warning where recipes stand among these that were chosen on the same texts."""
    asked = told()["chosen"]
    if not any(one.task == asked["task"] and one.arm.startswith("sturdy_") for one in found):
        return ""
    twice = any(one.named not in ("", arm_title(one.arm)) for one in found)
    return (
        f"Recipes that train on word swaps were chosen on {asked['split']}, where they may look better than they are; "
        "what is claimed of them is under Answers, on texts that were held out."
        + (
            " Runs that chose a ticket and its fresh runs are one recipe; they are not counted together, and no claim has the former."
            * twice
        )
    )


def where(key: Key) -> str:
    """A task and a backbone in words."""
    task, backbone = key
    return f"{task_title(task)}, {backbone_title(backbone)}"
