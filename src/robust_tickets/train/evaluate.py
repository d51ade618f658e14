"""Evaluation: accuracy, macro-F1 and per-class numbers of a classifier on a split, in percent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets import progress
from robust_tickets.classifier.base import HINT
from robust_tickets.errors import TicketsError
from robust_tickets.stats.classification import classification, only_class

if TYPE_CHECKING:
    from robust_tickets.classifier import Classifier, Encoded
    from robust_tickets.data.task import Split

CHUNK = 1024  # rows held as text at a time, so that a split of millions is not
KEPT = 64 * CHUNK  # rows kept encoded between two evaluations: some 90 MB at 256 tokens


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Percentages from 0 to 100; ``loss`` is the mean cross-entropy."""

    accuracy: float
    macro_f1: float
    per_class: tuple[dict[str, Any], ...]
    n: int
    correct: int
    loss: float

    @property
    def only(self) -> str | None:
        """The class that every row got, where rows of others were among them: there is nothing to attack in such a model."""
        place = only_class(self.per_class)
        return None if place is None else str(self.per_class[place]["label"])

    def numbers(self) -> dict[str, Any]:
        """What metrics.jsonl keeps of it."""
        return {"accuracy": self.accuracy, "macro_f1": self.macro_f1, "n": self.n, "loss": self.loss}


class Evaluator:
    """``Evaluator(clf, split)()`` is ``evaluate(clf, split)``, made for being asked after every epoch: its texts are encoded once.

    An encoded text takes about 150 bytes and 5 a token; rows beyond the first ``KEPT`` are encoded again.
    """

    def __init__(self, clf: Classifier, split: Split) -> None:
        self.clf, self.split = clf, split
        self.chunks: dict[int, list[Encoded]] = {}

    def __call__(self) -> Evaluation:
        return evaluate(self.clf, self.split, chunks=self.chunks)


def evaluate(
    clf: Classifier,
    split: Split,
    *,
    labels: Sequence[str] | None = None,
    token_budget: int | None = None,
    title: str = "",
    chunks: dict[int, list[Encoded]] | None = None,
) -> Evaluation:
    """``clf`` on every row of ``split``; ``labels``: the task's, to be checked against the classifier's; ``title`` shows progress.

    ``chunks`` keeps encoded texts for the next evaluation of the same classifier on the same split, see ``Evaluator``.
    """
    if labels is not None and tuple(labels) != tuple(clf.labels):
        message = f"the classifier's labels are {', '.join(clf.labels)}, the task's {', '.join(labels)}"
        raise TicketsError(message, hint=HINT, code="evaluate.labels")
    clf.check_columns(split.columns, f"the split {split.name!r}", assumed=True)
    if len(split) == 0:
        message = f"nothing to evaluate: the split {split.name!r} is empty"
        raise TicketsError(message, hint="check the data file", code="evaluate.empty")
    truth = np.asarray(split.labels, dtype=np.int64)
    if truth.min() < 0 or truth.max() >= len(clf.labels):
        message = f"the split {split.name!r} has rows without a label, or with one that the classifier has not"
        raise TicketsError(message, hint=f"evaluate on a split with public labels; {HINT}", code="evaluate.labels")
    predictions = np.empty(len(split), dtype=np.int64)
    loss = 0.0
    with progress.track(title, len(split)) if title else nullcontext() as bar:  # training shows its own bar
        for start in range(0, len(split), CHUNK):
            rows = list(range(start, min(start + CHUNK, len(split))))
            encoded = chunks.get(start) if chunks else None
            if encoded is None:
                encoded = clf.encode([example.texts for example in split.take(rows)])
                if chunks is not None and start < KEPT:
                    chunks[start] = encoded
            logits = np.asarray(clf.logits_of_rows(encoded, token_budget), dtype=np.float64)
            predictions[rows] = logits.argmax(axis=1)
            shifted = logits - logits.max(axis=1, keepdims=True)
            chosen = shifted[np.arange(len(rows)), truth[rows]]
            loss += float((np.log(np.exp(shifted).sum(axis=1)) - chosen).sum())
            if bar:
                bar.advance(len(rows))
    numbers = classification(truth, predictions, len(clf.labels))
    return Evaluation(
        accuracy=numbers["accuracy"],
        macro_f1=numbers["macro_f1"],
        per_class=tuple({"label": name, **row} for name, row in zip(clf.labels, numbers["per_class"], strict=True)),
        n=numbers["n"],
        correct=numbers["correct"],
        loss=loss / len(split),
    )
