"""Token tables: a split is tokenised once, streaming, kept in the user's cache and memory-mapped, so that an epoch starts at once.

On disk are the ids of all rows one after another, where each row starts, and, for a model that takes token types, how many of a row's
first tokens are of type 0 (the rest are of type 1: true of every family that marks pairs); a tokenizer of other types has them all
stored. Padding is none of it: it is added to a batch as the tokenizer would. The report, with every file's hash, is written last, and a
table whose files are not what it says is made anew: a wrong id would stop a GPU's kernels, not raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.cache import cache_folder, cache_place, read_report, write_report
from robust_tickets.classifier.tokenizer import BYTES, digest_of
from robust_tickets.config import digest
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError, tokenising
from robust_tickets.files import write_chunks
from robust_tickets.progress import say, track

if TYPE_CHECKING:
    import torch

FORMAT = 2  # part of the cache key: raise it when what is stored changes
ROWS, CHARACTERS = 4096, 1_000_000  # tokenised together at most, which bounds memory
KINDS = {"ids": "<i4", "starts": "<i8", "firsts": "<i4", "types": "|u1"}  # ids are <u2 where the vocabulary fits


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenTable:
    """Rows of token ids; ``batch`` pads some of them as the tokenizer does."""

    ids: np.ndarray  # of all rows, one after another
    starts: np.ndarray  # where each row begins, and where the last one ends
    firsts: np.ndarray | None = None  # first tokens of each row that are of type 0; the others are of type 1
    types: np.ndarray | None = None  # of all tokens, where ``firsts`` does not say them
    pad: int = 0
    pad_type: int = 0
    left: bool = False  # is the padding before the tokens

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, special ones included (int32)."""
        return np.diff(self.starts).astype(np.int32)

    def batch(self, rows: np.ndarray, width: int = 0) -> dict[str, torch.Tensor]:
        """These rows, filled up to ``width`` tokens or to the longest of them, whichever is more."""
        import torch

        lengths = self.lengths[rows].astype(np.int64)
        width = max(width, int(lengths.max(initial=0)))
        before = (width - lengths if self.left else np.zeros_like(lengths))[:, None]
        place = np.arange(width) - before  # of a token in its row; outside of it where padded
        inside = (place >= 0) & (place < lengths[:, None])
        where = (self.starts[rows][:, None] + place)[inside]
        ids = np.full(inside.shape, self.pad, dtype=np.int64)
        ids[inside] = self.ids[where]
        made = {"input_ids": ids, "attention_mask": inside.astype(np.int64)}
        seconds = self.types[where] if self.types is not None else None
        if self.firsts is not None:
            seconds = (place >= self.firsts[rows][:, None])[inside]
        if seconds is not None:
            kinds = made["token_type_ids"] = np.full(inside.shape, self.pad_type, dtype=np.int64)
            kinds[inside] = seconds
        return {name: torch.from_numpy(values) for name, values in made.items()}


def token_table(
    split: Split, tokenizer: Any, max_length: int, token_types: bool = False, *, make: bool = True
) -> TokenTable | None:
    """The tokens of ``split``, each row as ``Batches`` reads it: from the cache, or made now.

    None where there is none and ``make`` is False, where they cannot be kept, and where the tokenizer cannot pad.
    """
    if getattr(tokenizer, "pad_token_id", None) is None:
        return None
    told = {
        "format": FORMAT,
        "split": split.digest,
        "tokenizer": digest_of(tokenizer),
        "truncation_side": getattr(tokenizer, "truncation_side", "right"),
        "max_length": max_length,
        "columns": len(split.columns),
        "token_types": token_types,
    }
    name = digest(told)[:40]
    base = place = cache_place("tokens", name)
    found = _found(base)
    if found is None and make:
        try:
            base = cache_folder("tokens") / name
            if (
                base == place or (found := _found(base)) is None
            ):  # a temporary folder may have it, where the cache cannot be written
                _make(base, split, tokenizer, max_length, token_types)
                found = _found(base)
        except (TicketsError, OSError) as problem:  # of the disk: training can do without
            found = _found(base)  # another process may have made it meanwhile
            for kind in KINDS if found is None else ():
                with suppress(OSError):
                    _path(base, kind).unlink(missing_ok=True)
            if found is None:
                why = getattr(problem, "message", problem)
                say(f"the tokens of {split.name} are not kept ({why}): texts are tokenised again in every epoch")
    if found is None:
        return None
    padding = int(getattr(tokenizer, "pad_token_type_id", 0) or 0)
    return TokenTable(**found, pad=tokenizer.pad_token_id, pad_type=padding, left=tokenizer.padding_side == "left")


def _path(base: Path, name: str) -> Path:
    return base.with_name(f"{base.name}.{name}")


def _found(base: Path) -> dict[str, np.ndarray] | None:
    """The arrays under ``base``, if all of them are there and as they were written."""
    report = read_report(_path(base, "json"))
    return (
        None if report is None else {name: _mapped(_path(base, name), kind) for name, kind in report["kinds"].items()}
    )


def _mapped(path: Path, kind: str) -> np.ndarray:
    if path.stat().st_size == 0:  # what cannot be mapped
        return np.zeros(0, dtype=kind)
    return np.memmap(path, dtype=kind, mode="r")


def _make(base: Path, split: Split, tokenizer: Any, max_length: int, token_types: bool) -> None:
    kinds = {**KINDS, "ids": _kind(tokenizer)}
    lengths = np.zeros(len(split) + 1, dtype=np.int64)
    firsts = np.zeros(len(split), dtype=np.int32)
    plain = True  # are the types of every row zeros, then ones

    def ids() -> Iterator[bytes]:
        nonlocal plain
        for start, rows, types in _tokenised(split, tokenizer, max_length, token_types):
            lengths[start + 1 : start + 1 + len(rows)] = [len(row) for row in rows]
            if plain and types is not None:
                zeros = [row.count(0) for row in types]
                plain = all(
                    row[:n].count(0) == n and row.count(1) == len(row) - n for row, n in zip(types, zeros, strict=True)
                )
                firsts[start : start + len(rows)] = zeros
            yield _flat(rows, kinds["ids"])

    def all_types() -> Iterator[bytes]:
        for _, _, types in _tokenised(split, tokenizer, max_length, True):
            yield _flat(types or (), kinds["types"])

    write_chunks(_path(base, "ids"), ids())
    write_chunks(_path(base, "starts"), _pieces(np.cumsum(lengths).astype(kinds["starts"])))
    names = ["ids", "starts"]
    if token_types and plain:
        names.append("firsts")
        write_chunks(_path(base, "firsts"), _pieces(firsts.astype(kinds["firsts"])))
    elif token_types:
        names.append("types")
        write_chunks(_path(base, "types"), all_types())
    report = {"kinds": {name: kinds[name] for name in names}, "rows": len(split), "max_length": max_length}
    write_report(_path(base, "json"), report, *(_path(base, name) for name in names))


def _kind(tokenizer: Any) -> str:
    """The smallest type that every id fits; ids may have gaps, so that their number says nothing."""
    if type(tokenizer).__name__ in BYTES:  # no vocabulary: ids may be code points
        return KINDS["ids"]
    return "<u2" if max(tokenizer.get_vocab().values()) < 2**16 else KINDS["ids"]


def _tokenised(
    split: Split, tokenizer: Any, max_length: int, token_types: bool
) -> Iterator[tuple[int, list[list[int]], list[list[int]] | None]]:
    """Number of the first row, ids and types of some rows at a time; cut as a batch of them would be."""
    with track(f"tokenising {split.name}", len(split)) as bar:
        for start, end in _groups(split.lengths):
            examples = split.take(range(start, end))
            with tokenising():
                told = tokenizer(
                    *([e.texts[i] for e in examples] for i in range(len(split.columns))),
                    truncation="longest_first",
                    max_length=max_length,
                    return_attention_mask=False,
                    return_token_type_ids=token_types,
                )
            yield start, told["input_ids"], told["token_type_ids"] if token_types else None
            bar.advance(end - start)


def _groups(lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last row (exclusive) of what is tokenised together: at least one row."""
    start = 0
    while start < len(lengths):
        within = np.cumsum(lengths[start : start + ROWS], dtype=np.int64)
        end = start + max(1, int(np.searchsorted(within, CHARACTERS, side="right")))
        yield start, end
        start = end


def _flat(rows: Any, kind: str) -> bytes:
    return np.fromiter((number for row in rows for number in row), dtype=kind).tobytes()


def _pieces(values: np.ndarray) -> Iterator[bytes]:
    for start in range(0, len(values), 2**20):
        yield values[start : start + 2**20].tobytes()
