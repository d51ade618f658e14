"""Answers of a prediction that is not finished, kept beside its file: ``OUT.answers.part``.

A line holds the answers of one batch, written as soon as they are had: the numbers of the rows, their classes, their probabilities. Rows
that failed are not in it, so they are asked again. The header names all that answers depend on; where that differs, it begins anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.jsonl_log import Lines, loaded, to_line
from robust_tickets.progress import say, warn

SCHEMA = 1
OF = {
    "data": "another data file",
    "columns": "other text columns",
    "labels": "other labels",
    "device": "another device",
    "model": "another model",
}


class Answer(NamedTuple):
    """The number of the class, and the probability of every class as it is written."""

    label: int
    scores: list[float]


class Answers(Lines):
    """``key`` is what the answers depend on, ``rows`` how many the data file has."""

    def __init__(self, out: Path, key: dict[str, Any], rows: int) -> None:
        self.out, self.classes, self.count = out, len(key["labels"]), 0
        self.places = array("q", [-1]) * rows  # where the line with a row's answer begins, of an earlier call
        self.header = {"schema": SCHEMA, **key}
        super().__init__(out.with_name(f"{out.name}.answers.part"), self.header)

    def busy(self) -> TicketsError:
        return TicketsError(
            f"another process is predicting into {self.out}", hint="wait for it, or give another file", exit_code=FAILED
        )

    def other(self, found: Any, header: dict[str, Any]) -> None:
        before = found if isinstance(found, dict) else {}
        self.tell_anew(
            next(
                (what for name, what in OF.items() if before.get(name) != header[name]),
                "another version of this program",
            )
        )

    def tell_anew(self, of: str) -> None:
        warn(f"the answers in {self.part} are of {of}: starting anew")

    def begin_anew(self, of: str) -> None:
        """Forget what was taken up: it is ``of`` something else."""
        self.tell_anew(of)
        self.places, self.count = array("q", [-1]) * len(self.places), 0
        with self._said():
            self._begin(self.header)

    def take(self, line: bytes, place: int) -> bool:
        found = self._parts(line)
        for number in found:
            self.count += self.places[number] < 0
            self.places[number] = place
        return bool(found)

    def _parts(self, line: bytes) -> dict[int, Answer]:
        """The answers of a line by row; none where it is damaged."""
        try:
            found = {number: Answer(label, scores) for number, label, scores in zip(*loaded(line), strict=True)}
            fine = all(
                0 <= n < len(self.places) and 0 <= a.label < self.classes == len(a.scores) for n, a in found.items()
            )
        except (TypeError, ValueError):
            return {}
        return found if fine else {}

    def of(self, numbers: Sequence[int]) -> dict[int, Answer]:
        """What earlier calls answered of these rows."""
        known = [n for n in numbers if n < len(self.places) and self.places[n] >= 0] if self.count else []
        if not known:
            return {}
        found: dict[int, Answer] = {}
        with self._said(), open(self.part, "rb") as lines:
            for place in sorted({self.places[number] for number in known}):
                lines.seek(place)
                found |= self._parts(lines.readline())
        return {number: found[number] for number in known}

    def add(self, numbers: list[int], answers: Iterable[Answer]) -> None:
        labels, scores = zip(*answers, strict=True)
        with self._said():
            self._write(to_line([numbers, labels, scores]))
        self.count += len(numbers)

    def leave(self) -> None:
        """The call ends before the prediction does."""
        if not self.count:
            self.remove()
            return
        self.close()
        say(f"predict: {self.count} answers are kept in {self.part}: the same command goes on")
