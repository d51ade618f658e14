"""What a wrapped callable returns, checked and turned into logits: log p, so that softmax gives its p back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from robust_tickets.classifier.pipelined import by_label
from robust_tickets.errors import BAD_INPUT, FAILED, TicketsError, tokenising

HINT = "return probabilities, one row a text and one column a label, rows summing to 1 (apply softmax to logits)"


def log_probabilities(
    function: Callable[..., Any] | None, rows: Sequence[tuple[str, ...]], labels: Sequence[str], name: str
) -> np.ndarray:
    """Ask ``function`` for the probabilities of ``rows``; single texts are passed as strings, pairs as tuples."""
    assert function is not None
    with tokenising():  # a pipeline does
        answer = function([row if len(row) > 1 else row[0] for row in rows])
    given = by_label(answer, labels, name)
    try:
        p = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise TicketsError(f"{name} did not return numbers: {problem}", hint=HINT) from None
    if p.shape != (len(rows), len(labels)):
        # one that cannot count ends an attack: each example that is right would fail, and the rest pass for 0 %
        code = BAD_INPUT if p.shape[:1] == (len(rows),) or _counts(function, len(rows[0])) else FAILED
        wanted = (len(rows), len(labels))
        raise TicketsError(
            f"{name} returned shape {p.shape}, expected {wanted} (texts, labels)", hint=HINT, exit_code=code
        )
    if not np.isfinite(p).all():
        raise TicketsError(f"{name} returned values that are not finite", hint=HINT)
    wrong = np.flatnonzero((p < -1e-6).any(axis=1) | (abs(p.sum(axis=1) - 1) > 1e-3))
    if len(wrong):
        raise TicketsError(f"{name} returned {p[wrong[0]].tolist()} for text {wrong[0]}: no probabilities", hint=HINT)
    return np.log(np.clip(p, np.finfo(np.float32).tiny, None)).astype(np.float32)


def _counts(function: Callable[..., Any], columns: int) -> bool:
    """Whether it answers for each of two ordinary texts; then a text that it left out is itself at fault."""
    texts = ("a good film", "a bad film")
    try:
        return len(function([text if columns == 1 else (text,) * columns for text in texts])) == len(texts)
    except Exception:
        return False
