"""The command line as a test calls it, in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from robust_tickets.cli.main import main

Capture = pytest.CaptureFixture[str]


def tickets(capsys: Capture, *arguments: str, code: int = 0) -> Any:
    """The document that ``tickets … --json`` prints; it must end with ``code``."""
    return json.loads(called(capsys, *arguments, "--json", code=code)[0])


def sets(*settings: str) -> list[str]:
    """``--set`` before each setting."""
    return [part for setting in settings for part in ("--set", setting)]


def called(capsys: Capture, *arguments: str, code: int = 0) -> tuple[str, str]:
    """What ``tickets …`` prints to its output and to its errors; it must end with ``code``."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    out = capsys.readouterr()
    assert end.value.code == code, out.err
    return out.out, out.err
