"""What a reader of the results would want to know about the splits: texts they share, texts under two labels, classes they lack, how few
rows they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from robust_tickets.data.schema import few
from robust_tickets.data.source import ALL
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError

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
