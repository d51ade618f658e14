"""What there is, by name: tuples of names, without importing any of the things named."""

from __future__ import annotations

from importlib.resources import files

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
    """Recipes that ship with the package."""
    return tuple(sorted(f.name[:-5] for f in files("robust_tickets.recipe").iterdir() if f.name.endswith(".toml")))
