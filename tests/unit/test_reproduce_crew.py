"""A process of the crew that answers what nobody understands loses its unit, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from robust_tickets.reproduce import crew
from robust_tickets.reproduce.places import Places
from robust_tickets.reproduce.unit import Unit
from robust_tickets.reproduce.work import Order, work

UNITS = [Unit(task="sst2", arm="finetune", seed=seed) for seed in range(4)]
FINE = {"state": "done", "numbers": "fine", "seconds": 1.0}


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"state": "failed"},
        {"state": "done", "numbers": "fine"},
        {"state": "done", "numbers": "fine", "seconds": "long"},
        "done",
    ],
)
def test_an_answer_that_cannot_be_read_is_its_unit_s_failure(
    odd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def ask(_: crew.Hand, order: Order) -> Any:
        return odd if order.unit == UNITS[0] else FINE

    monkeypatch.setattr(crew.Hand, "ask", ask)
    summary = work(UNITS, [], Places(), tmp_path / "store", tmp_path / "results", processes=2)
    assert summary.failed == (UNITS[0],)
    assert set(summary.done) == set(UNITS[1:])


def test_a_unit_that_is_done_does_not_fail_afterwards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def end(hand: crew.Hand) -> None:
        if hand.job.results.name == "results" and not ended:
            ended.append(hand.number)
            raise OSError("no more processes")

    ended: list[int] = []
    monkeypatch.setattr(crew.Hand, "ask", lambda *_: FINE)
    monkeypatch.setattr(crew.Hand, "end", end)
    summary = work(UNITS, [], Places(), tmp_path / "store", tmp_path / "results", processes=2)
    assert ended
    assert not summary.failed
    assert set(summary.done) == set(UNITS)
