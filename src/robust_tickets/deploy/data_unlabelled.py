"""Texts without labels, row by row: what ``tickets predict`` reads. A bad row is given back with its problem, never dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from robust_tickets.data.arrow_tables import text_problem
from robust_tickets.data.readers import Rows, open_rows
from robust_tickets.data.schema import LABELS, text_columns


class Unlabelled(NamedTuple):
    """A row of a file: ``texts`` is empty where there is a ``problem``, ``rest`` (the other columns) where it could not be read at all."""

    line: int
    texts: tuple[str, ...]
    problem: str
    rest: tuple[Any, ...] = ()


def open_texts(
    path: str | Path, text: str | Sequence[str] | None = None, like: Sequence[str] = ()
) -> tuple[Rows, tuple[str, ...]]:
    """The reader of ``path`` and its text columns: those given, else those called as in ``like``, else the only reading possible."""
    rows = open_rows(Path(path).expanduser())
    if text is None and like and all(name in rows.columns for name in like):
        text = tuple(like)
    return rows, text_columns(rows, text, but=LABELS)


def read_texts(rows: Rows, columns: tuple[str, ...], rest: tuple[str, ...] = ()) -> Iterator[Unlabelled]:
    for record in rows.records((*columns, *rest)):
        texts, others = tuple(record.values[: len(columns)]), tuple(record.values[len(columns) :])
        problem = record.problem or next(filter(None, map(text_problem, texts)), "")
        yield Unlabelled(record.line, () if problem else texts, problem, others)
