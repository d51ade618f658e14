"""Queue: which unit is next, and whether it still fits into the budget. Several threads may ask at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Literal

from robust_tickets.progress import duration, say, warn
from robust_tickets.reproduce.unit import Unit

Alike = Literal["arm", "inputs"] | None
SHARED = 0.6  # of a unit's own seconds that each process beside it costs it: 2.4 times as long with four that train on a GPU


def told_of(message: str) -> str:
    """A failure in a line, with what to do about it."""
    return message.replace("\n  hint: ", "; ").splitlines()[0]


class Queue:
    """Units are taken in their order. One that another process holds up is put back, and waited for when nothing else is left."""

    def __init__(self, *, budget: float | None, expected: Mapping[Unit, float], total: int) -> None:
        self.deadline = time.monotonic() + budget if budget is not None else None
        self.expected, self.total = dict(expected), total
        self.crowd = 1  # processes that train at a time
        self.running: set[Unit] = set()
        self.waiting: list[Unit] = []
        self.held_up: list[Unit] = []
        self.found: list[Unit] = []
        self.others: set[Unit] = set()  # made otherwise, as with a part of it there already: how long they took says nothing of the rest
        self.done: dict[Unit, float] = {}  # seconds that each took
        self.failed: dict[Unit, str] = {}
        self.refused: list[Unit] = []
        self.dropped: list[Unit] = []
        self.starved: dict[tuple[str, str, str], set[str]] = {}  # backbone, task and message -> arms that failed so
        self._lock = threading.Lock()

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def left(self) -> list[Unit]:
        return [*self.waiting, *self.held_up, *self.dropped]

    def take(self) -> tuple[Unit, bool] | None:
        """The next unit that fits, and whether to wait for a stage that another process runs; none: there is nothing more to begin."""
        with self._lock:
            for units, wait in ((self.waiting, not self.waiting[1:]), (self.held_up, True)):
                for unit in units:
                    if self._fits(unit):
                        units.remove(unit)
                        self.running.add(unit)
                        return unit, wait or units is self.held_up
            return None

    def latest(self, unit: Unit) -> float | None:
        """When (``time.time()``) it has to begin at the latest to end within the budget."""
        return None if self.deadline is None else time.time() + self.deadline - time.monotonic() - (self._seconds(unit) or 0.0)

    def finish(self, unit: Unit, seconds: float, numbers: str) -> None:
        with self._lock:
            self.running.discard(unit)
            self.done[unit] = seconds
            count = len(self.done) + len(self.found) + len(self.failed)
        say(f"[{count}/{self.total}] {unit.id}: {numbers} ({duration(seconds)})")

    def fail(self, unit: Unit, message: str, alike: Alike = None) -> None:
        """``alike`` says what is passed over with it: the other runs of its arm, or all that need the same inputs."""
        with self._lock:
            self.running.discard(unit)
            others = self._alike(unit, message, alike) if alike else []
            for other in others:
                (self.waiting if other in self.waiting else self.held_up).remove(other)
            self.failed |= dict.fromkeys((unit, *others), message)
        more = f", and {len(others)} like it" if others else ""
        warn(f"{unit.id} failed and is passed over{more}: {told_of(message)}")

    def _alike(self, unit: Unit, message: str, alike: Alike) -> list[Unit]:
        """Units of the same arm; of all arms of the task once two want the same inputs: then it is not the arm's own files."""
        place = (unit.backbone, unit.task)
        arms = self.starved.setdefault((*place, message), set())
        arms.add(unit.arm)
        same = [other for other in (*self.waiting, *self.held_up) if (other.backbone, other.task) == place]
        return [other for other in same if other.arm == unit.arm or (alike == "inputs" and (other.arm in arms or len(arms) > 1))]

    def hold_up(self, unit: Unit) -> None:
        """Another process is at a stage that it needs."""
        with self._lock:
            self.running.discard(unit)
            self.held_up.append(unit)

    def give_back(self, unit: Unit) -> None:
        """It was begun and not ended."""
        with self._lock:
            self.running.discard(unit)
            self.dropped.append(unit)

    def _fits(self, unit: Unit) -> bool:
        if self.deadline is None:
            return True
        left = self.deadline - time.monotonic()
        return left > 0 and (self._seconds(unit) or 0.0) <= left

    def _seconds(self, unit: Unit) -> float | None:
        """What it will take: as expected, made longer by as much as others took (before that, by as many as share the device), and shorter
        where fewer run now; of a unit of which nothing is expected, the longest that is like it.
        """
        if unit in self.expected:
            whole = [(other, seconds) for other, seconds in self.done.items() if other not in self.others and self.expected.get(other)]
            ratios = sorted(seconds / self.expected[other] for other, seconds in whole)
            full, now = (max(1.0, SHARED * count) for count in (self.crowd, min(self.crowd, len(self.running | {unit}))))
            return self.expected[unit] * (ratios[len(ratios) // 2] if ratios else full) * now / full
        for like in (lambda o: (o.task, o.arm) == (unit.task, unit.arm), lambda o: o.task == unit.task):
            seconds = [taken for other, taken in self.done.items() if like(other)]
            if seconds:
                return max(seconds)
        return None
