"""The one error type.

Every message says what was expected, what came and where; the hint says what to do; the code (``"ticket.kind"``) is for
programs and tests. The command line prints message and hint and exits with ``exit_code``: 2 for bad input or usage, 3 for something that
failed while running (memory, disk, NaN, a vanished resource).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

BAD_INPUT = 2
FAILED = 3


class TicketsError(Exception):
    """Something a user can act on: ``message`` (what and where) and ``hint`` (what to do)."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = BAD_INPUT, code: str = "uncoded") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class DamagedError(TicketsError):
    """A file that does not hold what was written into it; one that may not be read is no such file."""


@contextmanager
def tokenising() -> Iterator[None]:
    """A tokenizer's panic as an error: Rust's is a BaseException, so that one text would end the process past every handler."""
    try:
        yield
    except BaseException as problem:
        if type(problem).__name__ != "PanicException":  # pyo3_runtime's, which cannot be imported
            raise
        hint = "leave the text out, or see that tokenizer.json is the model's own"
        raise TicketsError(f"the tokenizer failed: {problem}", hint=hint, code="tokenizer.failed") from None


@contextmanager
def inside(key: str) -> Iterator[None]:
    """A component calls its own settings ``--set KEY``; for what holds it under ``key`` that is ``--set key.KEY``, which works there."""
    try:
        yield
    except TicketsError as problem:
        problem.hint = problem.hint.replace("--set ", f"--set {key}.")
        raise


def did_you_mean(word: str, known: Iterable[str], *, listed_by: str = "") -> str:
    """A hint that names the closest known word, or all of them.

    ``listed_by``: the command that lists them, where they are too many for a hint; then a few near ones are named, and the command.
    """
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=3 if listed_by else 1)
    near = f"did you mean {' or '.join(map(repr, close))}?" if close else ""
    if listed_by:
        return f"{near} `{listed_by}` lists all {len(known)}".strip()
    return near or f"known: {', '.join(known) or 'nothing'}"
