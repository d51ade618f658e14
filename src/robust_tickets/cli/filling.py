"""What the verb ``reproduce`` does with a plan: tells it, or runs and fills it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.cli.answer import Answer
from robust_tickets.cli.planned import Ask, as_data, counted, in_lines, jobs, make, reasons, show_plan
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import check_writable
from robust_tickets.progress import say

if TYPE_CHECKING:
    from robust_tickets.reproduce.runner import Summary

MANY = 3  # runs that failed for one reason are told in one line


@dataclass(frozen=True, kw_only=True)
class Run:
    """How training runs are made."""

    processes: int = 1
    budget: float | None = None  # seconds
    drop_models: bool = False
    log: bool = False  # to files, not to the terminal


def dry_run(ask: Ask, budget: float | None) -> Answer:
    """The cost, what is done, what is missing; nothing is run."""
    _check_folders(ask)
    planned = make(ask)
    return Answer(data=as_data(planned, budget), show=lambda console: show_plan(planned, budget, console))


def check_page(page: Path | None) -> None:
    """Before anything is run: it is written last."""
    if page is None:
        return
    if os.path.isdir(page):
        raise TicketsError(f"--page {page} is a folder", hint="give a file in it")
    check_writable(page.parent)


def single(ask: Ask, run: Run, *, dry: bool) -> Answer:
    """Run single jobs; no table is filled. ``dry``: name them and their attacks alone."""
    from robust_tickets.reproduce.runner import work

    _check_folders(ask)
    asked = jobs(ask)
    named = {unit.id: [attack.name for attack in asked.attacks[unit]] for unit in asked.units}
    if dry:
        return Answer(
            data={"jobs": named}, show=lambda _: print("\n".join(" ".join([id, *all]) for id, all in named.items()))
        )
    summary = work(asked.units, asked.attacks, asked.places, ask.out, ask.results, searches=asked.searches, **vars(run))

    def show(_: Any) -> None:
        lines = [*_failed(summary), *(f"left: {unit.id}" for unit in summary.left), summary.line]
        print("\n".join(lines))

    return Answer(data={"jobs": named, "work": _summary(summary)}, show=show, exit_code=FAILED if summary.failed else 0)


def go(ask: Ask, run: Run, page: Path | None) -> Answer:
    """Say the cost, run what is left, fill the tables, write them."""
    _check_folders(ask)
    check_page(page)
    planned = make(ask)
    for line in in_lines(planned, run.budget):
        say(line)
    for why, count in reasons(planned.plan).items():
        say(f"missing ({counted(count, 'cell') if count else 'some attacks'}): {why}")
    from robust_tickets.reproduce import drawing, tell
    from robust_tickets.reproduce.fill import fill_all
    from robust_tickets.reproduce.outcome import read_all
    from robust_tickets.reproduce.page import write_page
    from robust_tickets.reproduce.published import tables
    from robust_tickets.reproduce.runner import work

    plan = planned.plan
    summary = work(plan.units, plan.attacks, planned.places, ask.out, ask.results, searches=plan.searches, **vars(run))
    shown = {one.id for one in tables() if one.kind == "figure"}
    outcomes = tuple(one for one in read_all(ask.results) if one.unit not in (*summary.refused, *planned.refused))
    filled = [
        one for one in fill_all(plan, outcomes, ask.results, flavour=ask.flavour) if one.cells
    ]  # of searches there are none
    figures = [
        drawing.draw(
            id,
            outcomes,
            ask.results,
            ask.flavour,
            {(cell.backbone, cell.task) for cell in plan.cells if cell.table == id},
        )
        for id in plan.tables
        if id in shown
    ]
    written = [
        *(path for one in filled for path in tell.write(one, ask.out)),
        *(drawing.write(one, ask.out) for one in figures),
    ]
    written += [write_page(page, ask.results)] if page is not None and outcomes else []
    told = {
        **as_data(planned, run.budget), "work": _summary(summary), "tables": [tell.data(one) for one in filled],
        "figures": [{"id": one.id, "caption": one.caption, "why": one.why} for one in figures],
        "written": [str(path) for path in written],
    }  # fmt: skip

    def show(console: Any) -> None:
        for one in filled:
            tell.show(one, console)
        for figure in figures:
            if figure.why:
                print(f"{figure.id}, not drawn: {figure.why}")
        for line in _failed(summary):
            print(line)
        if summary.left:
            print(f"left by the budget: {counted(len(summary.left), 'training run')}; the same command resumes")
        for path in written:
            print(f"written: {path}")

    return Answer(data=told, show=show, exit_code=FAILED if summary.failed else 0)


def _failed(summary: Summary) -> list[str]:
    """Why runs failed; many that failed for one reason, as without data, are one line. All ids stand in the JSON."""
    from robust_tickets.reproduce.runner import in_a_line

    reasons: dict[str, list[str]] = {}
    for id, message in summary.why.items():
        reasons.setdefault(in_a_line(message), []).append(id)
    lines = []
    for why, ids in reasons.items():
        lines += (
            [f"failed: {id}: {why}" for id in ids]
            if len(ids) < MANY
            else [f"failed: {ids[0]} and {len(ids) - 1} others: {why}"]
        )
    return lines


def _check_folders(ask: Ask) -> None:
    for name, folder in (("results", ask.results), ("out", ask.out)):
        if os.path.exists(folder) and not os.path.isdir(folder):
            raise TicketsError(f"--{name} {folder} is a file", hint="give a folder")


def of_results(results: Path, page: Path) -> Answer:
    """The page of results that are there."""
    from robust_tickets.reproduce.page import write_page

    check_page(page)
    written = str(write_page(page, results))
    return Answer(data={"written": [written]}, show=lambda console: print(f"written: {written}"))


def _summary(summary: Any) -> dict[str, Any]:
    named = {name: [unit.id for unit in getattr(summary, name)] for name in ("done", "found", "failed", "left")}
    return {**named, "why": dict(summary.why)}
