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
from typing import Any, NamedTuple

from robust_tickets.config import canonical
from robust_tickets.errors import TicketsError
from robust_tickets.report import format as numbers
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
    there = [one for one in outcomes if wanted.beside(one)]
    own = [one for one in there if one.unit.arm == wanted.arm]
    trained, metric = [one for one in own if one.clean], wanted.metric
    if not trained:
        return _none(wanted, "searched only, not trained" if own else NOT_RUN)
    if metric in ATTACK_METRICS or (metric == "clean" and wanted.attack):
        return _attacked(wanted, trained, folder)
    if metric in BASES:
        return _speedup(wanted, trained, there)
    if metric == "clean":  # on the whole split, not only on the attacked examples
        trained = [one for one in trained if wanted.split in (None, one.clean.get("split"))]
    if metric == "seconds":
        trained = _alone(trained, device_of(there))
    split = str(trained[0].clean.get("split", "")) if metric == "clean" and trained else ""
    found = [(one, MEASURES[metric].take(one)) for one in trained]
    return _reading(wanted, found, MEASURES[metric].why, timed=metric == "seconds", split=split)


def seconds(outcome: Outcome, search: bool = True) -> float | None:
    """Seconds of training, and of the search before it."""
    trained, searched = (number(outcome, outcome.cost.get(f"{name}_seconds")) for name in ("train", "search"))
    return None if trained is None else trained + ((searched or 0.0) if search else 0.0)


def _work(outcome: Outcome) -> float | None:
    from robust_tickets.reproduce.cost import work

    return number(outcome, work(outcome))


def _millions(outcome: Outcome, name: str) -> float | None:
    """The papers count the parameters that a mask keeps."""
    size = number(outcome, outcome.cost.get(f"nonzero_{name}", outcome.cost.get(name)))
    return None if size is None else size / 1e6


class Measure(NamedTuple):
    """How a measure is taken of a run, why there is none, and how the page shows it; ``best`` is ``high`` or ``low``."""

    take: Callable[[Outcome], float | None]
    why: str
    title: str
    about: str
    write: Callable[[float], str]
    best: str = "low"


MEASURES = {
    "clean": Measure(
        lambda one: number(one, one.clean.get("accuracy")), "trained, not evaluated on the split",
        "clean", "accuracy on the whole evaluated split, unattacked", numbers.percent, "high",
    ),
    "encoder_millions": Measure(
        lambda one: _millions(one, "encoder_parameters"), "its size was not kept",
        "encoder", "parameters without embeddings that are not zero, millions", lambda value: f"{value:.1f}{numbers.GLUE}M",
    ),
    "total_millions": Measure(
        lambda one: _millions(one, "parameters"), "its size was not kept",
        "size", "parameters that are not zero, millions", lambda value: f"{value:.1f}{numbers.GLUE}M",
    ),
    "flops": Measure(
        lambda one: number(one, one.cost.get("flops_per_example")), "its FLOPs were not kept",
        "FLOPs", "floating-point operations of one forward pass over one text", numbers.amount,
    ),
    "work": Measure(_work, "its passes are not known", "work", "plain epochs, search included", "{:.1f}".format),
    "seconds": Measure(
        seconds, NOT_ALONE, "time", "search and training, of runs that had the device to themselves", numbers.seconds
    ),
}  # fmt: skip


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
    name, metric, of = wanted.attack, wanted.metric, Against(name=wanted.attack or "", split=wanted.split or "")
    found = [(outcome, one) for outcome in own if (one := of.on(outcome)) is not None]
    if not found:
        by = f" by {attack_phrase(name)}" + (f" on {wanted.split}" if wanted.split else "") if name else ""
        return _none(wanted, f"trained, not attacked{by}")
    attacks, runs = [one for _, one in found], list[tuple[Outcome, Any]]()
    # rules, scoring and resources, whatever the model and the machine
    held = [{kind: about.get("digest") for kind, about in one.resources.items()} for one in attacks]
    ways = {canonical([one.recipe, one.scoring, of]) for one, of in zip(attacks, held, strict=True)}
    if len({one.examples for one in attacks}) > 1:
        return _none(wanted, "its runs were attacked on different examples")
    if len(ways) > 1:
        return _none(wanted, "its runs were attacked by different rules, or with different words")
    for outcome, one in found:
        measure: Any = metric
        value: Any = one.mean_queries if metric == "queries" else one.share(measure)
        if folder is not None and metric != "queries" and value is not None:
            value = one.run(outcome.unit, _ids(folder, one.examples), measure, source=outcome.unit.id)
        runs.append((outcome, value))
    about: dict[str, Any] = {"split": attacks[0].split, "examples": attacks[0].examples, "way": ways.pop()}
    about["substituted"] = tuple(dict.fromkeys(words for one in attacks for words in one.substitutes))
    flags = [flag for one in attacks for flag in one.flags]
    return _reading(wanted, runs, "nothing of the attack could be counted", flags=flags, **about)


def _speedup(wanted: Wanted, own: Sequence[Outcome], there: Sequence[Outcome]) -> Reading:
    """Speed-ups as printed: EarlyRobust counts its search; ORTicket leaves out its one search for all tasks."""
    device = device_of(own)
    own, here = _alone(own, device), [one for one in there if str(one.env.get("device")) == device]
    base = read_runs(replace(wanted, arm=BASES[wanted.metric], metric="seconds"), here)
    if not own or not base.units:
        why = f"{arm_title(base.name)}, against which it is timed on the same device: {base.why}"
        return _none(wanted, why if own else NOT_ALONE)

    def ratio(outcome: Outcome) -> float | None:
        whole, trained = seconds(outcome), seconds(outcome, search=False)
        if not whole or not trained:
            return None
        kinds = {"speedup_vs_pgd": base.mean / whole, "speedup_vs_freelb": base.mean / trained}
        return kinds.get(wanted.metric, base.mean / trained - base.mean / whole)

    against = f"timed on {device}, {arm_title(base.name)} the mean of {len(base.units)} runs"
    return _reading(wanted, [(one, ratio(one)) for one in own], NOT_ALONE, timed=True, substituted=(against,))


def device_of(there: Sequence[Outcome]) -> str:
    """The device on which most runs of a task were timed alone: seconds of two devices are not compared."""
    counts = Counter(str(one.env.get("device")) for one in there if timed_alone(one))
    return max(sorted(counts), key=counts.__getitem__, default="")


def _alone(outcomes: Iterable[Outcome], device: str) -> list[Outcome]:
    return [one for one in outcomes if timed_alone(one) and str(one.env.get("device")) == device]


def _reading(
    wanted: Wanted, found: Iterable[tuple[Outcome, Any]], why: str, *, timed: bool = False, flags: Sequence[str] = (), **about: Any
) -> Reading:  # fmt: skip
    """The runs with a value. Of a time repeats count like all others: it does not depend on the seed."""
    runs, outcomes = list[TrainedRun](), list[Outcome]()
    for outcome, value in found:
        if value is not None:
            unit = outcome.unit
            outcomes.append(outcome)
            if not isinstance(value, TrainedRun):
                value = TrainedRun(value=value, seed=unit.seed, repeat=unit.repeat, source=unit.id)
            runs.append(replace(value, seed=len(runs), repeat=0) if timed else value)
    if not any(run.repeat == 0 for run in runs):
        return _none(wanted, "only repeats of a seed were run" if runs else why)
    settings = {canonical(_without(one.config)) for one in outcomes}
    notes = ["its runs do not all have one config"] if len(settings) > 1 else []
    notes += [note for one in outcomes for note in notes_of(one)]
    return Reading(name=wanted.arm, runs=tuple(runs), notes=tuple(dict.fromkeys([*notes, *flags])), **about)


def _none(wanted: Wanted, why: str) -> Reading:
    return Reading(name=wanted.arm, runs=(), why=why)


_ids = lru_cache(maxsize=64)(ids_of)


def _without(value: Any) -> Any:
    """A config but for seeds and attacks: equal for all runs of an arm."""
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
