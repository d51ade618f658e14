"""Errors: each carries a code."""

from __future__ import annotations

import ast
import copy
import re
from pathlib import Path

import robust_tickets
from robust_tickets.errors import DamagedError, TicketsError

ROOT = Path(robust_tickets.__file__).parent
ERRORS = {"TicketsError", "DamagedError"}


def test_every_error_has_a_code() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                code = next((k.value.value for k in node.keywords if k.arg == "code"), "")
                assert re.fullmatch(r"[a-z_]+\.[a-z_]+", code), f"{path}:{node.lineno}"


def test_an_error_crosses_processes_whole() -> None:
    error = DamagedError("what", hint="do", exit_code=3, code="file.json")
    again = copy.copy(error)  # as pickle does it
    assert isinstance(again, TicketsError)
    assert (again.message, again.hint, again.exit_code, again.code) == ("what", "do", 3, "file.json")
