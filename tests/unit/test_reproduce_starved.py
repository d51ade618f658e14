"""Units whose inputs cannot be had: what needs the same is passed over with them, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from robust_tickets.reproduce import work as house
from robust_tickets.reproduce.one import InputError
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.places import Places
from robust_tickets.reproduce.queue import Queue
from robust_tickets.reproduce.unit import Unit
from robust_tickets.reproduce.work import work

ARMS = ("finetune", "earlyrobust", "freelb")
UNITS = [Unit(task=task, arm=arm, seed=seed) for task in ("sst2", "imdb") for seed in range(3) for arm in ARMS]
NO_ROWS = "could not get imdb from the Hub"


def queue_of(units: list[Unit]) -> Queue:
    queue = Queue(budget=None, expected={}, total=len(units))
    queue.waiting += units
    return queue


def test_a_task_is_tried_by_two_arms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried: list[Unit] = []

    def one(unit: Unit, *_: Any, **__: Any) -> Outcome:
        tried.append(unit)
        if unit.task == "imdb":
            raise InputError(NO_ROWS, hint="give --data")
        return Outcome(unit=unit, config={}, inputs={}, env={}, clean={"accuracy": 50.0}, cost={})

    monkeypatch.setattr(house, "one", one)
    summary = work(UNITS, [], Places(), tmp_path / "store", tmp_path / "results")
    assert set(summary.done) == {unit for unit in UNITS if unit.task == "sst2"}
    assert set(summary.failed) == {unit for unit in UNITS if unit.task == "imdb"}
    assert [unit.arm for unit in tried if unit.task == "imdb"] == ["finetune", "earlyrobust"]
    assert all(NO_ROWS in message for message in summary.why.values())


def test_an_arm_s_own_files_are_its_own() -> None:
    queue = queue_of(UNITS)
    first = queue.take()
    assert first is not None
    queue.fail(first[0], "no corpus", inputs=True)
    assert {unit.arm for unit in queue.failed} == {"finetune"}
    assert {unit.task for unit in queue.failed} == {"sst2"}
    second = queue.take()
    assert second is not None
    queue.fail(second[0], "another reason", inputs=True)
    assert {unit.arm for unit in queue.waiting if unit.task == "sst2"} == {"freelb"}


def test_any_other_failure_is_its_own_unit_s() -> None:
    queue = queue_of(UNITS)
    for _ in range(2):
        taken = queue.take()
        assert taken is not None
        queue.fail(taken[0], "out of memory")
    assert len(queue.failed) == 2
