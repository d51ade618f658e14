"""The source as a whole: what it imports is declared, the version stands in one place, and every error carries a code."""

from __future__ import annotations

import ast
import copy
import re
import sys
import tomllib
from pathlib import Path

import robust_tickets as rt
from robust_tickets.errors import DamagedError, TicketsError

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CALLED = {"yaml": "pyyaml"}  # imported by another name than it is installed by
ERRORS = {"TicketsError", "DamagedError"}


def normal(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].replace("_", "-").lower()


def imported() -> set[str]:
    """The packages of others that any line of the source imports."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
    return {normal(CALLED.get(name, name)) for name in found - sys.stdlib_module_names - {"robust_tickets"}}


def test_what_is_imported_is_declared() -> None:
    extras = {
        name: set(map(normal, lines)) for name, lines in PROJECT["optional-dependencies"].items() if name != "test"
    }
    always = set(map(normal, PROJECT["dependencies"]))
    assert imported() <= always.union(*extras.values())
    assert not always & set.union(*extras.values())


def test_every_floor_is_at_most_the_version_that_is_pinned() -> None:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", text)]

    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normal(line): numbers(line.partition("==")[2]) for line in lines if "==" in line}
    for line in PROJECT["dependencies"]:
        bounds = dict(re.findall(r"(>=|<)([\d.]+)", line))
        assert numbers(bounds[">="]) <= pinned[normal(line)]
        assert "<" not in bounds or pinned[normal(line)] < numbers(bounds["<"])


def test_one_version() -> None:
    assert PROJECT["dynamic"] == ["version"]  # pyproject.toml takes it from the source
    cited = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited == [rt.__version__]


def test_the_page_for_an_index_has_no_relative_links() -> None:
    page = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")
    assert not re.findall(r"\]\((?!https://)[^)]*\)", page)


def test_every_error_has_a_code() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                code = next((k.value.value for k in node.keywords if k.arg == "code"), "")
                assert re.fullmatch(r"[a-z_]+\.[a-z_]+", code), f"{path}:{node.lineno}"


def test_an_error_crosses_processes_whole() -> None:
    error = DamagedError("what", hint="do", exit_code=3, code="file.json")
    again = copy.copy(error)  # as pickle does it
    assert isinstance(again, TicketsError)
    assert (again.message, again.hint, again.exit_code, again.code) == ("what", "do", 3, "file.json")
