"""What every forward pass needs: eval mode around it, batches of like size, halves of one that fails, and logits that are numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from robust_tickets.classifier.texts import Encoded
from robust_tickets.errors import FAILED, TicketsError

T = TypeVar("T")
R = TypeVar("R")


def batches_by_size(sizes: Sequence[int], budget: int, *, longest_first: bool = True) -> Iterator[list[int]]:
    """Positions in batches of like size whose padded size (texts times the longest) stays within ``budget``."""
    batch: list[int] = []
    # stable; the longest first, so that the first batch shows at once whether memory suffices
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i] if longest_first else sizes[i]):
        if batch and (len(batch) + 1) * max(sizes[batch[0]], sizes[i]) > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def in_halves(
    run: Callable[[list[T]], list[R]],
    items: list[T],
    alone: Callable[[T, Exception], R],
    *,
    ends: Callable[[Exception], Exception | None],
    smaller: Callable[[list[T], int], None] = lambda items, half: None,
) -> list[R]:
    """``run(items)``; a call that fails is made in halves, after ``smaller(items, half)``, down to one item, which ``alone`` answers for.

    What ``ends`` gives for a failure is raised at once.
    """
    try:
        return run(items)
    except Exception as problem:
        end = ends(problem)
        if end is problem or not items:
            raise
        if end is not None:
            raise end from None
        if len(items) == 1:
            return [alone(items[0], problem)]
    half = len(items) // 2  # outside the handler, which holds what the failed call had in memory
    smaller(items, half)
    first = in_halves(run, items[:half], alone, ends=ends, smaller=smaller)
    return first + in_halves(run, items[half:], alone, ends=ends, smaller=smaller)


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """``model`` in eval mode, and afterwards as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def check_tokens(rows: Sequence[Encoded]) -> None:
    if not all(row.size for row in rows):
        raise TicketsError(
            "the tokenizer gives no token for a text, so the model has nothing to read", hint="leave such texts out"
        )


def check_logits(logits: Any, identity: str) -> None:
    import torch

    if not torch.isfinite(logits).all():
        raise TicketsError(
            f"the model {identity!r} gave logits that are not finite", hint="its weights are broken", exit_code=FAILED
        )
