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
from robust_tickets.report.format import listed, p_value, plural, points, signed_span
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import NOT_RUN, Reading, Wanted, read_runs
from robust_tickets.reproduce.arms import arm_title, arms, attack_phrase, attack_title, rows, task_title
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

    def of(self, arm: str, flavour: Flavour = "corrected") -> Wanted:
        """The runs to read for one side."""
        return Wanted(
            arm=arm, task=self.task, metric=self.metric, attack=self.attack, split=self.split, backbone=self.backbone, flavour=flavour
        )  # fmt: skip


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
    return (*fixed()["families"], *table_names())


def table_names() -> tuple[str, ...]:
    """Ids of the tables that make claims."""
    return tuple(fixed()["tables"]["rows"])


def families_of(table: str) -> tuple[str, ...]:
    """Families of a table, or of a campaign by its title: ``campaign B`` judges ``B``, ``B-forms`` and ``B-validation``."""
    if table in table_names():
        return (table,)
    letter = table.removeprefix("campaign ")[:1] if table.startswith("campaign ") else None
    return tuple(name for name in fixed()["families"] if name.partition("-")[0] == letter)


@cache
def family(id: str, flavour: Flavour = "corrected") -> Family:
    """The family called ``id``: ``A``, or a table's ``ER-T1``, whose rows may be other arms in another flavour."""
    margin = float(fixed()["margin"])
    if id in table_names():
        question = f"{fixed()['tables']['rows'][id]} against every other row of its task"
        claims = _of_table(id, flavour)
        return Family(id=id, title=published.table(id).title, question=question, margin=margin, claims=claims)
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

    All claims on the task count, run or not, so that a verdict stands when others come. Tasks of a table are studies of their own: who
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
    first, second = sides = [
        read_runs(claim.of(arm, flavour), after_choice(arm, outcomes), folder) for arm in (claim.arm, claim.other)
    ]
    missing = [f"{arm_title(one.runs.name)}: {_lacking(one, claim, outcomes)}" for one in sides if not one.runs.units]
    if not missing and first.examples != second.examples:
        missing = ["the two were attacked on different examples"]
    if not missing and first.way != second.way:
        missing = ["the two were attacked by different rules, or with different words"]
    notes = [f"{one.runs.name}: {note}" for one in sides for note in (*one.notes, *_left_out(one.runs.name))]
    return Judged(
        claim=claim,
        comparison=None if missing else compare_runs(first.runs, second.runs, margin=margin, resamples=RESAMPLES),
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


def _lacking(one: Reading, claim: Claim, outcomes: Sequence[Outcome]) -> str:
    """Why there is no run of an arm, which may have some that chose it."""
    arm = one.runs.name
    known = [o for o in outcomes if (o.unit.arm, o.unit.task, o.unit.backbone) == (arm, claim.task, claim.backbone)]
    return "only runs that took part in choosing it" if known and not after_choice(arm, known) else one.why


def _left_out(arm: str) -> list[str]:
    """A note where a claim has fewer runs than the page shows of the arm."""
    first = first_seed(arm)
    return [f"here without the runs that took part in choosing it: seeds from {first} on"] if first else []


def spreads(
    outcomes: Sequence[Outcome], *, task: str, attack: str, split: str | None = None, backbone: str = BERT
) -> tuple[SeedSpread, ...]:
    """For every arm of which a seed was run again: the spread of its repeats, beside that of its seeds."""
    arms = [o.unit.arm for o in outcomes if (o.unit.task, o.unit.backbone) == (task, backbone) and o.unit.repeat]
    about = Wanted(arm="", task=task, metric="aua", attack=attack, split=split, backbone=backbone)
    found = [read_runs(replace(about, arm=arm), outcomes, None).runs for arm in dict.fromkeys(arms)]
    return tuple(seed_spread(runs) for runs in found if runs.units and any(run.repeat for run in runs.runs))


HERE = " (on these texts; others may differ)"  # where the interval over runs and texts does not agree
MOST = 4  # sentences of an answer


def word(found: RunComparison) -> str:
    """A verdict with its direction."""
    return {"different": "more robust" if found.difference > 0 else "less robust"}.get(found.verdict, found.verdict)


def here(found: RunComparison) -> str:
    """The addition to a verdict that the interval over runs and texts does not support."""
    if found.over_examples is None or found.verdict not in ("different", "equivalent"):
        return ""
    low, high = found.over_examples
    supported = low > 0 or high < 0 if found.verdict == "different" else -found.margin < low and high < found.margin
    return "" if supported else HERE


def small(found: RunComparison) -> str:
    """The addition to a difference that was shown to be within the margin, on other texts too."""
    within = found.over_examples is None or max(map(abs, found.over_examples)) < found.margin
    return f", by less than {found.margin:g} points" if found.different and found.equivalent and within else ""


def sentence(one: Judged) -> str:
    """A claim in one sentence, whatever came of it."""
    claim, found = one.claim, one.comparison
    who = f"{arm_title(claim.arm)} against {arm_title(claim.other)}, {task_title(claim.task)}, {attack_title(claim.attack)}"
    if found is None:
        return f"{who}: not run ({one.why})."
    over = f"; on further examples too {signed_span(found.shown_over_examples)}" if found.shown_over_examples else ""
    value = f"{points(found.difference)} points{f' ({signed_span(found.shown)})' if found.shown else ''}{over}"
    if found.verdict == "too few runs":
        least, most = sorted(found.n)
        runs = plural(least, "run") + (f" and {most}" if most != least else " each")
        return f"{who}: {value}, {runs}: no claim, that takes five."
    equal = found.verdict == "equivalent"
    p = p_value(found.adjusted_equivalence_p if equal else found.adjusted_p)
    verdict = f"equivalent within {found.margin:g} points" if equal else f"{word(found)}{small(found)}"
    return f"{who}: {verdict}, {value}, p {p} after Holm over {plural(found.of, 'claim')}."


def answered(made: Sequence[Judged]) -> str:
    """The answer in short: what is sure, a sentence a pair of arms, then how many claims are not."""
    pairs: dict[tuple[str, str, str], list[str]] = {}
    for one in made:
        found, claim = one.comparison, one.claim
        if found is not None and found.verdict in ("different", "equivalent"):
            by = f"{abs(found.difference):.1f} points {word(found)} " if found.different else ""
            under = f"{by}under {attack_phrase(claim.attack)}{here(found)}"
            pairs.setdefault((found.verdict, claim.arm, claim.other), []).append(under)
    sentences = []
    for (verdict, arm, other), words in pairs.items():
        if verdict == "different":
            sentences.append(f"{arm_title(arm)} against {arm_title(other)}: {listed(words)}.")
        else:
            margin = f"{made[0].comparison.margin:g}" if made[0].comparison else ""
            sentences.append(f"{arm_title(arm)} and {arm_title(other)} are within {margin} points {listed(words)}.")
    if len(sentences) > MOST:
        sentences = [*sentences[:MOST], f"{len(sentences) - MOST} more of the kind are below."]
    for verdict, open_ in (("undecided", "undecided"), ("too few runs", "left open by too few runs")):
        if number := sum(one.verdict == verdict for one in made):
            sentences.append(f"{number} of {plural(len(made), 'claim')} {'is' if number == 1 else 'are'} {open_}.")
    return " ".join(sentences)


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
    seen = under[given["seen"]].comparison
    large = seen.different and seen.difference >= given["gain"] if seen and seen.enough else None
    found = [("gain", large, _words(under[given["seen"]]))]
    unseen = [under[name] for name in given["unseen"]]
    better = [c.different and c.difference > 0 if (c := one.comparison) and c.enough else None for one in unseen]
    every = False if False in better else None if None in better else True
    found.append(("unseen", every, "; ".join(f"{attack_title(one.claim.attack)}: {_words(one)}" for one in unseen)))
    asked = given["asked"]
    judged_goals = [Goal(name=name, asked=asked[name], reached=reached, words=words) for name, reached, words in found]
    return (*judged_goals, *(_measured(given, name, outcomes) for name in ("clean", "cost", "size")))


def reached_of(found: Sequence[Goal]) -> str:
    """How many goals are, in a line."""
    sure = [goal for goal in found if goal.reached]
    few = sum(goal.few for goal in sure)
    summary = f"{len(sure)} of {len(found)} goals {'is' if len(sure) == 1 else 'are'} reached"
    return summary + (f", {few} of them measured in fewer than {FEWEST_RUNS} runs" if few else "")


def _words(one: Judged) -> str:
    found = one.comparison
    return one.why if found is None else _difference(found.difference, found.shown, found.n) + here(found)


def _measured(given: Mapping[str, Any], name: str, outcomes: Sequence[Outcome]) -> Goal:
    """A goal that is no claim: mean clean accuracy, seconds, or parameters, of the chosen arm beside another's."""
    limit, asked = given["clean_below" if name == "clean" else name], given["asked"][name]
    about = family(given["family"]).claims[0]
    metric = {"clean": "clean", "cost": "seconds", "size": "total_millions"}[name]
    attack, split = (given["seen"], about.split) if name == "clean" else (None, None)
    wanted = Wanted(arm="", task=about.task, metric=metric, attack=attack, split=split)
    sides = (given["arm"], given["cost_against"] if name == "cost" else given["against"])
    first, second = (read_runs(replace(wanted, arm=one), after_choice(one, outcomes), None) for one in sides)
    missing = [f"{arm_title(one.runs.name)}: {one.why}" for one in (first, second) if not one.runs.units]
    if missing:
        return Goal(name=name, asked=asked, reached=None, words="; ".join(missing))
    a, b = first.runs.mean, second.runs.mean
    n = (len(first.runs.values), len(second.runs.values))
    if name == "clean":
        found = compare_runs(first.runs, second.runs, margin=limit, resamples=0)
        reached = a - b >= -limit if min(n) >= FEWEST_RUNS else None
        return Goal(name=name, asked=asked, reached=reached, words=_difference(a - b, found.shown, n))
    unit = " s" if name == "cost" else " M"
    words = f"{a / b:.2f} times: {a:.1f}{unit} against {b:.1f}{unit}, means of {n[0]} and {n[1]} runs"
    if name == "size":
        return Goal(name=name, asked=asked, reached=a / b < limit, words=words)
    timed = {*first.units, *second.units}
    codes = {one.inputs.get("code") for one in outcomes if one.unit.id in timed}
    words += ", each alone on the device" + (f", by {len(codes)} versions of the code" if len(codes) > 1 else "")
    return Goal(name=name, asked=asked, reached=a / b <= limit, words=words, few=min(n) < FEWEST_RUNS)


def _difference(value: float, interval: Interval | None, n: tuple[int, int]) -> str:
    span = f" ({signed_span(interval)})" if interval else ""
    return f"{points(value)} points{span}, {n[0]} and {n[1]} runs"


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
    for one in published.tables() if asked else ():
        own = [
            row for row in rows(one.id) if claim.task in row.tasks and row.backbone == claim.backbone and row.x is None
        ]
        names = {row.arm: row.name for row in own}
        key = (claim.task, claim.backbone, claim.metric, asked)
        cells = {c.row: c for c in published.cells(one.id) if (c.task, c.backbone, c.metric, c.attack) == key}
        sides = [names.get(arm) or names.get(arms()[arm].beside) for arm in (claim.arm, claim.other)]
        first, second = (cells.get(name) if name else None for name in sides)
        if first is not None and second is not None:
            runs, difference = (first.runs, second.runs), first.value - second.value
            return Printed(
                table=one.id, difference=difference, runs=runs, prediction=_prediction(claim, outcomes, runs)
            )
    return None


def _prediction(claim: Claim, outcomes: Sequence[Outcome], runs: tuple[int, int]) -> Interval | None:
    first, second = (
        read_runs(claim.of(arm), after_choice(arm, outcomes), None).runs.values for arm in (claim.arm, claim.other)
    )
    return predicted_difference(first, second, further=runs) if min(len(first), len(second)) >= FEWEST_RUNS else None
