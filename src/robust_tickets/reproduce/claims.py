"""Claims: which arm against which, fixed beforehand in ``claims.toml``; judged over training runs, a family at a time, adjusted by Holm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.report.format import p_value, points, signed_span
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import NOT_RUN, Reading, Wanted, read_runs
from robust_tickets.reproduce.arms import arm_title, attack_phrase, attack_title, task_title
from robust_tickets.reproduce.job import BERT, Flavour
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.published import toml
from robust_tickets.reproduce.wording import count, listed
from robust_tickets.stats.compare_runs import (
    RunComparison,
    RunSummary,
    SeedSpread,
    Verdict,
    compare_runs,
    judge_family,
    seed_spread,
    summarise_runs,
)

RESAMPLES = (
    2_000  # of the bootstrap over runs and examples: its ends move by some tenths of a point from one seed to another
)


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


@dataclass(frozen=True, kw_only=True)
class Family:
    """Claims that are adjusted together: a question of a campaign, or a table, where each task is adjusted by itself."""

    id: str
    title: str
    question: str
    margin: float
    claims: tuple[Claim, ...]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim after the runs. Without runs of both arms there is no comparison, and ``why`` says what is missing."""

    claim: Claim
    comparison: RunComparison | None
    arm: RunSummary | None
    other: RunSummary | None
    substituted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    why: str = ""

    @property
    def verdict(self) -> str:
        """``different``, ``equivalent``, ``undecided``, ``too few runs`` or ``not run``."""
        return self.comparison.verdict if self.comparison else NOT_RUN


def told() -> Mapping[str, Any]:
    """``claims.toml``."""
    return toml("claims.toml")


def names() -> tuple[str, ...]:
    """Ids of all families: the campaigns', then the tables'."""
    return (*told()["families"], *table_names())


def table_names() -> tuple[str, ...]:
    """Ids of the tables that make claims."""
    return tuple(told()["tables"]["rows"])


def families_of(table: str) -> tuple[str, ...]:
    """Those of a table, or of a campaign by its title: ``campaign B`` judges ``B``, ``B-forms`` and ``B-validation``."""
    if table in table_names():
        return (table,)
    letter = table.removeprefix("campaign ")[:1] if table.startswith("campaign ") else None
    return tuple(name for name in told()["families"] if name.partition("-")[0] == letter)


@cache
def family(id: str, flavour: Flavour = "corrected") -> Family:
    """The family called ``id``: ``A``, or a table's ``ER-T1``, whose rows may be other arms in another flavour."""
    if id in told()["families"]:
        return _of_campaign(id, told()["families"][id])
    if id in table_names():
        return _of_table(id, flavour)
    raise TicketsError(f"{id!r} is no family of claims", hint=did_you_mean(id, names()))


def judge(
    id: str, outcomes: Sequence[Outcome], folder: Path | None = None, *, flavour: Flavour = "corrected"
) -> tuple[Judged, ...]:
    """All claims of a family, adjusted together on each task. ``folder`` is where the outcomes lie; without it examples take no part.

    All claims on the task count, run or not, so that a verdict stands when others come. Tasks of a table are studies of their own: who
    reads one of them does not pay for those that nobody runs.
    """
    found = family(id, flavour)
    apart = [_apart(claim, found.margin, outcomes, folder, flavour) for claim in found.claims]
    made = told()["families"].get(id, {}).get("made")
    adjusted = {
        task: iter(
            judge_family([one.comparison for one in apart if one.comparison and one.claim.task == task], made or number)
        )
        for task, number in Counter(one.claim.task for one in apart).items()
    }
    return tuple(_with(one, next(adjusted[one.claim.task])) if one.comparison else one for one in apart)


def first_seed(arm: str) -> int:
    """The first seed that took no part in choosing the arm."""
    chosen = told()["chosen"]
    return int(chosen["first_seed"]) if arm in chosen["arms"] else 0


def after_choice(arm: str, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes without those of the arm's runs that took part in choosing it."""
    return [one for one in outcomes if one.unit.arm != arm or one.unit.seed >= first_seed(arm)]


def spreads(
    outcomes: Sequence[Outcome], *, task: str, attack: str, split: str | None = None, backbone: str = BERT
) -> tuple[SeedSpread, ...]:
    """For every arm of which a seed was run again: how far its repeats lie apart, beside its seeds."""
    arms = dict.fromkeys(
        o.unit.arm for o in outcomes if (o.unit.task, o.unit.backbone) == (task, backbone) and o.unit.repeat
    )
    wanted = [Wanted(arm=arm, task=task, metric="aua", attack=attack, split=split, backbone=backbone) for arm in arms]
    found = [read_runs(one, outcomes, None).runs for one in wanted]
    return tuple(seed_spread(runs) for runs in found if runs.units and any(run.repeat for run in runs.runs))


def _of_campaign(id: str, given: Mapping[str, Any]) -> Family:
    claims = tuple(
        Claim(arm=block["arm"], other=other, attack=attack, task=given["task"], split=given["split"])
        for block in given["claims"]
        for attack in block["attacks"]
        for other in block["against"]
    )
    return Family(
        id=id, title=given["title"], question=given["question"], margin=float(told()["margin"]), claims=claims
    )


def _of_table(id: str, flavour: Flavour) -> Family:
    from robust_tickets.reproduce.arms import rows

    table, begins = published.table(id), told()["tables"]["rows"][id]
    arms = {(task, row.backbone, row.name): row.arm for row in rows(id, flavour) for task in row.tasks if row.arm}
    claims = dict.fromkeys(  # two rows may be one arm
        Claim(arm=arm, other=other, attack=attack, task=task, split=None, backbone=backbone)
        for (task, backbone, name), arm in arms.items()
        if name.startswith(begins)
        for (task2, backbone2, name2), other in arms.items()
        if (task2, backbone2) == (task, backbone) and name2 != name and other != arm
        for attack in told()["tables"]["attacks"]
    )
    question = f"{begins} against every other row of its task"
    return Family(id=id, title=table.title, question=question, margin=float(told()["margin"]), claims=tuple(claims))


def _apart(claim: Claim, margin: float, outcomes: Sequence[Outcome], folder: Path | None, flavour: Flavour) -> Judged:
    """A claim by itself."""
    first, second = (_read(claim, arm, outcomes, folder, flavour) for arm in (claim.arm, claim.other))
    summaries = [summarise_runs(one.runs, resamples=0) if one.runs.units else None for one in (first, second)]
    missing = [
        f"{arm_title(one.runs.name)}: {_lacking(one, claim, outcomes)}" for one in (first, second) if not one.runs.units
    ]
    if not missing and first.examples != second.examples:
        missing = ["the two were attacked on different examples"]
    if not missing and first.way != second.way:
        missing = ["the two were attacked by different rules, or with different words"]
    return Judged(
        claim=claim,
        comparison=None if missing else compare_runs(first.runs, second.runs, margin=margin, resamples=RESAMPLES),
        arm=summaries[0],
        other=summaries[1],
        substituted=tuple(dict.fromkeys((*first.substituted, *second.substituted))),
        notes=tuple(
            dict.fromkeys(
                f"{one.runs.name}: {note}"
                for one in (first, second)
                for note in (*one.notes, *_left_out(one.runs.name))
            )
        ),
        why="; ".join(missing),
    )


def _lacking(one: Reading, claim: Claim, outcomes: Sequence[Outcome]) -> str:
    """Why there is no run of an arm, which may have some that chose it."""
    known = [
        o for o in outcomes if (o.unit.arm, o.unit.task, o.unit.backbone) == (one.runs.name, claim.task, claim.backbone)
    ]
    return "only runs that took part in choosing it" if known and not after_choice(one.runs.name, known) else one.why


def _read(claim: Claim, arm: str, outcomes: Sequence[Outcome], folder: Path | None, flavour: Flavour) -> Reading:
    """The arm's runs, without those that chose it."""
    outcomes = after_choice(arm, outcomes)
    asked = Wanted(
        arm=arm,
        task=claim.task,
        metric=claim.metric,
        attack=claim.attack,
        split=claim.split,
        backbone=claim.backbone,
        flavour=flavour,
    )
    return read_runs(asked, outcomes, folder)


def _left_out(arm: str) -> list[str]:
    """What is to be said where a claim has fewer runs than the page shows of the arm."""
    return (
        [f"here without the runs that took part in choosing it: seeds from {first} on"]
        if (first := first_seed(arm))
        else []
    )


def _with(one: Judged, adjusted: RunComparison) -> Judged:
    return Judged(**{**vars(one), "comparison": adjusted})


HERE = " (on these texts; others may differ)"  # where the interval over runs and texts does not say the same
MOST = 4  # sentences of an answer
UNIT = " points"  # after the first number of a sentence


def word(found: RunComparison) -> str:
    """A verdict with its direction."""
    return {"different": "sturdier" if found.difference > 0 else "less sturdy"}.get(found.verdict, found.verdict)


def sentence(one: Judged) -> str:
    """A claim in one sentence, whatever came of it."""
    claim, found = one.claim, one.comparison
    who = f"{arm_title(claim.arm)} against {arm_title(claim.other)}, {task_title(claim.task)}, {attack_title(claim.attack)}"
    if found is None:
        return f"{who}: not run ({one.why})."
    span = f" ({signed_span(found.shown)})" if found.shown else ""
    over = f"; on further examples too {signed_span(found.shown_over_examples)}" if found.shown_over_examples else ""
    difference = f"{points(found.difference)} points{span}{over}"
    least, most = sorted(found.n)
    runs = count(least, "run") + (f" and {most}" if most != least else " each")
    adjusted, same = (
        f"p {p_value(p)} after Holm over {count(found.of, 'claim')}"
        for p in (found.adjusted_p, found.adjusted_equivalence_p)
    )
    return {
        "different": f"{who}: {word(found)}{small(found)}, {difference}, {adjusted}.",
        "equivalent": f"{who}: equivalent within {found.margin:g} points, {difference}, {same}.",
        "undecided": f"{who}: undecided, {difference}, {adjusted}.",
        "too few runs": f"{who}: {difference}, {runs}: no claim, that takes five.",
    }[found.verdict]


def answered(made: Sequence[Judged]) -> str:
    """The answer in short, from the verdicts alone: what is sure, then how many claims are not."""
    counts = {verdict: [one for one in made if one.verdict == verdict] for verdict in get_args(Verdict)}
    told = [*_apart_lines(counts["different"]), *_alike(counts["equivalent"])]
    if len(told) > MOST:
        told = [*told[:MOST], f"{len(told) - MOST} more of the kind are below."]
    rest = {"undecided": counts["undecided"], "left open by too few runs": counts["too few runs"]}
    for words, found in rest.items():
        if len(found) == len(made):
            told.append(f"All {len(found)} claims are {words}." if len(found) > 1 else f"It is {words}.")
        elif found:
            told.append(f"{len(found)} of {len(made)} claims {'are' if len(found) > 1 else 'is'} {words}.")
    return " ".join(told)


def here(found: RunComparison) -> str:
    """What is to be added to a verdict that the interval over runs and texts does not bear out; nothing where it does."""
    if found.over_examples is None or found.verdict not in ("different", "equivalent"):
        return ""
    low, high = found.over_examples
    borne = low > 0 or high < 0 if found.verdict == "different" else -found.margin < low and high < found.margin
    return "" if borne else HERE


def small(found: RunComparison) -> str:
    """What is to be added to a difference that was shown to lie within the margin, on other texts too: it is sure, and small."""
    within = found.over_examples is None or max(map(abs, found.over_examples)) < found.margin
    return f", by less than {found.margin:g} points" if found.different and found.equivalent and within else ""


def caveat(judged: Sequence[Judged]) -> str:
    """``here`` of several claims at once, with the attacks that it is about where it is not about all of them."""
    about = [attack_phrase(one.claim.attack) for one in judged if one.comparison and here(one.comparison)]
    return (
        HERE if about and len(about) == len(judged) else HERE.replace(")", f" under {listed(about)})") if about else ""
    )


def _apart_lines(found: Sequence[Judged]) -> list[str]:
    """What is sturdier than what, or weaker: a sentence an arm and rival, or an arm and attack, whichever are fewer."""
    pairs: dict[tuple[str, str], list[str]] = {}
    under: dict[tuple[str, str], list[str]] = {}
    for one in found:
        c, claim = one.comparison, one.claim
        assert c is not None
        by = f"{abs(c.difference):.1f}{UNIT} {'sturdier' if c.difference > 0 else 'weaker'}"
        pairs.setdefault((claim.arm, claim.other), []).append(f"{by} under {attack_phrase(claim.attack)}{here(c)}")
        under.setdefault((claim.arm, claim.attack), []).append(f"{by} than {_called(claim.other, claim.arm)}{here(c)}")
    many = len(under) > len(pairs)
    told, before, first = [], "", None
    for (arm, beside), items in (pairs if many else under).items():
        start = f"against {_called(beside, arm)}" if many else f"under {attack_phrase(beside)}"
        said = f"{_called(arm, first)} is {listed([items[0], *(item.replace(UNIT, '', 1) for item in items[1:])])}."
        told.append(_capital(said if start == before else f"{start}, {said}"))
        before, first = start, first or arm
    return told


def _called(arm: str, beside: str | None) -> str:
    """An arm that is named beside another, or again: a form of the same recipe by its form alone."""
    recipe, colon, form = arm_title(arm).partition(": ")
    same = beside is not None and arm_title(beside).startswith(f"{recipe}: ")
    return f"the {form}" if colon and same else arm_title(arm)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _alike(found: Sequence[Judged]) -> list[str]:
    """A sentence for each pair, with all attacks under which it is so."""
    groups: dict[tuple[str, str], list[Judged]] = {}
    for one in found:
        groups.setdefault((one.claim.arm, one.claim.other), []).append(one)
    margin = f"{found[0].comparison.margin:g}" if found and found[0].comparison else ""
    return [
        f"{arm_title(arm)} and {_called(other, arm)} lie within {margin} points of each other "
        f"under {listed([attack_phrase(one.claim.attack) for one in alike])}{caveat(alike)}."
        for (arm, other), alike in groups.items()
    ]
