"""What there is, by name: tuples of names, without importing any of the things named."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

from robust_tickets.registry import ADVERSARIES, ATTACKS, BACKBONES, METHODS


def methods() -> tuple[str, ...]:
    """Searches that find a ticket."""
    return METHODS.names()


def adversaries() -> tuple[str, ...]:
    """Inner maximisations that plug into training and into the searches."""
    return ADVERSARIES.names()


def attacks() -> tuple[str, ...]:
    """Attacks on texts."""
    return ATTACKS.names()


def backbones() -> tuple[str, ...]:
    """Families of encoders with a layout."""
    return BACKBONES.names()


def tasks() -> tuple[str, ...]:
    """Registered tasks."""
    from robust_tickets.data.tasks import TASKS

    return tuple(sorted(TASKS))


def recipes() -> tuple[str, ...]:
    """Recipes that can be run by name: the files that ship, and one for every search and every adversary."""
    shipped = (
        file.name for file in files("robust_tickets.experiment.recipes").iterdir() if not file.name.startswith("_")
    )
    return tuple(sorted({*(n[:-5] for n in shipped if n.endswith(".toml")), *methods(), *adversaries()}))


def recipe_tree(name: str) -> dict[str, Any]:
    """The recipe called ``name`` as TOML says it: its own file, or the template of searches or adversaries filled in."""
    folder = files("robust_tickets.experiment.recipes")
    if (own := folder / f"{name}.toml").is_file():
        return tomllib.loads(own.read_text("utf-8"))
    registry, template = (METHODS, "_search.toml") if name in methods() else (ADVERSARIES, "_adversary.toml")
    filled = (folder / template).read_text("utf-8").replace("TITLE", registry.spelled(name)).replace("NAME", name)
    return tomllib.loads(filled)
