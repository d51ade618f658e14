"""Rows on disk: a source is validated and converted once, streaming, into an Arrow file that is then memory-mapped.

The file lies in the user's cache under the hash of the source's content and of how it was read; its report (bad rows, label values,
the file's hash, checked at every opening) is written last, so a kill leaves nothing that looks finished. Beside the texts a row has a
label code, where it came from, two hashes (of the text as it is, and normalised) and a length: numbers that the rest of the package
reads without touching the texts.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.cache import cached, read_report, write_report
from robust_tickets.classifier.texts import clean
from robust_tickets.config import digest
from robust_tickets.data.labels import few, label_text
from robust_tickets.data.rows import BROKEN_UTF8, Rows
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import part_of
from robust_tickets.progress import track

if TYPE_CHECKING:
    import pyarrow as pa

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
    report, told = cached(read_report, "data", f"{name}.json")
    path = told.with_suffix(".arrow")
    if report is not None:
        return _converted(path, source, report)
    try:
        with part_of(path) as part:
            report = _write(part, rows, reading)
            os.replace(part, path)
        write_report(told, report, path)
    except OSError as problem:
        raise TicketsError(
            f"could not write {path}: {problem}",
            hint="free some disk space, or set ROBUST_TICKETS_CACHE",
            exit_code=FAILED,
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
        buffer, told = _Buffer(width), 0
        for texts, code, line in _good(rows, reading, codes, bad, state):
            buffer.add(texts, code, state["records"] - 1, line)
            kept += 1
            if buffer.full:
                writer.write_batch(buffer.batch())
                buffer = _Buffer(width)
                if shown is not None:
                    shown.advance(rows.position // 10**6 - told)
                    told = rows.position // 10**6
        writer.write_batch(buffer.batch())
        if shown is not None:
            shown.advance(rows.size // 10**6 - told)
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
                )
            codes[label] = len(codes)
        yield values[:width], codes[label], line
