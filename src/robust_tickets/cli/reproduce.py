"""The verb ``reproduce``: tables, figures and campaigns, as published, planned, run and filled. Without runs it imports no torch."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from robust_tickets.cli.options import Answer, Common
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import check_writable
from robust_tickets.progress import duration, say, warn
from robust_tickets.progress import seconds as in_seconds
from robust_tickets.report.format import plural
from robust_tickets.reproduce import published as papers
from robust_tickets.reproduce.arms import printed_as
from robust_tickets.reproduce.job import Flavour, Job
from robust_tickets.reproduce.published import Paper, Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

    from robust_tickets.reproduce.cost import Cost, Device
    from robust_tickets.reproduce.outcome import Outcome
    from robust_tickets.reproduce.paths import Paths
    from robust_tickets.reproduce.plan import Plan
    from robust_tickets.reproduce.runner import Summary
    from robust_tickets.reproduce.worker import Request

SHORT = {"textfooler": "Fooler", "textbugger": "Bugger", "bertattack": "BERT-A"}
HEADERS = {
    "clean": "Clean", "aua": "Aua", "suc": "Suc", "queries": "Query", "speedup_vs_pgd": "× PGD", "speedup_vs_freelb": "× FreeLB",
    "speedup_lost_to_search": "if searched", "encoder_millions": "M*", "total_millions": "M",
}  # fmt: skip
MANY = 3  # runs that failed for one reason are reported in one line
Flag = Annotated[bool, Parameter(negative="")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlanOptions:
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

    list_: Annotated[bool, Parameter(name="--list", negative="")] = False
    published: Flag = False
    paper: Literal["er", "rt", "or"] | None = None
    campaign: str | None = None
    dry_run: Flag = False
    seeds: int | None = None
    flavour: Flavour = "corrected"
    only: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=False)] = ()
    attacks: str | None = None
    job: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = ()
    search_only: Flag = False

    @property
    def groups(self) -> tuple[str, ...] | None:
        if self.attacks is None:
            return None
        return tuple(name.strip() for name in self.attacks.split(",") if name.strip())


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How runs are made, and where their results lie.

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
    """

    budget: str | None = None
    processes: int = 1
    drop_models: Flag = False
    results: Path = Path("results")
    out: Path = Path("runs/reproduce")
    page: Path | None = None

    @property
    def seconds(self) -> float | None:
        return in_seconds(self.budget, "--budget") if self.budget is not None else None

    def check(self) -> None:
        """Refuse what would fail in the end."""
        if self.processes < 1:
            raise _refused(f"--processes is at least 1, got {self.processes}", "1 runs one after the other")
        for name, folder in (("results", self.results), ("out", self.out)):
            if os.path.exists(folder) and not os.path.isdir(folder):
                raise _refused(f"--{name} {folder} is a file", "give a folder")
        check_page(self.page)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Where files lie.

    Parameters
    ----------
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

    data: Path | None = None
    models: Path | None = None
    resources: Path | None = None
    encoder: Path | None = None
    subset: Flag = False

    def paths(self) -> Paths:
        from robust_tickets.reproduce.paths import Paths

        return Paths.find(**vars(self))


def reproduce(
    *tables: str,
    plan: PlanOptions = PlanOptions(),  # noqa: B008
    run: RunOptions = RunOptions(),  # noqa: B008
    files: FileOptions = FileOptions(),  # noqa: B008
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Make tables and figures of the three papers: say what it costs and what is missing, run what is not done, fill them.

    Running the same command again resumes it. A training run that fails is reported and passed over.

    Parameters
    ----------
    tables
        Their ids: ER-T1, ER-F3.
    """
    given = {"only": plan.only, "seeds": plan.seeds, "budget": run.budget, "attacks": plan.attacks}
    narrowed = [f"--{name}" for name, value in given.items() if value not in (None, ())]  # which runs, or how many
    asked = [*tables, *([plan.campaign] if plan.campaign else [])]
    if plan.list_ or plan.published:
        more = bool(plan.campaign or narrowed or plan.dry_run or run.page)
        alone = not tables if plan.list_ else len(tables) == 1
        if more or not alone or plan.list_ == plan.published:
            hint = "`tickets reproduce --list` shows the ids, `tickets reproduce ER-T1 --published` one table"
            raise _refused("expected `--list` alone, or one table with `--published`", hint)
    if plan.paper is not None and not plan.list_:
        raise _refused("--paper goes with --list; a table's id names its paper", f"leave out --paper {plan.paper}")
    if plan.list_:
        return contents([papers.paper(plan.paper)] if plan.paper else papers.papers())
    if plan.published:
        return as_published(papers.table(tables[0]))
    if plan.search_only and not plan.job:
        raise _refused("--search-only goes with --job", "name the runs: --job ID")
    both = "two commands: what both need is run once, if --results and --out are the same"
    if plan.job and (asked or plan.only or plan.seeds is not None or run.page is not None):
        raise _refused("--job names single runs, without tables, a campaign, --only, --seeds or --page", both)
    if tables and plan.campaign is not None:
        raise _refused("either tables or a campaign, not both at once", both)
    if plan.seeds is not None and plan.seeds < 1:
        raise _refused(f"--seeds is at least 1, got {plan.seeds}", "leave it out for 5 runs of each method")
    run.check()
    if plan.job:
        return single(plan, run, files.paths(), log=common.quiet)
    if asked and plan.dry_run:
        planned = Planned.of(tables, plan, run, files.paths())
        return Answer(data=planned.data(), show=planned.show)
    if asked:
        return whole(Planned.of(tables, plan, run, files.paths()), log=common.quiet)
    if run.page is None:
        hint = "`tickets reproduce --list` shows the ids, `tickets reproduce ER-T1 --dry-run` what one would cost"
        raise _refused("name some tables or a campaign, or ask for `--list`", hint)
    if narrowed:
        hint = f"leave out {', '.join(narrowed)}, or name some tables"
        raise _refused(f"{narrowed[0]} goes with tables or a campaign; without them --page is of all results", hint)
    from robust_tickets.reproduce.page import write_page

    written = str(write_page(run.page, run.results))
    return Answer(data={"written": [written]}, show=lambda console: print(f"written: {written}"))


def _refused(message: str, hint: str) -> TicketsError:
    return TicketsError(f"reproduce: {message}", hint=hint, code="reproduce.usage")


def check_page(page: Path | None) -> None:
    """Before anything is run: it is written last."""
    if page is None:
        return
    if os.path.isdir(page):
        raise _refused(f"--page {page} is a folder", "give a file in it")
    check_writable(page.parent)


def contents(asked: Sequence[Paper]) -> Answer:
    """All tables and figures of some papers."""
    found = [one for one in papers.tables() if one.paper in [paper.id for paper in asked]]
    numbers = {one.id: len(papers.cells(one.id)) for one in found}
    entries = [
        {
            "id": one.id, "paper": one.paper, "title": one.title, "kind": one.kind, "source": one.source, "tasks": list(one.tasks),
            "rows": len(one.rows), "columns": len(one.columns), "numbers": numbers[one.id], "recipes": list(one.recipes),
        }
        for one in found
    ]  # fmt: skip

    def show(console: Console) -> None:
        for paper in asked:
            grid = _grid("id", "title", "rows ×\ncolumns", "numbers", "tasks", right=(2, 3), wraps=(1,))
            grid.title, grid.title_justify = f"{paper.title} ({paper.name}, {paper.venue})", "left"
            for one in (one for one in found if one.paper == paper.id):
                table = one.kind == "table"
                size = f"{len(one.rows)} × {len(one.columns)}" if table else "figure"
                grid.add_row(one.id, one.title, size, str(numbers[one.id]) if table else "", _in_lines(one.tasks))
            console.print(grid)
            console.print()
        count = len([one for one in found if one.kind == "table"])
        figures = f"{len(found) - count} figures, whose values the texts do not give"
        print(f"{sum(numbers.values())} numbers in {count} tables; {figures}")

    data = {"papers": [asdict(paper) for paper in asked], "tables": entries, "numbers": sum(numbers.values())}
    return Answer(data=data, show=show)


def as_published(table: Table) -> Answer:
    """One table with its notes and what is found against its numbers."""
    cells, paper = papers.cells(table.id), papers.paper(table.paper)
    notes = [*table.notes, *papers.summary(table.id)]
    metrics = {column.metric: papers.METRICS[column.metric] for column in table.columns}
    data = {
        **asdict(table), "source": table.source, "cells": [asdict(cell) for cell in cells], "notes": notes,
        "paper_notes": list(paper.notes), "findings": [asdict(one) for one in papers.findings(table.id)], "metrics": metrics,
    }  # fmt: skip

    def show(console: Console) -> None:
        _line(console, f"{table.id}  {table.title}\n{table.source}: {paper.title}\n")
        if cells:
            console.print(_printed(table, console), crop=False)
        else:
            _line(console, f"{table.shows}\nIts values are not in the paper's text. To redraw it: {table.redrawn}.")
        if "encoder_millions" in metrics:
            _line(console, "* millions of parameters without embeddings")
        _line(console, f"\nRecipes of ours: {', '.join(table.recipes)}")
        _items(console, f"About {table.id}", notes)
        _items(console, f"About all numbers of {paper.name}", paper.notes)

    return Answer(data=data, show=show)


def _printed(table: Table, console: Console) -> Grid:
    """A section a task. Where the terminal is too narrow it may wrap the lines: better than numbers cut in two."""
    from rich.measure import Measurement
    from rich.text import Text

    values = {(c.task, c.row, c.backbone, c.metric, c.attack): c.value for c in papers.cells(table.id)}
    attacked, headers = any(column.attack for column in table.columns), [""]
    for column, before in zip(table.columns, (None, *table.columns), strict=False):
        first = column.attack and (before is None or before.attack != column.attack)  # it stands over its first column
        headers.append((f"{SHORT[str(column.attack)] if first else ''}\n" if attacked else "") + HEADERS[column.metric])
    grid = _grid(*headers, right=range(1, len(headers)))
    grid.padding = (0, 0, 0, 0)
    for task in table.tasks:
        grid.add_row(Text(task, style="bold"))
        rows = [row for row in table.rows if row.task == task]
        for row in rows:
            key = (row.task, row.name, row.backbone)
            shown = [_number(c.metric, values.get((*key, c.metric, c.attack))) for c in table.columns]
            grid.add_row(Text(f" {row.name}"), *shown, end_section=row is rows[-1] and task != table.tasks[-1])
    grid.width = Measurement.get(console, console.options.update(width=10_000), grid).maximum
    return grid


def _number(metric: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"−{value}" if metric == "speedup_lost_to_search" else printed_as(metric, value)


def _grid(*headers: str, right: Iterable[int] = (), wraps: Iterable[int] = ()) -> Grid:
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for i, header in enumerate(headers):
        grid.add_column(header, justify="right" if i in right else "left", no_wrap=i not in wraps)
    return grid


def _line(console: Console, words: str) -> None:
    from rich.text import Text

    console.print(Text(words))


def _items(console: Console, title: str, lines: Iterable[str]) -> None:
    _line(console, f"\n{title}")
    for words in lines:
        _line(
            console,
            textwrap.fill(words, console.width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False),
        )


def _in_lines(tasks: Sequence[str], most: int = 3) -> str:
    return ",\n".join(", ".join(tasks[i : i + most]) for i in range(0, len(tasks), most)) or "–"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan with what is done, and what the rest costs on this machine."""

    plan: Plan
    run: RunOptions
    paths: Paths
    outcomes: tuple[Outcome, ...]
    cost: Cost
    device: Device
    refused: Mapping[Job, str]  # why results that are there are not taken
    elsewhere: tuple[float, Device] | None = None  # on the GPU that the numbers were measured on, where this is none

    @classmethod
    def of(cls, tables: Sequence[str], asked: PlanOptions, run: RunOptions, paths: Paths) -> Planned:
        from robust_tickets.reproduce import plan as plans
        from robust_tickets.reproduce.cost import OURS, cost, device
        from robust_tickets.reproduce.outcome import foreign, read_all
        from robust_tickets.reproduce.protocol import part_of

        only, outcomes = plans.read_only(asked.only), read_all(run.results)
        how: dict[str, Any] = {"only": only, "flavour": asked.flavour, "seeds": asked.seeds, "groups": asked.groups}
        plan = (
            plans.campaign(asked.campaign, paths, **how) if asked.campaign else plans.plan(tables, paths=paths, **how)
        )
        concerned = [one for one in outcomes if one.unit in plan.attacks or (part_of(one.notes) and not paths.subset)]
        refused = {one.unit: why for one in concerned if (why := foreign(one, paths))}
        taken = tuple(one for one in outcomes if one.unit not in refused)
        here, there = (cost(plan, taken, on, paths, store=run.out) for on in (device(), device(OURS)))
        elsewhere = (there.total, device(OURS)) if device().name != OURS else None
        return cls(
            plan=plan, run=run, paths=paths, outcomes=taken, cost=here, device=device(), refused=refused, elsewhere=elsewhere
        )  # fmt: skip

    def lines(self) -> list[str]:
        """The plan in a few lines."""
        plan, cost, budget = self.plan, self.cost, self.run.seconds
        cannot, made = [cell for cell in plan.cells if cell.why], {one.unit for one in self.outcomes}
        there = sum(any(unit in made for unit in cell.units) for cell in cannot)
        barred = f", of which {len(cannot)} cannot be run here" if cannot else ""
        barred += f" ({there} of them with results)" if there else ""
        searched = len(plan.searches)  # of these nothing is trained
        trained = len(plan.units) - searched
        runs = [plural(trained, "training run")] if trained or not searched else []
        runs += [f"{searched} search{'es' * (searched != 1)} without training"] if searched else []
        cells = f"{plural(len(plan.cells), 'cell')}{barred}"
        lines = [plan.title, f"{cells}; {' and '.join(runs)}, {len(cost.done) or 'none'} done"]
        if not self.run.results.is_dir():
            lines.append(f"results: there is no folder {self.run.results} here; --results names another")
        for words, count in Counter(self.refused.values()).items():
            lines.append(f"not taken: {plural(count, 'result')}: {words}; give another folder as --results")
        if self.paths.data is None and plan.units:
            lacks = "" if find_spec("datasets") else ', which needs `pip install "robust-tickets[hub]"`'
            lines.append(f"data: from the Hub{lacks}; or --data FOLDER with one folder a task")
        if self.paths.models is None and plan.units:
            lines.append("models: from the Hub; or --models FOLDER with one folder a backbone")
        if cost.units:
            kinds = {"search": cost.search, "train": cost.train, "attack": cost.attack}
            parts = ", ".join(f"{kind} {duration(seconds)}" for kind, seconds in kinds.items() if seconds >= 1)
            other = f"; about {duration(self.elsewhere[0])} on {self.elsewhere[1].about}" if self.elsewhere else ""
            lines.append(f"cost: about {duration(cost.total)} on {self.device.about} ({parts}){other}")
        elif plan.units:
            lines.append("cost: nothing is left to run")
        if budget is not None and cost.units:
            fit = f"about {self.fit(budget)} of {plural(len(cost.units), 'run')} fit"
            lines.append(f"budget {duration(budget)}: {fit}")
        return lines

    def show(self, console: Console) -> None:
        """The same in the terminal, with a line for each arm, and what is missing."""
        for line in self.lines():
            _line(console, line)
        grid, rows = _grid("arm", "task", "runs", "done", "left", "attacks", right=(2, 3, 4)), self.arms()
        for row in rows:
            left = duration(row["seconds"]) if row["runs"] > row["done"] else "–"
            counts = str(row["runs"]), str(row["done"])
            grid.add_row(row["arm"], row["task"], *counts, left, str(len(row["attacks"]) or "–"))
        if rows:
            console.print()
            console.print(grid)
        for names in dict.fromkeys(tuple(row["attacks"]) for row in rows if row["attacks"]):
            _line(console, textwrap.fill(f"{len(names)} attacks: {', '.join(names)}", console.width))
        if lacking := self.lacking():
            _items(console, "missing", lacking)

    def lacking(self) -> list[str]:
        """What is missing, each once, and how many cells cannot be made without it."""
        found = Counter(cell.why for cell in self.plan.cells if cell.why)
        lines = [f"{plural(count, 'cell')}: {why}" for why, count in found.items()]
        return lines + [f"some attacks: {one}" for one in self.plan.missing if not any(one in why for why in found)]

    def arms(self) -> list[dict[str, Any]]:
        """Each arm and task: its runs, what of them is done, what the others cost and what attacks them."""
        groups: dict[tuple[str, str, str], list[Job]] = {}
        for unit in self.plan.units:
            groups.setdefault((unit.backbone, unit.task, unit.arm), []).append(unit)
        left = self.cost.units
        return [
            {
                "backbone": backbone, "task": task, "arm": arm, "runs": len(units), "done": sum(u not in left for u in units),
                "seconds": sum(left.get(unit, 0.0) for unit in units),
                "attacks": list(dict.fromkeys(one.name for unit in units for one in self.plan.attacks[unit])),
            }
            for (backbone, task, arm), units in groups.items()
        ]  # fmt: skip

    def fit(self, budget: float) -> int:
        """How many runs of the order would be ended in time."""
        count, spent = 0, 0.0
        for seconds in self.cost.units.values():
            spent += seconds
            count += spent <= budget
        return count

    def data(self) -> dict[str, Any]:
        """The same for JSON."""
        plan, cost, budget = self.plan, self.cost, self.run.seconds
        other = {"device": self.elsewhere[1].about, "seconds": self.elsewhere[0]} if self.elsewhere else None
        return {
            "title": plan.title,
            "device": self.device.about,
            "cells": [{**asdict(cell), "units": [unit.id for unit in cell.units]} for cell in plan.cells],
            "units": [unit.id for unit in plan.units],
            "arms": self.arms(),
            "done": [unit.id for unit in cost.done],
            "refused": list(self.refused.values()),
            "seconds": {"search": cost.search, "train": cost.train, "attack": cost.attack, "total": cost.total},
            "elsewhere": other,
            "missing": list(plan.missing),
            **({} if budget is None else {"budget": budget, "fit": self.fit(budget)}),
        }


def single(plan: PlanOptions, run: RunOptions, paths: Paths, *, log: bool) -> Answer:
    """Run single jobs; no table is filled. With ``dry_run`` name them and their attacks alone."""
    from robust_tickets.reproduce.plan import may_confirm
    from robust_tickets.reproduce.protocol import CONFIRM
    from robust_tickets.reproduce.runner import run_jobs

    requests = [_request(Job.of_id(id), plan, run, paths) for id in dict.fromkeys(plan.job)]
    for one in requests:
        if any(attack.group == CONFIRM for attack in one.attacks) and not may_confirm(one.unit):
            message = (
                f"{one.unit.id} is not confirmed: that split is attacked once, for the chosen recipe and its rivals"
            )
            raise _refused(message, "leave the confirming attacks out")
    named = {one.unit.id: [attack.name for attack in one.attacks] for one in requests}
    lines = [" ".join([id, *names]) for id, names in named.items()]
    if plan.dry_run:
        return Answer(data={"jobs": named}, show=lambda _: print("\n".join(lines)))
    summary = run_jobs(requests, budget=run.seconds, log=log)
    lines = [*_failed(summary), *(f"left: {unit.id}" for unit in summary.left), summary.line]
    data = {"jobs": named, "work": _summary(summary)}
    return Answer(data=data, show=lambda _: print("\n".join(lines)), exit_code=FAILED if summary.failed else 0)


def _request(unit: Job, plan: PlanOptions, run: RunOptions, paths: Paths) -> Request:
    """A job with the attacks that can be had here: those asked for, or the group ``main``; of a search alone none."""
    from robust_tickets.reproduce.paths import missing
    from robust_tickets.reproduce.protocol import attacks

    names = () if plan.search_only else ("main",) if plan.groups is None else plan.groups
    own, there = missing(paths, unit), []
    for one in attacks(unit.task, names, unit.flavour):
        lacks = [words for words in missing(paths, unit, (one,)) if words not in own]
        if lacks:
            warn(f"{unit.id}: {one.name} is left out: {'; '.join(lacks)}")
        else:
            there.append(one)
    return _requested(unit, there, run, paths, search_only=plan.search_only)


def _requested(unit: Job, attacks: Iterable[Any], run: RunOptions, paths: Paths, *, search_only: bool) -> Request:
    from robust_tickets.reproduce.worker import Request

    return Request(
        unit=unit, attacks=tuple(attacks), paths=paths, store=run.out.absolute(), results=run.results.absolute(),
        processes=run.processes, search_only=search_only, drop_models=run.drop_models,
    )  # fmt: skip


def whole(planned: Planned, *, log: bool) -> Answer:
    """Say the cost, run what is left, fill the tables, write them."""
    from robust_tickets.reproduce import figures as charts
    from robust_tickets.reproduce import tables
    from robust_tickets.reproduce.outcome import read_all
    from robust_tickets.reproduce.page import write_page
    from robust_tickets.reproduce.runner import run_jobs

    plan, run = planned.plan, planned.run
    for line in planned.lines():
        say(line)
    for line in planned.lacking():
        say(f"missing: {line}")
    requests = [
        _requested(unit, plan.attacks[unit], run, planned.paths, search_only=unit in plan.searches)
        for unit in plan.units
    ]
    summary = run_jobs(requests, budget=run.seconds, log=log)
    flavour: Flavour = next((cell.flavour for cell in plan.cells), "corrected")
    outcomes = tuple(o for o in read_all(run.results) if o.unit not in (*summary.refused, *planned.refused))
    # of searches there are none
    filled = [one for one in tables.fill_all(plan, outcomes, run.results, flavour=flavour) if one.cells]
    drawn = {id for id in plan.tables if not id.startswith("campaign") and papers.table(id).kind == "figure"}
    panels = {id: {(cell.backbone, cell.task) for cell in plan.cells if cell.table == id} for id in drawn}
    figures = [charts.figure(id, outcomes, flavour=flavour, pairs=panels[id]) for id in plan.tables if id in drawn]
    written = [path for one in filled for path in tables.write(one, run.out)]
    written += [charts.write(one, run.out) for one in figures]
    written += [write_page(run.page, run.results)] if run.page is not None and outcomes else []
    data = {
        **planned.data(), "work": _summary(summary), "tables": [tables.data(one) for one in filled],
        "figures": [{"id": one.id, "caption": one.caption, "why": one.why} for one in figures],
        "written": [str(path) for path in written],
    }  # fmt: skip

    def show(console: Console) -> None:
        for one in filled:
            tables.show(one, console)
        lines = [f"{figure.id}, not drawn: {figure.why}" for figure in figures if figure.why]
        lines += _failed(summary)
        if summary.left:
            left = plural(len(summary.left), "training run")
            lines.append(f"left by the budget: {left}; the same command resumes")
        for line in (*lines, *(f"written: {path}" for path in written)):
            print(line)

    return Answer(data=data, show=show, exit_code=FAILED if summary.failed else 0)


def _failed(summary: Summary) -> list[str]:
    """Why runs failed; many that failed for one reason, as without data, are one line. All ids stand in the JSON."""
    from robust_tickets.reproduce.runner import in_a_line

    reasons: dict[str, list[str]] = {}
    for id, message in summary.why.items():
        reasons.setdefault(in_a_line(message), []).append(id)
    lines: list[str] = []
    for why, ids in reasons.items():
        named = ids if len(ids) < MANY else [f"{ids[0]} and {len(ids) - 1} others"]
        lines += (f"failed: {one}: {why}" for one in named)
    return lines


def _summary(summary: Summary) -> dict[str, Any]:
    named = {name: [unit.id for unit in getattr(summary, name)] for name in ("done", "found", "failed", "left")}
    return {**named, "why": dict(summary.why)}
