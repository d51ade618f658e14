"""Diagnostics of splits: shared texts, texts under two labels, missing classes, too few rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from robust_tickets.data.schema import few
from robust_tickets.data.source import ALL
from robust_tickets.data.task import BadRow, Split, Task
from robust_tickets.errors import TicketsError
from robust_tickets.files import write_text
from robust_tickets.progress import say, warn
from robust_tickets.stages import BAD_ROWS as NAME
from robust_tickets.stages import BAD_ROWS_KEPT as MOST

FEWEST = 30  # rows of a test split below which a percentage says little: one row is over three points
COUNTED = 20  # classes named with their counts


def look(
    splits: Mapping[str, Split], train: str, validation: str, test: str, names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Notes and warnings. Selecting on the very texts that are reported on is refused."""
    notes, warnings = [], []
    counted = train if train in splits else test
    if counted in splits:
        notes.append(_classes(splits[counted], counted, names))
    if train not in splits:
        notes.append(f"no {train} split here: this task can be evaluated and attacked, not trained")
    for name in dict.fromkeys((train, test)):
        absent = (
            [n for n, count in zip(names, _counts(splits[name], names), strict=True) if not count]
            if name in splits
            else []
        )
        if absent:
            warnings.append(f"{_called(name)} has no row of the class(es) {few(absent)}")
    for name, effect in (
        (train, "so the results flatter the model"),
        (validation, "so what is picked on one is favoured by the other"),
    ):
        if name == test or name not in splits or test not in splits:
            continue
        if name == validation and np.array_equal(np.sort(splits[name].keys), np.sort(splits[test].keys)):
            raise TicketsError(
                f"{name} and {test} hold the same {len(splits[test])} texts: nothing may be picked on what is then reported",
                hint=f"give another file, or leave {name} out: it is then carved from {train}",
                code="data.same_texts",
            )
        shared = int(np.isin(splits[test].keys, splits[name].keys).sum())
        if shared:
            warnings.append(
                f"{shared} of {len(splits[test])} rows of {test} have a text that is also in {name}, {effect}"
            )
    if test in splits and len(splits[test]) < FEWEST:
        warnings.append(
            f"{_called(test)} has only {len(splits[test])} rows: differences between models will hardly show"
        )
    return notes, warnings


def two_labels(splits: Sequence[Split], names: Sequence[str]) -> str:
    """How many texts stand under more than one label, and where the first does; on one of its rows every model is wrong.

    Asked of all rows that were read: a subset may hold one of the two, and its label is no less doubtful.
    """
    if not splits:
        return ""
    keys, labels = (np.concatenate(parts) for parts in ([s.keys for s in splits], [s.labels for s in splits]))
    order = np.lexsort((labels, keys))
    same = keys[order][1:] == keys[order][:-1]
    clashing = np.unique(keys[order][1:][same & (labels[order][1:] != labels[order][:-1])])
    if not len(clashing):
        return ""
    rows = np.flatnonzero(np.isin(keys, clashing))
    first = rows[0]
    other = next(row for row in rows if keys[row] == keys[first] and labels[row] != labels[first])
    (split, line), (beside, second) = (_place(splits, int(row)) for row in (first, other))
    called = [names[labels[row]] for row in (first, other)]
    where = ("", "") if split is beside else (f" of {split.name}", f" of {beside.name}")
    count = f"{len(clashing)} text{'s' * (len(clashing) > 1)} of {len(rows)} rows {'stand' if len(clashing) > 1 else 'stands'}"
    at = f"the first in line {line}{where[0]} ({few(called[:1])}) and line {second}{where[1]} ({few(called[1:])})"
    return f"{count} under more than one label, so that no model can be right on all of them; {at}"


def _place(splits: Sequence[Split], row: int) -> tuple[Split, int]:
    """The split that a row of all of them together is in, and its line in the source."""
    for split in splits:
        if row < len(split):
            return split, int(split.table.numbers("line")[split.rows[row]])
        row -= len(split)
    raise IndexError(row)


def _called(name: str) -> str:
    """A lone file that is taken whole has no splits to speak of."""
    return "the file" if name == ALL else name


def _counts(split: Split, names: Sequence[str]) -> list[int]:
    return np.bincount(split.labels, minlength=len(names)).tolist()


def _classes(split: Split, name: str, names: Sequence[str]) -> str:
    shown = [
        f"{n if len(n) <= 40 else n[:39] + '…'} {count}" for n, count in zip(names, _counts(split, names), strict=True)
    ]
    more = f", … ({len(names)} classes)" if len(names) > COUNTED else ""
    return f"classes, with their rows in {name}: {', '.join(shown[:COUNTED])}{more}"


HEAD = ("file", "row", "reason")
SHOWN = 100  # of them on the page
LISTED = 10  # of them in the log; a run's folder lists them all


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


def announce(task: Task) -> Task:
    """Log what was inferred, what was left out and what may spoil the results; the task."""
    for note in task.notes:
        say(f"data: {note}")
    for bad in task.skipped[1:LISTED]:  # the first stands in its note
        say(f"data: left out {bad}")
    if len(task.skipped) > LISTED:
        say(f"data: … and {len(task.skipped) - LISTED} more bad rows")
    for warning in task.warnings:
        warn(warning)
    return task
