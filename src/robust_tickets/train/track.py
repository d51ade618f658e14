"""metrics.jsonl: one line per logged step and per evaluation, appended; the same run writes the same lines but for ``seconds``.

A checkpoint remembers how long the file was. A resumed run cuts it back to that length, so that no line appears twice.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import no_link


class Metrics:
    """Appends to ``path``; with no path it forgets everything."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def write(self, line: dict[str, Any]) -> None:
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab", opener=no_link) as out:
                out.write((json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n").encode())
        except OSError as problem:
            raise _failed(self.path, problem) from None

    def length(self) -> int:
        """Bytes written so far, safely on disk."""
        if self.path is None or not self.path.exists():
            return 0
        with open(self.path, "rb") as stream:
            os.fsync(stream.fileno())
            return stream.seek(0, os.SEEK_END)

    def cut(self, length: int) -> None:
        """Forget what came after the first ``length`` bytes."""
        if self.path is not None and self.path.exists() and self.path.stat().st_size > length:
            try:
                with open(self.path, "r+b", opener=no_link) as out:
                    out.truncate(length)
            except OSError as problem:
                raise _failed(self.path, problem) from None


def _failed(path: Path, problem: OSError) -> TicketsError:
    return TicketsError(
        f"could not write {path}: {problem.strerror}", hint="check the disk and the folder's rights", exit_code=FAILED
    )
