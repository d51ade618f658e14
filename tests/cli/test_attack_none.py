"""A resource is done without by ``--set encoder=none``; the result says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from robust_tickets.cli.main import main
from robust_tickets.config import FlagText, build, resources_in
from robust_tickets.errors import TicketsError
from robust_tickets.registry import ATTACKS


@pytest.mark.parametrize("name", ATTACKS.names())
def test_every_resource_can_be_named_none(name: str) -> None:
    kind = ATTACKS.get(name)
    for resource in resources_in(kind):
        source = (resource == "vectors" and name != "textbugger") or (name, resource) == ("bertattack", "masked")
        if source:  # candidates come from it
            with pytest.raises(TicketsError, match="cannot be dropped"):
                build(kind, {resource: FlagText("none")})
        else:
            assert getattr(build(kind, {resource: FlagText("none")}), resource) == "none"
    assert build(kind, {"compat": FlagText("none")}).compat is None  # elsewhere none is nothing


def test_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "short_of_a.py").write_text(
        "def p(texts):\n    return [[1 - q, q] for q in (0.12 + 0.1 * t.count('a') for t in texts)]\n"
    )
    (tmp_path / "rows.csv").write_text("text,label\na warm day at last,good\ncold wind,bad\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    given = [
        "attack",
        "short_of_a:p",
        "--labels",
        "bad,good",
        "--data",
        "rows.csv",
        "--n",
        "0",
        "--out",
        "out",
        "--attack",
        "textbugger",
    ]
    with pytest.raises(SystemExit) as done:
        main([*given, "--set", "vectors=none", "--set", "encoder=none", "--quiet"])
    assert not done.value.code, capsys.readouterr().err
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["attack"] == "TextBugger without vectors and encoder"
    assert any("sentence similarity" in flag for flag in result["flags"])
