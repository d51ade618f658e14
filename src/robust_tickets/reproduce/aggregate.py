"""Reading: the runs of one arm under one measure, out of all outcomes; what was substituted in them; why there are none.

Every number shown anywhere is made here, so that a table, a claim and the page cannot count differently, but for one thing: a claim leaves
out the runs that chose an arm (``claims.after_choice``), and says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from robust_tickets.config import canonical
from robust_tickets.errors import TicketsError
from robust_tickets.reproduce.arms import arm_title, attack_phrase
from robust_tickets.reproduce.job import BERT, Flavour
from robust_tickets.reproduce.outcome import Attacked, Outcome, ids_of
from robust_tickets.reproduce.wording import count
from robust_tickets.stats.compare_runs import RunSet, TrainedRun

NOT_RUN, NOT_ALONE = "not run", "not timed alone"
CORPUS = "wikitext-2-raw-v1"  # what ORTicket was searched on
BASES = {"speedup_vs_pgd": "pgd", "speedup_vs_freelb": "freelb", "speedup_lost_to_search": "freelb"}  # arms
ATTACK_METRICS = ("aua", "suc", "queries")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """``runs`` may hold repeats of a seed, which count in no mean. Without a run, ``why`` says what is missing."""

    runs: RunSet
    units: tuple[str, ...] = ()  # ids of the units behind the mean, in the order of their values
    split: str = ""
    examples: str = ""  # hash of the attacked examples' ids
    way: str = ""  # of attacking, where all runs were attacked in one: rules, scoring, and what its resources hold
    substituted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An arm on a task under a measure. ``attack`` is a name of the protocol; no ``split``: the one that the task attacks."""

    arm: str
    task: str
    metric: str
    attack: str | None = None
    split: str | None = None
    backbone: str = BERT
    flavour: Flavour = "corrected"

    def of(self, outcome: Outcome) -> bool:
        """Whether the outcome is one of this arm's."""
        unit = outcome.unit
        return (unit.arm, unit.task, unit.backbone, unit.flavour) == (self.arm, self.task, self.backbone, self.flavour)


def read_runs(wanted: Wanted, outcomes: Sequence[Outcome], folder: Path | None) -> Reading:
    """What was asked for. ``folder`` holds the ids of the examples; without it runs have values alone, which serves for means."""
    own = [outcome for outcome in outcomes if wanted.of(outcome)]
    if not own:
        return _none(wanted, NOT_RUN)
    own = [outcome for outcome in own if outcome.clean]
    if not own:
        return _none(wanted, "searched only, not trained")
    if wanted.metric in ATTACK_METRICS or (wanted.metric == "clean" and wanted.attack):
        return _attacked(wanted, own, folder)
    if wanted.metric == "clean":
        return _clean(wanted, own)
    return _cost(wanted, own, outcomes)


def attacks_of(outcomes: Sequence[Outcome], asked: str, split: str | None = None) -> tuple[str, ...]:
    """Our attacks that stand for a published one: the same with any candidates and constraints, the plainest first.

    What two papers call BERT-Attack their code did otherwise, which is our ``bertattack_papers``: both stand for it.
    """
    found = {
        a.name for outcome in outcomes for a in outcome.attacks if a.split == (split or outcome.clean.get("split"))
    }
    alike = [name for name in found if name == asked or name.partition("-")[0] in (asked, f"{asked}_papers")]
    return tuple(sorted(alike, key=lambda name: (name.count("-"), name)))


def timed_alone(outcome: Outcome) -> bool:
    """A time taken while others shared the device is no time of this method."""
    return outcome.cost.get("processes") == 1


def seconds(outcome: Outcome, search: bool = True) -> float | None:
    """Of training, and of the search before it."""
    trained, searched = (number(outcome, outcome.cost.get(f"{name}_seconds")) for name in ("train", "search"))
    return None if trained is None else trained + ((searched or 0.0) if search else 0.0)


def number(outcome: Outcome, value: Any) -> float | None:
    """What a result file has for a number. Anything else was written by somebody else: said, not shown."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)):
        return None if value is None else float(value)
    raise TicketsError(
        f"{outcome.unit.id} has {value!r} for a number", hint="restore the result file; results are not edited"
    )


def _attacked(wanted: Wanted, own: Sequence[Outcome], folder: Path | None) -> Reading:
    found = [
        (o, a)
        for o in own
        for a in o.attacks
        if a.name == wanted.attack and a.split == (wanted.split or o.clean.get("split"))
    ]
    if not found:
        by = (
            f" by {attack_phrase(wanted.attack)}" + (f" on {wanted.split}" if wanted.split else "")
            if wanted.attack
            else ""
        )
        return _none(wanted, f"trained, not attacked{by}")
    if len({a.examples for _, a in found}) > 1:
        return _none(wanted, "its runs were attacked on different examples")
    if len({_way(a) for _, a in found}) > 1:
        return _none(wanted, "its runs were attacked by different rules, or with different words")
    attacks = [a for _, a in found]
    runs = [(o, run) for o, a in found if (run := _run(wanted.metric, o, a, folder)) is not None]
    return _reading(
        wanted,
        runs,
        split=attacks[0].split,
        examples=attacks[0].examples,
        way=_way(attacks[0]),
        substituted=_each(words for a in attacks for words in a.substitutes),
        flags=_each(flag for a in attacks for flag in a.flags),
        why="nothing of the attack could be counted",
    )


def _way(attacked: Attacked) -> str:
    """How it attacked, whatever the model and the machine."""
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
    """On the whole split, not on the attacked examples alone."""
    there = [o for o in own if wanted.split in (None, o.clean.get("split")) and o.clean.get("accuracy") is not None]
    runs = [(o, run) for o in there if (run := _of_value(o, o.clean["accuracy"])) is not None]
    split = str(there[0].clean.get("split", "")) if there else ""
    return _reading(wanted, runs, split=split, why=f"trained, not evaluated on {wanted.split or 'a split'}")


def _cost(wanted: Wanted, own: Sequence[Outcome], everyone: Sequence[Outcome]) -> Reading:
    if wanted.metric.endswith("_millions"):
        name = "encoder_parameters" if wanted.metric == "encoder_millions" else "parameters"
        sizes = [
            (o, number(o, o.cost.get(f"nonzero_{name}", o.cost.get(name)))) for o in own
        ]  # the papers count what a mask leaves
        return _reading(
            wanted,
            _of_values([(o, None if size is None else size / 1e6) for o, size in sizes]),
            why="its size was not kept",
        )
    if wanted.metric == "work":
        from robust_tickets.reproduce.cost import work

        return _reading(wanted, _of_values([(o, work(o)) for o in own]), why="its passes are not known")
    device = _device(wanted, everyone if wanted.metric == "seconds" else own)
    own = [o for o in own if timed_alone(o) and o.env.get("device") == device]
    if wanted.metric == "seconds" or not own:
        return _reading(wanted, _timed([(o, seconds(o)) for o in own]), why=NOT_ALONE)
    same = replace(wanted, arm=BASES[wanted.metric])
    based = [o for o in everyone if same.of(o) and timed_alone(o) and o.env.get("device") == device]
    times = [found for o in based if (found := seconds(o)) is not None]
    if not times:
        if not any(same.of(o) for o in everyone):
            return _none(wanted, f"{arm_title(same.arm)}, against which it is timed, was not run")
        return _none(wanted, f"{arm_title(same.arm)} was not timed alone on the same device")
    base = fmean(times)
    runs = _timed([(o, _speedup(wanted.metric, base, o)) for o in own])
    return _reading(
        wanted,
        runs,
        why=NOT_ALONE,
        substituted=(f"timed on {device}, {arm_title(same.arm)} the mean of {len(times)} runs",),
    )


def _device(wanted: Wanted, outcomes: Sequence[Outcome]) -> object:
    """The one on which most runs of a task were timed alone: seconds of two devices are not to be held against each other."""
    alike = [
        o
        for o in outcomes
        if (o.unit.task, o.unit.backbone, o.unit.flavour) == (wanted.task, wanted.backbone, wanted.flavour)
    ]
    counts = Counter(str(o.env.get("device")) for o in alike if timed_alone(o))
    most = max(sorted(counts), key=counts.__getitem__, default=None)
    return next((o.env.get("device") for o in alike if timed_alone(o) and str(o.env.get("device")) == most), None)


def _speedup(metric: str, base: float, outcome: Outcome) -> float | None:
    """EarlyRobust counts its search; ORTicket leaves out its one search for all tasks, and says what that is worth."""
    whole, trained = seconds(outcome), seconds(outcome, search=False)
    if not whole or not trained:
        return None
    return {"speedup_vs_pgd": base / whole, "speedup_vs_freelb": base / trained}.get(
        metric, base / trained - base / whole
    )


def _reading(
    wanted: Wanted, runs: Sequence[tuple[Outcome, TrainedRun]], *, why: str, flags: tuple[str, ...] = (), **told: Any
) -> Reading:
    if not any(run.repeat == 0 for _, run in runs):
        return _none(wanted, why if not runs else "only repeats of a seed were run")
    mixed = ("its runs do not all have one config",) if len({_settings(o) for o, _ in runs}) > 1 else ()
    return Reading(
        runs=RunSet(name=wanted.arm, runs=tuple(run for _, run in runs)),
        units=tuple(run.source for _, run in runs if run.repeat == 0),
        notes=(*mixed, *_each(note for o, _ in runs for note in notes_of(o)), *flags),
        **told,
    )


def notes_of(outcome: Outcome) -> tuple[str, ...]:
    """What a run says of itself, and what a search without labels read in place of the paper's text."""
    recipe = outcome.config.get("recipe")
    origins = [one.get("origin") or {} for one in recipe.get("arms", ())] if isinstance(recipe, Mapping) else []
    read = [str((one.get("search") or {}).get("corpus") or "").rpartition("/")[2] for one in origins]
    others = [
        f"searched on the texts of {name}, which stand in for {CORPUS}"
        for name in read
        if name not in ("", "task", CORPUS)
    ]
    return (*outcome.notes, *others)


def _none(wanted: Wanted, why: str) -> Reading:
    return Reading(runs=RunSet(name=wanted.arm, runs=()), why=why)


def _of_value(outcome: Outcome, value: float | None) -> TrainedRun | None:
    unit, value = outcome.unit, number(outcome, value)
    return None if value is None else TrainedRun(value=value, seed=unit.seed, repeat=unit.repeat, source=unit.id)


def _of_values(found: Iterable[tuple[Outcome, float | None]]) -> list[tuple[Outcome, TrainedRun]]:
    return [(o, run) for o, value in found if (run := _of_value(o, value)) is not None]


def _timed(found: Iterable[tuple[Outcome, float | None]]) -> list[tuple[Outcome, TrainedRun]]:
    """As ``_of_values``, repeats of a seed counted like all others: what a run takes does not hang on its seed."""
    return [(o, replace(run, seed=i, repeat=0)) for i, (o, run) in enumerate(_of_values(found))]


def _each(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


@lru_cache(maxsize=64)
def _ids(folder: Path, examples: str) -> tuple[str, ...]:
    return ids_of(folder, examples)


def _settings(outcome: Outcome) -> str:
    """The config but for seeds and attacks: equal for all runs of an arm."""
    return canonical(_without(outcome.config))


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without(inner) for name, inner in value.items() if name not in ("seed", "attack", "attacks")}
    return [_without(inner) for inner in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """One seed of an arm that was run more than once."""

    arm: str
    seed: int
    runs: int
    models: int
    tickets: int | None  # None: of the whole model
    codes: int = 1  # versions of the code that made them

    @property
    def told(self) -> str:
        drawn = "" if self.tickets is None else f" of {count(self.tickets, 'ticket')}"
        versions = f", made by {count(self.codes, 'version')} of the code" if self.codes > 1 else ""
        return f"{arm_title(self.arm)}, seed {self.seed}: {count(self.models, 'model')}{drawn} in {count(self.runs, 'run')}{versions}"


def repeated(outcomes: Sequence[Outcome], *, task: str, backbone: str = BERT) -> tuple[Repeated, ...]:
    """Of every arm and seed that was run again, in the order of their names."""
    runs: dict[tuple[str, int], list[Outcome]] = {}
    for one in outcomes:
        here = (one.unit.task, one.unit.backbone, one.unit.flavour) == (task, backbone, "corrected")
        if here and "trained" in one.inputs:  # of some, the ticket alone was asked for
            runs.setdefault((one.unit.arm, one.unit.seed), []).append(one)
    found = []
    for (arm, seed), some in sorted(runs.items()):
        if len(some) > 1:
            tickets = {one.ticket["digest"] for one in some if one.ticket}
            models = {one.inputs["trained"] for one in some}
            codes = {one.inputs.get("code") for one in some}
            counted = {"runs": len(some), "models": len(models), "codes": len(codes)}
            found.append(Repeated(arm=arm, seed=seed, tickets=len(tickets) or None, **counted))
    return tuple(found)


def models_told(found: Sequence[Repeated]) -> str:
    """One sentence or two; nothing where nothing was run again."""
    if not found:
        return ""
    alone = any(one.models < one.runs for one in found)
    said = f"By the hashes of their weights: {'; '.join(one.told for one in found)}."
    return said + " Runs of one model differ by their attack alone." * alone
