"""A file of lines that only grows: work that is done stays done, wherever the process is killed.

It begins with a header that says what the work is; then comes a line for every piece of it, written as soon as it is known. A torn last
line is dropped when the file is taken up again. One process at a time may have it.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Self

from robust_tickets.errors import TicketsError
from robust_tickets.files import claim, no_link, writing


def to_line(value: Any) -> bytes:
    """One line of JSON; readable where the text is valid Unicode, escaped where it holds lone surrogates."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False).encode() + b"\n"


def loaded(line: bytes) -> Any:
    """The JSON of a line; None where it is damaged."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


class Lines(ABC):
    """What earlier calls left in ``part`` is given to ``take`` line by line, if the header is the same; without it, lines are in memory."""

    def __init__(self, part: Path | None, header: dict[str, Any]) -> None:
        self.part = part
        if part is None:
            self.file: Any = BytesIO()
            return
        with writing(part):
            part.parent.mkdir(parents=True, exist_ok=True)
            # unbuffered: what could not be written must not be tried again when the file is closed
            self.file = open(part, "ab", buffering=0, opener=no_link)  # noqa: SIM115 - closed by close()
        try:
            # keeps a second process out until the file is closed; elsewhere nobody could read what is locked
            if os.name == "posix" and claim(self.file.fileno()) is False:
                raise self.busy()
            with writing(part):
                self._take_up(header)
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def take(self, line: bytes, place: int) -> bool:
        """Take over a line that begins at ``place``; False if it is damaged, and then it is cut off with all behind it."""

    @abstractmethod
    def other(self, found: Any, header: dict[str, Any]) -> None:
        """The file was begun with another header. Raises, unless the file is to start over."""

    @abstractmethod
    def busy(self) -> TicketsError:
        """The error where another process has the file."""

    def _take_up(self, header: dict[str, Any]) -> None:
        with self.reader() as lines:
            first = lines.readline()
            whole = first.endswith(b"\n")  # else there is nothing yet, or it was killed while writing the header
            if whole and (found := loaded(first)) != header:
                self.other(found, header)
                whole = False
            if not whole:
                self._begin(header)
                return
            end = len(first)
            for line in lines:
                if not line.endswith(b"\n") or not self.take(line, end):
                    break
                end += len(line)
        self.file.truncate(end)

    def _begin(self, header: dict[str, Any]) -> None:
        with writing(self.part):
            self.file.truncate(0)
            self._write(to_line(header))

    @property
    def folder(self) -> Path | None:
        return None if self.part is None else self.part.parent

    def append(self, line: bytes) -> int:
        """Write a line; returns where it begins."""
        with writing(self.part):
            place: int = self.file.seek(0, os.SEEK_END)
            self._write(line)
        return place

    def reader(self) -> BinaryIO:
        """What was written, to read."""
        return BytesIO(self.file.getvalue()) if self.part is None else open(self.part, "rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self.file.write(left) or 0 :]

    def close(self) -> None:
        self.file.close()

    def remove(self) -> None:
        """Take the file away: everything is in the result."""
        if self.part is not None:
            self.part.unlink(missing_ok=True)  # before closing, which lets another process in
        self.close()
