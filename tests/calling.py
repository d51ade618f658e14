"""The command line as a test calls it, in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from robust_tickets.cli.main import main


def tickets(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """The document that ``tickets … --json`` prints; it must end with ``code``."""
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--json"])
    out = capsys.readouterr()
    assert end.value.code == code, out.err
    return json.loads(out.out)


def sets(*settings: str) -> list[str]:
    """``--set`` before each setting."""
    return [part for setting in settings for part in ("--set", setting)]
