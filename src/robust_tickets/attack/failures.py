"""What went wrong with an example, in words, and which failures are not the example's own."""

from __future__ import annotations

from typing import Any

from robust_tickets.errors import FAILED, TicketsError

LESS = "lower token_budget, or the classifier's max_length"


def said(problem: Exception) -> str:
    return problem.message if isinstance(problem, TicketsError) else f"{type(problem).__name__}: {problem}"


def out_of_memory(problem: BaseException) -> bool:
    """Python and CUDA have types for it; torch on a CPU or on Apple's GPU has only a message."""
    import torch

    if isinstance(problem, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(problem, RuntimeError) and any(words in str(problem).lower() for words in ("out of memory", "can't allocate memory"))


def fatal(problem: Exception) -> TicketsError | None:
    """The error that ends the run: a victim that is broken (exit code 3) or a machine too small, which no other example would escape."""
    if isinstance(problem, TicketsError):
        return problem if problem.exit_code == FAILED else None
    return TicketsError(f"out of memory: {said(problem)}", hint=LESS, exit_code=FAILED) if out_of_memory(problem) else None


def answers(clf: Any, columns: int) -> bool:
    """Whether the victim still answers an ordinary text; then examples that fail one after another are themselves at fault."""
    try:
        clf.logits([("a good film",) * columns])
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
