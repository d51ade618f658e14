"""What every forward pass needs, whoever makes it: eval mode around it, something to read, and logits that are numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from robust_tickets.classifier.texts import Encoded
from robust_tickets.errors import FAILED, TicketsError


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
