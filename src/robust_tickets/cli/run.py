"""The verbs that run a whole experiment: ``demo`` and ``run``."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path

from robust_tickets.cli.options import Answer, Common, MaxFailed, Settings, Strict, files_in, is_folder, look_for
from robust_tickets.errors import FAILED
from robust_tickets.progress import duration, say, warn


def demo(
    *,
    set: Settings = (),
    out: Path | None = None,
    max_failed: MaxFailed | None = None,
    strict: Strict = False,
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """The embedded experiment: search, draw, train, attack, report; opens nothing, prints the path.

    Parameters
    ----------
    out
        The run folder; by default runs/demo-HASH.
    """
    return _run("demo", _with(set, strict), out, "tickets demo", max_failed)


def run(
    recipe: str,
    *,
    set: Settings = (),
    out: Path | None = None,
    max_failed: MaxFailed | None = None,
    strict: Strict = False,
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Run a recipe; running it again resumes or finds it done.

    Parameters
    ----------
    recipe
        A recipe's name (`tickets ls recipes`) or a TOML file.
    out
        The run folder; by default runs/RECIPE-HASH.
    """
    return _run(recipe, _with(set, strict), out, f"tickets run {shlex.quote(recipe)}", max_failed)


def _run(name: str, settings: tuple[str, ...], out: Path | None, command: str, max_failed: float | None) -> Answer:
    from robust_tickets.attack.flags import FAILED_EXAMPLES
    from robust_tickets.experiment.recipe import read_recipe

    begun = time.monotonic()
    if out is not None:
        is_folder(out)
    look_for(*files_in(settings))
    say(f"loading the recipe {name} and torch")
    recipe = read_recipe(name, settings)
    if max_failed is not None:
        recipe = replace(recipe, attacks=tuple(replace(plan, max_failed=max_failed) for plan in recipe.attacks))
    say(recipe.title)
    from robust_tickets.classifier.loading import model_folder
    from robust_tickets.experiment.runner import look_for_attacks, plan_of, prepare
    from robust_tickets.report.run_data import read_run
    from robust_tickets.report.terminal import Summary, figures
    from robust_tickets.report.verdict import warnings

    look_for_attacks(recipe)
    experiment = prepare(recipe, out=out, command=command + "".join(f" --set {shlex.quote(s)}" for s in settings))
    if experiment.done():
        say(f"{experiment.run.folder} is done already; checking its stages")
    else:
        for line in plan_of(experiment):
            say(line)
        say(f"run folder: {experiment.run.folder} (stop at any time; the same command resumes)")
    folder = experiment.go()
    say(f"done in {duration(time.monotonic() - begun)}")
    page = folder / "report.html"
    read = read_run(folder)

    def show(console: object) -> None:
        console.print(Summary(read))  # type: ignore[attr-defined]
        for arm in experiment.recipe.arms:
            print(f"model {arm.name}: {model_folder(folder, arm.name)}")
        print(f"report: {page}")
        sys.stdout.flush()

    models = {arm.name: str(model_folder(folder, arm.name)) for arm in recipe.arms}
    document = {
        "models": models,
        "run": str(folder),
        "report": str(page),
        "arms": figures(read),
        "warnings": warnings(read),
    }
    failed = [arm.title for arm in read.arms if any(FAILED_EXAMPLES in found.flag_codes for found in arm.attacks)]
    if failed:
        warn(
            f"too many examples of {', '.join(failed)} failed under attack: its numbers do not hold; the same command attacks them again"
        )
    return Answer(data=document, show=show, exit_code=FAILED if failed else 0)


def _with(settings: tuple[str, ...], strict: bool) -> tuple[str, ...]:
    return (*settings, "strict=true") if strict else settings
