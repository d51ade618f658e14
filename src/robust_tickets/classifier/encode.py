"""Encoded texts, and batches of texts of similar length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from robust_tickets.classifier.tokenizer import Frame, Splicer, packed, tokenised
from robust_tickets.errors import TicketsError, tokenising

Text = str | tuple[str, ...]


def rows_of(texts: Sequence[str | Sequence[str]]) -> list[tuple[str, ...]]:
    """The columns of every text. One string is no list of texts: its letters would be taken for them."""
    # a table of pandas would give the names of its columns
    if isinstance(texts, str | bytes | Mapping) or hasattr(texts, "columns") or not isinstance(texts, Iterable):
        message = f"expected a list of texts, got a {type(texts).__name__}: {texts!r:.60}"
        raise TicketsError(message, hint="give strings, or pairs, in a list: [text, text, …]", code="text.not_a_list")
    rows = [(text,) if isinstance(text, str) else text for text in texts]
    for place, row in enumerate(rows):
        if (
            not isinstance(row, tuple | list)
            or len(row) not in (1, 2)
            or not all(isinstance(part, str) for part in row)
        ):
            message = (
                f"a text is a string or a tuple of one or two strings, got {row!r:.80} at place {place}, counted from 0"
            )
            hint = "give texts, not rows or numbers; leave out those that are missing"
            raise TicketsError(message, hint=hint, code="text.columns")
    return [tuple(map(clean, row)) for row in rows]


def check_tokens(rows: Sequence[Encoded]) -> None:
    """Refuse texts without a token: the model has nothing to read."""
    if not all(row.size for row in rows):
        message = "the tokenizer gives no token for a text, so the model has nothing to read"
        raise TicketsError(message, hint="leave such texts out", code="text.no_token")


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


@tokenising()
def encoded(
    tokenizer: Any, splicer: Splicer | None, rows: Sequence[tuple[str, ...]], longest: int, token_types: bool
) -> list[Encoded]:
    """Token ids of each row, cut to ``longest`` tokens: from its pieces where that is the same, else read whole."""
    out: list[Encoded | None] = [None] * len(rows)
    for width in (1, 2):  # tokenizers want single texts and pairs apart
        where = [i for i, row in enumerate(rows) if len(row) == width]
        if splicer is not None and where:
            spliced = [splicer.ids([rows[i][column] for i in where]) for column in range(width)]
            frame = splicer.frames[width - 1]
            assert frame is not None  # a splicer has both
            for i, *parts in zip(where, *spliced, strict=True):
                out[i] = _framed(parts, frame, longest, token_types)
        where = [i for i in where if out[i] is None]
        if where:
            columns = [[rows[i][column] for i in where] for column in range(width)]
            read, types = tokenised(tokenizer, columns, longest, token_types)
            for i, ids, kinds in zip(where, read, types or [[]] * len(where), strict=True):
                out[i] = Encoded(data=packed(ids), kinds=bytes(kinds), size=len(ids))
    return [row for row in out if row is not None]


def _framed(parts: Sequence[bytes | None], frame: Frame, longest: int, token_types: bool) -> Encoded | None:
    """Ids with special tokens around; none where a text must be read whole, as a pair that has to be cut must (both sides lose)."""
    if any(part is None for part in parts):
        return None
    bodies = [part for part in parts if part is not None]
    special = sum(map(len, frame.tokens)) // 4
    size = special + sum(map(len, bodies)) // 4
    if size > longest:
        if len(bodies) > 1 or longest < special:
            return None
        bodies, size = [bodies[0][: 4 * (longest - special)]], longest
    data, kinds = frame.tokens[0], bytes(frame.types[0])
    for body, mark, inner, outer in zip(bodies, frame.tokens[1:], frame.inner, frame.types[1:], strict=True):
        data += body + mark
        if token_types:
            kinds += bytes((inner,)) * (len(body) // 4) + bytes(outer)
    return Encoded(data=data, kinds=kinds if token_types else b"", size=size)


# "equal": only texts of one length together; "alone": no two texts together
Side = Literal["right", "left", "equal", "alone"]
KNOWN = ("input_ids", "attention_mask", "token_type_ids")
SHORT, LONG = "a good film", "this is quite a bit longer than the first text, and it has some more words in it"


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """How a model is fed; ``names`` are those of ``KNOWN`` that it takes."""

    names: tuple[str, ...] = ("input_ids", "attention_mask")
    side: Side = "right"
    pad: int = 0  # the id of the padding token
    pad_type: int = 0  # its token type

    def arrays(self, rows: Sequence[Encoded], width: int | None = None) -> dict[str, np.ndarray]:
        """One batch of int64 arrays, padded to the longest row, or to ``width`` where the model fixes it."""
        sizes = np.array([row.size for row in rows])
        ids = np.full((len(rows), width or int(sizes.max())), self.pad, dtype=np.int64)
        wide = ids.shape[1]
        starts = wide - sizes if self.side == "left" else np.zeros_like(sizes)
        for line, row, start in zip(ids, rows, starts, strict=True):
            line[start : start + row.size] = np.frombuffer(row.data, dtype="<i4")
        positions = np.arange(wide)
        mask = (positions >= starts[:, None]) & (positions < (starts + sizes)[:, None])
        made = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
        if "token_type_ids" in self.names:
            kinds = np.full_like(ids, self.pad_type)
            for line, row, start in zip(kinds, rows, starts, strict=True):
                if self.pad_type or any(row.kinds):
                    line[start : start + row.size] = np.frombuffer(row.kinds, dtype=np.uint8)
            made["token_type_ids"] = kinds
        return {name: made[name] for name in self.names}

    def together(self, rows: Sequence[Encoded]) -> Iterator[list[int]]:
        """Which of ``rows`` may share a forward pass."""
        if self.side in ("right", "left"):
            yield list(range(len(rows)))
            return
        groups: dict[int, list[int]] = {}
        for i, row in enumerate(rows):
            groups.setdefault(i if self.side == "alone" else row.size, []).append(i)
        yield from groups.values()
