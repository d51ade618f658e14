"""Turns at a device. Some processes that train fill a GPU; more only make each other slower. Those that attack use its gaps meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from robust_tickets.run import BusyError, locked

LOOK = 0.2  # seconds between two looks for a free turn
_waited = [0.0]  # seconds of this process


def waited() -> float:
    """Seconds that this process has waited for turns, in all."""
    return _waited[0]


def clock() -> float:
    """Seconds, as ``time.monotonic``, of a clock that stands still while this process waits for a turn."""
    return time.monotonic() - waited()


@contextmanager
def turn(store: Path, most: int | None, latest: float | None = None) -> Iterator[None]:
    """Wait until fewer than ``most`` processes that share ``store`` are in here; none: there is no waiting. Ends with the process.

    ``latest``: a turn that comes after this time (``time.time()``) is not taken, since what it is for would not end in time.
    """
    begun = time.monotonic()
    while most is not None:
        for number in range(most):
            with ExitStack() as held:
                try:
                    held.enter_context(locked(store / "turns" / str(number)))
                except BusyError:
                    continue
                _waited[0] += time.monotonic() - begun
                if latest is not None and time.time() > latest:
                    raise BusyError("the turn came too late for the budget", hint="the same command goes on with it")
                yield
                return
        time.sleep(LOOK)
    yield
