"""Verbs that walk the whole street: ``demo`` and ``run``."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

from robust_tickets.cli.answer import Answer, Common, Settings, Strict
from robust_tickets.cli.early import files_in, look_for
from robust_tickets.cli.making import is_folder
from robust_tickets.progress import duration, say


def demo(*, set: Settings = (), out: Path | None = None, strict: Strict = False, common: Common = Common()) -> Answer:  # noqa: B008
    """The embedded walk: search, draw, train, attack, report; opens nothing, prints the path.

    Parameters
    ----------
    out
        The run folder; by default runs/demo-HASH.
    """
    return _walk("demo", _with(set, strict), out, "tickets demo")


def run(recipe: str, *, set: Settings = (), out: Path | None = None, strict: Strict = False, common: Common = Common()) -> Answer:  # noqa: B008
    """Walk a recipe; running it again resumes or finds it done.

    Parameters
    ----------
    recipe
        A recipe's name (`tickets ls recipes`) or a TOML file.
    out
        The run folder; by default runs/RECIPE-HASH.
    """
    return _walk(recipe, _with(set, strict), out, f"tickets run {shlex.quote(recipe)}")


def _walk(name: str, settings: tuple[str, ...], out: Path | None, command: str) -> Answer:
    from robust_tickets.walk.recipe import read_recipe

    begun = time.monotonic()
    if out is not None:
        is_folder(out)
    look_for(*files_in(settings))
    say(f"loading the recipe {name} and torch")
    recipe = read_recipe(name, settings)
    say(recipe.title)
    from robust_tickets.classifier.place import model_folder
    from robust_tickets.report.read import read_run
    from robust_tickets.report.terminal import figures, summary
    from robust_tickets.report.verdict import warnings
    from robust_tickets.walk.estimate import tell
    from robust_tickets.walk.runner import look_for_attacks, prepare

    look_for_attacks(recipe)
    walk = prepare(recipe, out=out, command=command + "".join(f" --set {shlex.quote(s)}" for s in settings))
    if walk.done():
        say(f"{walk.run.folder} is done already; checking its stages")
    else:
        tell(walk)
    folder = walk.go()
    say(f"done in {duration(time.monotonic() - begun)}")
    page = folder / "report.html"

    def show(console: object) -> None:
        console.print(summary(folder))  # type: ignore[attr-defined]
        for arm in walk.recipe.arms:
            print(f"model {arm.name}: {model_folder(folder, arm.name)}")
        print(f"report: {page}")
        sys.stdout.flush()

    models = {arm.name: str(model_folder(folder, arm.name)) for arm in recipe.arms}
    told = {"models": models, "run": str(folder), "report": str(page), "arms": figures(folder), "warnings": warnings(read_run(folder))}
    return Answer(data=told, show=show)


def _with(settings: tuple[str, ...], strict: bool) -> tuple[str, ...]:
    return (*settings, "strict=true") if strict else settings
