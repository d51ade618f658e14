"""The verb ``reproduce``: tables, figures and campaigns, as published, planned, run and filled. Without runs it imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from robust_tickets.cli import contents, filling
from robust_tickets.cli.answer import Answer, Common
from robust_tickets.cli.planned import Ask
from robust_tickets.errors import TicketsError
from robust_tickets.progress import seconds
from robust_tickets.reproduce import published as papers
from robust_tickets.reproduce.job import Flavour

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
    limit = seconds(budget, "--budget") if budget is not None else None
    if processes < 1:
        raise TicketsError(f"--processes is at least 1, got {processes}", hint="1 runs one after the other")
    ask = Ask(
        tables=tables, campaign=campaign, jobs=job, search_only=search_only, seeds=seeds, flavour=flavour, only=only,
        attacks=_names(attacks), data=data, models=models, resources=resources, encoder=encoder, subset=subset,
        results=results, out=out,
    )  # fmt: skip
    run = filling.Run(processes=processes, budget=limit, drop_models=drop_models, log=common.quiet)
    if search_only and not job:
        raise TicketsError("reproduce: --search-only goes with --job", hint="name the runs: --job ID")
    if job:
        if tables or campaign is not None or only or seeds is not None or page is not None:
            raise TicketsError(
                "reproduce: --job names single runs, without tables, a campaign, --only, --seeds or --page",
                hint="two commands: what both need is run once, if --results and --out are the same",
            )
        return filling.single(ask, run, dry=dry_run)
    if page is not None and not tables and campaign is None and not dry_run:
        if asked:
            raise TicketsError(
                f"reproduce: {asked[0]} goes with tables or a campaign; without them --page is of all results",
                hint=f"leave out {', '.join(asked)}, or name some tables",
            )
        return filling.of_results(results, page)
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
        return filling.dry_run(ask, limit)
    return filling.go(ask, run, page)


def _published(tables: tuple[str, ...], list_: bool, published: bool, paper: str | None, more: bool) -> Answer:
    if list_ == published or more or (list_ and tables) or (published and len(tables) != 1):
        raise TicketsError(
            "reproduce: expected `--list` alone, or one table with `--published`",
            hint="`tickets reproduce --list` shows the ids, `tickets reproduce ER-T1 --published` one table",
        )
    if list_:
        return contents.contents([papers.paper(paper)] if paper else list(papers.papers()))
    if paper is not None:
        raise TicketsError(
            "reproduce: --paper goes with --list; a table's id names its paper", hint=f"leave out --paper {paper}"
        )
    return contents.as_published(papers.table(tables[0]))


def _names(groups: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in groups.split(",") if name.strip()) if groups is not None else None
