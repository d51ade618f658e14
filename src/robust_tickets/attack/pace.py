"""How long an attack will take, going by how it went so far; told once, where it is long.

What comes before the first attacked example is at its end (models that are loaded when they are first asked, shapes that are recorded, a
function that has to wake up) takes its time once, however many examples there are: only what comes after it is scaled.
"""

from __future__ import annotations

from robust_tickets.measure.metrics import FAILED, SUCCESS

AFTER = 10.0  # seconds of attacking after which any number of examples has to do
LEAST = 3  # attacked examples that have to do before; where more go at a time as many as those, of many a twentieth


class Pace:
    """Of ``examples``, as many as ``live`` under way at a time; those count as half done."""

    def __init__(self, examples: int, live: int) -> None:
        self.examples, self.live = examples, live
        self.finished = self.attacked = 0
        self.started = 0.0, 0  # seconds and finished examples when the first attacked one was at its end
        self.known = False

    def after(self, seconds: float, status: str) -> float | None:
        """Take note of an example that is at its end; seconds for all, once, as soon as that can be told."""
        self.finished += 1
        self.attacked += status in (SUCCESS, FAILED)  # the others take no time to speak of, and come in any order
        if self.attacked <= 1:
            self.started = seconds, self.finished
            return None
        began, before = self.started
        enough = self.attacked > max(LEAST, self.live, self.examples // 20) or seconds - began > AFTER
        if self.known or not enough or self.finished == self.examples:
            return None
        self.known = True
        done = self._done(self.finished)
        return seconds + (self.examples - done) * (seconds - began) / (done - self._done(before))

    def _done(self, finished: int) -> float:
        return (finished + min(self.examples, finished + self.live)) / 2
