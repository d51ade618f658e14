"""What the package logs: silent as a library but for warnings, printed by the command line, never a control character."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

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


def test_the_command_line_prints(capsys: pytest.CaptureFixture[str]) -> None:
    before = LOGGER.handlers, LOGGER.level, LOGGER.propagate
    for quiet in (False, True):
        with printed(quiet=quiet):
            say("one")
            warn("two")
    assert capsys.readouterr().err.splitlines() == ["one", "warning: two", "warning: two"]
    assert (LOGGER.handlers, LOGGER.level, LOGGER.propagate) == before


def test_no_bar_where_nothing_but_warnings_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    LOGGER.setLevel(logging.WARNING)
    with track("work", 2) as bar:
        bar.advance(2)
    assert capsys.readouterr().err == ""
