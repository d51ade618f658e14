"""The TOML files of this house, each read once."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def toml(name: str) -> dict[str, Any]:
    """The file called so; what it gives is shared, and nobody's to change."""
    return tomllib.loads((files(__package__) / name).read_text("utf-8"))
