"""The verb ``reproduce``: tables, figures and campaigns, as published, planned, run and filled. Without runs it imports no torch."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from robust_tickets.cli.answer import Answer, Common
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import check_writable
from robust_tickets.progress import duration, say, warn
from robust_tickets.progress import seconds as in_seconds
from robust_tickets.reproduce import published as papers
from robust_tickets.reproduce.arms import printed_as
from robust_tickets.reproduce.job import Flavour, Unit
from robust_tickets.reproduce.published import Cell, Column, Paper, Table, findings, summary

if TYPE_CHECKING:
    from robust_tickets.reproduce.cost import Cost, Device
    from robust_tickets.reproduce.outcome import Outcome
    from robust_tickets.reproduce.paths import Paths
    from robust_tickets.reproduce.plan import Plan
    from robust_tickets.reproduce.protocol import NamedAttack
    from robust_tickets.reproduce.runner import Summary


SHORT = {"textfooler": "Fooler", "textbugger": "Bugger", "bertattack": "BERT-A"}
HEADS = {
    "clean": "Clean", "aua": "Aua", "suc": "Suc", "queries": "Query", "speedup_vs_pgd": "× PGD", "speedup_vs_freelb": "× FreeLB",
    "speedup_lost_to_search": "if searched", "encoder_millions": "M*", "total_millions": "M",
}  # fmt: skip


def contents(asked: list[Paper]) -> Answer:
    found = [one for one in papers.tables() if one.paper in [paper.id for paper in asked]]
    numbers = {one.id: len(papers.cells(one.id)) for one in found}
    entries = [
        {
            "id": one.id, "paper": one.paper, "title": one.title, "kind": one.kind, "source": one.source, "tasks": list(one.tasks),
            "rows": len(one.rows), "columns": len(one.columns), "numbers": numbers[one.id], "recipes": list(one.recipes),
        }
        for one in found
    ]  # fmt: skip

    def show(console: Any) -> None:
        from rich import box
        from rich.table import Table as Grid

        for paper in asked:
            grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
            grid.title, grid.title_justify = f"{paper.title} ({paper.name}, {paper.venue})", "left"
            for head in ("id", "title", "rows ×\ncolumns", "numbers", "tasks"):
                grid.add_column(
                    head, justify="right" if head in ("rows ×\ncolumns", "numbers") else "left", no_wrap=head != "title"
                )
            for one in (one for one in found if one.paper == paper.id):
                size = (
                    ("figure", "")
                    if one.kind == "figure"
                    else (f"{len(one.rows)} × {len(one.columns)}", str(numbers[one.id]))
                )
                grid.add_row(one.id, one.title, *size, _in_lines(one.tasks))
            console.print(grid)
            console.print()
        count = len([one for one in found if one.kind == "table"])
        print(
            f"{sum(numbers.values())} numbers in {count} tables; {len(found) - count} figures, whose values the texts do not give"
        )

    return Answer(
        data={"papers": [asdict(paper) for paper in asked], "tables": entries, "numbers": sum(numbers.values())},
        show=show,
    )


def as_published(table: Table) -> Answer:
    cells, paper = papers.cells(table.id), papers.paper(table.paper)
    notes = [*table.notes, *summary(table.id)]
    told = {
        **asdict(table), "source": table.source, "cells": [asdict(cell) for cell in cells], "notes": notes,
        "paper_notes": list(paper.notes), "findings": [asdict(one) for one in findings(table.id)],
        "metrics": {column.metric: papers.METRICS[column.metric] for column in table.columns},
    }  # fmt: skip

    def show(console: Any) -> None:
        from rich.text import Text

        def line(words: str) -> None:
            console.print(Text(words))

        line(f"{table.id}  {table.title}\n{table.source}: {paper.title}\n")
        if cells:
            console.print(_grid(table, cells, console), crop=False)
        else:
            line(f"{table.shows}\nIts values are not in the paper's text. To redraw it: {table.redrawn}.")
        if "encoder_millions" in told["metrics"]:
            line("* millions of parameters without embeddings")
        line(f"\nRecipes of ours: {', '.join(table.recipes)}")
        for title, lines in ((f"About {table.id}", notes), (f"About all numbers of {paper.name}", paper.notes)):
            line(f"\n{title}")
            for words in lines:
                line(
                    textwrap.fill(
                        words, console.width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
                    )
                )

    return Answer(data=told, show=show)


def _grid(table: Table, cells: Sequence[Cell], console: Any) -> Any:
    """A section a task. Where the terminal is too narrow it may wrap the lines: better than numbers cut in two."""
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table as Grid
    from rich.text import Text

    values = {(cell.task, cell.row, cell.backbone, cell.metric, cell.attack): cell.value for cell in cells}
    attacked = any(column.attack for column in table.columns)
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    grid.add_column("", no_wrap=True)
    for i, column in enumerate(table.columns):
        first = column.attack and (
            i == 0 or table.columns[i - 1].attack != column.attack
        )  # the attack stands over its first column
        over = f"{SHORT[str(column.attack)] if first else ''}\n" if attacked else ""
        grid.add_column(over + HEADS[column.metric], justify="right", no_wrap=True)
    for task in table.tasks:
        grid.add_row(Text(task, style="bold"))
        rows = [row for row in table.rows if row.task == task]
        for row in rows:
            found = [
                values.get((row.task, row.name, row.backbone, column.metric, column.attack)) for column in table.columns
            ]
            shown = [_shown(column, value) for column, value in zip(table.columns, found, strict=True)]
            grid.add_row(Text(f" {row.name}"), *shown, end_section=row is rows[-1] and task != table.tasks[-1])
    grid.width = Measurement.get(console, console.options.update(width=10_000), grid).maximum
    return grid


def _in_lines(tasks: Sequence[str], most: int = 3) -> str:
    return ",\n".join(", ".join(tasks[i : i + most]) for i in range(0, len(tasks), most)) or "–"


def _shown(column: Column, value: float | None) -> str:
    if value is None:
        return "–"
    if column.metric == "speedup_lost_to_search":
        return f"−{value}"
    return printed_as(column.metric, value)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What was asked for, as the flags say it."""

    tables: tuple[str, ...]
    campaign: str | None
    jobs: tuple[str, ...]
    search_only: bool
    seeds: int | None
    flavour: Flavour
    only: tuple[str, ...]
    attacks: tuple[str, ...] | None
    data: Path | None
    models: Path | None
    resources: Path | None
    encoder: Path | None
    subset: bool
    results: Path
    out: Path

    def paths(self) -> Paths:
        from robust_tickets.reproduce.paths import Paths

        return Paths.find(
            data=self.data, models=self.models, resources=self.resources, encoder=self.encoder, subset=self.subset
        )


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The plan with its paths, what is done, and what the rest costs on this machine."""

    plan: Plan
    paths: Paths
    outcomes: tuple[Outcome, ...]
    cost: Cost
    device: Device
    refused: Mapping[Unit, str] = field(default_factory=dict)  # why results that are there are not taken
    absent: Path | None = None  # the folder of results, where there is none
    elsewhere: tuple[float, Device] | None = (
        None  # what it would take on the GPU that the numbers were measured on, where this is none
    )


def make(ask: Ask) -> Planned:
    """Plan what was asked for."""
    from robust_tickets.reproduce.cost import OURS, cost, device
    from robust_tickets.reproduce.gather import foreign
    from robust_tickets.reproduce.outcome import read_all
    from robust_tickets.reproduce.plan import campaign, plan, read_only
    from robust_tickets.reproduce.protocol import part_of

    paths = ask.paths()
    only, on = read_only(ask.only), device()
    outcomes = read_all(ask.results)
    if ask.campaign is not None:
        made = campaign(ask.campaign, paths, only=only, flavour=ask.flavour, seeds=ask.seeds, groups=ask.attacks)
    else:
        made = plan(ask.tables, seeds=ask.seeds, only=only, flavour=ask.flavour, paths=paths, groups=ask.attacks)
    asked = [one for one in outcomes if one.unit in made.attacks or (part_of(one.notes) and not ask.subset)]
    gpu, why = device(OURS), {one.unit: words for one in asked if (words := foreign(one, paths))}
    outcomes = tuple(one for one in outcomes if one.unit not in why)
    here = cost(made, outcomes, on, paths, store=ask.out)
    elsewhere = (cost(made, outcomes, gpu, paths, store=ask.out).total, gpu) if on.name != OURS else None
    return Planned(
        plan=made, paths=paths, outcomes=outcomes, cost=here, device=on, refused=why, elsewhere=elsewhere,
        absent=None if ask.results.is_dir() else ask.results,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PlannedJobs:
    """Single training runs, asked for by their ids."""

    units: tuple[Unit, ...]
    attacks: Mapping[Unit, tuple[NamedAttack, ...]]
    searches: frozenset[Unit]
    paths: Paths


def jobs(ask: Ask) -> PlannedJobs:
    """The jobs with the attacks that can be had here: those asked for, or the group ``main``; of a search alone none."""
    paths = ask.paths()
    units = tuple(Unit.of_id(id) for id in dict.fromkeys(ask.jobs))
    names = () if ask.search_only else ("main",) if ask.attacks is None else ask.attacks
    attacks = {unit: tuple(_attacks(unit, names, paths)) for unit in units}
    _check_confirming(attacks)
    return PlannedJobs(units=units, attacks=attacks, searches=frozenset(units if ask.search_only else ()), paths=paths)


def _attacks(unit: Unit, names: Sequence[str], paths: Paths) -> list[NamedAttack]:
    from robust_tickets.reproduce.paths import missing
    from robust_tickets.reproduce.protocol import attacks

    there = []
    for one in attacks(unit.task, names, unit.flavour):
        lacks = [words for words in missing(paths, unit, (one,)) if words not in missing(paths, unit)]
        if lacks:
            warn(f"{unit.id}: {one.name} is left out: {'; '.join(lacks)}")
        else:
            there.append(one)
    return there


def _check_confirming(attacks: Mapping[Unit, Sequence[NamedAttack]]) -> None:
    """The split that confirms is attacked once: for what campaigns confirm, by runs that took no part in choosing it."""
    from robust_tickets.reproduce.plan import may_confirm
    from robust_tickets.reproduce.protocol import CONFIRM

    for unit, own in attacks.items():
        if any(one.group == CONFIRM for one in own) and not may_confirm(unit):
            raise TicketsError(
                f"{unit.id} is not confirmed: that split is attacked once, for the chosen recipe and its rivals",
                hint="leave the confirming attacks out",
            )


def in_lines(planned: Planned, budget: float | None) -> list[str]:
    """The plan in a few lines."""
    plan, cost = planned.plan, planned.cost
    done, cannot = len(cost.done), [cell for cell in plan.cells if cell.why]
    made = {one.unit for one in planned.outcomes}
    there = sum(any(unit in made for unit in cell.units) for cell in cannot)
    barred = f", of which {len(cannot)} cannot be run here" if cannot else ""
    barred += f" ({there} of them {'has' if there == 1 else 'have'} results)" if there else ""
    searched = len(plan.searches)  # of these nothing is trained
    runs = [counted(len(plan.units) - searched, "training run")] if len(plan.units) > searched or not searched else []
    runs += [f"{searched} search{'es' * (searched != 1)} without training"] if searched else []
    lines = [plan.title, f"{counted(len(plan.cells), 'cell')}{barred}; {' and '.join(runs)}, {done or 'none'} done"]
    paths = planned.paths
    if planned.absent is not None:
        lines.append(
            f"results: there is no folder {planned.absent} here, so that nothing counts as done; --results names another"
        )
    for words, count in Counter(planned.refused.values()).items():
        lines.append(f"not taken: {counted(count, 'result')}: {words}; give another folder as --results")
    if paths.data is None and plan.units:
        lacks = "" if find_spec("datasets") else ', which needs `pip install "robust-tickets[hub]"`'
        lines.append(f"data: from the Hub{lacks}; or --data FOLDER with one folder a task")
    if paths.models is None and plan.units:
        lines.append("models: from the Hub; or --models FOLDER with one folder a backbone")
    if cost.units:
        parts = ", ".join(
            f"{kind} {duration(getattr(cost, kind))}"
            for kind in ("search", "train", "attack")
            if getattr(cost, kind) >= 1
        )
        other = f"; about {duration(planned.elsewhere[0])} on {planned.elsewhere[1].about}" if planned.elsewhere else ""
        lines.append(f"cost: about {duration(cost.total)} on {planned.device.about} ({parts}){other}")
    elif plan.units:
        lines.append("cost: nothing is left to run")
    if budget is not None and cost.units:
        lines.append(f"budget {duration(budget)}: about {_fit(cost, budget)} of {counted(len(cost.units), 'run')} fit")
    return lines


def show_plan(planned: Planned, budget: float | None, console: Any) -> None:
    """The same in the terminal, with a line for each arm, and what is missing."""
    from rich.table import Table
    from rich.text import Text

    for line in in_lines(planned, budget):
        console.print(Text(line), soft_wrap=True)
    grid = Table(box=None, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    rows = _arms(planned.plan, planned.cost)
    sets = list(
        dict.fromkeys(tuple(row["attacks"]) for row in rows if row["attacks"])
    )  # most arms have the same attacks
    for head in ("arm", "task", "runs", "done", "left", "attacks"):
        grid.add_column(head, justify="right" if head in ("runs", "done", "left") else "left", no_wrap=True)
    for row in rows:
        left = duration(row["seconds"]) if row["runs"] > row["done"] else "–"
        which = f" ({sets.index(tuple(row['attacks'])) + 1})" if len(sets) > 1 and row["attacks"] else ""
        shown = f"{len(row['attacks']) or '–'}{which}"
        grid.add_row(row["arm"], row["task"], str(row["runs"]), str(row["done"]), left, shown)
    if rows:
        console.print()
        console.print(grid)
    for i, names in enumerate(sets, start=1):
        first = f"attacks{f' ({i})' * (len(sets) > 1)}: "
        console.print(
            Text(textwrap.fill(", ".join(names), console.width, initial_indent=first, subsequent_indent="  "))
        )
    lacking = reasons(planned.plan)
    if lacking:
        console.print("\nmissing")
    for why, count in lacking.items():
        words = f"{counted(count, 'cell') if count else 'some attacks'}: {why}"
        console.print(
            Text(
                textwrap.fill(words, console.width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
            )
        )


def reasons(plan: Plan) -> dict[str, int]:
    """What is missing, each once, and how many cells cannot be made without it; none: an attack beside others."""
    found = dict.fromkeys(plan.missing, 0)
    for cell in filter(lambda cell: cell.why, plan.cells):
        for words in [words for words in plan.missing if words in cell.why] or [cell.why]:
            found[words] = found.get(words, 0) + 1
    return found


def _arms(plan: Plan, cost: Cost) -> list[dict[str, Any]]:
    """A line for each arm and task: its runs, what of them is done, what the others cost and what attacks them."""
    groups: dict[tuple[str, str, str], list[Unit]] = {}
    for unit in plan.units:
        groups.setdefault((unit.backbone, unit.task, unit.arm), []).append(unit)
    return [
        {
            "backbone": backbone, "task": task, "arm": arm, "runs": len(units), "done": len([u for u in units if u not in cost.units]),
            "seconds": sum(cost.units.get(unit, 0.0) for unit in units),
            "attacks": list(dict.fromkeys(one.name for unit in units for one in plan.attacks[unit])),
        }
        for (backbone, task, arm), units in groups.items()
    ]  # fmt: skip


def _fit(cost: Cost, budget: float) -> int:
    """How many runs of the order would be ended in time."""
    count, spent = 0, 0.0
    for seconds in cost.units.values():
        spent += seconds
        count += spent <= budget
    return count


def as_data(planned: Planned, budget: float | None) -> dict[str, Any]:
    """The same for JSON."""
    plan, cost = planned.plan, planned.cost
    told: dict[str, Any] = {
        "title": plan.title,
        "device": planned.device.about,
        "cells": [_cell(cell) for cell in plan.cells],
        "units": [unit.id for unit in plan.units],
        "arms": _arms(plan, cost),
        "done": [unit.id for unit in cost.done],
        "refused": list(planned.refused.values()),
        "seconds": {"search": cost.search, "train": cost.train, "attack": cost.attack, "total": cost.total},
        "elsewhere": {"device": planned.elsewhere[1].about, "seconds": planned.elsewhere[0]}
        if planned.elsewhere
        else None,
        "missing": list(plan.missing),
    }
    return told if budget is None else {**told, "budget": budget, "fit": _fit(cost, budget)}


def _cell(cell: Any) -> dict[str, Any]:
    return {**asdict(cell), "units": [unit.id for unit in cell.units]}


def counted(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


MANY = 3  # runs that failed for one reason are told in one line


@dataclass(frozen=True, kw_only=True)
class Run:
    """How training runs are made."""

    processes: int = 1
    budget: float | None = None  # seconds
    drop_models: bool = False
    log: bool = False  # to files, not to the terminal


def show_dry_run(ask: Ask, budget: float | None) -> Answer:
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
    summary = work(asked.units, asked.attacks, asked.paths, ask.out, ask.results, searches=asked.searches, **vars(run))

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
    from robust_tickets.reproduce import figures as drawing
    from robust_tickets.reproduce import tables as tell
    from robust_tickets.reproduce.outcome import read_all
    from robust_tickets.reproduce.page import write_page
    from robust_tickets.reproduce.published import tables
    from robust_tickets.reproduce.runner import work

    plan = planned.plan
    summary = work(plan.units, plan.attacks, planned.paths, ask.out, ask.results, searches=plan.searches, **vars(run))
    shown = {one.id for one in tables() if one.kind == "figure"}
    outcomes = tuple(one for one in read_all(ask.results) if one.unit not in (*summary.refused, *planned.refused))
    filled = [
        one for one in tell.fill_all(plan, outcomes, ask.results, flavour=ask.flavour) if one.cells
    ]  # of searches there are none
    figures = [
        drawing.figure(
            id,
            outcomes,
            ask.results,
            flavour=ask.flavour,
            pairs={(cell.backbone, cell.task) for cell in plan.cells if cell.table == id},
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


List = Annotated[bool, Parameter(name="--list", negative="")]
Flag = Annotated[bool, Parameter(negative="")]
Jobs = Annotated[tuple[str, ...], Parameter(name="--job", negative="", consume_multiple=True)]
Onlys = Annotated[tuple[str, ...], Parameter(name="--only", negative="", consume_multiple=False)]


def reproduce(
    *tables: str,
    list_: List = False,
    published: Flag = False,
    paper: Literal["er", "rt", "or"] | None = None,
    campaign: str | None = None,
    dry_run: Flag = False,
    seeds: int | None = None,
    flavour: Flavour = "corrected",
    budget: str | None = None,
    only: Onlys = (),
    attacks: str | None = None,
    job: Jobs = (),
    search_only: Flag = False,
    processes: int = 1,
    drop_models: Flag = False,
    data: Path | None = None,
    models: Path | None = None,
    resources: Path | None = None,
    encoder: Path | None = None,
    subset: Flag = False,
    results: Path = Path("results"),
    out: Path = Path("runs/reproduce"),
    page: Path | None = None,
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Make tables and figures of the three papers: say what it costs and what is missing, run what is not done, fill them.

    Running the same command again resumes it. A training run that fails is reported and passed over.

    Parameters
    ----------
    tables
        Their ids: ER-T1, ER-F3.
    list_
        List all tables and figures: id, title, size, tasks.
    published
        Print one table as it was published, with its notes; nothing is run.
    paper
        With `--list`: of this paper alone. er EarlyRobust, rt RobustT, or ORTicket.
    campaign
        Runs that answer a question of ours, instead of tables: A to F; A,B for two.
    dry_run
        Say the cost, what is done and what is missing; run nothing.
    seeds
        Training runs of each method; 5 by default, or as many as the paper has, if more. Fewer make no claim.
    flavour
        corrected (one protocol for all methods), as-published (the papers' settings), as-released (their code's ways).
    budget
        Begin nothing after this time, and leave what is not ended by then: 20m, 2h, 1h30m.
    only
        A part of it, any number of times: task=sst2, method=earlyrobust (an arm or a published row), attack=, backbone=, metric=, seed=.
    attacks
        Groups of attacks to run, as main,more, or single ones, as pwws; by default those that a table's columns name, or a campaign's own.
    job
        Single training runs instead of tables, by their ids: bert-base-uncased/sst2/finetune/corrected/seed-0; no table is filled.
    search_only
        With `--job`: find the ticket alone; nothing is trained or attacked.
    processes
        Training runs that share the device at a time.
    drop_models
        Remove a trained model once it is attacked: 440 MB each.
    data
        A folder with one folder a task; by default the Hub.
    models
        A folder with one folder a backbone; by default the Hub.
    resources
        A folder with word vectors and neighbours for the attacks.
    encoder
        A folder with a sentence encoder; by default the installed all-MiniLM-L6-v2.
    subset
        The data are meant to be a part of the official ones; results say so.
    results
        Where the outcome of each training run is kept.
    out
        Where searches, models and attacks lie while they are made, and the filled tables afterwards.
    page
        Write all results as one HTML page to this file; without a table, of what is there, and nothing is run.
    """
    runs = {
        "--only": bool(only),
        "--seeds": seeds is not None,
        "--budget": budget is not None,
        "--attacks": attacks is not None,
    }
    asked = [flag for flag, given in runs.items() if given]  # which runs, or how many
    if list_ or published:
        return _published(
            tables,
            list_,
            published,
            paper,
            bool(campaign or asked) or dry_run or page is not None,
        )
    if paper is not None:
        raise TicketsError(
            "reproduce: --paper goes with --list; a table's id names its paper", hint=f"leave out --paper {paper}"
        )
    limit = in_seconds(budget, "--budget") if budget is not None else None
    if processes < 1:
        raise TicketsError(f"--processes is at least 1, got {processes}", hint="1 runs one after the other")
    ask = Ask(
        tables=tables, campaign=campaign, jobs=job, search_only=search_only, seeds=seeds, flavour=flavour, only=only,
        attacks=_names(attacks), data=data, models=models, resources=resources, encoder=encoder, subset=subset,
        results=results, out=out,
    )  # fmt: skip
    run = Run(processes=processes, budget=limit, drop_models=drop_models, log=common.quiet)
    if search_only and not job:
        raise TicketsError("reproduce: --search-only goes with --job", hint="name the runs: --job ID")
    if job:
        if tables or campaign is not None or only or seeds is not None or page is not None:
            raise TicketsError(
                "reproduce: --job names single runs, without tables, a campaign, --only, --seeds or --page",
                hint="two commands: what both need is run once, if --results and --out are the same",
            )
        return single(ask, run, dry=dry_run)
    if page is not None and not tables and campaign is None and not dry_run:
        if asked:
            raise TicketsError(
                f"reproduce: {asked[0]} goes with tables or a campaign; without them --page is of all results",
                hint=f"leave out {', '.join(asked)}, or name some tables",
            )
        return of_results(results, page)
    if tables and campaign is not None:
        raise TicketsError(
            "reproduce: either tables or a campaign, not both at once",
            hint="two commands: what both need is run once, if --results and --out are the same",
        )
    if not tables and campaign is None:
        raise TicketsError(
            "reproduce: name some tables or a campaign, or ask for `--list`",
            hint="`tickets reproduce --list` shows the ids, `tickets reproduce ER-T1 --dry-run` what one would cost",
        )
    if seeds is not None and seeds < 1:
        raise TicketsError(f"--seeds is at least 1, got {seeds}", hint="leave it out for 5 runs of each method")
    if dry_run:
        return show_dry_run(ask, limit)
    return go(ask, run, page)


def _published(tables: tuple[str, ...], list_: bool, published: bool, paper: str | None, more: bool) -> Answer:
    if list_ == published or more or (list_ and tables) or (published and len(tables) != 1):
        raise TicketsError(
            "reproduce: expected `--list` alone, or one table with `--published`",
            hint="`tickets reproduce --list` shows the ids, `tickets reproduce ER-T1 --published` one table",
        )
    if list_:
        return contents([papers.paper(paper)] if paper else list(papers.papers()))
    if paper is not None:
        raise TicketsError(
            "reproduce: --paper goes with --list; a table's id names its paper", hint=f"leave out --paper {paper}"
        )
    return as_published(papers.table(tables[0]))


def _names(groups: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in groups.split(",") if name.strip()) if groups is not None else None
