"""The runs of an arm under a measure: their values, their substitutes, and why there are none.

Tables, claims and the page all take their numbers from here. Only a claim leaves out the runs that chose an arm
(``claims.after_choice``), with a note.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from robust_tickets.stats.compare_runs import FEWEST_SHOWN, RunSet, RunSummary, TrainedRun, summarise_runs
from robust_tickets.stats.intervals import Interval

NOT_RUN, NOT_ALONE = "not run", "not timed alone"
CORPUS = "wikitext-2-raw-v1"  # what ORTicket was searched on
BASES = {"speedup_vs_pgd": "pgd", "speedup_vs_freelb": "freelb", "speedup_lost_to_search": "freelb"}  # arms
ATTACK_METRICS = ("aua", "suc", "queries")
BASELINE = "finetune"
HINT = "restore the result file; results are not edited"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Runs of an arm; repeats of a seed count in no mean. Without a run, ``why`` has the reason."""

    runs: RunSet
    units: tuple[str, ...] = ()  # ids of the jobs behind the mean, in the order of their values
    split: str = ""
    examples: str = ""  # hash of the attacked examples' ids
    way: str = ""  # how all runs were attacked: rules, scoring and resources, as canonical JSON
    substituted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    why: str = ""


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

    def of(self, outcome: Outcome) -> bool:
        """Whether the outcome is one of this arm's."""
        return outcome.unit.arm == self.arm and self.beside(outcome)

    def beside(self, outcome: Outcome) -> bool:
        """Whether it is of the same task, backbone and flavour."""
        unit = outcome.unit
        return (unit.task, unit.backbone, unit.flavour) == (self.task, self.backbone, self.flavour)


def read_runs(wanted: Wanted, outcomes: Sequence[Outcome], folder: Path | None) -> Reading:
    """Read the runs of a request. ``folder`` holds the ids of the examples; without it runs have only values."""
    own = [outcome for outcome in outcomes if wanted.of(outcome)]
    trained = [outcome for outcome in own if outcome.clean]
    if not trained:
        return _none(wanted, "searched only, not trained" if own else NOT_RUN)
    if wanted.metric in ATTACK_METRICS or (wanted.metric == "clean" and wanted.attack):
        return _attacked(wanted, trained, folder)
    if wanted.metric == "clean":
        return _clean(wanted, trained)
    if wanted.metric.startswith("speedup"):
        return _speedup(wanted, trained, outcomes)
    if wanted.metric == "seconds":
        alone = _alone(trained, _device(wanted, outcomes))
        return _reading(wanted, _timed([(o, seconds(o)) for o in alone]), why=NOT_ALONE)
    if wanted.metric == "work":
        from robust_tickets.reproduce.cost import work

        return _reading(wanted, _of_values([(o, work(o)) for o in trained]), why="its passes are not known")
    name = "encoder_parameters" if wanted.metric == "encoder_millions" else "parameters"
    # the papers count the parameters that a mask keeps
    sizes = [(o, number(o, o.cost.get(f"nonzero_{name}", o.cost.get(name)))) for o in trained]
    runs = _of_values([(o, None if size is None else size / 1e6) for o, size in sizes])
    return _reading(wanted, runs, why="its size was not kept")


def attacks_of(outcomes: Sequence[Outcome], asked: str, split: str | None = None) -> tuple[str, ...]:
    """Our attacks that stand for a published one: the same with any candidates and constraints, the plainest first.

    The code of two papers runs another BERT-Attack than the published one, our ``bertattack_papers``: both count as it.
    """
    found = {a.name for o in outcomes for a in o.attacks if a.split == (split or o.clean.get("split"))}
    alike = [name for name in found if name == asked or name.partition("-")[0] in (asked, f"{asked}_papers")]
    return tuple(sorted(alike, key=lambda name: (name.count("-"), name)))


def timed_alone(outcome: Outcome) -> bool:
    """Whether no other process shared the device, so that its times are the method's."""
    return outcome.cost.get("processes") == 1


def seconds(outcome: Outcome, search: bool = True) -> float | None:
    """Seconds of training, and of the search before it."""
    trained, searched = (number(outcome, outcome.cost.get(f"{name}_seconds")) for name in ("train", "search"))
    return None if trained is None else trained + ((searched or 0.0) if search else 0.0)


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
    name, found = wanted.attack, []
    for outcome in own:
        split = wanted.split or outcome.clean.get("split")
        found += [(outcome, one) for one in outcome.attacks if (one.name, one.split) == (name, split)]
    if not found:
        by = f" by {attack_phrase(name)}" + (f" on {wanted.split}" if wanted.split else "") if name else ""
        return _none(wanted, f"trained, not attacked{by}")
    ways = {_way(one) for _, one in found}
    if len({one.examples for _, one in found}) > 1:
        return _none(wanted, "its runs were attacked on different examples")
    if len(ways) > 1:
        return _none(wanted, "its runs were attacked by different rules, or with different words")
    attacks = [one for _, one in found]
    made = _reading(
        wanted,
        [(o, run) for o, one in found if (run := _run(wanted.metric, o, one, folder)) is not None],
        why="nothing of the attack could be counted",
        flags=_each(flag for one in attacks for flag in one.flags),
    )
    if made.why:
        return made
    substituted = _each(words for one in attacks for words in one.substitutes)
    return replace(made, split=attacks[0].split, examples=attacks[0].examples, way=ways.pop(), substituted=substituted)


def _way(attacked: Attacked) -> str:
    """The attack's rules, scoring and resources, whatever the model and the machine."""
    held = {kind: about.get("digest") for kind, about in attacked.resources.items()}
    return canonical({"recipe": attacked.recipe, "scoring": attacked.scoring, "resources": held})


def _run(metric: str, outcome: Outcome, attacked: Attacked, folder: Path | None) -> TrainedRun | None:
    if metric == "queries":
        return _of_value(outcome, attacked.mean_queries)
    measure: Any = metric
    value = attacked.share(measure)
    if value is None or folder is None:
        return _of_value(outcome, value)
    return attacked.run(outcome.unit, _ids(folder, attacked.examples), measure, source=outcome.unit.id)


def _clean(wanted: Wanted, own: Sequence[Outcome]) -> Reading:
    """Clean accuracy on the whole split, not only on the attacked examples."""
    there = [o for o in own if wanted.split in (None, o.clean.get("split")) and o.clean.get("accuracy") is not None]
    runs = _of_values([(o, o.clean["accuracy"]) for o in there])
    found = _reading(wanted, runs, why=f"trained, not evaluated on {wanted.split or 'a split'}")
    return found if found.why else replace(found, split=str(there[0].clean.get("split", "")))


def _speedup(wanted: Wanted, own: Sequence[Outcome], everyone: Sequence[Outcome]) -> Reading:
    """Speed-ups as printed: EarlyRobust counts its search; ORTicket leaves out its one search for all tasks."""
    device = _device(wanted, own)
    own = _alone(own, device)
    if not own:
        return _none(wanted, NOT_ALONE)
    same = replace(wanted, arm=BASES[wanted.metric])
    based = [o for o in everyone if same.of(o)]
    times = [found for o in _alone(based, device) if (found := seconds(o)) is not None]
    if not times:
        why = "was not timed alone on the same device" if based else "against which it is timed, was not run"
        return _none(wanted, f"{arm_title(same.arm)}{' ' if based else ', '}{why}")
    base, values = fmean(times), []
    for outcome in own:
        whole, trained = seconds(outcome), seconds(outcome, search=False)
        if whole and trained:
            kinds = {"speedup_vs_pgd": base / whole, "speedup_vs_freelb": base / trained}
            values.append((outcome, kinds.get(wanted.metric, base / trained - base / whole)))
    made = _reading(wanted, _timed(values), why=NOT_ALONE)
    against = f"timed on {device}, {arm_title(same.arm)} the mean of {len(times)} runs"
    return made if made.why else replace(made, substituted=(against,))


def _device(wanted: Wanted, outcomes: Sequence[Outcome]) -> object:
    """The device on which most runs of a task were timed alone: seconds of two devices are not compared."""
    devices = [o.env.get("device") for o in outcomes if wanted.beside(o) and timed_alone(o)]
    counts = Counter(map(str, devices))
    most = max(sorted(counts), key=counts.__getitem__, default=None)
    return next((device for device in devices if str(device) == most), None)


def _alone(outcomes: Iterable[Outcome], device: object) -> list[Outcome]:
    return [o for o in outcomes if timed_alone(o) and o.env.get("device") == device]


def _reading(
    wanted: Wanted, runs: Sequence[tuple[Outcome, TrainedRun]], *, why: str, flags: tuple[str, ...] = ()
) -> Reading:
    if not any(run.repeat == 0 for _, run in runs):
        return _none(wanted, why if not runs else "only repeats of a seed were run")
    mixed = ("its runs do not all have one config",) if len({_settings(o) for o, _ in runs}) > 1 else ()
    return Reading(
        runs=RunSet(name=wanted.arm, runs=tuple(run for _, run in runs)),
        units=tuple(run.source for _, run in runs if run.repeat == 0),
        notes=(*mixed, *_each(note for o, _ in runs for note in notes_of(o)), *flags),
    )


def _none(wanted: Wanted, why: str) -> Reading:
    return Reading(runs=RunSet(name=wanted.arm, runs=()), why=why)


def _of_value(outcome: Outcome, value: float | None) -> TrainedRun | None:
    unit, value = outcome.unit, number(outcome, value)
    return None if value is None else TrainedRun(value=value, seed=unit.seed, repeat=unit.repeat, source=unit.id)


def _of_values(found: Iterable[tuple[Outcome, float | None]]) -> list[tuple[Outcome, TrainedRun]]:
    return [(o, run) for o, value in found if (run := _of_value(o, value)) is not None]


def _timed(found: Iterable[tuple[Outcome, float | None]]) -> list[tuple[Outcome, TrainedRun]]:
    """As ``_of_values``, repeats of a seed counted like all others: a run's time does not depend on its seed."""
    return [(o, replace(run, seed=i, repeat=0)) for i, (o, run) in enumerate(_of_values(found))]


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


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """A seed of an arm that was run more than once, and its number of different models."""

    arm: str
    seed: int
    runs: int
    models: int
    tickets: int | None  # None: whole models
    codes: int = 1  # versions of the code that made them


def repeated(outcomes: Sequence[Outcome], *, task: str, backbone: str = BERT) -> tuple[Repeated, ...]:
    """Every arm and seed that was run again, in the order of their names."""
    runs: dict[tuple[str, int], list[Outcome]] = {}
    for one in outcomes:
        here = (one.unit.task, one.unit.backbone, one.unit.flavour) == (task, backbone, "corrected")
        if here and "trained" in one.inputs:  # else only its search was run
            runs.setdefault((one.unit.arm, one.unit.seed), []).append(one)
    return tuple(
        Repeated(
            arm=arm,
            seed=seed,
            runs=len(some),
            models=len({one.inputs["trained"] for one in some}),
            tickets=len({one.ticket["digest"] for one in some if one.ticket}) or None,
            codes=len({one.inputs.get("code") for one in some}),
        )
        for (arm, seed), some in sorted(runs.items())
        if len(some) > 1
    )


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
class Measured:
    """A mean over an arm's runs; ``runs`` has repeats of a seed too."""

    summary: RunSummary
    runs: tuple[TrainedRun, ...]

    @property
    def mean(self) -> float:
        return self.summary.mean

    @property
    def n(self) -> int:
        return self.summary.n

    @property
    def values(self) -> list[float]:
        return [run.value for run in self.runs if not run.repeat]

    @property
    def again(self) -> list[float]:
        return [run.value for run in self.runs if run.repeat]

    @property
    def reach(self) -> Interval | None:
        """The interval of a mean accuracy, cut at 0 and 100."""
        return (max(ends[0], 0.0), min(ends[1], 100.0)) if (ends := self.summary.shown) else None

    @property
    def equal(self) -> bool:
        """Whether all runs have one value, although there are enough for an interval."""
        return self.n >= FEWEST_SHOWN and self.summary.interval is None

    @property
    def few(self) -> bool:
        """Too few runs for any claim."""
        return not self.summary.enough


@dataclass(frozen=True, kw_only=True)
class Standing:
    """All runs of one arm on one task; ``place``, its number on the page, gives it colour and shape."""

    backbone: str
    task: str
    arm: str
    flavour: Flavour
    place: int
    outcomes: tuple[Outcome, ...]
    named: str = ""  # with what distinguishes it from others of its title

    @property
    def title(self) -> str:
        return (self.named or arm_title(self.arm)) + ("" if self.flavour == "corrected" else f", {self.flavour}")

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

    def measured(self, metric: str, attack: Against | None = None) -> Measured | None:
        return _measured(self.read(metric, attack).runs)

    def read(self, metric: str, attack: Against | None = None) -> Reading:
        about: dict[str, Any] = {"arm": self.arm, "task": self.task, "backbone": self.backbone, "flavour": self.flavour}
        if attack is not None:
            about |= {"attack": attack.name, "split": attack.split or None}
        return read_runs(Wanted(metric=metric, **about), self.outcomes, None)

    def flops(self) -> Measured | None:
        runs = _of_values([(o, number(o, o.cost.get("flops_per_example"))) for o in self.outcomes])
        return _measured(RunSet(name=self.arm, runs=tuple(run for _, run in runs)))


def _measured(runs: RunSet) -> Measured | None:
    return Measured(summary=summarise_runs(runs, resamples=0), runs=runs.runs) if runs.units else None


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
            named=distinct_title(arm, arms),
        )
        for (backbone, task, arm, flavour), members in groups.items()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: (one.place, one.flavour, one.key)))


def by_task(found: Sequence[Standing]) -> dict[Key, tuple[Standing, ...]]:
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


def where(key: Key) -> str:
    """A task and a backbone in words."""
    return f"{task_title(key[0])}, {backbone_title(key[1])}"
