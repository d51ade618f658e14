"""Claims: which arm against which, fixed beforehand in ``claims.toml``; judged over training runs, a family at a time, adjusted by Holm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.measure.runs import FEWEST_RUNS, RunSummary, summarise_runs
from robust_tickets.measure.spread import SeedSpread, seed_spread
from robust_tickets.measure.verdict import RunComparison, compare_runs, judge_family
from robust_tickets.reproduce import published
from robust_tickets.reproduce.names import arm_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.reading import NOT_RUN, Reading, Wanted, read_runs
from robust_tickets.reproduce.toml import toml
from robust_tickets.reproduce.unit import BERT, Flavour

RESAMPLES = (
    2_000  # of the bootstrap over runs and examples: its ends move by some tenths of a point from one seed to another
)
Among = Literal["arms", "plain"]
ROLE = "@"
PLAIN = "@plain"  # the fine-tuning that is to be beaten
EQUAL = ("finetune", "freelb3")  # as roles: these for as many epochs as the chosen configuration has
NOT_CHOSEN = "no configuration is chosen before all of the screening is run"


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

    claim: Claim  # roles replaced, where a winner is known
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
    """Those of a table, or of a campaign by its title: ``campaign B2`` judges ``B`` and ``B-forms``."""
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
    chosen = {"arms": winner(outcomes, folder), "plain": winner(outcomes, folder, "plain")}
    resolved = dict.fromkeys(_resolved(claim, **chosen) for claim in found.claims)  # two roles may be one arm
    apart = [_apart(claim, found.margin, outcomes, folder, flavour) for claim in resolved]
    made = told()["families"].get(id, {}).get("made")
    adjusted = {
        task: iter(
            judge_family([one.comparison for one in apart if one.comparison and one.claim.task == task], made or number)
        )
        for task, number in Counter(one.claim.task for one in apart).items()
    }
    return tuple(_with(one, next(adjusted[one.claim.task])) if one.comparison else one for one in apart)


def winner(outcomes: Sequence[Outcome], folder: Path | None = None, among: Among = "arms") -> str | None:
    """The configuration that the rule of ``claims.toml`` chooses once all runs of all of them are there; before, none.

    All runs of what they are to beat too: one more of these would move every gain, and perhaps the choice.
    """
    ranked, asked = screened(outcomes, folder, among), told()["screen"]
    whole = len(ranked) == len(asked[among]) and all(
        one.n == asked["seeds"] and one.beside == FEWEST_RUNS for one in ranked
    )
    return ranked[0].arm if whole else None


def first_seed(arm: str) -> int:
    """The first seed that took no part in choosing the arm. All runs of what every gain is over stay."""
    screen = told()["screen"]
    tickets = [form_of(f"{ROLE}own", one) for one in screen["arms"]]  # the same training under another name
    return int(screen["seeds"]) if arm in {*screen["arms"], *tickets, *screen["plain"]} - {screen["against"]} else 0


def after_choice(arm: str, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes without those of the arm's runs that took part in choosing it."""
    return [one for one in outcomes if one.unit.arm != arm or one.unit.seed >= first_seed(arm)]


def form_of(role: str, chosen: str) -> str:
    """The arm behind a role: ``@full`` of ``sturdy_a`` is ``sturdy_a_full``.

    ``@own`` is its ticket as screened: EarlyRobust's own, or the one it searches for under its own adversary. ``@finetune`` and
    ``@freelb3`` are these for as many epochs.
    """
    form = role.removeprefix(ROLE)
    if form in EQUAL:
        return _as_long(form, chosen)
    if form != "own":
        return f"{chosen}_{form}"
    from robust_tickets.reproduce.arms import arms

    screened, ticket = arms()[chosen], arms()[f"{chosen}_ticket"]
    return ticket.name if screened.settings == ticket.settings else chosen


def _as_long(base: str, chosen: str) -> str:
    """``base``, or the arm of its sweep over lengths that trains as many epochs as ``chosen``."""
    from robust_tickets.reproduce.arms import arms

    own = [
        value
        for key, _, value in (one.partition("=") for one in arms()[f"{chosen}_full"].settings)
        if key.endswith("train.epochs")
    ]
    return f"{base}_epochs_{own[-1]}" if own else base


@dataclass(frozen=True, kw_only=True)
class Screened:
    """A configuration of the screening, beside the arm it is to beat; differences of means, in points."""

    arm: str
    n: int
    aua: float
    clean: float
    gain: float
    clean_gain: float
    goals: int
    beside: int = FEWEST_RUNS  # runs of the arm it is to beat


def screened(
    outcomes: Sequence[Outcome], folder: Path | None = None, among: Among = "arms", attack: str | None = None
) -> tuple[Screened, ...]:
    """The configurations that were run, the best by the rule first. No claim: some runs each, on the split where the choice is made.

    ``among`` the recipe's, or the plain fine-tunings', which have as many trials. The first seeds alone count, as many as were planned:
    the chosen one is run more often afterwards, which must not change the choice. ``attack``: another than the one that chooses. Clean
    accuracy is the one that was evaluated, as on the leaderboard: a copy of the victim that is attacked in float16 may answer otherwise.
    """
    asked = told()["screen"]
    under_attack = attack or asked["attack"]

    def means(arm: str, seeds: int) -> tuple[int, float, float] | None:
        own = [o for o in outcomes if o.unit.arm == arm and o.unit.repeat == 0 and o.unit.seed < seeds]
        under, clean = (
            read_runs(Wanted(arm=arm, task=asked["task"], metric=metric, attack=by, split=asked["split"]), own, folder)
            for metric, by in (("aua", under_attack), ("clean", None))
        )
        return (
            (len(under.runs.units), under.runs.mean, clean.runs.mean) if under.runs.units and clean.runs.units else None
        )

    base, found = means(asked["against"], FEWEST_RUNS), []
    for arm in asked[among]:
        own = means(arm, asked["seeds"])
        if own is None or base is None:
            continue
        gain, clean_gain = own[1] - base[1], own[2] - base[2]
        goals = (gain >= asked["gain"]) + (clean_gain >= -asked["clean_below"])
        counts = {"n": own[0], "beside": base[0], "goals": goals}
        found.append(Screened(arm=arm, aua=own[1], clean=own[2], gain=gain, clean_gain=clean_gain, **counts))
    return tuple(sorted(found, key=lambda one: (-one.goals, -one.aua, one.arm)))


def trials(outcomes: Sequence[Outcome], folder: Path | None, among: Among) -> list[tuple[Screened, Screened | None]]:
    """The same beside what each has under the attack that is shown and chooses nothing."""
    shown = {one.arm: one for one in screened(outcomes, folder, among, told()["screen"]["shown"])}
    return [(one, shown.get(one.arm)) for one in screened(outcomes, folder, among)]


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
    from robust_tickets.reproduce.rows import rows

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


def _resolved(claim: Claim, arms: str | None, plain: str | None) -> Claim:
    """The claim with the winners' arms for its roles; without a winner as it is."""
    given = {**vars(claim)}
    for name in ("arm", "other"):
        role = given[name]
        if role == PLAIN:
            given[name] = plain or role
        elif arms and role.startswith(ROLE):
            given[name] = form_of(role, arms)
    return Claim(**given)


def _apart(claim: Claim, margin: float, outcomes: Sequence[Outcome], folder: Path | None, flavour: Flavour) -> Judged:
    """A claim by itself."""
    if ROLE in claim.arm + claim.other:
        return Judged(claim=claim, comparison=None, arm=None, other=None, why=NOT_CHOSEN)
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
