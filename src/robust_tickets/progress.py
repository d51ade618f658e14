"""Log lines and progress: records of the logger ``robust_tickets``, and a rich bar where standard error is a terminal.

A library logs and leaves it to its user who reads that: ``logging.basicConfig(level="INFO")`` shows the lines, without it warnings alone
reach standard error, and ``logging.getLogger("robust_tickets").setLevel("WARNING")`` also switches the bars off. The command line prints
both (``printed``). Standard output belongs to results. Names that people chose (labels, titles, models) reach a terminal through the
logger, ``write``, ``Cleaned`` or ``console`` alone, which let no control character pass.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from robust_tickets.errors import TicketsError

if TYPE_CHECKING:
    from rich.console import Console

LOGGER = logging.getLogger("robust_tickets")
LINE_EVERY = 10.0  # seconds between lines where there is no terminal
LONG = 60.0  # seconds of work that are left: the first estimate is worth a line
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200b\ufeff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)


def say(text: str) -> None:
    """Log one line about the work."""
    LOGGER.info("%s", clean(text))


def warn(text: str) -> None:
    """Log a warning."""
    LOGGER.warning("%s", clean(text))


class _Lines(logging.Handler):
    """Each record as a line on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        write(f"warning: {record.getMessage()}" if record.levelno >= logging.WARNING else record.getMessage())


@contextmanager
def printed(*, quiet: bool = False) -> Iterator[None]:
    """Print log lines on standard error meanwhile, warnings alone and no bar where ``quiet``."""
    before = LOGGER.handlers, LOGGER.level, LOGGER.propagate
    LOGGER.handlers, LOGGER.propagate = [_Lines()], False
    LOGGER.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        yield
    finally:
        LOGGER.handlers, level, LOGGER.propagate = before
        LOGGER.setLevel(level)


def clean(value: object) -> str:
    """``value`` as text in which everything is visible and every character is valid in HTML and on a terminal."""
    return CONTROL.sub(_visible, str(value))


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"


class Cleaned:
    """A stream whose every text is cleaned as it is written."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(clean(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def console(stream: IO[str]) -> Console:
    """A rich console that cleans the texts it is given, and styles them as ever."""
    from rich.console import Console
    from rich.segment import Segment

    class CleanedConsole(Console):
        def render(self, *given: Any, **named: Any) -> Any:
            for text, style, control in super().render(*given, **named):
                yield Segment(text if control else clean(text), style, control)

    return CleanedConsole(file=stream)


def write(text: str) -> None:
    """Write a line on standard error. Where its reader is gone (``… 2>&1 | tee log`` dies of the same Ctrl-C) the work continues."""
    with suppress(OSError, ValueError):  # a broken pipe, a closed stream
        print(clean(text), file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """``75`` as ``1 min 15 s``."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


def seconds(text: str, flag: str) -> float:
    """``1h30m``, given by a flag, as seconds; a bare number is refused, since nobody knows of what."""
    compact = text.strip().lower().replace(" ", "")
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        hint = "hours, minutes, seconds: 2h, 1h30m, 90s"
        raise TicketsError(f"{flag} is a time such as 20m, got {text!r}", hint=hint, code="option.duration")
    return sum(float(number) * {"h": 3600, "m": 60, "s": 1}[unit] for number, unit in parts)


class Bar:
    """What a tracked piece of work reports to; ``advance`` is cheap and never synchronises a device."""

    def __init__(self, title: str, total: int, done: int = 0, first: int = 1) -> None:
        self.title, self.total, self.done, self.first = title, total, done, first
        self.begun_at, self.started, self.last = done, time.monotonic(), time.monotonic()
        self.note = ""
        self.drawn: Callable[..., None] | None = None  # updates the bar of a terminal; else there are lines

    def advance(self, count: int = 1, note: str = "") -> None:
        self.done += count
        self.note = note or self.note
        if self.drawn is not None:
            self.drawn(advance=count, note=self.note)
            return
        now = time.monotonic()
        first = self.first and self.done - self.begun_at >= self.first
        if first:
            self.first = 0
        if now - self.last >= LINE_EVERY or (first and self.left() >= LONG):
            self.last = now
            say(self.line())

    def left(self) -> float:
        """Seconds that the rest will take, going by what was done so far."""
        new = self.done - self.begun_at
        return (time.monotonic() - self.started) / new * (self.total - self.done) if new else 0.0

    def line(self) -> str:
        left = f", {duration(self.left())} left" if self.begun_at < self.done < self.total else ""
        return f"{self.title}: {self.done}/{self.total}{left}{'  ' + self.note if self.note else ''}"


@contextmanager
def track(title: str, total: int, done: int = 0, first: int = 1) -> Iterator[Bar]:
    """Show the progress of ``total`` units of work, ``done`` of which an earlier run did; ``first`` units give the first estimate."""
    bar = Bar(title, total, done, first)
    if LOGGER.level > logging.INFO or not sys.stderr.isatty():
        yield bar
        spent = time.monotonic() - bar.started
        if spent > 2:
            say(f"{title}: {bar.done}/{total} in {duration(spent)}{'  ' + bar.note if bar.note else ''}")
        return
    from rich import progress

    words = [progress.TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[note]")]
    times = progress.TimeElapsedColumn(), progress.TimeRemainingColumn()
    columns = (words[0], progress.BarColumn(), progress.MofNCompleteColumn(), *times, words[1])
    # drawn by a thread beside the work: at rich's own 10 times a second it takes 1 % of a core from it
    with progress.Progress(*columns, console=console(sys.stderr), refresh_per_second=2) as shown:
        bar.drawn = partial(shown.update, shown.add_task(title, total=total, completed=done, note=""))
        yield bar
