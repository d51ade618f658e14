"""The verbs that run a whole experiment: ``demo`` and ``run``."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from cyclopts import Parameter

from robust_tickets.cli.options import Answer, Common, MaxFailed, Settings, Strict, is_folder, look_for
from robust_tickets.errors import FAILED
from robust_tickets.progress import duration, say, warn

DATA = ("task", "data", "test", "validation")  # keys of a recipe that may name a file


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a recipe is run.

    Parameters
    ----------
    out
        The run folder; by default runs/RECIPE-HASH.
    """

    set: Settings = ()
    out: Path | None = None
    max_failed: MaxFailed | None = None
    strict: Strict = False


def demo(*, options: RunOptions = RunOptions(), common: Common = Common()) -> Answer:  # noqa: B008
    """The embedded experiment: search, draw, train, attack, report; opens nothing, prints the path."""
    return _run("demo", "tickets demo", options)


def run(recipe: str, *, options: RunOptions = RunOptions(), common: Common = Common()) -> Answer:  # noqa: B008
    """Run a recipe; running it again resumes or finds it done.

    Parameters
    ----------
    recipe
        A recipe's name (`tickets ls recipes`) or a TOML file.
    """
    return _run(recipe, f"tickets run {shlex.quote(recipe)}", options)


def _run(name: str, command: str, options: RunOptions) -> Answer:
    from robust_tickets.attack.flags import FAILED_EXAMPLES
    from robust_tickets.experiment.recipe import read_recipe

    begun = time.monotonic()
    settings = (*options.set, "strict=true") if options.strict else options.set
    if options.out is not None:
        is_folder(options.out)
    given = dict(setting.partition("=")[::2] for setting in settings)
    look_for(*(value.strip() for key, value in given.items() if key.strip() in DATA and value.strip()))
    say(f"loading the recipe {name} and torch")
    recipe = read_recipe(name, settings)
    if options.max_failed is not None:
        attacks = tuple(replace(plan, max_failed=options.max_failed) for plan in recipe.attacks)
        recipe = replace(recipe, attacks=attacks)
    say(recipe.title)
    from robust_tickets.classifier.loading import model_folder
    from robust_tickets.experiment.runner import look_for_attacks, plan_of, prepare
    from robust_tickets.report.run_data import read_run
    from robust_tickets.report.terminal import Summary, figures
    from robust_tickets.report.verdict import warnings

    look_for_attacks(recipe)
    command += "".join(f" --set {shlex.quote(setting)}" for setting in settings)
    experiment = prepare(recipe, out=options.out, command=command)
    if experiment.done():
        say(f"{experiment.run.folder} is done already; checking its stages")
    else:
        for line in plan_of(experiment):
            say(line)
        say(f"run folder: {experiment.run.folder} (stop at any time; the same command resumes)")
    folder = experiment.go()
    say(f"done in {duration(time.monotonic() - begun)}")
    page, read = folder / "report.html", read_run(folder)
    models = {arm.name: str(model_folder(folder, arm.name)) for arm in recipe.arms}

    def show(console: object) -> None:
        console.print(Summary(read))  # type: ignore[attr-defined]
        print(*(f"model {arm}: {model}" for arm, model in models.items()), f"report: {page}", sep="\n")
        sys.stdout.flush()

    failed = [arm.title for arm in read.arms if any(FAILED_EXAMPLES in found.flag_codes for found in arm.attacks)]
    if failed:
        warn(f"too many examples of {', '.join(failed)} failed under attack; the same command attacks them again")
    document = {"models": models, "run": str(folder), "report": str(page), "arms": figures(read)}
    document |= {"warnings": warnings(read)}
    return Answer(data=document, show=show, exit_code=FAILED if failed else 0)
