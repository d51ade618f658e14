"""Texts to token ids, and token ids to padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robust_tickets.classifier.texts import Encoded
from robust_tickets.classifier.tokenizer import Frame, Splicer, packed, tokenised
from robust_tickets.errors import tokenising


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


def padded(
    rows: Sequence[Encoded],
    pad: int,
    token_types: bool,
    *,
    left: bool = False,
    width: int | None = None,
    pad_type: int = 0,
) -> dict[str, np.ndarray]:
    """One batch of int64 arrays, filled up on the right (or ``left``) to the longest row, or to ``width``."""
    sizes = np.array([row.size for row in rows])
    ids = np.full((len(rows), width or int(sizes.max())), pad, dtype=np.int64)
    wide = ids.shape[1]
    starts = wide - sizes if left else np.zeros_like(sizes)
    for line, row, start in zip(ids, rows, starts, strict=True):
        line[start : start + row.size] = np.frombuffer(row.data, dtype="<i4")
    places = np.arange(wide)
    mask = (places >= starts[:, None]) & (places < (starts + sizes)[:, None])
    made = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
    if token_types:
        kinds = np.full_like(ids, pad_type)
        for line, row, start in zip(kinds, rows, starts, strict=True):
            if pad_type or any(row.kinds):
                line[start : start + row.size] = np.frombuffer(row.kinds, dtype=np.uint8)
        made["token_type_ids"] = kinds
    return made
