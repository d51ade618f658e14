"""Rows and token ids of a split, made once, kept in the user's cache and memory-mapped.

Rows: a source is validated and converted once, streaming, into an Arrow file under the hash of its content and of how it was read. Beside
the texts a row has numbers that the rest of the package reads without touching the texts (``NUMBERS``): a label code, where it came from,
two hashes (of the text normalised, and as it is) and a length.

Tokens: those of all rows one after another, and where each row starts. A token is one number, its id and above it its type. Padding is
none of it: it is added to a batch as the tokenizer would.

A report (bad rows, label values, the files' hashes, checked at every opening) is written last, so a kill leaves nothing that looks
finished; what is not as the report says is made again: a wrong id would stop a GPU's kernels, not raise.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.cache import cache_place, cached, read_report, write_report
from robust_tickets.classifier.encode import clean
from robust_tickets.classifier.tokenizer import digest_of, tokenised
from robust_tickets.config import digest
from robust_tickets.data.readers import BROKEN_UTF8, Record, Rows
from robust_tickets.data.schema import few, label_text
from robust_tickets.data.task import Split
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import part_of, write_chunks
from robust_tickets.progress import say, track

if TYPE_CHECKING:
    import pyarrow as pa
    import torch
    from transformers import PreTrainedTokenizerBase

FORMAT = 4  # part of the cache key: raise it when what is stored changes
BATCH_ROWS, BATCH_CHARACTERS = 4096, 4_000_000  # whichever comes first ends a batch, which bounds memory
MOST_LABELS = 1000  # more values than that and the column is no label
MOST_LISTED = 100_000  # bad rows listed with their place; all are counted
NUMBERS = {"code": "int32", "record": "int64", "line": "int64", "key": "uint64", "content": "uint64", "length": "int32"}
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Converted:
    """An Arrow file and the report on it: ``values[code]`` is what the label column held."""

    path: Path
    source: tuple[str, str]  # its name and the sha256 of its content
    rows: int
    records: int
    values: Sequence[str]
    bad_count: int
    bad: Sequence[tuple[int, str]]  # line and reason
    mended: int  # rows whose broken UTF-8 was replaced by U+FFFD


def normalised(text: str) -> str:
    """Case, compatibility forms and runs of white space do not make a text another one."""
    if text.isascii():
        return " ".join(text.lower().split())
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def text_problem(value: Any) -> str:
    """What is wrong with a text, or nothing."""
    if value is None:
        return "missing text"
    if not isinstance(value, str):
        return f"the text is a {type(value).__name__}, not a string"
    if not value or value.isspace():
        return "empty text"
    if not value.isascii() and SURROGATE.search(value):
        return BROKEN_UTF8
    return "a NUL character in the text" if "\0" in value else ""


class Table:
    """Rows in Arrow, read by position. ``files``: what they were read from, name and sha256."""

    def __init__(self, rows: pa.Table, files: Iterable[tuple[str, str]] = ()) -> None:
        self.rows, self.files = rows, tuple(files)
        self._read = [*rows.columns[: -len(NUMBERS)], rows.column("record")]

    def read(self, row: int) -> tuple[tuple[str, ...], int]:
        """The texts of a row and its record number."""
        *texts, record = (column[row].as_py() for column in self._read)
        return tuple(texts), record

    def numbers(self, name: str) -> np.ndarray:
        """One of ``NUMBERS`` for every row."""
        return self.rows.column(name).to_numpy()  # type: ignore[no-any-return]


def memory_table(rows: Sequence[Sequence[str]], width: int) -> Table:
    """A table of texts that are already in memory."""
    import pyarrow as pa

    batch = _batch([_row(texts, 0, number, number + 1) for number, texts in enumerate(rows)], width)
    return Table(pa.Table.from_batches([batch]))


def open_table(files: Sequence[Converted]) -> Table:
    """Memory-map converted files as one table, whose record numbers count on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts, before = [], 0
    for file in files:
        part = pa.ipc.open_file(pa.memory_map(str(file.path), "r")).read_all()
        place = part.schema.get_field_index("record")
        parts.append(part.set_column(place, "record", pc.add(part.column("record"), before)) if before else part)
        before += file.records
    return Table(pa.concat_tables(parts), [file.source for file in files])


def _row(texts: Sequence[str], code: int, record: int, line: int) -> tuple[Any, ...]:
    """A row as it is stored: its texts, then ``NUMBERS``."""
    return (*texts, code, record, line, _hash(map(normalised, texts)), _hash(texts), sum(map(len, texts)))


def _hash(texts: Iterable[str]) -> int:
    hashed = hashlib.blake2b("\x1f".join(texts).encode("utf-8"), digest_size=8)
    return int.from_bytes(hashed.digest(), "big")


def _schema(width: int) -> pa.Schema:
    import pyarrow as pa

    numbers = [(name, pa.from_numpy_dtype(np.dtype(kind))) for name, kind in NUMBERS.items()]
    return pa.schema([*((f"text{i}", pa.string()) for i in range(width)), *numbers])


def _batch(rows: Sequence[tuple[Any, ...]], width: int) -> pa.RecordBatch:
    import pyarrow as pa

    schema = _schema(width)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def convert(
    rows: Rows, texts: tuple[str, ...], label: str, where: tuple[str, str] | None = None, any_text: bool = False
) -> Converted:
    """Read the columns of texts and label once, keep what is good, count and list what is not. Done before: found in the cache.

    ``where``: only rows with this value in this column are read. ``any_text``: also empty texts, NUL, and broken UTF-8 as a classifier
    reads it, which are rows to attack, not to train on.
    """
    source, reading = (rows.title, rows.key()), {"texts": texts, "label": label, "where": where, "any_text": any_text}
    name = digest({"format": FORMAT, "content": source[1], "kind": type(rows).__name__, "reading": reading})[:40]
    report, place = cached(read_report, "data", f"{name}.json")
    path = place.with_suffix(".arrow")
    if report is None:
        wanted = (*texts, label, *(where[:1] if where else ()))
        records = (one for one in rows.records(wanted) if not where or one.problem or one.values[-1] == where[1])
        try:
            with part_of(path) as part:
                report = _write(part, rows, records, len(texts), any_text)
                os.replace(part, path)
            report = write_report(place, report, path)
        except OSError as problem:
            message, hint = f"could not write {path}: {problem}", "free some disk space, or set ROBUST_TICKETS_CACHE"
            raise TicketsError(message, hint=hint, exit_code=FAILED, code="file.not_written") from None
    kept = {name: report[name] for name in ("rows", "records", "values", "bad_count", "bad", "mended")}
    return Converted(path=path, source=source, **kept)


def _write(path: Path, rows: Rows, records: Iterator[Record], width: int, any_text: bool) -> dict[str, Any]:
    """Write the good rows, some at a time; the report on all of them."""
    import pyarrow as pa

    held, size, codes, bad = list[tuple[Any, ...]](), 0, dict[str, int](), list[tuple[int, str]]()
    count = Counter(rows=0, records=0, bad_count=0, mended=0)
    with (
        track(f"reading {Path(rows.name).name} (about as many kB)", rows.size // 1000) as bar,
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, _schema(width)) as writer,
    ):
        for line, values, problem in records:
            count["records"] += 1
            texts, label = values[:width], ""
            if not problem:
                texts, label, problem = _checked(texts, values[width], any_text)
            if problem:
                count["bad_count"] += 1
                bad += [(line, problem)] if len(bad) < MOST_LISTED else []
                continue
            count["rows"] += 1
            count["mended"] += texts != values[:width]
            held.append(_row(texts, codes.setdefault(label, len(codes)), count["records"] - 1, line))
            size += held[-1][-1]
            if len(codes) > MOST_LABELS:
                message = f"{rows.name}: the label column has more than {MOST_LABELS} different values"
                hint = f"is another column the label? columns: {few(rows.columns)}"
                raise TicketsError(message, hint=hint, code="data.too_many_labels")
            if len(held) >= BATCH_ROWS or size >= BATCH_CHARACTERS:
                writer.write_batch(_batch(held, width))
                bar.advance(size // 1000)
                held, size = [], 0
        writer.write_batch(_batch(held, width))
    return {**count, "bad": bad, "values": list(codes)}


def _checked(texts: tuple[Any, ...], label: Any, any_text: bool) -> tuple[tuple[Any, ...], str, str]:
    """The texts and the label as they are kept, and what is wrong with them."""
    if any_text and all(isinstance(text, str) for text in texts):
        texts = tuple(map(clean, texts))
    elif problem := next(filter(None, map(text_problem, texts)), ""):
        return texts, "", problem
    return texts, *label_text(label)


TOKENS_FORMAT = 3  # part of the cache key: raise it when what is stored changes
ROWS, CHARACTERS = 4096, 1_000_000  # tokenised together at most, which bounds memory
ID_BITS = 24  # of a token's number; its type stands above them
KINDS = {"tokens": "<i4", "starts": "<i8"}


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenTable:
    """Rows of tokens; ``batch`` pads some of them as the tokenizer does."""

    tokens: np.ndarray  # of all rows, one after another
    starts: np.ndarray  # where each row begins, and where the last one ends
    tokenizer: PreTrainedTokenizerBase
    token_types: bool  # does the model take them

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, rows: list[list[int]], types: list[list[int]] | None) -> TokenTable:
        """These rows, in memory."""
        starts = np.cumsum([0, *map(len, rows)])
        return cls(tokens=_packed(rows, types), starts=starts, tokenizer=tokenizer, token_types=types is not None)

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
        before = width - lengths if self.tokenizer.padding_side == "left" else np.zeros_like(lengths)
        place = np.arange(width) - before[:, None]  # of a token in its row; outside of it where padded
        inside = (place >= 0) & (place < lengths[:, None])
        tokens = self.tokens[(self.starts[rows][:, None] + place)[inside]]
        made = {
            "input_ids": np.full(inside.shape, self.tokenizer.pad_token_id),
            "attention_mask": inside.astype(np.int64),
        }
        made["input_ids"][inside] = tokens & (2**ID_BITS - 1)
        if self.token_types:
            pad = getattr(self.tokenizer, "pad_token_type_id", 0) or 0
            made["token_type_ids"] = np.full(inside.shape, pad, dtype=np.int64)
            made["token_type_ids"][inside] = tokens >> ID_BITS
        return {name: torch.from_numpy(values) for name, values in made.items()}


def token_table(
    split: Split, tokenizer: PreTrainedTokenizerBase, max_length: int, token_types: bool = False, *, make: bool = True
) -> TokenTable | None:
    """The tokens of ``split``, each row as ``Batches`` reads it: from the cache, or made now.

    None where there is none and ``make`` is False, where they cannot be kept, and where the tokenizer cannot pad.
    """
    if tokenizer.pad_token_id is None:
        return None
    given = {
        "format": TOKENS_FORMAT,
        "split": split.digest,
        "tokenizer": digest_of(tokenizer),
        "truncation_side": getattr(tokenizer, "truncation_side", "right"),
        "max_length": max_length,
        "columns": len(split.columns),
        "token_types": token_types,
    }
    place = cache_place("tokens", f"{digest(given)[:40]}.json")
    try:
        report, place = cached(read_report, "tokens", place.name) if make else (read_report(place), place)
        if report is None and make:
            report = _make(place, split, tokenizer, max_length, token_types)
    except (TicketsError, OSError) as problem:  # of the disk: training can do without
        report = None
        for name in KINDS:
            with suppress(OSError):
                place.with_suffix(f".{name}").unlink(missing_ok=True)
        why = getattr(problem, "message", problem)
        say(f"the tokens of {split.name} are not kept ({why}): texts are tokenised again in every epoch")
    if report is None:
        return None
    files = {name: (place.with_suffix(f".{name}"), kind) for name, kind in KINDS.items()}
    arrays = {  # an empty file cannot be mapped
        name: np.memmap(path, kind, "r") if path.stat().st_size else np.zeros(0, kind)
        for name, (path, kind) in files.items()
    }
    return TokenTable(tokenizer=tokenizer, token_types=token_types, **arrays)


def _make(
    place: Path, split: Split, tokenizer: PreTrainedTokenizerBase, max_length: int, token_types: bool
) -> dict[str, Any]:
    lengths = np.zeros(len(split) + 1, dtype=KINDS["starts"])

    def tokens() -> Iterator[bytes]:
        with track(f"tokenising {split.name}", len(split)) as bar:
            for start, end in _groups(split.lengths):
                columns = zip(*(example.texts for example in split.take(range(start, end))), strict=True)
                rows, types = tokenised(tokenizer, [list(texts) for texts in columns], max_length, token_types)
                lengths[start + 1 : end + 1] = [len(row) for row in rows]
                yield _packed(rows, types).astype(KINDS["tokens"]).tobytes()
                bar.advance(end - start)

    files = [place.with_suffix(f".{name}") for name in KINDS]
    write_chunks(files[0], tokens())
    write_chunks(files[1], [np.cumsum(lengths).tobytes()])
    return write_report(place, {"rows": len(split), "max_length": max_length}, *files)


def _packed(rows: list[list[int]], types: list[list[int]] | None) -> np.ndarray:
    """Ids and types as one number a token."""
    ids = np.array([token for row in rows for token in row], dtype=np.int64)
    return ids if types is None else ids | np.array([kind for row in types for kind in row], dtype=np.int64) << ID_BITS


def _groups(lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last row (exclusive) of what is tokenised together: at least one row."""
    start = 0
    while start < len(lengths):
        within = np.cumsum(lengths[start : start + ROWS], dtype=np.int64)
        end = start + max(1, int(np.searchsorted(within, CHARACTERS, side="right")))
        yield start, end
        start = end
