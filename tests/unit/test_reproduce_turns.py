"""Turns: never more processes at a time than may be, who came first is first, and one that fails or is killed gives its turn back."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from robust_tickets.reproduce.turns import turn, waited
from robust_tickets.run import BusyError

HOLD = """
import sys, time
from pathlib import Path
from robust_tickets.reproduce.turns import turn
with turn(Path(sys.argv[1]), 1):
    print("in", flush=True)
    time.sleep(60)
"""


def test_never_more_than_may_be_and_everyone_comes_to_it(tmp_path: Path) -> None:
    inside, most, through = [0], [0], []
    guard = threading.Lock()

    def work(number: int) -> None:
        with turn(tmp_path, 2):
            with guard:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.05)
            with guard:
                inside[0] -= 1
            through.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(through) == list(range(6))
    assert most == [2]


def test_who_came_first_is_first(tmp_path: Path) -> None:
    through: list[int] = []

    def work(number: int) -> None:
        with turn(tmp_path, 1):
            through.append(number)
            time.sleep(0.03)  # others look for a turn meanwhile

    line = tmp_path / "turns" / "line"
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    with turn(tmp_path, 1):
        for number, thread in enumerate(threads):
            thread.start()
            while len(list(line.glob("[0-9]*"))) <= number:
                time.sleep(0.005)
    for thread in threads:
        thread.join(30)
    assert through == list(range(8))
    assert not any(line.iterdir())


def test_a_process_that_was_killed_in_the_line_is_not_waited_for(tmp_path: Path) -> None:
    line = tmp_path / "turns" / "line"
    with turn(tmp_path, 1), subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)]) as process:
        while not any(line.glob("[0-9]*")):
            time.sleep(0.05)
        process.kill()
    with turn(tmp_path, 1):
        assert not any(line.iterdir())


def test_what_is_waited_is_counted_and_what_is_worked_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    taken = turn(tmp_path, 1)
    taken.__enter__()

    def sleep(seconds: float) -> None:
        clock[0] += 7.0  # a busy machine sleeps longer than it is told
        taken.__exit__(None, None, None)

    monkeypatch.setattr("robust_tickets.reproduce.turns.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("robust_tickets.reproduce.turns.time.sleep", sleep)
    before = waited()
    with turn(tmp_path, 1):
        clock[0] += 100.0
    assert waited() - before == 7.0


def test_without_a_number_nobody_waits(tmp_path: Path) -> None:
    with turn(tmp_path, None), turn(tmp_path, None):
        assert not any(tmp_path.iterdir())


def test_whatever_fails_inside_fails_outside_and_the_turn_is_free_again(tmp_path: Path) -> None:
    for problem in (ValueError, BusyError):  # the second is also what a taken turn says
        with pytest.raises(problem), turn(tmp_path, 1):
            raise problem("no")
    with turn(tmp_path, 1):
        pass


def test_a_killed_process_gives_its_turn_back(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        process.kill()
    with turn(tmp_path, 1):
        pass


def test_a_turn_that_comes_too_late_is_left_to_others(tmp_path: Path) -> None:
    with pytest.raises(BusyError, match="too late"), turn(tmp_path, 1, time.time() - 1):
        pytest.fail("it was taken")
    with turn(tmp_path, 1, time.time() + 60):
        pass
