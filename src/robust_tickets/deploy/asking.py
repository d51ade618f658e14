"""Asking a classifier for the labels of many texts: batch by batch, each kept as it comes; a text that fails costs itself alone.

Batches are made of the texts that have no answer yet, the longest first. Without its first batches the rest falls into the same ones, and
a batch that failed fails again, since the text at fault stays in it. So a call that goes on asks in the batches in which an undisturbed one
would have asked, and a model's answers are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robust_tickets.attack.failures import answers, fatal, said
from robust_tickets.classifier.core import TOKEN_BUDGET, probabilities
from robust_tickets.classifier.passing import in_halves
from robust_tickets.deploy.answers import Answer, Answers
from robust_tickets.progress import Bar

HOPELESS = 20  # texts that failed in a row: the cause is not in them


class GoneError(Exception):
    """The classifier answers no more; the last of its errors, under a name that is not taken for an error of writing."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Asking:
    """A classifier that answers text by text: where a batch fails, the texts are halved until the one at fault is found."""

    def __init__(self, clf: Any, kept: Answers, bar: Bar) -> None:
        self.clf, self.kept, self.bar = clf, kept, bar
        self.found: dict[int, Answer] = {}  # of the texts asked about now
        self.problems: dict[int, str] = {}
        self.problem: Exception | None = None  # the last one
        self.failed = 0  # texts since the last answer
        self.run, self.last = 0, -1  # rows of the file that failed one after another, and the last that did

    def __call__(
        self, numbers: Sequence[int], texts: Sequence[tuple[str, ...]]
    ) -> tuple[dict[int, Answer], dict[int, str]]:
        """The answers, and what went wrong with the others, by row number."""
        self.found, self.problems = self.kept.of(numbers), {}
        in_halves(
            self._ask,
            list(zip(numbers, texts, strict=True)),
            lambda one, problem: self._fail(one[0], len(one[1]), problem),
            ends=fatal,
        )
        if numbers and numbers[-1] in self.found:
            self.run = 0
        return self.found, self.problems

    def _ask(self, asked: list[tuple[int, tuple[str, ...]]]) -> list[None]:
        """One batch after another of those that have no answer yet."""
        left = [(number, text) for number, text in asked if number not in self.found]
        rows = self.clf.encode([text for _, text in left]) if left else []
        for where in self.clf.batches([row.size for row in rows], TOKEN_BUDGET):
            p = probabilities(self.clf.logits_of_encoded([rows[i] for i in where]).numpy())
            scores = [[round(x, 6) for x in row] for row in p.tolist()]
            told = list(map(Answer, p.argmax(axis=1).tolist(), scores))
            numbers = [left[i][0] for i in where]
            self.kept.add(numbers, told)
            self.found.update(zip(numbers, told, strict=True))
            self.failed = 0
            self.bar.advance(len(where))
        return []

    def _fail(self, number: int, columns: int, problem: Exception) -> None:
        """Texts come by size, so those of one kind may fail together: then an ordinary text says whether the classifier is still there."""
        between = any(self.last < row < number for row in self.found)
        self.run, self.last = 1 if between else self.run + 1, number
        self.failed += 1
        self.problem = problem
        if self.failed >= HOPELESS:
            if self.run >= HOPELESS or not answers(self.clf, columns):
                raise GoneError(problem)
            self.failed = 0
        self.problems[number] = said(problem)
        self.bar.advance()
