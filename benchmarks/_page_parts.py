"""What the parts of docs/dev/speed.md share: results read, tables and provenance written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Result = Mapping[str, Any]
NO = "–"
NOW = {"--no-trainer": "--without trainer-bf16"}  # options of commands in the results that have another name today


def read(folder: Path, name: str) -> Result | None:
    """A result, or None where it was not measured (yet)."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def made_with(result: Result, arguments: str = "") -> str:
    """Device, versions and commands, for under a table; with ``arguments`` where the result tells the script alone. Commands are shown so
    that they run today.
    """
    env = result["env"]
    versions = ", ".join(
        f"{name} {env['packages'][name]}" for name in ("torch", "transformers") if name in env["packages"]
    )
    called = result.get("commands", [result.get("command", "")])
    commands = "; ".join(
        f"`{_today(command if ' --' in command else f'{command} {arguments}'.strip())}`" for command in called
    )
    device = env.get("cpu", "cpu") if env["device"] == "cpu" else env["device"]
    return f"*{device}, Python {env['python']}, {versions}, {env['cores']} cores; seed 0. {commands}*\n"


def _today(command: str) -> str:
    return " ".join(NOW.get(word, word) for word in command.split())


def number(value: float | None) -> str:
    """Three figures, without an exponent."""
    if value is None:
        return NO
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def factor(value: float | None) -> str:
    return NO if value is None else f"{number(value)} ×"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{number(seconds)} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.2f} h"
