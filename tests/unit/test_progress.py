"""What the package logs: silent as a library but for warnings, printed by the command line, never a control character; and its bars."""

from __future__ import annotations

import logging
import subprocess
import sys
from types import SimpleNamespace

import pytest

from calling import Capture
from robust_tickets import progress
from robust_tickets.progress import LOGGER, printed, say, track, warn


@pytest.mark.parametrize(
    ("setup", "printed_lines"), [("", ["two ␛[2J"]), ("logging.basicConfig(level='INFO')", ["one", "two"])]
)
def test_a_library_logs(setup: str, printed_lines: list[str]) -> None:
    code = f"import logging\n{setup}\nfrom robust_tickets.progress import say, warn\nsay('one'); warn('two \\x1b[2J')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == len(printed_lines)
    assert all(words in line for words, line in zip(printed_lines, done.stderr.splitlines(), strict=True))
    assert "\x1b" not in done.stderr


def test_the_command_line_prints(capsys: Capture) -> None:
    before = LOGGER.handlers, LOGGER.level, LOGGER.propagate
    for quiet in (False, True):
        with printed(quiet=quiet):
            say("one")
            warn("two")
    assert capsys.readouterr().err.splitlines() == ["one", "warning: two", "warning: two"]
    assert (LOGGER.handlers, LOGGER.level, LOGGER.propagate) == before


def test_no_bar_where_nothing_but_warnings_is_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    LOGGER.setLevel(logging.WARNING)
    with track("work", 2) as bar:
        bar.advance(2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("first", "seconds", "said"),
    [(1, 2.0, ["train: 1/100, 3 min 18 s left"]), (3, 2.0, ["train: 3/100, 3 min 14 s left"]), (1, 0.1, [])],
)
def test_the_first_units_give_an_estimate_of_long_work(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, first: int, seconds: float, said: list[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    bar = progress.Bar("train", 100, first=first)
    for _ in range(4):
        now[0] += seconds
        bar.advance()
    assert capsys.readouterr().err.splitlines() == said
