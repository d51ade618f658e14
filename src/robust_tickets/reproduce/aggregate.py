"""The runs of an arm under a measure: their values, their substitutes, and why there are none.

Tables, claims and the page all take their numbers from here. Only a claim leaves out the runs that chose an arm
(``claims.after_choice``), with a note.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from robust_tickets.config import canonical
from robust_tickets.errors import TicketsError
from robust_tickets.reproduce.arms import (
    ATTACKS,
    arm_title,
    attack_phrase,
    attack_title,
    backbone_title,
    distinct_title,
    task_title,
)
from robust_tickets.reproduce.job import BERT, Flavour, Job
from robust_tickets.reproduce.outcome import Attacked, Outcome, ids_of
from robust_tickets.stats.compare_runs import RunSet, RunSummary, TrainedRun, summarise_runs
from robust_tickets.stats.intervals import Interval

NOT_RUN, NOT_ALONE = "not run", "not timed alone"
CORPUS = "wikitext-2-raw-v1"  # what ORTicket was searched on
BASES = {"speedup_vs_pgd": "pgd", "speedup_vs_freelb": "freelb", "speedup_lost_to_search": "freelb"}  # arms
ATTACK_METRICS = ("aua", "suc", "queries")
BASELINE = "finetune"
HINT = "restore the result file; results are not edited"


@dataclass(frozen=True, kw_only=True)
class Reading(RunSet):
    """Runs of an arm under a measure; repeats of a seed count in no mean. Without a run, ``why`` has the reason."""

    split: str = ""
    examples: str = ""  # hash of the attacked examples' ids
    way: str = ""  # how all runs were attacked: rules, scoring and resources, as canonical JSON
    substituted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    why: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        """Ids of the jobs behind the mean, in the order of their values."""
        return tuple(run.source for run in self.units)

    @cached_property
    def summary(self) -> RunSummary:
        return summarise_runs(self, resamples=0)

    @property
    def band(self) -> Interval | None:
        """95 % of the mean over runs; ``None`` with fewer than five."""
        return self.summary.interval if self.summary.enough else None

    @property
    def reach(self) -> Interval | None:
        """The interval of a mean accuracy, cut at 0 and 100."""
        return cut(self.summary.shown) if self.summary.shown else None

    @property
    def cells(self) -> tuple[str, str, str]:
        """Mean, interval and number of runs, for a table."""
        ends = f"{self.band[0]:.1f} to {self.band[1]:.1f}" if self.band else "–"
        return f"{self.mean:.1f}", ends, str(len(self.units))


def cut(ends: Interval, most: float = 100.0) -> Interval:
    """An interval cut to what can be."""
    return min(max(ends[0], 0.0), most), min(max(ends[1], 0.0), most)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An arm on a task under a measure; no ``split``: the one that the task attacks."""

    arm: str
    task: str
    metric: str
    attack: str | None = None
    split: str | None = None
    backbone: str = BERT
    flavour: Flavour = "corrected"

    def beside(self, outcome: Outcome) -> bool:
        """Whether an outcome is of the same task, backbone and flavour."""
        unit = outcome.unit
        return (unit.task, unit.backbone, unit.flavour) == (self.task, self.backbone, self.flavour)


def read_runs(wanted: Wanted, outcomes: Sequence[Outcome], folder: Path | None = None) -> Reading:
    """Read the runs of a request. ``folder`` holds the ids of the examples; without it runs have only values."""
    there = [outcome for outcome in outcomes if wanted.beside(outcome)]
    own = [outcome for outcome in there if outcome.unit.arm == wanted.arm]
    trained, metric = [outcome for outcome in own if outcome.clean], wanted.metric
    if not trained:
        return _none(wanted, "searched only, not trained" if own else NOT_RUN)
    if metric in ATTACK_METRICS or (metric == "clean" and wanted.attack):
        return _attacked(wanted, trained, folder)
    if metric in BASES:
        return _speedup(wanted, trained, there)
    if metric == "clean":  # on the whole split, not only on the attacked examples
        trained = [one for one in trained if wanted.split in (None, one.clean.get("split"))]
    if metric == "seconds":
        trained = _alone(trained, _device(there))
    take, why = VALUES[metric]
    split = str(trained[0].clean.get("split", "")) if metric == "clean" and trained else ""
    return _reading(wanted, [(one, take(one)) for one in trained], why, timed=metric == "seconds", split=split)


def seconds(outcome: Outcome, search: bool = True) -> float | None:
    """Seconds of training, and of the search before it."""
    trained, searched = (number(outcome, outcome.cost.get(f"{name}_seconds")) for name in ("train", "search"))
    return None if trained is None else trained + ((searched or 0.0) if search else 0.0)


def _work(outcome: Outcome) -> float | None:
    from robust_tickets.reproduce.cost import work

    return work(outcome)


def _millions(outcome: Outcome, name: str) -> float | None:
    """The papers count the parameters that a mask keeps."""
    size = number(outcome, outcome.cost.get(f"nonzero_{name}", outcome.cost.get(name)))
    return None if size is None else size / 1e6


VALUES: Mapping[str, tuple[Callable[[Outcome], float | None], str]] = {  # how each is taken, and why there is none
    "clean": (lambda one: number(one, one.clean.get("accuracy")), "trained, not evaluated on the split"),
    "seconds": (seconds, NOT_ALONE),
    "work": (_work, "its passes are not known"),
    "encoder_millions": (lambda one: _millions(one, "encoder_parameters"), "its size was not kept"),
    "total_millions": (lambda one: _millions(one, "parameters"), "its size was not kept"),
    "flops": (lambda one: number(one, one.cost.get("flops_per_example")), "its FLOPs were not kept"),
}


def attacks_of(outcomes: Sequence[Outcome], asked: str) -> tuple[str, ...]:
    """Our attacks that stand for a published one: the same with any candidates and constraints, the plainest first.

    The code of two papers runs another BERT-Attack than the published one, our ``bertattack_papers``: both count as it.
    """
    found = {attack.name for o in outcomes for attack in o.attacks if attack.split == o.clean.get("split")}
    alike = [name for name in found if name == asked or name.partition("-")[0] in (asked, f"{asked}_papers")]
    return tuple(sorted(alike, key=lambda name: (name.count("-"), name)))


def timed_alone(outcome: Outcome) -> bool:
    """Whether no other process shared the device, so that its times are the method's."""
    return outcome.cost.get("processes") == 1


def number(outcome: Outcome, value: Any) -> float | None:
    """A number of a result file; refuse anything else, which no run writes."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise TicketsError(f"{outcome.unit.id} has {value!r} for a number", hint=HINT, code="result.number")


def notes_of(outcome: Outcome) -> tuple[str, ...]:
    """The run's own notes, and the text that a search without labels read in place of the paper's."""
    recipe = outcome.config.get("recipe")
    origins = [one.get("origin") or {} for one in recipe.get("arms", ())] if isinstance(recipe, Mapping) else []
    read = [str((one.get("search") or {}).get("corpus") or "").rpartition("/")[2] for one in origins]
    others = [name for name in read if name not in ("", "task", CORPUS)]
    return (*outcome.notes, *(f"searched on the texts of {name}, which stand in for {CORPUS}" for name in others))


def _attacked(wanted: Wanted, own: Sequence[Outcome], folder: Path | None) -> Reading:
    name, metric = wanted.attack, wanted.metric
    found = [
        (outcome, one)
        for outcome in own
        for one in outcome.attacks
        if (one.name, one.split) == (name, wanted.split or outcome.clean.get("split"))
    ]
    attacks = [one for _, one in found]
    ways = {_way(one) for one in attacks}
    if not found:
        by = f" by {attack_phrase(name)}" + (f" on {wanted.split}" if wanted.split else "") if name else ""
        return _none(wanted, f"trained, not attacked{by}")
    if len({one.examples for one in attacks}) > 1:
        return _none(wanted, "its runs were attacked on different examples")
    if len(ways) > 1:
        return _none(wanted, "its runs were attacked by different rules, or with different words")
    runs: list[tuple[Outcome, Any]] = []
    for outcome, one in found:
        value = one.mean_queries if metric == "queries" else one.share(metric)  # type: ignore[arg-type]
        if folder is not None and metric != "queries" and value is not None:
            ids = _ids(folder, one.examples)
            runs.append((outcome, one.run(outcome.unit, ids, metric, source=outcome.unit.id)))  # type: ignore[arg-type]
        else:
            runs.append((outcome, value))
    return _reading(
        wanted,
        runs,
        "nothing of the attack could be counted",
        flags=[flag for one in attacks for flag in one.flags],
        split=attacks[0].split,
        examples=attacks[0].examples,
        way=ways.pop(),
        substituted=_each(words for one in attacks for words in one.substitutes),
    )


def _way(attacked: Attacked) -> str:
    """The attack's rules, scoring and resources, whatever the model and the machine."""
    held = {kind: about.get("digest") for kind, about in attacked.resources.items()}
    return canonical({"recipe": attacked.recipe, "scoring": attacked.scoring, "resources": held})


def _speedup(wanted: Wanted, own: Sequence[Outcome], there: Sequence[Outcome]) -> Reading:
    """Speed-ups as printed: EarlyRobust counts its search; ORTicket leaves out its one search for all tasks."""
    device, arm = _device(own), BASES[wanted.metric]
    own, based = _alone(own, device), [one for one in there if one.unit.arm == arm]
    times = [found for one in _alone(based, device) if (found := seconds(one)) is not None]
    if not own:
        return _none(wanted, NOT_ALONE)
    if not times:
        why = " was not timed alone on the same device" if based else ", against which it is timed, was not run"
        return _none(wanted, f"{arm_title(arm)}{why}")
    base, values = fmean(times), list[tuple[Outcome, float]]()
    for outcome in own:
        whole, trained = seconds(outcome), seconds(outcome, search=False)
        if whole and trained:
            kinds = {"speedup_vs_pgd": base / whole, "speedup_vs_freelb": base / trained}
            values.append((outcome, kinds.get(wanted.metric, base / trained - base / whole)))
    against = f"timed on {device}, {arm_title(arm)} the mean of {len(times)} runs"
    return _reading(wanted, values, NOT_ALONE, timed=True, substituted=(against,))


def _device(there: Sequence[Outcome]) -> str:
    """The device on which most runs of a task were timed alone: seconds of two devices are not compared."""
    counts = Counter(str(one.env.get("device")) for one in there if timed_alone(one))
    return max(sorted(counts), key=counts.__getitem__, default="")


def _alone(outcomes: Iterable[Outcome], device: str) -> list[Outcome]:
    return [one for one in outcomes if timed_alone(one) and str(one.env.get("device")) == device]


def _reading(
    wanted: Wanted,
    found: Iterable[tuple[Outcome, TrainedRun | float | None]],
    why: str,
    *,
    timed: bool = False,
    flags: Sequence[str] = (),
    **about: Any,
) -> Reading:
    """The runs with a value. Of a time repeats count like all others: it does not depend on the seed."""
    there = [(o, value if isinstance(value, TrainedRun) else _run(o, value)) for o, value in found if value is not None]
    if timed:
        there = [(o, replace(run, seed=i, repeat=0)) for i, (o, run) in enumerate(there)]
    if not any(run.repeat == 0 for _, run in there):
        return _none(wanted, "only repeats of a seed were run" if there else why)
    mixed = ["its runs do not all have one config"] if len({_settings(o) for o, _ in there}) > 1 else []
    notes = _each([*mixed, *(note for one, _ in there for note in notes_of(one)), *flags])
    return Reading(name=wanted.arm, runs=tuple(run for _, run in there), notes=notes, **about)


def _run(outcome: Outcome, value: Any) -> TrainedRun:
    unit = outcome.unit
    return TrainedRun(value=number(outcome, value) or 0.0, seed=unit.seed, repeat=unit.repeat, source=unit.id)


def _none(wanted: Wanted, why: str) -> Reading:
    return Reading(name=wanted.arm, runs=(), why=why)


def _each(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


_ids = lru_cache(maxsize=64)(ids_of)


def _settings(outcome: Outcome) -> str:
    """The config but for seeds and attacks: equal for all runs of an arm."""
    return canonical(_without(outcome.config))


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without(inner) for name, inner in value.items() if name not in ("seed", "attack", "attacks")}
    return [_without(inner) for inner in value] if isinstance(value, list | tuple) else value


Key = tuple[str, str]  # task and backbone


@dataclass(frozen=True, kw_only=True, order=True)
class Against:
    """An attack and its split, which is empty for the task's own."""

    name: str
    split: str = ""

    @property
    def title(self) -> str:
        return attack_title(self.name) + (f", on {self.split}" if self.split else "")

    def on(self, outcome: Outcome) -> Attacked | None:
        split = self.split or outcome.clean.get("split")
        return next((one for one in outcome.attacks if (one.name, one.split) == (self.name, split)), None)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """All runs of one arm on one task; ``place``, its number on the page, gives it colour and shape."""

    backbone: str
    task: str
    arm: str
    flavour: Flavour
    place: int
    outcomes: tuple[Outcome, ...]
    title: str

    @property
    def anchor(self) -> str:
        return anchor_of(self.outcomes[0].unit)

    @property
    def key(self) -> Key:
        return self.task, self.backbone

    @property
    def units(self) -> int:
        """Number of training runs, each seed once; some jobs have only a search, for a figure."""
        return sum(outcome.unit.repeat == 0 for outcome in self.outcomes if trained(outcome))

    @property
    def repeated(self) -> int:
        return sum(outcome.unit.repeat > 0 for outcome in self.outcomes if trained(outcome))

    @cached_property
    def attacks(self) -> tuple[Against, ...]:
        found = [(a, "" if a.split == o.clean.get("split") else a.split) for o in self.outcomes for a in o.attacks]
        return tuple(dict.fromkeys(Against(name=attack.name, split=split) for attack, split in found))

    def read(self, metric: str, attack: Against | None = None) -> Reading:
        name, split = (attack.name, attack.split or None) if attack else (None, None)
        where: dict[str, Any] = {"task": self.task, "backbone": self.backbone, "flavour": self.flavour}
        return read_runs(Wanted(arm=self.arm, metric=metric, attack=name, split=split, **where), self.outcomes)


def anchor_of(unit: Job) -> str:
    """The anchor of the list of an arm's runs; a job's name with hyphens."""
    return "runs-" + re.sub(r"[^a-z0-9]+", "-", "-".join((unit.backbone, unit.task, unit.arm, unit.flavour)))


def trained(outcome: Outcome) -> bool:
    return number(outcome, outcome.clean.get("accuracy")) is not None or bool(outcome.attacks)


def standings(outcomes: Sequence[Outcome]) -> tuple[Standing, ...]:
    """All arms on all tasks; the baseline first, then by name, so that colours do not depend on the results."""
    arms = sorted({outcome.unit.arm for outcome in outcomes}, key=lambda arm: (arm != BASELINE, arm))
    groups: dict[tuple[str, str, str, Flavour], list[Outcome]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.unit):
        unit = outcome.unit
        groups.setdefault((unit.backbone, unit.task, unit.arm, unit.flavour), []).append(outcome)
    found = [
        Standing(
            backbone=backbone, task=task, arm=arm, flavour=flavour, place=arms.index(arm), outcomes=tuple(members),
            title=distinct_title(arm, arms) + ("" if flavour == "corrected" else f", {flavour}"),
        )
        for (backbone, task, arm, flavour), members in groups.items()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: (one.place, one.flavour, one.key)))


def by_task(found: Iterable[Standing]) -> dict[Key, tuple[Standing, ...]]:
    """Arms by task and backbone, within which they are compared; the task with most runs first."""
    groups: dict[Key, list[Standing]] = {}
    for one in found:
        groups.setdefault(one.key, []).append(one)
    order = sorted(groups, key=lambda key: (-sum(len(one.outcomes) for one in groups[key]), key))
    return {key: tuple(groups[key]) for key in order}


def attacks_on(found: Sequence[Standing]) -> tuple[Against, ...]:
    """The attacks on any of them: on the task's own split, without further constraints, those that most arms were run on first."""
    kinds = list(ATTACKS)

    def rank(attack: Against) -> tuple[object, ...]:
        kind, *rest = attack.name.split("-")
        met = sum(attack in one.attacks for one in found)
        return bool(attack.split), len(rest) > 1, -met, kinds.index(kind) if kind in kinds else len(kinds), attack

    return tuple(sorted({attack for one in found for attack in one.attacks}, key=rank))


def place(task: str, backbone: str) -> str:
    """A task in words, with the backbone where that is not BERT-base."""
    return task_title(task) if backbone == BERT else f"{task_title(task)}, {backbone_title(backbone)}"
