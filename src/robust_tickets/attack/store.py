"""Finished examples on disk: a line each, written as soon as it is known, so that a killed attack goes on where it was.

While an attack runs, ``examples.jsonl.part`` begins with a header that says which attack it is; then comes one line per finished
example, in the order they finish: its number in the attack set, the seconds spent so far, and its JSON. A torn last line is dropped on
resuming. At the end the lines are sorted into ``examples.jsonl``. Without a folder the lines are kept in memory.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from robust_tickets.errors import FAILED, TicketsError

SCHEMA = 1
PART, FINAL, RESULT = "examples.jsonl.part", "examples.jsonl", "result.json"


def to_line(value: dict[str, Any]) -> bytes:
    """One line of JSON; readable where the text is valid Unicode, escaped where it holds lone surrogates."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False).encode() + b"\n"


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


class OnDisk:
    """Lines of an attack in a folder; takes up what an earlier call of the same attack left there."""

    def __init__(self, folder: Path, count: int, digest: str) -> None:
        self.folder, self.part = folder, folder / PART
        self.places = array("q", [-1]) * count  # where the line of an example begins
        self.spent = 0.0  # seconds, by earlier calls too
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.file: BinaryIO = open(self.part, "a+b")  # noqa: SIM115 - closed by close()
            self._take_up(digest)
        except OSError as problem:
            raise TicketsError(
                f"could not write to {folder}: {problem.strerror}", hint="check the disk and the folder's rights", exit_code=FAILED
            ) from None

    def _take_up(self, digest: str) -> None:
        self.file.seek(0)
        header = self.file.readline()
        if not header.endswith(b"\n"):  # nothing yet, or killed while writing the header
            self.file.truncate(0)
            self._write(to_line({"schema": SCHEMA, "attack": digest}))
            return
        if _loaded(header) != {"schema": SCHEMA, "attack": digest}:
            self.close()
            raise TicketsError(
                f"{self.part} belongs to another attack (other settings, victim or examples)",
                hint="give another folder, or remove this one to start anew",
            )
        end = self.file.tell()
        for line in self.file:
            number, spent, body = _parts(line)
            if body is None or not 0 <= number < len(self.places):
                break
            self.places[number], self.spent = end, spent
            end += len(line)
        self.file.truncate(end)
        self.file.seek(end)

    def _write(self, data: bytes) -> None:
        self.file.seek(0, os.SEEK_END)
        self.file.write(data)
        self.file.flush()

    def done(self, number: int) -> bool:
        return self.places[number] >= 0

    def add(self, number: int, line: bytes, seconds: float) -> None:
        self.file.seek(0, os.SEEK_END)
        self.places[number] = self.file.tell()
        self._write(b"%d\t%.3f\t" % (number, seconds) + line)

    def lines(self) -> Iterator[bytes]:
        """The JSON lines in the order of the attack set."""
        for place in self.places:
            if place >= 0:
                self.file.seek(place)
                yield self.file.readline().split(b"\t", 2)[2]

    def close(self) -> None:
        self.file.close()


def write_lines(path: Path, lines: Iterator[bytes]) -> None:
    """Write lines beside ``path``, then rename; never holds more than one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as out:
            out.writelines(lines)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, path)
    except OSError as problem:
        part.unlink(missing_ok=True)
        raise TicketsError(
            f"could not write {path}: {problem.strerror}", hint="check the disk and the folder's rights", exit_code=FAILED
        ) from None


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open(path, "rb") as stream:
            for line in stream:
                yield json.loads(line)
    except FileNotFoundError:
        raise TicketsError(f"no such file: {path}", hint="run the attack again") from None
    except ValueError as problem:
        raise TicketsError(f"{path} is not valid JSON lines: {problem}", hint="the file is damaged: run the attack again") from None


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _parts(line: bytes) -> tuple[int, float, Any]:
    number, _, rest = line.partition(b"\t")
    spent, _, body = rest.partition(b"\t")
    if not line.endswith(b"\n") or not number.isdigit():
        return -1, 0.0, None
    try:
        return int(number), float(spent), _loaded(body)
    except ValueError:
        return -1, 0.0, None
