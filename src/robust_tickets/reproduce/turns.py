"""Turns at a device. Some processes that train fill a GPU; more only make each other slower. Those that attack use its gaps meanwhile.

Who came first is first: units are handed out in their order, and one that is overtaken may still wait when the budget is spent.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from robust_tickets.files import BusyError, claim, locked

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
    if most is None:
        yield
        return
    begun = time.monotonic()
    with ExitStack() as held:
        with _in_line(store / "turns" / "line") as first:
            while not (first() and _taken(store / "turns", most, held)):
                time.sleep(LOOK)
        _waited[0] += time.monotonic() - begun
        if latest is not None and time.time() > latest:
            raise BusyError("the turn came too late for the budget", hint="the same command goes on with it")
        yield


def _taken(folder: Path, most: int, held: ExitStack) -> bool:
    """Take one of the turns, if one is free."""
    for number in range(most):
        with suppress(BusyError):
            held.enter_context(locked(folder / str(number)))
            return True
    return False


@contextmanager
def _in_line(line: Path) -> Iterator[Callable[[], bool]]:
    """A place behind those who came before; call what it gives to ask whether none of them waits any more."""
    place = line / f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    unseen = line / f".{place.name}"
    line.mkdir(parents=True, exist_ok=True)
    with open(unseen, "xb") as lock:
        claim(lock)
        unseen.rename(place)  # all that is seen is locked, as long as its process lives
        try:
            yield lambda: not any(_waits(other) for other in sorted(line.glob("[0-9]*")) if other.name < place.name)
        finally:
            place.unlink(missing_ok=True)


def _waits(place: Path) -> bool:
    """Whether its process lives; the place of one that was killed is cleared."""
    try:
        with open(place, "r+b") as lock:
            if claim(lock) is False:
                return True
            place.unlink(missing_ok=True)
    except FileNotFoundError:  # it has its turn meanwhile
        pass
    return False
