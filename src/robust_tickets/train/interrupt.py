"""Ctrl-C and SIGTERM while a loop trains: the update at hand is finished and saved, and then the run ends.

A signal comes at any moment, mostly in the middle of an update, where weights and random streams belong to no step: saved there, the run
would not end with the same weights. So the signal is only noted, and the loop asks between two updates. A second one ends the run at
once, as it would without this. Only the handlers that Python starts with are replaced: who set another one has a plan of his own, and
threads besides the main one get no signals.
"""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

from robust_tickets.progress import say

USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


class Interrupt:
    """True once somebody asked to stop, while it is entered; ``title`` is whose steps are counted."""

    def __init__(self, title: str, *, active: bool = True) -> None:
        self.title, self.active = title, active
        self._asked = False
        self._before: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self._asked

    def __enter__(self) -> Self:
        if self.active and threading.current_thread() is threading.main_thread():
            for number, usual in USUAL.items():
                if signal.getsignal(number) == usual:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._put_back()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._put_back()
        self._asked = True
        with suppress(RuntimeError):  # the signal came while a line was printed
            say(f"{self.title}: stopping after this step (again: at once, without a checkpoint)")

    def _put_back(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
