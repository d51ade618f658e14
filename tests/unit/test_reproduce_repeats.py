"""Repeats of a seed come last, one at a time, and graphs can be insisted on: what a process is told and what it does with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from robust_tickets.errors import TicketsError
from robust_tickets.reproduce import __main__ as command
from robust_tickets.reproduce import work as house
from robust_tickets.reproduce.outcome import Outcome, write
from robust_tickets.reproduce.places import Places
from robust_tickets.reproduce.queue import Queue
from robust_tickets.reproduce.unit import Unit
from robust_tickets.reproduce.work import Job, alike, work
from robust_tickets.train.engines import UnrecordedError, insisted

UNITS = [Unit(task="sst2", arm=arm, seed=seed) for seed in range(3) for arm in ("finetune", "random")]
AGAIN = [Unit(task="sst2", arm=arm, seed=0, repeat=1) for arm in ("finetune", "random")]
ASKED = [AGAIN[0], *UNITS, AGAIN[1]]


def outcome(unit: Unit, *_: Any, **__: Any) -> Outcome:
    return Outcome(unit=unit, config={}, inputs={}, env={}, clean={"accuracy": 50.0}, cost={})


@pytest.fixture
def crews(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Job, list[Unit]]]:
    """Who was asked to make what, in order: crews that only say that they made it, in ten seconds each."""
    asked: list[tuple[Job, list[Unit]]] = []

    def crew(orders: Any, job: Job, queue: Queue) -> None:
        asked.append((job, []))
        while (taken := queue.take()) is not None:
            asked[-1][1].append(taken[0])
            queue.finish(taken[0], 10.0, "fine")

    monkeypatch.setattr("robust_tickets.reproduce.crew.crew", crew)
    return asked


def test_repeats_come_last_in_a_process_that_has_the_device_to_itself(
    crews: list[tuple[Job, list[Unit]]], tmp_path: Path
) -> None:
    summary = work(ASKED, [], Places(), tmp_path / "store", tmp_path / "results", processes=4, at_once=2)
    assert [(job.processes, job.at_once, units) for job, units in crews] == [(4, 2, UNITS), (1, 2, AGAIN)]
    assert summary.done == (*UNITS, *AGAIN)


def test_in_one_process_they_come_last_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[Unit] = []
    monkeypatch.setattr(house, "one", lambda unit, *_, **__: (made.append(unit), outcome(unit))[1])
    work(ASKED, [], Places(), tmp_path / "store", tmp_path / "results")
    assert made == [*UNITS, *AGAIN]


def test_a_budget_that_ends_before_them_leaves_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def crew(orders: Any, job: Job, queue: Queue) -> None:
        assert job.processes == 2
        queue.deadline = 0.0  # it took all the time

    monkeypatch.setattr("robust_tickets.reproduce.crew.crew", crew)
    summary = work(ASKED, [], Places(), tmp_path / "store", tmp_path / "results", processes=2, budget=3600)
    assert (summary.done, set(summary.left)) == ((), set(ASKED))


def test_they_are_not_thought_to_take_as_long_as_what_shared_the_device(
    crews: list[tuple[Job, list[Unit]]], tmp_path: Path
) -> None:
    """The others took ten times what was expected; a repeat of an hour would not fit then."""
    expected = {**dict.fromkeys(UNITS, 1.0), **dict.fromkeys(AGAIN, 3000.0)}
    summary = work(
        ASKED, [], Places(), tmp_path / "store", tmp_path / "results", processes=4, budget=3600, expected=expected
    )
    assert set(AGAIN) <= set(summary.done)


def test_what_cannot_be_recorded_is_passed_over_with_its_arm_alone() -> None:
    queue = Queue(budget=None, expected={}, total=7)
    third = Unit(task="sst2", arm="earlyrobust")
    queue.waiting = [*UNITS[2:], third]
    assert alike(UnrecordedError("it waits")) == "arm"
    assert alike(TicketsError("no memory")) is None
    for unit in UNITS[:2]:
        queue.fail(unit, "it waits", "arm")
        assert {other.arm for other in queue.failed} == {one.arm for one in UNITS[: UNITS.index(unit) + 1]}
    assert queue.waiting == [third]  # two arms that cannot be recorded do not speak for a third


@pytest.mark.parametrize("on", [False, True])
def test_graphs_are_insisted_on_where_that_was_asked(on: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(house, "one", lambda unit, *_, **__: (seen.append(insisted()), outcome(unit))[1])
    monkeypatch.setattr(command, "_attacks", lambda *_: [])
    flags = ["--graphs-only"] if on else []
    folders = ["--store", str(tmp_path / "store"), "--results", str(tmp_path / "results")]
    assert command.main(["--units", UNITS[0].id, "--quiet", *folders, *flags]) == 0
    assert seen == [on]
    assert not insisted()


def test_an_estimate_knows_what_this_store_has_not_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fine-tuning is there, made elsewhere and attacked by nothing: its model is not."""
    write(tmp_path / "results", outcome(UNITS[0]), {})
    told: dict[str, float] = {}

    def stand_in(units: Any, *_: Any, expected: Any, **__: Any) -> house.Summary:
        told[str(units[0].id)] = expected[UNITS[0]]
        return house.Summary()

    monkeypatch.setattr("robust_tickets.reproduce.work.work", stand_in)
    ask = ["--campaign", "A", "--only", "method=finetune", "--only", "seed=0", "--attacks", "pwws", "--quiet"]
    ask += ["--store", str(tmp_path / "store"), "--results", str(tmp_path / "results")]
    assert command.main(ask) == 0
    (elsewhere,) = told.values()
    (tmp_path / "store" / "units" / UNITS[0].id).mkdir(parents=True)
    assert command.main(ask) == 0
    (here,) = told.values()
    assert here < 0.5 * elsewhere
