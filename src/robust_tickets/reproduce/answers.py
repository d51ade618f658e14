"""The questions that were fixed before the runs, and their answers: claims, goals, seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from robust_tickets.report import charts
from robust_tickets.report import format as numbers
from robust_tickets.report.format import GLUE, NONE, exact, listed, merged, numberless, plural
from robust_tickets.report.tables import Cell, Row, plain_table
from robust_tickets.reproduce.aggregate import Repeated, Standing, anchor_of, attacks_on, by_task, repeated, where
from robust_tickets.reproduce.arms import arm_title, attack_title, task_title
from robust_tickets.reproduce.claims import (
    Family,
    Judged,
    answered,
    fixed,
    goals,
    printed,
    reached_of,
    small,
    spreads,
    table_names,
    word,
)
from robust_tickets.reproduce.html import PARTS
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.stats.compare_runs import FEWEST_SHOWN, RunComparison

SHOWN = 2  # attacks of a task in the first figures and tables; the others are folded
CHIPS = {
    "more robust": "sure",
    "less robust": "worse",
    "equivalent": "same",
    "undecided": "open",
    "too few runs": "few",
}
ROOM = 1.05  # of a drawing, over what it must hold


def answer(of: Family, judged: Sequence[Judged], outcomes: Sequence[Outcome] = ()) -> Markup:
    """A question and its claims, on one axis. ``outcomes``: for comparison with differences that papers print."""
    made = [(one, one.comparison) for one in judged if one.comparison]
    held = [end for _, c in made if c.enough for end in (c.interval or ())]
    reach = ROOM * max([2 * of.margin, *map(abs, held), *(abs(c.difference) for _, c in made)])
    several = len({one.claim.task for one in judged}) > 1  # a table may be run on several tasks
    how = (
        f"{of.title}. Accuracy under attack, first minus second, in points, mean over training runs; below it Welch's 95{GLUE}% "
        "interval over runs, which is about these texts, and a bootstrap's over runs and texts, which is about others like them, "
        f"both where each side has {FEWEST_SHOWN} runs or more. The grey band is the margin of ±{of.margin:g}. {_adjusted(of, judged)} "
        "A name leads to its runs."
    )
    if any(c.shown and max(-c.shown[0], c.shown[1]) > reach for _, c in made):
        how += " An arrow marks an interval that is cut there."
    of_task = {one.claim: f"{task_title(one.claim.task)}, " if several else "" for one in judged}
    missing = [
        f"{of_task[one.claim]}{arm_title(one.claim.arm)} − {arm_title(one.claim.other)}, {attack_title(one.claim.attack)}: {one.why}"
        for one in judged
        if not one.comparison
    ]
    rows = [
        _row(one, c, of, reach, outcomes) | {"where": of_task[one.claim] + attack_title(one.claim.attack)}
        for one, c in made
    ]
    known = [one for one, _ in made]
    return PARTS.answer(  # type: ignore[no-any-return]
        {
            "question": of.question, "summary": answered(known), "rows": rows, "how": how, "missing": missing, "notes": _notes(known),
            "substituted": list(dict.fromkeys(words for one in known for words in one.substituted)),
        }
    )  # fmt: skip


def _row(one: Judged, c: RunComparison, of: Family, reach: float, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    claim = one.claim
    sides = [
        (anchor_of(Job(backbone=claim.backbone, task=claim.task, arm=arm)), arm_title(arm)) for arm in (c.arm, c.other)
    ]
    spans = [numbers.signed_span(c.shown)] if c.shown else []
    spans += [f"other texts: {numbers.signed_span(c.shown_over_examples)}"] if c.shown_over_examples else []
    if outcomes and (known := printed(claim, outcomes)) is not None:
        inside = {True: ", inside what ours might give", False: ", outside what ours might give", None: ""}[
            known.inside
        ]
        spans.append(f"printed in {known.table}: {numbers.points(known.difference)}{inside}")
    # the verdict's p value: for an equivalence, that of a difference beyond the margin
    p = f"{c.n[0]} and {c.n[1]} runs"
    if c.verdict == "equivalent":
        p += f", p of ±{c.margin:g} or more {numbers.p_value(c.adjusted_equivalence_p)}"
    elif c.adjusted_p is not None:
        p += f", p of no difference {numbers.p_value(c.adjusted_p)}{small(c)}"
    index = 0 if c.verdict != "different" else 2 if c.difference > 0 else 1
    return {
        "arm": sides[0], "other": sides[1], "value": exact(c.difference), "words": numbers.points(c.difference), "spans": spans, "p": p,
        "verdict": word(c), "chip": CHIPS[word(c)], "drawing": charts.difference(c.difference, c.shown, of.margin, reach, index),
    }  # fmt: skip


def _adjusted(of: Family, judged: Sequence[Judged]) -> str:
    """How many claims Holm counts, on each task by itself. The same pair may be in another family too."""
    ready: dict[str, list[int]] = {}
    for one in judged:
        if one.comparison and one.comparison.enough:
            ready.setdefault(one.claim.task, []).append(one.comparison.of)
    paper, counted = of.id in table_names(), []  # a campaign's claims are all to be run; of a table, many never will be
    for task, count in ready.items():
        rest = count[0] - len(count)
        left = f" ({rest} of them {'without five runs a side so far' if paper else 'still to be run'})" if rest else ""
        counted.append(
            f"the {plural(count[0], 'claim')} {f'of this table on {task_title(task)}' if paper else 'here'}{left}"
        )
    if not counted:
        return "No claim has the five runs that it takes."
    return f"Verdicts are by Welch's test, adjusted by Holm for {listed(counted)}; elsewhere on this page the same pair may be one of more."


def _notes(made: Sequence[Judged]) -> tuple[str, ...]:
    """Notes that all arms share, once; those of one arm, under its name."""
    every = {name for one in made for name in (one.claim.arm, one.claim.other)}
    notes = [(arm, words) for one in made for arm, _, words in (note.partition(": ") for note in one.notes)]
    arms: dict[str, set[str]] = {}
    for arm, words in notes:
        arms.setdefault(numberless(words), set()).add(arm)
    return merged(words if arms[numberless(words)] == every else f"{arm_title(arm)}: {words}" for arm, words in notes)


def reached(outcomes: Sequence[Outcome], folder: Path, judged: Sequence[Judged]) -> Markup | None:
    """The goals of the chosen recipe; ``judged``: their family. Nothing where none of it was run."""
    if not any(one.comparison for one in judged):
        return None
    met, given = goals(outcomes, folder, judged), fixed()["goals"]
    summary = f"{arm_title(given['arm'])} against {arm_title(given['against'])}: {reached_of(met)}."
    return PARTS.goals(summary, met)  # type: ignore[no-any-return]


SPREAD = (
    "Accuracy under attack, points: range, best minus worst, and standard deviation, over seeds and over runs of one seed. Ranges grow with "
    "the number of runs; deviations can be compared, but from so few runs they are known within wide intervals."
)
SPREADS = (
    "method, attack", "seeds", "range over seeds", "deviation over seeds", "runs of a seed", "range over them", "deviation over them",
    "its 95 % interval",
)  # fmt: skip
MODELS = "By the hashes of their weights: how many models runs of one seed gave. Runs of one model differ by their attack alone."


def seeds(found: Sequence[Standing], outcomes: Sequence[Outcome]) -> Markup | None:
    """Whether a seed fixes a result: of every arm with a repeated seed, runs of one seed beside runs of other seeds."""
    first, rest, models, again = list[Row](), list[Row](), list[tuple[str, ...]](), list[Repeated]()
    widest = 0.0
    for k, (key, members) in enumerate(by_task(found).items()):
        task, backbone = key
        own = [one for one in outcomes if (one.unit.task, one.unit.backbone, one.unit.flavour) == (*key, "corrected")]
        for seed in repeated(outcomes, task=task, backbone=backbone):
            again.append(seed)
            counts = map(
                str, (seed.seed, seed.runs, seed.models, NONE if seed.tickets is None else seed.tickets, seed.codes)
            )
            models.append((f"{arm_title(seed.arm)}, {where(key)}", *counts))
        for i, attack in enumerate(attacks_on(members)):
            for one in spreads(own, task=task, attack=attack.name, split=attack.split or None, backbone=backbone):
                if one.within_range is None or one.between_range is None:
                    continue
                widest = max(widest, one.within_range)
                values = (one.seeds, one.between_range, one.between, one.repeated, one.within_range, one.within)
                cells = [
                    Cell(text=NONE) if v is None else Cell(text=f"{v:.{isinstance(v, float):d}f}", value=exact(v))
                    for v in values
                ]
                cells.append(Cell(text=numbers.span(one.within_interval)))
                row = Row(name=arm_title(one.name), small=f"{where(key)}, {attack.title}", cells=tuple(cells))
                (first if k == 0 and i < SHOWN else rest).append(row)
    if not first and not rest:
        return None
    apart = sum(one.models > 1 for one in again)
    fixes = "The weights were not kept by their hash."
    if again:
        fixes = (
            f"In these runs it does: {'each seed' if len(again) > 1 else 'the seed'} that was run again gave one model."
        )
    if apart:
        fixes = f"Not always: of {plural(len(again), 'seed')} run again, {apart} gave more than one model."
    heads = ("method", "seed", "runs", "models", "tickets", "versions of the code")
    summary = f"{fixes} Runs of one seed differ by up to {widest:.1f} points."
    tables = [replace(plain_table(SPREAD, SPREADS, ()), rows=tuple(rows)) if rows else None for rows in (first, rest)]
    return PARTS.seeds(summary, plain_table(MODELS, heads, models) if models else None, *tables)  # type: ignore[no-any-return]
