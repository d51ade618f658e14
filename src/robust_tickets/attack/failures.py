"""What went wrong with an example, in words, and which failures are not the example's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from robust_tickets.classifier.passing import in_halves
from robust_tickets.errors import FAILED, TicketsError

T = TypeVar("T")
R = TypeVar("R")
REASON = 120  # letters of one inside a flag; examples.jsonl has it whole
MAX_FAILED = 1.0  # percent of the examples that may fail before a result is no more to be relied on
ALWAYS = 2  # examples that may
LESS = "lower token_budget, or the classifier's max_length"


def said(problem: Exception) -> str:
    return problem.message if isinstance(problem, TicketsError) else f"{type(problem).__name__}: {problem}"


def in_short(reason: str) -> str:
    """A reason on one line that ends like no sentence: it is to stand inside one."""
    plain = " ".join(reason.split()).rstrip(".")
    return plain if len(plain) <= REASON else plain[: REASON - 1].rstrip() + "…"


def too_many(failed: int, of: int, most: float) -> bool:
    """Whether more than ``most`` percent of the examples failed, and more than two."""
    return failed > ALWAYS and 100 * failed > most * of


@dataclass
class Reasons:
    """Why examples failed, in short, and how often each was the reason."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, reason: str) -> None:
        self.counts[in_short(reason)] += 1

    @property
    def often(self) -> str:
        """``; most often: …`` to stand behind a number of errors; of equals the first, nothing where none has words."""
        reason = self.counts.most_common(1)[0][0] if self.counts else ""
        return f"; most often: {reason}" if reason else ""


def out_of_memory(problem: BaseException) -> bool:
    """Python and CUDA have types for it; torch on a CPU or on Apple's GPU has only a message."""
    import torch

    if isinstance(problem, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(problem, RuntimeError) and any(
        words in str(problem).lower() for words in ("out of memory", "can't allocate memory")
    )


def within_memory(
    run: Callable[[list[T]], list[R]], items: list[T], what: Callable[[T], str], smaller: Callable[[list[T], int], None]
) -> list[R]:
    """``run(items)``; a batch too large for the memory is cut in halves, after ``smaller``, for the batches to come."""
    import torch

    def alone(item: T, problem: Exception) -> R:
        raise TicketsError(
            f"not enough memory for {what(item)}: {said(problem)}", hint=LESS, exit_code=FAILED
        ) from None

    def freed(some: list[T], half: int) -> None:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        smaller(some, half)

    return in_halves(run, items, alone, ends=lambda problem: None if out_of_memory(problem) else problem, smaller=freed)


def fatal(problem: Exception) -> TicketsError | None:
    """The error that ends the run: a victim that is broken (exit code 3) or a machine too small, which no other example would escape."""
    if isinstance(problem, TicketsError):
        return problem if problem.exit_code == FAILED else None
    return (
        TicketsError(f"out of memory: {said(problem)}", hint=LESS, exit_code=FAILED) if out_of_memory(problem) else None
    )


def answers(clf: Any, columns: int) -> bool:
    """Whether the victim still answers an ordinary text; then examples that fail one after another are themselves at fault."""
    try:
        clf.afresh().logits([("a good film",) * columns])
    except Exception:
        return False
    return True


def hopeless(problem: Exception, count: int) -> TicketsError:
    """The error of a run in which one example after another fails: the cause is not in the examples."""
    hint, code = (problem.hint, problem.exit_code) if isinstance(problem, TicketsError) else ("", FAILED)
    return TicketsError(
        f"the attack failed on {count} example(s) in a row: {said(problem)}",
        hint=hint or "see that the victim answers one of the texts",
        exit_code=code,
    )
