"""The rows that a run had to leave out, listed in its folder: their number alone does not help to mend the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from robust_tickets.data.task import BadRow, Task
from robust_tickets.files import write_text
from robust_tickets.progress import say, warn
from robust_tickets.run import BAD_ROWS as NAME
from robust_tickets.run import BAD_ROWS_KEPT as MOST

HEAD = ("file", "row", "reason")
SHOWN = 100  # of them on the page


def write_bad_rows(folder: Path, tasks: Iterable[Task]) -> None:
    """Write file, row and reason of each, and say where; a folder without bad rows has no such file."""
    bad = list(dict.fromkeys(row for task in tasks for row in task.skipped))
    path = folder / NAME
    if path.exists() and not _ours(path):
        if bad:
            warn(f"{path} is there and not of a run: the {len(bad)} bad rows are not listed in it")
        return
    if not bad:
        path.unlink(missing_ok=True)
        return
    written = io.StringIO()
    lines = csv.writer(written)
    lines.writerow(HEAD)
    lines.writerows((row.file, row.row, row.reason) for row in bad[:MOST])
    write_text(path, written.getvalue().encode("utf-8", "replace").decode("utf-8"))
    many = f"the first {MOST} of {len(bad)}" if len(bad) > MOST else "all" if len(bad) > 1 else "the"
    say(f"data: {many} bad row{'s are' if len(bad) > 1 else ' is'} listed in {path}")


def _ours(path: Path) -> bool:
    """Whether an earlier run wrote it: a folder may hold a file of the user's by that name."""
    with suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as lines:
        return lines.readline().strip() == ",".join(HEAD)
    return False


def shown(bad: Iterable[BadRow]) -> list[str]:
    """The first of them, for the page."""
    return [str(row) for row, _ in zip(bad, range(SHOWN), strict=False)]
