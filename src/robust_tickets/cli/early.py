"""What is done before torch and a model are loaded, which takes seconds: a missing data file is told, and a line says what is loading."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from robust_tickets.data.readers import READERS
from robust_tickets.errors import TicketsError
from robust_tickets.files import look_again

DATA = ("task", "data", "test", "validation")  # keys of a recipe that may name a file


def look_for(*given: str | Path | None) -> None:
    """Refuse a data file that is not there; what does not end like one may be a task, a folder or a Hub id and is looked at later."""
    for path in (Path(os.path.expanduser(one)) for one in given if one is not None):  # which no path makes raise
        if path.suffix.lower() in READERS and not os.path.exists(path):
            raise TicketsError(f"no such file or folder: {path}", hint=look_again(path))


def files_in(settings: Iterable[str]) -> Iterator[str]:
    """The values of those ``key=value`` settings that may name a data file."""
    for setting in settings:
        key, equals, value = setting.partition("=")
        if equals and key.strip() in DATA:
            yield value.strip()


def flag(name: str) -> str:
    """The flag that sets a parameter of this name."""
    return f"--{name.replace('_', '-')}"
