"""The verb ``reproduce``: tables, figures and campaigns, as published, planned, run and filled. Without runs it imports no torch."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from robust_tickets.cli.options import Answer, Common, flag, is_folder
from robust_tickets.config import Settings, setting
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import check_writable
from robust_tickets.progress import duration, say, warn
from robust_tickets.progress import seconds as in_seconds
from robust_tickets.report.format import NONE
from robust_tickets.reproduce.job import Flavour, Job

if TYPE_CHECKING:
    from rich.console import Console

    from robust_tickets.reproduce.outcome import Outcome
    from robust_tickets.reproduce.paths import Paths
    from robust_tickets.reproduce.plan import Plan
    from robust_tickets.reproduce.published import Table
    from robust_tickets.reproduce.runner import Summary


@Parameter(name="*", negative="")
@dataclass(frozen=True, kw_only=True)
class PlanOptions(Settings):
    """What is asked for.

    Parameters
    ----------
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
    only
        A part of it, any number of times: task=sst2, method=earlyrobust (an arm or a published row), attack=, backbone=, metric=, seed=.
    attacks
        Groups of attacks to run, as main,more, or single ones, as pwws; by default those that a table's columns name, or a campaign's own.
    job
        Single training runs instead of tables, by their ids: bert-base-uncased/sst2/finetune/corrected/seed-0; no table is filled.
    search_only
        With `--job`: find the ticket alone; nothing is trained or attacked.
    """

    list_: Annotated[bool, Parameter(name="--list")] = False
    published: bool = False
    paper: Literal["er", "rt", "or"] | None = None
    campaign: str | None = None
    dry_run: bool = False
    seeds: int | None = setting(None, at_least=1, hint="leave it out for 5 runs of each method")
    flavour: Flavour = "corrected"
    only: tuple[str, ...] = ()
    attacks: str | None = None
    job: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    search_only: bool = False

    def shown(self, name: str) -> str:
        return flag(name)

    @property
    def groups(self) -> tuple[str, ...] | None:
        return None if self.attacks is None else tuple(filter(None, map(str.strip, self.attacks.split(","))))


@Parameter(name="*", negative="")
@dataclass(frozen=True, kw_only=True)
class RunOptions(Settings):
    """How runs are made, and where files lie.

    Parameters
    ----------
    budget
        Begin nothing after this time, and leave what is not ended by then: 20m, 2h, 1h30m.
    processes
        Training runs that share the device at a time.
    drop_models
        Remove a trained model once it is attacked: 440 MB each.
    results
        Where the outcome of each training run is kept.
    out
        Where searches, models and attacks lie while they are made, and the filled tables afterwards.
    page
        Write all results as one HTML page to this file; without a table, of what is there, and nothing is run.
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
    """

    budget: str | None = None
    processes: int = setting(1, at_least=1, hint="1 runs one after the other")
    drop_models: bool = False
    results: Path = Path("results")
    out: Path = Path("runs/reproduce")
    page: Path | None = None
    data: Path | None = None
    models: Path | None = None
    resources: Path | None = None
    encoder: Path | None = None
    subset: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.seconds  # refused before anything is run

    def shown(self, name: str) -> str:
        return flag(name)

    @property
    def seconds(self) -> float | None:
        return in_seconds(self.budget, "--budget") if self.budget is not None else None

    def paths(self) -> Paths:
        from robust_tickets.reproduce.paths import Paths

        given = {name: getattr(self, name) for name in ("data", "models", "resources", "encoder")}
        return Paths.find(subset=self.subset, **given)


def reproduce(
    *tables: str,
    plan: PlanOptions = PlanOptions(),  # noqa: B008
    run: RunOptions = RunOptions(),  # noqa: B008
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Make tables and figures of the three papers: say what it costs and what is missing, run what is not done, fill them.

    Running the same command again resumes it. A training run that fails is reported and passed over.

    Parameters
    ----------
    tables
        Their ids: ER-T1, ER-F3.
    """
    from robust_tickets.reproduce import published as papers

    asked = {"--list": plan.list_, "--job": plan.job, "--campaign": plan.campaign, "tables": tables}
    given = [name for name, value in asked.items() if value] or (["--page"] if run.page else [])
    if len(given) != 1 or (plan.published and len(tables) != 1):
        hint = "`tickets reproduce --list` shows the ids, `tickets reproduce ER-T1 --dry-run` what one would cost"
        raise _refused("name some tables, a campaign or jobs, or give --list; of these one at a time", hint)
    needed = {"paper": "--list", "search_only": "--job", "only": "tables", "seeds": "tables", "attacks": "tables"}
    for name, by in needed.items():
        by_campaign, by_job = given == ["--campaign"] and by == "tables", given == ["--job"] and name == "attacks"
        if getattr(plan, name) not in (None, False, ()) and given != [by] and not by_campaign and not by_job:
            raise _refused(f"{flag(name)} does not go with {given[0]}", f"it goes with {by}")
    if plan.list_:
        return contents(plan.paper)
    if plan.published:
        return as_published(papers.table(tables[0]))
    check_page(run.page)
    if given == ["--page"]:
        from robust_tickets.reproduce.page import write_page

        written = str(write_page(run.page, run.results))  # type: ignore[arg-type]
        return Answer(data={"written": [written]}, show=lambda console: print(f"written: {written}"))
    is_folder(run.out)
    if plan.job:
        return single(plan, run, log=common.quiet)
    return whole(tables, plan, run, log=common.quiet)


def _refused(message: str, hint: str) -> TicketsError:
    return TicketsError(f"reproduce: {message}", hint=hint, code="reproduce.usage")


def check_page(page: Path | None) -> None:
    """Before anything is run: it is written last."""
    if page is not None and os.path.isdir(page):
        raise _refused(f"--page {page} is a folder", "give a file in it")
    if page is not None:
        check_writable(page.parent)


def contents(paper: str | None) -> Answer:
    """All tables and figures, or those of a paper."""
    from robust_tickets.reproduce import published as papers

    found = [one for one in papers.tables() if paper in (None, one.paper)]
    of = [one for one in papers.papers() if paper in (None, one.id)]
    numbers = {one.id: len(papers.cells(one.id)) for one in found}
    entries = [
        {
            "id": one.id, "paper": one.paper, "title": one.title, "kind": one.kind, "source": one.source, "tasks": list(one.tasks),
            "rows": len(one.rows), "columns": len(one.columns), "numbers": numbers[one.id], "recipes": list(one.recipes),
        }
        for one in found
    ]  # fmt: skip

    def show(console: Console) -> None:
        for paper in of:
            _line(console, f"{paper.title} ({paper.name}, {paper.venue})")
            for one in (one for one in found if one.paper == paper.id):
                size = f"{len(one.rows)} × {len(one.columns)}" if one.kind == "table" else one.kind
                _line(console, f"{one.id}  {one.title} ({', '.join([size, *one.tasks])})", "  ")
        _line(console, f"{sum(numbers.values())} numbers; the texts do not give the values of the figures")

    data = {"papers": [asdict(one) for one in of], "tables": entries, "numbers": sum(numbers.values())}
    return Answer(data=data, show=show)


def as_published(table: Table) -> Answer:
    """One table with its notes and what is found against its numbers."""
    from robust_tickets.reproduce import published as papers
    from robust_tickets.reproduce.arms import TITLES, printed_as

    cells, paper = papers.cells(table.id), papers.paper(table.paper)
    notes = [*table.notes, *papers.summary(table.id)]
    metrics = {column.metric: TITLES["metrics"][column.metric] for column in table.columns}
    data = {
        **asdict(table), "source": table.source, "cells": [asdict(cell) for cell in cells], "notes": notes,
        "paper_notes": list(paper.notes), "findings": [asdict(one) for one in papers.findings(table.id)], "metrics": metrics,
    }  # fmt: skip
    values = {(c.task, c.row, c.backbone, c.metric, c.attack): printed_as(c.metric, c.value) for c in cells}
    heads, attack = list[str](), None
    for column in table.columns:  # an attack stands over the first of its columns
        over = f"{TITLES['heads'][column.attack]}\n" if column.attack and column.attack != attack else ""
        heads.append(over + TITLES["heads"][column.metric])
        attack = column.attack

    def show(console: Console) -> None:
        _line(console, f"{table.id}  {table.title}", style="bold")
        _line(console, f"{table.source}: {paper.title}")
        for task in table.tasks if cells else ():
            rows = [row for row in table.rows if row.task == task]
            keys = [(c.metric, c.attack) for c in table.columns]
            shown = [[values.get((task, row.name, row.backbone, *key), NONE) for key in keys] for row in rows]
            _grid(console, [task, *heads], [[row.name, *own] for row, own in zip(rows, shown, strict=True)])
        if not cells:
            _line(console, f"{table.shows} Its values are not in the paper's text. To redraw it: {table.redrawn}.")
        if "encoder_millions" in metrics:
            _line(console, "* millions of parameters without embeddings")
        _line(console, f"Recipes of ours: {', '.join(table.recipes)}")
        for note in (*notes, *paper.notes):
            _line(console, note, "- ")

    return Answer(data=data, show=show)


def _grid(console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from robust_tickets.report.tables import plain_table, to_terminal

    console.print(to_terminal(plain_table("", heads, rows), console, console.options))


def _line(console: Console, words: str, first: str = "", style: str = "") -> None:
    from rich.text import Text

    rest = " " * len(first)
    how: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    filled = textwrap.fill(words, console.width, initial_indent=first, subsequent_indent=rest, **how)
    console.print(Text(filled, style=style))


def single(asked: PlanOptions, run: RunOptions, *, log: bool) -> Answer:
    """Run single jobs with the attacks that can be had here; no table is filled. With ``dry_run`` name them alone."""
    from robust_tickets.reproduce.paths import missing
    from robust_tickets.reproduce.protocol import attacks, refuse_confirming

    paths, groups = run.paths(), () if asked.search_only else ("main",) if asked.groups is None else asked.groups
    refuse_confirming(groups)
    jobs: dict[Job, list[str]] = {}
    for unit in map(Job.of_id, asked.job):
        own, jobs[unit] = missing(paths, unit), []
        for one in attacks(unit.task, groups, unit.flavour):
            if lacks := [words for words in missing(paths, unit, (one,)) if words not in own]:
                warn(f"{unit.id}: {one.name} is left out: {'; '.join(lacks)}")
            else:
                jobs[unit].append(one.name)
    data: dict[str, Any] = {"jobs": {unit.id: names for unit, names in jobs.items()}}
    if asked.dry_run:
        lines = [" ".join([id, *names]) for id, names in data["jobs"].items()]
        return Answer(data=data, show=lambda _: print("\n".join(lines)))
    summary = _run(jobs, jobs if asked.search_only else (), run, log=log)
    data["work"] = _work(summary)
    return Answer(
        data=data, show=lambda _: print("\n".join(_ended(summary))), exit_code=FAILED if summary.failed else 0
    )


def _run(jobs: Mapping[Job, Sequence[str]], searches: Collection[Job], run: RunOptions, *, log: bool) -> Summary:
    """Run jobs with their attacks; of ``searches`` the ticket suffices."""
    from robust_tickets.reproduce.runner import run_jobs
    from robust_tickets.reproduce.worker import Request

    how: dict[str, Any] = {"store": run.out.absolute(), "results": run.results.absolute()}
    how |= {"paths": run.paths(), "processes": run.processes, "drop_models": run.drop_models}
    requests = [Request(unit=u, attacks=tuple(names), search_only=u in searches, **how) for u, names in jobs.items()]
    return run_jobs(requests, budget=run.seconds, log=log)


def _work(summary: Summary) -> dict[str, Any]:
    named = {name: [unit.id for unit in getattr(summary, name)] for name in ("done", "found", "failed", "left")}
    return {**named, "why": dict(summary.why)}


def _ended(summary: Summary) -> list[str]:
    """Which runs failed, by reason, and how many are left."""
    from robust_tickets.reproduce.runner import in_a_line

    failed = Counter(map(in_a_line, summary.why.values()))
    lines = [f"failed: {count} of the runs: {why}" for why, count in failed.items()]
    return lines + ([f"left by the budget: {len(summary.left)} runs; the same command resumes"] if summary.left else [])


def whole(tables: Sequence[str], asked: PlanOptions, run: RunOptions, *, log: bool) -> Answer:
    """Say what tables or a campaign cost; but in a dry run, run what is left, fill the tables, write them."""
    from robust_tickets.reproduce import plan as plans
    from robust_tickets.reproduce.outcome import foreign, read_all
    from robust_tickets.reproduce.protocol import part_of

    paths = run.paths()
    how: dict[str, Any] = {"only": plans.read_only(asked.only), "flavour": asked.flavour, "seeds": asked.seeds}
    how |= {"groups": asked.groups, "paths": paths}
    plan = plans.campaign(asked.campaign, **how) if asked.campaign else plans.plan(tables, **how)
    outcomes = read_all(run.results)
    concerned = [one for one in outcomes if one.unit in plan.attacks or (part_of(one.notes) and not paths.subset)]
    refused = {one.unit: why for one in concerned if (why := foreign(one, paths))}
    data = {
        **_planned(plan, [o for o in outcomes if o.unit not in refused], run, paths),
        "refused": [*refused.values()],
    }
    if asked.dry_run:
        return Answer(data=data, show=lambda console: _show_plan(data, console))
    for line in _lines(data):
        say(line)
    jobs = {unit: [one.name for one in plan.attacks[unit]] for unit in plan.units}
    summary = _run(jobs, plan.searches, run, log=log)
    taken = [one for one in read_all(run.results) if one.unit not in (*summary.refused, *refused)]
    return _filled(plan, taken, run, data, summary)


def _planned(plan: Plan, outcomes: Sequence[Outcome], run: RunOptions, paths: Paths) -> dict[str, Any]:
    """A plan with what is done, and what the rest costs here and, where that is another machine, on a GPU."""
    from robust_tickets.reproduce.cost import OURS, cost, device

    found, ours = cost(plan, outcomes, device(), paths, run.out), device(OURS)
    there = {"device": ours.about, "seconds": cost(plan, outcomes, ours, paths, run.out).total}
    groups: dict[tuple[str, str, str], list[Job]] = {}
    for unit in plan.units:
        groups.setdefault((unit.backbone, unit.task, unit.arm), []).append(unit)
    left = found.units
    arms = [
        {
            "backbone": backbone, "task": task, "arm": arm, "runs": len(units), "done": sum(u not in left for u in units),
            "seconds": sum(left.get(unit, 0.0) for unit in units),
            "attacks": list(dict.fromkeys(one.name for unit in units for one in plan.attacks[unit])),
        }
        for (backbone, task, arm), units in groups.items()
    ]  # fmt: skip
    return {
        "title": plan.title,
        "device": device().about,
        "cells": [{**asdict(cell), "units": [unit.id for unit in cell.units]} for cell in plan.cells],
        "units": [unit.id for unit in plan.units],
        "arms": arms,
        "done": [unit.id for unit in found.done],
        "seconds": {"search": found.search, "train": found.train, "attack": found.attack, "total": found.total},
        "elsewhere": there if device() != ours else None,
        "missing": list(plan.missing),
    }


def _lines(data: Mapping[str, Any]) -> list[str]:
    """A plan in a few lines, and what is missing, with how many cells cannot be made without it."""
    cannot, other = Counter(cell["why"] for cell in data["cells"] if cell["why"]), data["elsewhere"]
    cells, runs, done = (len(data[name]) for name in ("cells", "units", "done"))
    lines = [data["title"], f"{cells} cells, {cannot.total()} that cannot be run here; {runs} runs, {done} done"]
    for why, count in Counter(data["refused"]).items():
        lines.append(f"not taken: {why} (results: {count}); give another folder as --results")
    there = f"; about {duration(other['seconds'])} on {other['device']}" if other else ""
    lines.append(f"cost of the rest: about {duration(data['seconds']['total'])} on {data['device']}{there}")
    lines += [f"missing: {why} (cells: {count})" for why, count in cannot.items()]
    return lines + [f"missing for attacks: {one}" for one in data["missing"] if not any(one in why for why in cannot)]


def _show_plan(data: Mapping[str, Any], console: Console) -> None:
    for line in _lines(data):
        _line(console, line)
    heads = ("arm", "task", "runs", "done", "seconds", "attacks")
    rows = [{**arm, "seconds": duration(arm["seconds"]), "attacks": len(arm["attacks"])} for arm in data["arms"]]
    _grid(
        console,
        [head.replace("seconds", "left") for head in heads],
        [[str(row[head]) for head in heads] for row in rows],
    )
    for names in dict.fromkeys(tuple(arm["attacks"]) for arm in data["arms"] if arm["attacks"]):
        _line(console, f"{len(names)} attacks: {', '.join(names)}")


def _filled(
    plan: Plan, outcomes: Sequence[Outcome], run: RunOptions, data: Mapping[str, Any], summary: Summary
) -> Answer:
    """Fill the plan's tables, draw its figures, and write them."""
    from robust_tickets.reproduce import figures as charts
    from robust_tickets.reproduce import published as papers
    from robust_tickets.reproduce import tables
    from robust_tickets.reproduce.page import write_page

    flavour = plan.cells[0].flavour
    # of searches there are none
    every = [tables.fill(id, outcomes, run.results, flavour=flavour, of=plan) for id in plan.tables]
    filled = [one for one in every if one.cells]
    drawn = [id for id in plan.tables if not id.startswith("campaign") and papers.table(id).kind == "figure"]
    panels = {id: {(cell.backbone, cell.task) for cell in plan.cells if cell.table == id} for id in drawn}
    figures = [charts.figure(id, outcomes, flavour=flavour, pairs=panels[id]) for id in drawn]
    written = [path for one in filled for path in tables.write(one, run.out)]
    written += [charts.write(one, run.out) for one in figures]
    written += [write_page(run.page, run.results)] if run.page is not None and outcomes else []
    data = {
        **data, "work": _work(summary), "tables": [tables.data(one) for one in filled],
        "figures": [{"id": one.id, "caption": one.caption, "why": one.why} for one in figures],
        "written": [str(path) for path in written],
    }  # fmt: skip

    def show(console: Console) -> None:
        for one in filled:
            tables.show(one, console)
        lines = [f"{figure.id}, not drawn: {figure.why}" for figure in figures if figure.why]
        print("\n".join([*lines, *_ended(summary), *(f"written: {path}" for path in written)]))

    return Answer(data=data, show=show, exit_code=FAILED if summary.failed else 0)
