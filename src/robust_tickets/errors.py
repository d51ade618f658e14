"""The one error type.

Every message says what was expected, what came and where; the hint says what to do; the code (``"ticket.kind"``) is for
programs and tests. The command line prints message and hint and exits with ``exit_code``: 2 for bad input or usage, 3 for something that
failed while running (memory, disk, NaN, a vanished resource).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

BAD_INPUT = 2
FAILED = 3
FEW = 3  # near names out of a long list


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
        raise TicketsError(
            f"the tokenizer failed: {problem}",
            hint="leave the text out, or see that tokenizer.json is the model's own",
            code="tokenizer.failed",
        ) from None


def inside(key: str) -> AbstractContextManager[None]:
    """A component calls its own settings ``--set KEY``; for what holds it under ``key`` that is ``--set key.KEY``, which works there."""
    return _set_by(f"--set {key}.")


def in_table(name: str) -> AbstractContextManager[None]:
    """The same for one table of several, which ``--set`` cannot name: it is to be written in the recipe."""
    return _set_by(f"in the recipe's {name}: ")


@contextmanager
def _set_by(words: str) -> Iterator[None]:
    try:
        yield
    except TicketsError as problem:
        problem.hint = problem.hint.replace("--set ", words)
        raise


def did_you_mean(word: str, known: Iterable[str], *, listed_by: str = "") -> str:
    """A hint that names the closest known word, or all of them.

    ``listed_by``: the command that lists them, where they are too many for a hint; then a few near ones are named, and the command.
    """
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=FEW if listed_by else 1, cutoff=0.6)
    near = f"did you mean {' or '.join(map(repr, close))}?" if close else ""
    if listed_by:
        return " ".join(filter(None, [near, f"`{listed_by}` lists all {len(known)}"]))
    if near:
        return near
    return f"known: {', '.join(known)}" if known else "nothing is known here"
