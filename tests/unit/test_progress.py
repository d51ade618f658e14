"""What a bar says where there is no terminal: a first estimate of long work, then a line every few seconds."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from robust_tickets import progress


@pytest.mark.parametrize(
    ("first", "seconds", "said"),
    [(1, 2.0, ["train: 1/100, 3 min 18 s left"]), (3, 2.0, ["train: 3/100, 3 min 14 s left"]), (1, 0.1, [])],
)
def test_the_first_units_give_an_estimate_of_long_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], first: int, seconds: float, said: list[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    bar = progress.Bar("train", 100, first=first)
    for _ in range(4):
        now[0] += seconds
        bar.advance()
    assert capsys.readouterr().err.splitlines() == said
