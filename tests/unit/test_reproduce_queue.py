"""The queue of units: none is lost, budgets are kept, and what needs inputs that cannot be had is passed over, and nothing else."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_tickets.errors import TicketsError
from robust_tickets.reproduce import work as house
from robust_tickets.reproduce.one import InputError
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.places import Places
from robust_tickets.reproduce.queue import BEGUN, Queue
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


@pytest.mark.parametrize("which", ["store", "results"])
def test_folders_that_cannot_be_written_are_told_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, which: str
) -> None:
    """An outcome is written after the training: hours would be spent on runs that all fail."""
    monkeypatch.setattr(house, "one", lambda *_, **__: pytest.fail("a unit was begun"))
    (tmp_path / "file").touch()
    folders = {"store": tmp_path / "store", "results": tmp_path / "results", which: tmp_path / "file" / "below"}
    with pytest.raises(TicketsError, match=r"nothing can be written to .*below: .*file is a file"):
        work(UNITS, [], Places(), folders["store"], folders["results"])
    assert [path.name for path in tmp_path.iterdir()] == ["file"], "the trial leaves nothing"


def test_what_is_done_needs_no_folder_to_write_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        house,
        "found",
        lambda unit, _: Outcome(unit=unit, config={}, inputs={}, env={}, clean={"accuracy": 50.0}, cost={}),
    )
    monkeypatch.setattr(house, "check_same", lambda *_: None)
    (tmp_path / "file").touch()
    assert set(work(UNITS, [], Places(), tmp_path / "file" / "below", tmp_path / "results").found) == set(UNITS)


def test_an_arm_s_own_files_are_its_own() -> None:
    queue = queue_of(UNITS)
    first = queue.take()
    assert first is not None
    queue.fail(first[0], "no corpus", "inputs")
    assert {unit.arm for unit in queue.failed} == {"finetune"}
    assert {unit.task for unit in queue.failed} == {"sst2"}
    second = queue.take()
    assert second is not None
    queue.fail(second[0], "another reason", "inputs")
    assert {unit.arm for unit in queue.waiting if unit.task == "sst2"} == {"freelb"}


def test_any_other_failure_is_its_own_unit_s() -> None:
    queue = queue_of(UNITS)
    for _ in range(2):
        taken = queue.take()
        assert taken is not None
        queue.fail(taken[0], "out of memory")
    assert len(queue.failed) == 2


def test_expected_seconds_are_corrected_by_what_units_took() -> None:
    queue = Queue(budget=100.0, expected=dict.fromkeys(UNITS, 30.0), total=len(UNITS))
    queue.waiting += UNITS
    assert queue.take() == (UNITS[0], False)
    queue.finish(UNITS[0], 300.0, "")  # ten times as long as thought: nothing fits any more
    assert queue.take() is None
    assert queue.left == UNITS[1:]


def test_what_has_to_wait_for_a_turn_is_told_when_it_is_too_late() -> None:
    assert queue_of(UNITS).latest(UNITS[0]) is None
    queue = Queue(budget=100.0, expected=dict.fromkeys(UNITS, 30.0), total=len(UNITS))
    queue.waiting += UNITS
    latest = queue.latest(UNITS[0])
    assert latest == pytest.approx(time.time() + 67, abs=2)
    queue.finish(UNITS[1], 60.0, "")  # twice as long as thought
    assert queue.latest(UNITS[0]) == pytest.approx(latest - 33, abs=2)
    queue.finish(UNITS[2], 3000.0, "")  # the rest would not end
    assert queue.latest(UNITS[0]) == pytest.approx(time.time() + BEGUN, abs=5), (
        "but its process is given the time to begin"
    )


def shared(budget: float, expected: float = 40.0) -> Queue:
    queue = Queue(budget=budget, expected=dict.fromkeys(UNITS, expected), total=len(UNITS))
    queue.waiting += UNITS
    queue.crowd = 4
    return queue


def test_units_that_share_a_device_are_thought_to_take_longer_and_the_last_ones_less() -> None:
    queue = shared(100.0)
    taken = [queue.take() for _ in range(4)]
    assert [one[0] for one in taken if one] == UNITS[:3], "three take 84 seconds and some to spare, four would take 112"
    queue.give_back(UNITS[0])
    assert queue.take() == (UNITS[3], False)


def test_a_unit_that_would_keep_others_from_ending_is_not_begun() -> None:
    queue = shared(330.0)
    queue.expected |= dict.fromkeys(UNITS[:3], 140.0)
    taken = [queue.take() for _ in range(4)]
    assert [one[0] for one in taken if one] == UNITS[:3], (
        "three take 294 seconds, with a tenth to spare; a fourth of 40 would end after 112, and they after 322"
    )


def test_what_would_end_just_in_time_is_not_begun() -> None:
    """An estimate that is a little too short loses the whole unit; the time is better left to a shorter one."""
    queue = Queue(budget=100.0, expected={UNITS[0]: 95.0, UNITS[1]: 60.0}, total=2)
    queue.waiting += UNITS[:2]
    assert queue.take() == (UNITS[1], False)
    assert queue.take() is None


@pytest.mark.parametrize("beside", [1, 2, 4])
def test_what_a_unit_took_beside_others_is_what_the_next_is_thought_to_take(
    monkeypatch: pytest.MonkeyPatch, beside: int
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    queue = shared(10_000.0)
    for _ in range(beside):
        assert queue.take() is not None
    took = 40.0 * queue._slower(beside)  # as was thought
    now[0] += took
    for unit in UNITS[:beside]:
        queue.finish(unit, took, "")
    assert queue._alone(UNITS[-1]) == pytest.approx(40.0)
    assert not queue.running


@pytest.mark.parametrize(
    ("processes", "at_once", "crowd"), [(1, None, 1), (6, 4, 4), (3, 4, 3), (50, None, len(UNITS))]
)
def test_as_many_are_counted_as_may_train(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, processes: int, at_once: int | None, crowd: int
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(house, "_all", lambda orders, job, queue, apart: seen.append(queue.crowd))
    work(UNITS, [], Places(), tmp_path / "store", tmp_path / "results", processes=processes, at_once=at_once)
    assert seen == [crowd, 1], "repeats have the device to themselves"


def test_what_did_not_fit_is_not_begun_after_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Units take twice what was expected; when that is known to be too much for the rest, no second look at them forgets it."""
    now, made = [1000.0], list[Unit]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def one(unit: Unit, *_: Any, **__: Any) -> Outcome:
        made.append(unit)
        now[0] += 300.0
        return Outcome(unit=unit, config={}, inputs={}, env={}, clean={"accuracy": 50.0}, cost={})

    monkeypatch.setattr(house, "one", one)
    summary = work(
        UNITS,
        [],
        Places(),
        tmp_path / "store",
        tmp_path / "results",
        budget=1060.0,
        expected=dict.fromkeys(UNITS, 150.0),
    )
    assert made == UNITS[:3]
    assert set(summary.left) == set(UNITS[3:])


def test_without_an_estimate_sharing_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    queue = Queue(budget=2400.0, expected={}, total=len(UNITS))
    queue.waiting += UNITS[:8]
    queue.crowd = 4
    for _ in range(4):
        assert queue.take() is not None
    now[0] += 840.0
    for unit in UNITS[:4]:
        queue.finish(unit, 840.0, "")
    assert sum(queue.take() is not None for _ in range(4)) == 4, "as long again, and there is time for that"


def test_what_was_begun_before_says_nothing_of_the_rest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A unit that was cut off has no outcome yet, but a folder; it ends sooner than others will."""
    (tmp_path / "store" / "units" / UNITS[1].id).mkdir(parents=True)
    seen: list[set[Unit]] = []
    monkeypatch.setattr(house, "_all", lambda orders, job, queue, apart: seen.append(set(queue.others)))
    work(UNITS, [], Places(), tmp_path / "store", tmp_path / "results")
    assert seen[0] == {UNITS[1]}


def test_waiting_for_a_turn_is_part_of_what_a_unit_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    queue = shared(10_000.0)
    for _ in range(8):
        assert queue.take() is not None
    now[0] += 224.0
    for unit in UNITS[:8]:
        queue.finish(unit, 112.0, "")  # half of the time another had its turn
    assert queue._alone(UNITS[-1]) == pytest.approx(80.0)


@given(ways=st.lists(st.sampled_from(["finish", "fail", "hold_up", "give_back"]), min_size=0, max_size=30))
def test_every_unit_is_in_one_place(ways: list[str]) -> None:
    queue = Queue(budget=None, expected={}, total=len(UNITS))
    queue.waiting += UNITS
    order = []
    for way in ways:
        taken = queue.take()
        if taken is None:
            break
        unit, wait = taken
        order.append(unit)
        if way == "finish":
            queue.finish(unit, 1.0, "")
        elif way == "fail":
            queue.fail(unit, "why")
        elif way == "hold_up" and not wait:
            queue.hold_up(unit)
        else:
            queue.give_back(unit)
        assert sorted([*queue.done, *queue.failed, *queue.left]) == sorted(UNITS)
        assert not queue.running
    assert order[: len(UNITS)] == UNITS[: len(order)], "in the order they came, held up ones after all others"
