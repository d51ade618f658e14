"""Diagnostics of splits: shared texts, texts under two labels, missing classes, few rows; and the list of bad rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from robust_tickets.data.schema import few
from robust_tickets.data.task import BadRow, Split, Task
from robust_tickets.errors import TicketsError
from robust_tickets.files import write_text
from robust_tickets.progress import say, warn
from robust_tickets.stages import BAD_ROWS as NAME
from robust_tickets.stages import BAD_ROWS_KEPT as MOST

MOST_LINES = 8  # of a text, in a warning
FEWEST = 30  # rows of a test split below which a percentage says little: one row is over three points
HEAD = ("file", "row", "reason")
SHOWN = 100  # bad rows on the page
LISTED = 10  # bad rows in the log; a run's folder lists them all


def look(
    splits: Mapping[str, Split], train: str, validation: str, test: str, names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Notes and warnings. Selecting on the very texts that are reported on is refused."""
    notes, warnings = list[str](), list[str]()
    for name in dict.fromkeys((train, test)):
        if name not in splits:
            continue
        counts = np.bincount(splits[name].labels, minlength=len(names)).tolist()
        if not notes:
            shown = [f"{few([label])} {count}" for label, count in zip(names, counts, strict=True)]
            notes.append(f"classes, with their rows in {name}: {few(shown)}")
        if not all(counts):
            absent = few([label for label, count in zip(names, counts, strict=True) if not count])
            warnings.append(f"{name}: no row of the class(es) {absent}")
    if train not in splits:
        notes.append(f"no {train} split here: this task can be evaluated and attacked, not trained")
    if test not in splits:
        return notes, warnings
    tested = splits[test].keys
    for name, effect in (
        (train, "so the results flatter the model"),
        (validation, "so what is picked on one is favoured by the other"),
    ):
        if name == test or name not in splits:
            continue
        if name == validation and np.array_equal(np.sort(splits[name].keys), np.sort(tested)):
            raise TicketsError(
                f"{name} and {test} hold the same {len(tested)} texts: nothing may be picked on what is then reported",
                hint=f"give another file, or leave {name} out: it is then carved from {train}",
                code="data.same_texts",
            )
        if shared := int(np.isin(tested, splits[name].keys).sum()):
            warnings.append(f"{shared} of {len(tested)} rows of {test} have a text that is also in {name}, {effect}")
    if len(tested) < FEWEST:
        warnings.append(f"{test}: only {len(tested)} rows, so that differences between models will hardly show")
    return notes, warnings


def two_labels(splits: Sequence[Split], names: Sequence[str]) -> list[str]:
    """A warning of texts under more than one label, with the first of them: on one of its rows every model is wrong.

    Asked of all rows that were read: a subset may hold one of the two, and its label is no less doubtful.
    """
    none = np.zeros(0, dtype=np.uint64)
    keys, labels = (np.concatenate([none, *parts]) for parts in ([s.keys for s in splits], [s.labels for s in splits]))
    pairs = np.unique(np.stack([keys, labels.astype(np.uint64)]), axis=1)
    texts, count = np.unique(pairs[0], return_counts=True)
    rows = np.isin(keys, texts[count > 1])
    if not rows.any():
        return []
    lines = [
        f"line {split.table.numbers('line')[split.rows[i]]} of {split.name} ({few([names[split.labels[i]]])})"
        for split in splits
        for i in np.flatnonzero(split.keys == keys[rows][0])
    ]
    where = ", ".join(lines[:MOST_LINES])
    return [f"texts under more than one label, on which no model can be right: {rows.sum()} rows, the first in {where}"]


def write_bad_rows(folder: Path, tasks: Iterable[Task]) -> None:
    """Write file, row and reason of each, and log where; a folder without bad rows has no such file."""
    bad = list(dict.fromkeys(row for task in tasks for row in task.skipped))
    path = folder / NAME
    if path.exists() and not path.read_bytes().startswith(",".join(HEAD).encode()):
        if bad:  # a folder may hold a file of the user's by that name
            warn(f"{path} is there and not of a run: the {len(bad)} bad rows are not listed in it")
        return
    if not bad:
        path.unlink(missing_ok=True)
        return
    written = io.StringIO()
    csv.writer(written).writerows([HEAD, *((row.file, row.row, row.reason) for row in bad[:MOST])])
    write_text(path, written.getvalue().encode("utf-8", "replace").decode("utf-8"))
    say(f"data: {min(len(bad), MOST)} of {len(bad)} bad rows are listed in {path}")


def shown(bad: Iterable[BadRow]) -> list[str]:
    """The first bad rows, for the page."""
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
