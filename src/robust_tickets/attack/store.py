"""Finished examples on disk: a line each, written as soon as it is known, so that a killed attack goes on where it was.

While an attack runs, ``examples.jsonl.part`` begins with a header that says which attack it is; then comes one line per finished
example, in the order they finish: its number in the attack set, the seconds spent so far, and its JSON. A torn last line is dropped on
resuming, and an example that failed is tried again. At the end the lines are sorted into ``examples.jsonl``. Without a folder the lines
are kept in memory.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.jsonl_log import Lines, loaded, to_line
from robust_tickets.stats.metrics import ERROR, STATUSES, UNKNOWN

SCHEMA = 1
PART, FINAL, RESULT = "examples.jsonl.part", "examples.jsonl", "result.json"


class Memory:
    """Lines of an attack without a folder."""

    def __init__(self, count: int) -> None:
        self.kept: list[bytes | None] = [None] * count
        self.spent = 0.0

    def done(self, number: int) -> bool:
        return self.kept[number] is not None

    def add(self, number: int, line: bytes, seconds: float) -> None:
        self.kept[number] = line

    def lines(self) -> Iterator[bytes]:
        return (line for line in self.kept if line is not None)

    def close(self) -> None:
        pass


class OnDisk(Lines):
    """Lines of an attack in a folder; takes up what an earlier call of the same attack left there, but for examples that failed."""

    def __init__(self, folder: Path, count: int, digest: str) -> None:
        self.places = array("q", [-1]) * count  # where the line of an example begins
        self.spent = 0.0  # seconds, by earlier calls too
        super().__init__(folder / PART, {"schema": SCHEMA, "attack": digest})

    def busy(self) -> TicketsError:
        return TicketsError(
            f"another process is attacking into this folder: {self.part.parent}",
            hint="wait for it, or give another folder",
            exit_code=FAILED,
        )

    def other(self, found: Any, header: dict[str, Any]) -> None:
        raise TicketsError(
            f"{self.part} belongs to another attack (other settings, victim or examples)",
            hint=f"give another folder, or remove {self.part} to start anew",
        )

    def take(self, line: bytes, place: int) -> bool:
        number, spent, body = _parts(line)
        if not isinstance(body, dict) or body.get("status") not in STATUSES or not 0 <= number < len(self.places):
            return False
        self.places[number] = -1 if body.get("status") in (UNKNOWN, ERROR) else place
        self.spent = spent
        return True

    def take_over(self, path: Path, seconds: float) -> None:
        """The examples of a finished attack in ``path`` that did not fail, but for those that are here already."""
        for number, line in enumerate(read_lines(path)):
            if not self.done(number) and line["status"] not in (UNKNOWN, ERROR):
                self.add(number, to_line(line), seconds)
        self.spent = max(self.spent, seconds)

    def done(self, number: int) -> bool:
        return self.places[number] >= 0

    def add(self, number: int, line: bytes, seconds: float) -> None:
        with self._said():
            place = os.fstat(self.file.fileno()).st_size
            self._write(b"%d\t%.3f\t" % (number, seconds) + line)
        self.places[number] = place

    def lines(self) -> Iterator[bytes]:
        """The JSON lines in the order of the attack set."""
        with open(self.part, "rb") as lines:
            for place in self.places:
                if place >= 0:
                    lines.seek(place)
                    yield lines.readline().split(b"\t", 2)[2]


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open(path, "rb") as stream:
            for line in stream:
                yield json.loads(line)
    except FileNotFoundError:
        raise TicketsError(f"no such file: {path}", hint="run the attack again") from None
    except OSError as problem:
        raise TicketsError(f"could not read {path}: {problem.strerror}", hint="check the path and its rights") from None
    except (ValueError, RecursionError) as problem:
        raise TicketsError(
            f"{path} is not valid JSON lines: {problem}",
            hint="the file is damaged: remove it, and run the attack again",
        ) from None


def whole_lines(path: Path) -> int:
    """Lines that were written to their end; none where there is no file."""
    try:
        with open(path, "rb") as stream:
            return sum(line.endswith(b"\n") for line in stream)
    except OSError:
        return 0


def _parts(line: bytes) -> tuple[int, float, Any]:
    number, _, rest = line.partition(b"\t")
    spent, _, body = rest.partition(b"\t")
    if not line.endswith(b"\n") or not number.isdigit():
        return -1, 0.0, None
    try:
        return int(number), float(spent), loaded(body)
    except ValueError:
        return -1, 0.0, None
