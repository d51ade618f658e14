"""Texts as they come (a string, or a tuple of one or two), as a model sees them, and in batches of like size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from robust_tickets.errors import TicketsError

Text = str | tuple[str, ...]


def rows_of(texts: Sequence[str | Sequence[str]]) -> list[tuple[str, ...]]:
    """The columns of every text. One string is no list of texts: its letters would be taken for them."""
    if isinstance(texts, str):
        raise TicketsError(
            f"expected a list of texts, got the one text {texts!r:.80}", hint="put it into a list: [text]"
        )
    if not _a_list(texts):
        raise TicketsError(
            f"expected a list of texts, got a {type(texts).__name__}",
            hint="give strings, or pairs of them: [text, text, …]",
        )
    return [columns_of(text, place) for place, text in enumerate(texts)]


def _a_list(texts: Any) -> bool:
    if isinstance(texts, bytes | Mapping) or hasattr(
        texts, "columns"
    ):  # a table of pandas gives the names of its columns
        return False
    try:
        iter(texts)
    except TypeError:
        return False
    return True


def columns_of(text: str | Sequence[str], place: int) -> tuple[str, ...]:
    """The columns of one text; refuses anything but one or two strings."""
    columns = (text,) if isinstance(text, str) else tuple(text) if isinstance(text, tuple | list) else ()
    if len(columns) not in (1, 2) or not all(isinstance(column, str) for column in columns):
        raise TicketsError(
            f"a text is a string or a tuple of one or two strings, got {text!r:.80} at place {place} of the list, counted from 0",
            hint="give texts, not rows or numbers; leave out those that are missing",
        )
    return tuple(clean(column) for column in columns)


def check_count(rows: Sequence[tuple[str, ...]], columns: Sequence[str], name: str) -> None:
    """Refuse a text for a model of pairs, and a pair for one of texts: it would be answered as something else."""
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            raise TicketsError(
                f"text {number} has {len(row)} column(s), the classifier {name!r} reads {len(columns)} ({', '.join(columns)})",
                hint=f"give a list of {'strings' if len(columns) == 1 else 'tuples: [(' + ', '.join(columns) + ')]'}",
            )


def clean(text: str) -> str:
    """``text`` with lone surrogates, which tokenizers refuse, replaced by U+FFFD, and split pairs joined; any other text as it is."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class Encoded(NamedTuple):
    """One text as the model sees it, small enough to keep thousands: texts with equal token ids are equal and can share a forward pass."""

    data: bytes = b""  # token ids as int32
    kinds: bytes = b""  # token types, a byte each; empty where the model has none
    size: int = 0  # tokens (words for a wrapped callable): what batches are sorted and budgeted by
    columns: tuple[str, ...] = ()  # for a wrapped callable, the text itself, and no ids

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(np.frombuffer(self.data, dtype="<i4").tolist())

    @property
    def types(self) -> tuple[int, ...]:
        return tuple(self.kinds)
