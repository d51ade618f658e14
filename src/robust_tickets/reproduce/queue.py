"""Queue: which unit is next, and whether it still fits into the budget. Several threads may ask at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Literal

from robust_tickets.progress import duration, say, warn
from robust_tickets.reproduce.unit import Unit

Alike = Literal["arm", "inputs"] | None
SHARED = 0.7  # n units that train on one device each take 0.7 n times as long as alone, but no less: four on an H200 2.8 (docs/log.md)
SPARE = 1.1  # times as long as is thought: of 13 units on an H200 three, 5 to 10 % slower than thought, were cut off in their attacks
BEGUN = 30.0  # seconds until a process that was handed a unit asks for its turn, at most: what was found to fit is not too late by then


def told_of(message: str) -> str:
    """A failure in a line, with what to do about it."""
    return message.replace("\n  hint: ", "; ").splitlines()[0]


class Queue:
    """Units are taken in their order. One that another process holds up is put back, and waited for when nothing else is left."""

    def __init__(self, *, budget: float | None, expected: Mapping[Unit, float], total: int) -> None:
        self.deadline = time.monotonic() + budget if budget is not None else None
        self.expected, self.total = dict(expected), total
        self.crowd = 1  # processes that train at a time
        self.running: dict[Unit, float] = {}  # how far each is, in seconds that it would have taken alone
        self.began: dict[Unit, float] = {}
        self.alone: dict[Unit, float] = {}  # seconds that each that is done would have taken alone
        self._seen = time.monotonic()
        self.waiting: list[Unit] = []
        self.held_up: list[Unit] = []
        self.found: list[Unit] = []
        self.others: set[Unit] = (
            set()
        )  # made otherwise, as with a part of it there already: how long they took says nothing of the rest
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

    @property
    def may_change(self) -> bool:
        """Whether something may fit later that does not now: what runs may end sooner than thought, or be held up."""
        return bool(self.running and (self.waiting or self.held_up)) and not self.over

    def take(self) -> tuple[Unit, bool] | None:
        """The next unit that fits, and whether to wait for a stage that another process runs; none: there is nothing more to begin."""
        with self._lock:
            self._go_on()
            for units, wait in ((self.waiting, not self.waiting[1:]), (self.held_up, True)):
                for unit in units:
                    if self._fits(unit):
                        units.remove(unit)
                        self.running[unit], self.began[unit] = 0.0, self._seen
                        return unit, wait or units is self.held_up
            return None

    def latest(self, unit: Unit) -> float | None:
        """When (``time.time()``) it has to begin at the latest to end within the budget, beside as many as train."""
        if self.deadline is None:
            return None
        with self._lock:
            needed = SPARE * (self._alone(unit) or 0.0) * self._slower(len(self.running))
        return time.time() + max(BEGUN, self.deadline - time.monotonic() - needed)

    def finish(self, unit: Unit, seconds: float, numbers: str) -> None:
        with self._lock:
            self._ended(unit, seconds)
            self.done[unit] = seconds
            count = len(self.done) + len(self.found) + len(self.failed)
        say(f"[{count}/{self.total}] {unit.id}: {numbers} ({duration(seconds)})")

    def fail(self, unit: Unit, message: str, alike: Alike = None) -> None:
        """``alike`` says what is passed over with it: the other runs of its arm, or all that need the same inputs."""
        with self._lock:
            self._ended(unit)
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
        return [
            other
            for other in same
            if other.arm == unit.arm or (alike == "inputs" and (other.arm in arms or len(arms) > 1))
        ]

    def hold_up(self, unit: Unit) -> None:
        """Another process is at a stage that it needs."""
        with self._lock:
            self._ended(unit)
            self.others.add(unit)  # it may find all done by the one that holds it up
            self.held_up.append(unit)

    def give_back(self, unit: Unit) -> None:
        """It was begun and not ended."""
        with self._lock:
            self._ended(unit)
            self.dropped.append(unit)

    def _fits(self, unit: Unit) -> bool:
        """Whether it would end within the budget, and those that run with it."""
        if self.deadline is None:
            return True
        left = [max(0.0, (self._alone(other) or 0.0) - far) for other, far in self.running.items()]
        return 0 < self.deadline - self._seen >= SPARE * self._together([*left, self._alone(unit) or 0.0])

    def _alone(self, unit: Unit) -> float | None:
        """Seconds that it would take alone: as expected, made longer by as much as others took; of a unit of which nothing is expected,
        the longest that is like it.
        """
        alone = {other: seconds for other, seconds in self.alone.items() if other not in self.others}
        if unit in self.expected:
            ratios = sorted(
                seconds / self.expected[other] for other, seconds in alone.items() if self.expected.get(other)
            )
            return self.expected[unit] * (ratios[len(ratios) // 2] if ratios else 1.0)
        for like in (lambda o: (o.task, o.arm) == (unit.task, unit.arm), lambda o: o.task == unit.task):
            seconds = [taken for other, taken in alone.items() if like(other)]
            if seconds:
                return max(seconds)
        return None

    def _go_on(self) -> None:
        """What ran since it was looked at last has come so much further."""
        now = time.monotonic()
        for unit in self.running:
            self.running[unit] += (now - self._seen) / self._slower(len(self.running))
        self._seen = now

    def _ended(self, unit: Unit, seconds: float = 0.0) -> None:
        """It runs no more; ``seconds``: what it took, beside others perhaps."""
        self._go_on()
        far, since = self.running.pop(unit, 0.0), self.began.pop(unit, self._seen)
        if seconds:
            slow = (self._seen - since) / far if far else 1.0
            self.alone[unit] = max(far, seconds / slow)  # it may have waited for others besides

    def _slower(self, count: int) -> float:
        """Times as long as alone that each of so many units takes. More than may train at a time wait or attack, in the others' gaps."""
        return max(1.0, SHARED * min(count, self.crowd))

    def _together(self, alone: Sequence[float]) -> float:
        """Seconds until the last of units has ended that begin now, by the seconds that each takes alone: the shorter ones end first."""
        waits, before = 0.0, 0.0
        for place, seconds in enumerate(sorted(alone)):
            waits += (seconds - before) * self._slower(len(alone) - place)
            before = seconds
        return waits
