"""Claims, fixed beforehand in ``claims.toml``: judged over training runs, a family at a time, by Holm.

Beside them the goals of the recipe that trains on word swaps, likewise fixed, and the differences that papers print.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.report.format import p_value, plural, points, signed_span
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import NOT_RUN, Reading, Wanted, read_runs
from robust_tickets.reproduce.arms import arm_title, arms, attack_title, rows, task_title
from robust_tickets.reproduce.job import BERT, Flavour
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.protocol import attack as attack_of
from robust_tickets.reproduce.published import toml
from robust_tickets.stats.compare_runs import (
    FEWEST_RUNS,
    RunComparison,
    SeedSpread,
    compare_runs,
    judge_family,
    seed_spread,
)
from robust_tickets.stats.intervals import Interval, predicted_difference

RESAMPLES = 2_000  # of the bootstrap over runs and examples: its ends differ by tenths of a point between seeds


@dataclass(frozen=True, kw_only=True)
class Claim:
    """``arm`` against ``other`` under an attack, on the examples of a split."""

    arm: str
    other: str
    attack: str
    task: str
    split: str | None  # None: the one that the task attacks
    metric: str = "aua"
    backbone: str = BERT

    def sides(
        self, outcomes: Sequence[Outcome], folder: Path | None = None, flavour: Flavour = "corrected"
    ) -> tuple[Reading, Reading]:
        """The runs of both arms, without those that took part in choosing one."""
        about = {name: value for name, value in vars(self).items() if name not in ("arm", "other")}
        first, second = (
            read_runs(Wanted(arm=arm, flavour=flavour, **about), after_choice(arm, outcomes), folder)
            for arm in (self.arm, self.other)
        )
        return first, second


@dataclass(frozen=True, kw_only=True)
class Family:
    """Claims that are adjusted together: a question of a campaign, or one task of a table."""

    id: str
    title: str
    question: str
    margin: float
    claims: tuple[Claim, ...]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim after the runs; without runs of both arms it has no comparison but ``why``."""

    claim: Claim
    comparison: RunComparison | None
    substituted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    why: str = ""

    @property
    def verdict(self) -> str:
        """``different``, ``equivalent``, ``undecided``, ``too few runs`` or ``not run``."""
        return self.comparison.verdict if self.comparison else NOT_RUN


def fixed() -> Mapping[str, Any]:
    """``claims.toml``."""
    return toml("claims.toml")


def names() -> tuple[str, ...]:
    """Ids of all families: the campaigns', then the tables'."""
    return (*fixed()["families"], *fixed()["tables"]["rows"])


def families_of(table: str) -> tuple[str, ...]:
    """Families of a table, or of a campaign by its title: ``campaign B`` judges ``B``, ``B-forms`` and ``B-validation``."""
    letter = table.removeprefix("campaign ")
    return tuple(name for name in names() if name == table or (letter != table and name.partition("-")[0] == letter))


@cache
def family(id: str, flavour: Flavour = "corrected") -> Family:
    """The family called ``id``: ``A``, or a table's ``ER-T1``, whose rows may be other arms in another flavour."""
    margin, tables = float(fixed()["margin"]), fixed()["tables"]["rows"]
    if id in tables:
        title, question = published.table(id).title, f"{tables[id]} against every other row of its task"
        return Family(id=id, title=title, question=question, margin=margin, claims=_of_table(id, flavour))
    if id not in fixed()["families"]:
        raise TicketsError(f"{id!r} is no family of claims", hint=did_you_mean(id, names()), code="claims.family")
    given = fixed()["families"][id]
    claims = tuple(
        Claim(arm=block["arm"], other=other, attack=attack, task=given["task"], split=given["split"])
        for block in given["claims"]
        for attack in block["attacks"]
        for other in block["against"]
    )
    return Family(id=id, title=given["title"], question=given["question"], margin=margin, claims=claims)


def _of_table(id: str, flavour: Flavour) -> tuple[Claim, ...]:
    """The row of the table's own method against every other of its task and backbone."""
    given = fixed()["tables"]
    lines = [(task, row) for row in rows(id, flavour) for task in row.tasks if row.arm]
    claims = [
        Claim(arm=row.arm, other=other.arm, attack=attack, task=task, split=None, backbone=row.backbone)
        for task, row in lines
        if row.name.startswith(given["rows"][id])
        for task2, other in lines
        if (task2, other.backbone) == (task, row.backbone) and other.name != row.name and other.arm != row.arm
        for attack in given["attacks"]
    ]
    return tuple(dict.fromkeys(claims))  # two rows may be one arm


def judge(
    id: str, outcomes: Sequence[Outcome], folder: Path | None = None, *, flavour: Flavour = "corrected"
) -> tuple[Judged, ...]:
    """All claims of a family, adjusted together on each task; without ``folder`` examples take no part.

    All claims on the task count, run or not, so that a verdict holds when others come. Tasks of a table are studies of their own: who
    reads one of them does not pay for those that nobody runs.
    """
    found = family(id, flavour)
    alone = [_alone(claim, found.margin, outcomes, folder, flavour) for claim in found.claims]
    made = fixed()["families"].get(id, {}).get("made")
    adjusted = {}
    for task, number in Counter(claim.task for claim in found.claims).items():
        own = [one.comparison for one in alone if one.comparison and one.claim.task == task]
        adjusted[task] = iter(judge_family(own, made or number))
    return tuple(replace(one, comparison=next(adjusted[one.claim.task])) if one.comparison else one for one in alone)


def _alone(claim: Claim, margin: float, outcomes: Sequence[Outcome], folder: Path | None, flavour: Flavour) -> Judged:
    """A claim by itself."""
    first, second = sides = claim.sides(outcomes, folder, flavour)
    missing, notes = list[str](), list[str]()
    for one in sides:
        from_seed = first_seed(one.name)
        chosen = [f"seeds from {from_seed} on, which took no part in choosing it"] if from_seed else []
        missing += [] if one.units else [" with ".join([f"{arm_title(one.name)}: {one.why}", *chosen])]
        notes += [f"{one.name}: {note}" for note in (*one.notes, *(f"here {words}" for words in chosen))]
    if not missing and first.examples != second.examples:
        missing = ["the two were attacked on different examples"]
    if not missing and first.way != second.way:
        missing = ["the two were attacked by different rules, or with different words"]
    return Judged(
        claim=claim,
        comparison=None if missing else compare_runs(first, second, margin=margin, resamples=RESAMPLES),
        substituted=tuple(dict.fromkeys((*first.substituted, *second.substituted))),
        notes=tuple(dict.fromkeys(notes)),
        why="; ".join(missing),
    )


def first_seed(arm: str) -> int:
    """The first seed that took no part in choosing the arm."""
    chosen = fixed()["chosen"]
    return int(chosen["first_seed"]) if arm in chosen["arms"] else 0


def after_choice(arm: str, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes without those of the arm's runs that took part in choosing it."""
    return [one for one in outcomes if one.unit.arm != arm or one.unit.seed >= first_seed(arm)]


def spreads(
    outcomes: Sequence[Outcome], *, task: str, attack: str, split: str | None = None, backbone: str = BERT
) -> tuple[SeedSpread, ...]:
    """For every arm of which a seed was run again: the spread of its repeats, beside that of its seeds."""
    arms = [o.unit.arm for o in outcomes if (o.unit.task, o.unit.backbone) == (task, backbone) and o.unit.repeat]
    about = Wanted(arm="", task=task, metric="aua", attack=attack, split=split, backbone=backbone)
    found = [read_runs(replace(about, arm=arm), outcomes) for arm in dict.fromkeys(arms)]
    return tuple(seed_spread(runs) for runs in found if runs.units and any(run.repeat for run in runs.runs))


# --- verdicts in words


def word(found: RunComparison) -> str:
    """A verdict with its direction."""
    return {"different": "more robust" if found.difference > 0 else "less robust"}.get(found.verdict, found.verdict)


HERE = " (on these texts; others may differ)"


def qualified(found: RunComparison) -> str:
    """The same, with whether a difference is within the margin too, and whether the interval over other texts agrees."""
    low, high = found.over_examples or (0.0, 0.0)
    within, apart = -found.margin < low and high < found.margin, low > 0 or high < 0
    here = {"different": not apart, "equivalent": not within}.get(found.verdict, False) and found.over_examples
    small = f", by less than {found.margin:g} points" if found.different and found.equivalent and within else ""
    return f"{word(found)}{small}{HERE if here else ''}"


def difference(value: float, n: tuple[int, int], interval: Interval | None, over: Interval | None = None) -> str:
    """A difference of two arms with its intervals and the number of runs of each."""
    spans = f" ({signed_span(interval)})" if interval else ""
    spans += f", on further texts {signed_span(over)}" if over else ""
    return f"{points(value)} points{spans}, {n[0]} and {n[1]} runs"


def sentence(one: Judged) -> str:
    """A claim in one sentence, whatever came of it."""
    claim, found = one.claim, one.comparison
    who = f"{arm_title(claim.arm)} against {arm_title(claim.other)}, {task_title(claim.task)}, {attack_title(claim.attack)}"
    if found is None:
        return f"{who}: not run ({one.why})."
    p = found.adjusted_equivalence_p if found.verdict == "equivalent" else found.adjusted_p
    adjusted = f", p {p_value(p)} after Holm over {plural(found.of, 'claim')}" if p is not None else ""
    value = difference(found.difference, found.n, found.shown, found.shown_over_examples)
    return f"{who}: {qualified(found)}, {value}{adjusted}."


# --- goals


@dataclass(frozen=True, kw_only=True)
class Goal:
    """``reached`` is None where the runs do not suffice; ``words``: the number and its interval, or why there is none."""

    name: str
    asked: str
    reached: bool | None
    words: str
    few: bool = False  # judged by fewer runs than a claim would need, being a measurement of the machine

    @property
    def verdict(self) -> str:
        return {True: "reached", False: "not reached", None: "not measured"}[self.reached]


def goals(
    outcomes: Sequence[Outcome], folder: Path | None = None, judged: Sequence[Judged] | None = None
) -> tuple[Goal, ...]:
    """Gain, other attacks, clean accuracy, cost, size. ``judged``: their family, where it is judged already."""
    given = fixed()["goals"]
    under = {one.claim.attack: one for one in (judge(given["family"], outcomes, folder) if judged is None else judged)}
    better, words = dict[str, bool | None](), dict[str, str]()
    for name, one in under.items():
        found, least = one.comparison, given["gain"] if name == given["seen"] else 0.0
        better[name], words[name] = None, one.why
        if found is not None:
            words[name] = difference(found.difference, found.n, found.shown) + HERE * qualified(found).endswith(HERE)
            better[name] = word(found) == "more robust" and found.difference >= least if found.enough else None
    unseen = [better[name] for name in given["unseen"]]
    every = False if False in unseen else None if None in unseen else True
    others = "; ".join(f"{attack_title(name)}: {words[name]}" for name in given["unseen"])
    return (
        Goal(name="gain", asked=given["asked"]["gain"], reached=better[given["seen"]], words=words[given["seen"]]),
        Goal(name="unseen", asked=given["asked"]["unseen"], reached=every, words=others),
        *(_measured(given, name, outcomes) for name in ("clean", "cost", "size")),
    )


def _measured(given: Mapping[str, Any], name: str, outcomes: Sequence[Outcome]) -> Goal:
    """A goal that is no claim: mean clean accuracy, seconds, or parameters, of the chosen arm beside another's."""
    claim, clean = family(given["family"]).claims[0], name == "clean"
    sides = first, second = replace(
        claim,
        arm=given["arm"],
        other=given["cost_against" if name == "cost" else "against"],
        metric={"clean": "clean", "cost": "seconds", "size": "total_millions"}[name],
        attack=given["seen"] if clean else "",
        split=claim.split if clean else None,
    ).sides(outcomes)
    few, reached = min(len(one.units) for one in sides) < FEWEST_RUNS, None
    if missing := [f"{arm_title(one.name)}: {one.why}" for one in sides if not one.units]:
        words = "; ".join(missing)
    elif clean:
        found = compare_runs(first, second, resamples=0)
        reached = None if few else found.difference >= -given["clean_below"]
        words = difference(found.difference, found.n, found.shown)
    else:
        (a, b), (m, n), unit = (first.mean, second.mean), (len(first.units), len(second.units)), "M"
        reached, also = a / b < given["size"], ""
        if name == "cost":
            codes = {one.inputs.get("code") for one in outcomes if one.unit.id in (*first.sources, *second.sources)}
            versions = f", by {len(codes)} versions of the code" if len(codes) > 1 else ""
            reached, unit, also = a / b <= given["cost"], "s", f", each alone on the device{versions}"
        words = f"{a / b:.2f} times: {a:.1f} {unit} against {b:.1f} {unit}, means of {m} and {n} runs{also}"
    return Goal(
        name=name,
        asked=given["asked"][name],
        reached=reached,
        words=words,
        few=few and name == "cost" and reached is not None,
    )


# --- differences that papers print


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A difference that a paper prints; ``runs``: of how many runs each of the two numbers is the mean.

    ``prediction``: where as many further runs of ours a side would put it; none with fewer than five runs a side.
    """

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
    key = (claim.task, claim.backbone, claim.metric, asked)
    for one in published.tables() if asked else ():
        cells = {c.row: c for c in published.cells(one.id) if (c.task, c.backbone, c.metric, c.attack) == key}
        own = [row for row in rows(one.id) if claim.task in row.tasks and row.backbone == claim.backbone]
        there = {row.arm: cells[row.name] for row in own if row.x is None and row.name in cells}
        first, second = (there.get(arm) or there.get(arms()[arm].beside) for arm in (claim.arm, claim.other))
        if first and second:
            runs, (ours, theirs) = (first.runs, second.runs), (side.values for side in claim.sides(outcomes))
            enough = min(len(ours), len(theirs)) >= FEWEST_RUNS
            prediction = predicted_difference(ours, theirs, further=runs) if enough else None
            return Printed(table=one.id, difference=first.value - second.value, runs=runs, prediction=prediction)
    return None
