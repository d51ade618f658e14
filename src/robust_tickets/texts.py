"""Texts as they come: a string, or a tuple of one or two; made safe for tokenizers, which refuse lone surrogates."""

from __future__ import annotations

from robust_tickets.errors import TicketsError

Text = str | tuple[str, ...]


def columns_of(text: Text) -> tuple[str, ...]:
    """The columns of one text; refuses anything but one or two strings."""
    columns = (text,) if isinstance(text, str) else tuple(text) if isinstance(text, tuple | list) else ()
    if len(columns) not in (1, 2) or not all(isinstance(column, str) for column in columns):
        raise TicketsError(f"a text is a string or a tuple of one or two strings, got {text!r:.80}", hint="pass texts, not rows or numbers")
    return tuple(clean(column) for column in columns)


def clean(text: str) -> str:
    """``text`` with lone surrogates replaced by U+FFFD and split pairs joined; every other text is returned as it is."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
