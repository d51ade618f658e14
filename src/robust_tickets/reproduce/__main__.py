"""``python -m robust_tickets.reproduce``: run units or a campaign where nothing but the core packages is installed, as on a GPU machine.

The outcomes are all that has to be brought back; tables and page are made of them by ``tickets reproduce``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robust_tickets import progress
from robust_tickets.errors import BAD_INPUT, FAILED, TicketsError

FOLDERS = {
    "data": "one folder a task; else the Hub's",
    "models": "one folder a backbone; else the Hub's",
    "resources": "counterfitted_neighbors.json, counterfit-substitute/, nltk_data/",
    "encoder": "a sentence encoder; else the installed all-MiniLM-L6-v2",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, say what became of it; the exit code."""
    os.environ.setdefault(
        "OMP_WAIT_POLICY", "passive"
    )  # as `tickets` does: threads that spin take the cores from other processes
    given = _parser().parse_args(argv)
    try:
        with progress.printed(quiet=given.quiet):
            return _list_arms() if given.arms else _go(given)
    except KeyboardInterrupt:
        print("interrupted\n  what to do: run the same command to go on", file=sys.stderr)
        return 130
    except TicketsError as problem:
        print(
            f"error: {problem.message}" + (f"\n  what to do: {problem.hint}" if problem.hint else ""), file=sys.stderr
        )
        return problem.exit_code


def _list_arms() -> int:
    from robust_tickets.reproduce.arms import arms

    wide = max(map(len, arms()))
    _tell(f"{name:<{wide}}  {one.title}" for name, one in sorted(arms().items()))
    return 0


def _go(given: argparse.Namespace) -> int:
    from robust_tickets.reproduce.places import Places
    from robust_tickets.reproduce.queue import told_of
    from robust_tickets.reproduce.work import work

    budget = progress.seconds(given.budget, "--budget") if given.budget else None
    places = Places.find(
        data=given.data, models=given.models, resources=given.resources, encoder=given.encoder, subset=given.subset
    )
    units, attacks, searches, expected = _asked(given, places)
    if given.dry_run:
        _tell(" ".join([unit.id, *(attack.name for attack in attacks[unit])]) for unit in units)
        return 0
    summary = work(
        units, attacks, places, given.store, given.results, processes=given.processes, at_once=given.train_at_once, budget=budget,
        drop_models=given.drop_models, graphs_only=given.graphs_only, searches=searches, expected=expected,
    )  # fmt: skip
    failed = [f"failed: {id}: {told_of(message)}" for id, message in summary.why.items()]
    _tell([*failed, *(f"left: {unit.id}" for unit in summary.left), summary.told])
    return FAILED if summary.failed else 0


def _tell(lines: Iterable[str]) -> None:
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except (
        BrokenPipeError
    ):  # the reader went away (`… --dry-run | head -1`): not an error of ours, and the exit code stays
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _asked(given: argparse.Namespace, places: Any) -> tuple[Any, Any, frozenset[Any], Any]:
    """Units in their order, the attacks of each, those of which the search alone is asked for, and the seconds each is thought to take."""
    from robust_tickets.reproduce.campaign import campaign
    from robust_tickets.reproduce.cost import cost
    from robust_tickets.reproduce.only import read_only
    from robust_tickets.reproduce.outcome import read_all
    from robust_tickets.reproduce.unit import Unit

    groups = tuple(name for name in given.attacks.split(",") if name) if given.attacks is not None else None
    if given.units:
        units = [Unit.of_id(id) for id in dict.fromkeys(given.units)]
        names = () if given.search_only else ("main",) if groups is None else groups
        found = {unit: _attacks(unit, names, places) for unit in units}
        _check_confirming(found, given.results)
        return units, found, frozenset(units) if given.search_only else frozenset(), {}
    done = read_all(given.results)
    plan = campaign(given.campaign, places, only=read_only(given.only), seeds=given.seeds, groups=groups, outcomes=done)
    for words in plan.missing:
        progress.warn(words)
    if not plan.units:
        raise TicketsError(
            f"nothing of campaign {given.campaign} can be run", hint="see the warnings above", exit_code=BAD_INPUT
        )
    return plan.units, plan.attacks, plan.searches, dict(cost(plan, done, places=places, store=given.store).units)


def _check_confirming(attacks: Mapping[Any, Sequence[Any]], results: Path) -> None:
    """The split that confirms is attacked once: not for recipes that were not chosen, nor before one is."""
    from robust_tickets.reproduce.attacks import CONFIRM
    from robust_tickets.reproduce.campaign import may_confirm
    from robust_tickets.reproduce.outcome import read_all

    confirmed = [unit for unit, all in attacks.items() if any(one.group == CONFIRM for one in all)]
    done = read_all(results) if confirmed else ()
    for unit in confirmed:
        if not may_confirm(unit, done):
            raise TicketsError(
                f"{unit.id} is not confirmed: that split is attacked once, for the recipe that the screening in {results} chooses",
                hint="leave the confirming attacks out, or give the --results that hold all of campaigns A and B",
            )


def _attacks(unit: Any, names: Sequence[str], places: Any) -> list[Any]:
    """The attacks of groups, or named one by one, that can be had here."""
    from robust_tickets.reproduce.attacks import attacks
    from robust_tickets.reproduce.places import missing

    found = []
    for one in attacks(unit.task, names, unit.flavour):
        lacks = [words for words in missing(places, unit, (one,)) if words not in missing(places, unit)]
        if lacks:
            progress.warn(f"{unit.id}: {one.name} is left out: {'; '.join(lacks)}")
        else:
            found.append(one)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m robust_tickets.reproduce", description="Run units or a campaign; resume by running again."
    )
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--units", nargs="+", metavar="ID", help="as bert-base-uncased/sst2/finetune/corrected/seed-0")
    asked.add_argument("--campaign", metavar="A", help="A, B, B2, C, D or E, or several: A,B")
    asked.add_argument(
        "--arms", action="store_true", help="list the names of all arms, which units are made of, with their titles"
    )
    groups = "main,more,encoder,…, or single attacks; by default main, or a campaign's own"
    parser.add_argument("--attacks", metavar="GROUPS", help=groups)
    parser.add_argument(
        "--only", action="append", default=[], metavar="KEY=VALUE", help="a part of a campaign: seed=0, method=finetune"
    )
    parser.add_argument("--seeds", type=int, help="instead of the campaign's number of runs")
    parser.add_argument(
        "--search-only", action="store_true", help="of --units the ticket alone: nothing is trained or attacked"
    )
    parser.add_argument("--processes", type=int, default=1, help="that share the device at a time")
    parser.add_argument(
        "--train-at-once", type=int, metavar="N", help="of these, how many may search or train; the others attack"
    )
    parser.add_argument("--budget", metavar="25m", help="what is not ended in this time is left")
    parser.add_argument(
        "--drop-models", action="store_true", help="remove a trained model once it is attacked: 440 MB each"
    )
    parser.add_argument(
        "--graphs-only",
        action="store_true",
        help="on a GPU: fail what cannot be recorded, instead of running it eagerly",
    )
    parser.add_argument(
        "--store",
        type=Path,
        default=Path("runs/reproduce"),
        help="searches, models and attacks while they are made (runs/reproduce)",
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="the outcomes (results)")
    for name, what in FOLDERS.items():
        parser.add_argument(f"--{name}", type=Path, metavar="FOLDER", help=what)
    parser.add_argument("--subset", action="store_true", help="the data are meant to be a part of the official ones")
    parser.add_argument("--dry-run", action="store_true", help="name the units and their attacks, run nothing")
    parser.add_argument("--quiet", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
