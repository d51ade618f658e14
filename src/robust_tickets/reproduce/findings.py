"""The findings as one Markdown document of two screens, from outcomes alone: what ran, the two answers, what is left, how to read it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from robust_tickets.measure.runs import FEWEST_RUNS
from robust_tickets.reproduce.answers.advice import advice
from robust_tickets.reproduce.answers.robust import robust_ticket
from robust_tickets.reproduce.answers.sturdy import sturdy
from robust_tickets.reproduce.claims import judge, told
from robust_tickets.reproduce.fill import beside
from robust_tickets.reproduce.left import left
from robust_tickets.reproduce.legend import of_them_scattered
from robust_tickets.reproduce.names import backbone_title, task_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.wording import count, hours, listed, rehearsed

READ = (
    "Percent of the attacked texts that a model still gets right, means over training runs with 95 % intervals over runs, differences in "
    "points; *other texts*: a bootstrap's interval over runs and texts. A verdict needs {fewest} runs of both sides: Welch's test, for "
    "*equivalent* two one-sided tests within ±{margin:g} points, adjusted by Holm within a family fixed before the runs; p is what it "
    "rests on. *Undecided* is neither a difference nor its absence."
)

WAITS = "waits for A and B"


def findings(outcomes: Sequence[Outcome], folder: Path | None = None) -> str:
    """The document. ``folder`` is where the outcomes lie."""
    read = "## How to read this\n\n" + READ.format(margin=told()["margin"], fewest=FEWEST_RUNS)
    ticket, recipe = (judge(name, outcomes, folder) for name in ("A", told()["goals"]["family"]))
    first = "\n".join([*_ran(outcomes, folder), *advice(ticket, recipe, outcomes, folder)])
    said = [*robust_ticket(ticket, outcomes, folder), *sturdy(recipe, outcomes, folder)]
    return "\n\n".join(["# Findings", first, *said, *_left(outcomes), read]) + "\n"


def _ran(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """What these numbers are of, and the folder by its name: no path of a machine, and a rehearsal's is not called `results`."""
    trained = [one for one in outcomes if one.clean]
    if not trained:
        return ["Nothing is run yet."]
    backbones, tasks, devices = (
        listed(list(dict.fromkeys(words)))
        for words in (
            [backbone_title(one.unit.backbone) for one in trained],
            [task_title(one.unit.task) for one in trained],
            [str(one.env.get("device", "an unknown device")) for one in trained],
        )
    )
    name = os.path.basename(os.path.abspath(folder)) if folder is not None else "results"
    said = f"From {count(len(trained), 'training run')} of {backbones} on {tasks} ({devices}), files in `{name}/`; the page is "
    said += f"`{name}/index.html`."
    warned = rehearsed(trained)
    return [said, *([f"**{warned}**"] if warned else [])]


def _left(outcomes: Sequence[Outcome]) -> list[str]:
    """How much of the papers is there, and the campaigns of which something is not run, with what it would take."""
    printed = beside(outcomes)
    judged = [one.inside for one in printed if one.inside is not None]
    papers = f"{sum(one.ours is not None for one in printed)} of the papers' {len(printed):,} printed numbers have runs of ours beside them"
    if judged:
        papers += f"; of {len(judged)} with {FEWEST_RUNS} runs or more, {judged.count(True)} lie inside what further runs might give"
        papers += of_them_scattered(printed)
    papers += " (the page has all)."
    rest = [one for one in left(outcomes) if one.runs is None or one.done < one.runs]
    if not rest:
        return [f"## What is left\n\n{papers}"]
    told = [
        WAITS if one.runs is None else f"{one.runs - one.done} of {one.runs} runs, {hours(one.seconds)}" for one in rest
    ]
    runs = "; ".join(f"{one.name} {words}" for one, words in zip(rest, told, strict=True))
    said = "Not run of the campaigns, on one H200 by estimate"
    return [f"## What is left\n\n{papers} {said}: {runs}."]
