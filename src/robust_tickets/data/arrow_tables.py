"""Rows and token ids of a split, memory-mapped.

Rows on disk: a source is validated and converted once, streaming, into an Arrow file that is then memory-mapped.

The file lies in the user's cache under the hash of the source's content and of how it was read; its report (bad rows, label values,
the file's hash, checked at every opening) is written last, so a kill leaves nothing that looks finished. Beside the texts a row has a
label code, where it came from, two hashes (of the text as it is, and normalised) and a length: numbers that the rest of the package
reads without touching the texts.

Token tables: a split is tokenised once, streaming, kept in the user's cache and memory-mapped, so that an epoch starts at once.

On disk are the ids of all rows one after another, where each row starts, and, for a model that takes token types, how many of a row's
first tokens are of type 0 (the rest are of type 1: true of every family that marks pairs); a tokenizer of other types has them all
stored. Padding is none of it: it is added to a batch as the tokenizer would. The report, with every file's hash, is written last, and a
table whose files are not what it says is made again: a wrong id would stop a GPU's kernels, not raise.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.cache import cache_folder, cache_place, cached, read_report, write_report
from robust_tickets.classifier.encode import clean
from robust_tickets.classifier.tokenizer import BYTES, digest_of, tokenised
from robust_tickets.config import digest
from robust_tickets.data.readers import BROKEN_UTF8, Rows
from robust_tickets.data.schema import few, label_text
from robust_tickets.data.task import Split
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import part_of, write_chunks
from robust_tickets.progress import say, track

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

FORMAT = 4  # part of the cache key: raise it when what is stored changes
BATCH_ROWS, BATCH_CHARACTERS = 4096, 4_000_000  # whichever comes first ends a batch, which bounds memory
SHOW_PROGRESS = 8_000_000  # bytes; smaller files convert in under two seconds
MOST_LABELS = 1000  # more values than that and the column is no label
MOST_LISTED = 100_000  # bad rows listed with their place; all are counted
NUMBERS = {"code": "int32", "record": "int64", "line": "int64", "key": "uint64", "content": "uint64", "length": "int32"}
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a source is read; part of the cache key."""

    texts: tuple[str, ...]
    label: str
    where: tuple[str, str] | None = None
    any_text: bool = (
        False  # also empty texts, NUL, and broken UTF-8 as a classifier reads it: rows to attack, not to train on
    )


@dataclass(frozen=True, kw_only=True)
class Converted:
    """An Arrow file and its report: ``values[code]`` is what the label column held."""

    path: Path
    source: tuple[str, str]  # its name and the sha256 of its content
    rows: int
    records: int
    values: tuple[str, ...]
    bad_count: int
    bad: tuple[tuple[int, str], ...]
    mended: int = 0  # rows whose broken UTF-8 was replaced by U+FFFD


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
    """Rows of one or more Arrow files (shards), read by position."""

    def __init__(
        self,
        batches: Sequence[pa.RecordBatch],
        width: int,
        records: Sequence[int] = (),
        files: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.batches = [b for b in batches if b.num_rows]
        self.width = width
        self.files = tuple(files)  # what it was read from: name and sha256
        self.starts = np.cumsum([0, *(b.num_rows for b in self.batches)]).tolist()
        self._records = list(records) or [0] * len(self.batches)  # added to a batch's record numbers: shards count on
        self._numbers: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return int(self.starts[-1])

    def read(self, row: int) -> tuple[tuple[str, ...], int]:
        """The texts of a row and its record number."""
        at = bisect_right(self.starts, row) - 1
        batch, inside = self.batches[at], row - self.starts[at]
        texts = tuple(batch.column(i)[inside].as_py() for i in range(self.width))
        return texts, batch.column(self.width + 1)[inside].as_py() + self._records[at]

    def numbers(self, name: str) -> np.ndarray:
        """One of ``NUMBERS`` for every row; kept only where it is small and asked for again and again."""
        if name in self._numbers:
            return self._numbers[name]
        parts = [b.column(b.schema.get_field_index(name)).to_numpy() for b in self.batches]
        whole = np.concatenate(parts) if parts else np.zeros(0, NUMBERS[name])
        if name == "length":
            self._numbers[name] = whole
        return whole


@dataclass
class _Buffer:
    width: int
    texts: list[list[str]] = field(default_factory=list)
    numbers: dict[str, list[int]] = field(default_factory=dict)
    characters: int = 0

    def __post_init__(self) -> None:
        self.texts = [[] for _ in range(self.width)]
        self.numbers = {name: [] for name in NUMBERS}

    def add(self, texts: Sequence[str], code: int, record: int, line: int) -> None:
        for column, text in zip(self.texts, texts, strict=True):
            column.append(text)
        length = sum(map(len, texts))
        key, content = _hash(map(normalised, texts)), _hash(texts)
        for name, value in zip(NUMBERS, (code, record, line, key, content, length), strict=True):
            self.numbers[name].append(value)
        self.characters += length

    @property
    def full(self) -> bool:
        return len(self.numbers["code"]) >= BATCH_ROWS or self.characters >= BATCH_CHARACTERS

    def batch(self) -> pa.RecordBatch:
        import pyarrow as pa

        texts = [pa.array(column, type=pa.string()) for column in self.texts]
        numbers = [pa.array(np.asarray(self.numbers[name], dtype=kind)) for name, kind in NUMBERS.items()]
        return pa.RecordBatch.from_arrays([*texts, *numbers], schema=_schema(self.width))


def _schema(width: int) -> pa.Schema:
    import pyarrow as pa

    numbers = [pa.field(name, pa.from_numpy_dtype(np.dtype(kind))) for name, kind in NUMBERS.items()]
    return pa.schema([*(pa.field(f"text{i}", pa.string()) for i in range(width)), *numbers])


def _hash(texts: Any) -> int:
    hashed = hashlib.blake2b("\x1f".join(texts).encode("utf-8"), digest_size=8)
    return int.from_bytes(hashed.digest(), "big")


def memory_table(rows: Sequence[Sequence[str]], width: int) -> Table:
    buffer = _Buffer(width)
    for number, texts in enumerate(rows):
        buffer.add(texts, 0, number, number + 1)
    return Table([buffer.batch()], width)


def open_table(files: Sequence[Converted], width: int) -> Table:
    """Memory-map converted files as one table."""
    import pyarrow as pa

    batches, offsets, before = [], [], 0
    for file in files:
        reader = pa.ipc.open_file(pa.memory_map(str(file.path), "r"))
        for i in range(reader.num_record_batches):
            batches.append(reader.get_batch(i))
            offsets.append(before)
        before += file.records
    return Table(batches, width, offsets, [file.source for file in files])


def convert(rows: Rows, reading: Reading) -> Converted:
    """Read ``rows`` once, keep what is good, count and list what is not. Done before: found in the cache."""
    source = rows.title, rows.key()
    name = digest({"format": FORMAT, "content": source[1], "kind": type(rows).__name__, "reading": reading})[:40]
    report, place = cached(read_report, "data", f"{name}.json")
    path = place.with_suffix(".arrow")
    if report is not None:
        return _converted(path, source, report)
    try:
        with part_of(path) as part:
            report = _write(part, rows, reading)
            os.replace(part, path)
        write_report(place, report, path)
    except OSError as problem:
        raise TicketsError(
            f"could not write {path}: {problem}",
            hint="free some disk space, or set ROBUST_TICKETS_CACHE",
            exit_code=FAILED,
            code="file.not_written",
        ) from None
    return _converted(path, source, report)


def _converted(path: Path, source: tuple[str, str], report: dict[str, Any]) -> Converted:
    return Converted(
        path=path,
        source=source,
        rows=report["rows"],
        records=report["records"],
        values=tuple(report["values"]),
        bad_count=report["bad_count"],
        bad=tuple((line, reason) for line, reason in report["bad"]),
        mended=report["mended"],
    )


def _write(path: Path, rows: Rows, reading: Reading) -> dict[str, Any]:
    import pyarrow as pa

    width, codes, state = len(reading.texts), dict[str, int](), {"records": 0, "bad": 0, "mended": 0}
    bad: list[tuple[int, str]] = []
    kept = 0
    bar = (
        track(f"reading {Path(rows.name).name} (MB)", rows.size // 10**6)
        if rows.size > SHOW_PROGRESS
        else nullcontext()
    )
    with bar as shown, pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _schema(width)) as writer:
        buffer, given = _Buffer(width), 0
        for texts, code, line in _good(rows, reading, codes, bad, state):
            buffer.add(texts, code, state["records"] - 1, line)
            kept += 1
            if buffer.full:
                writer.write_batch(buffer.batch())
                buffer = _Buffer(width)
                if shown is not None:
                    shown.advance(rows.position // 10**6 - given)
                    given = rows.position // 10**6
        writer.write_batch(buffer.batch())
        if shown is not None:
            shown.advance(rows.size // 10**6 - given)
    counts = {"records": state["records"], "bad_count": state["bad"], "mended": state["mended"]}
    return {"rows": kept, **counts, "values": list(codes), "bad": bad}


def _good(
    rows: Rows, reading: Reading, codes: dict[str, int], bad: list[tuple[int, str]], state: dict[str, int]
) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """The rows worth keeping; the others go to ``bad``. Rows that ``where`` leaves out are neither."""
    width, where = len(reading.texts), reading.where
    for line, values, problem in rows.records((*reading.texts, reading.label, *(where[:1] if where else ()))):
        if where and not problem and values[-1] != where[1]:
            continue
        state["records"] += 1
        label = ""
        if not problem and reading.any_text and all(isinstance(text, str) for text in values[:width]):
            cleaned = tuple(map(clean, values[:width]))
            state["mended"] += cleaned != tuple(values[:width])
            values = (*cleaned, *values[width:])
        elif not problem:
            problem = next(filter(None, map(text_problem, values[:width])), "")
        if not problem:
            label, problem = label_text(values[width])
        if problem:
            state["bad"] += 1
            if len(bad) < MOST_LISTED:
                bad.append((line, problem))
            continue
        if label not in codes:
            if len(codes) >= MOST_LABELS:
                raise TicketsError(
                    f"{rows.name}: the label column {reading.label!r} has more than {MOST_LABELS} different values",
                    hint=f"is another column the label? columns: {few(rows.columns)}",
                    code="data.too_many_labels",
                )
            codes[label] = len(codes)
        yield values[:width], codes[label], line


TOKENS_FORMAT = 2  # part of the cache key: raise it when what is stored changes
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

    @classmethod
    def of(cls, tokenizer: Any, rows: list[list[int]], types: list[list[int]] | None = None) -> TokenTable:
        """These rows, in memory."""
        starts = np.cumsum([0, *map(len, rows)])
        kinds = None if types is None else np.array([kind for row in types for kind in row], dtype=np.int64)
        return cls(
            ids=np.array([token for row in rows for token in row]), starts=starts, types=kinds, **_padding(tokenizer)
        )

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
    given = {
        "format": TOKENS_FORMAT,
        "split": split.digest,
        "tokenizer": digest_of(tokenizer),
        "truncation_side": getattr(tokenizer, "truncation_side", "right"),
        "max_length": max_length,
        "columns": len(split.columns),
        "token_types": token_types,
    }
    name = digest(given)[:40]
    base = place = cache_place("tokens", name)
    found = _found(base)
    if found is None and make:
        try:
            base = cache_folder("tokens") / name
            # a temporary folder may have it, where the cache cannot be written
            if base == place or (found := _found(base)) is None:
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
    parts: dict[str, Any] = {**found, **_padding(tokenizer)}
    return TokenTable(**parts)


def _padding(tokenizer: Any) -> dict[str, Any]:
    kind = int(getattr(tokenizer, "pad_token_type_id", 0) or 0)
    return {"pad": tokenizer.pad_token_id, "pad_type": kind, "left": tokenizer.padding_side == "left"}


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
            columns = [[e.texts[i] for e in examples] for i in range(len(split.columns))]
            yield start, *tokenised(tokenizer, columns, max_length, token_types)
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
