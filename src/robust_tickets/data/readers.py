"""Reading files row by row: csv, tsv, jsonl, parquet and plain text, in bounded memory.

A reader never stops at a bad row: it yields a ``Record`` that says what is wrong, so that broken UTF-8 or a torn line costs one row.
Text is decoded with ``surrogateescape``; a lone surrogate in a field therefore marks bytes that were not UTF-8.
"""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, dropwhile, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from robust_tickets.errors import TicketsError
from robust_tickets.files import look_again, sha256_file

if TYPE_CHECKING:
    import pyarrow.parquet

FIELD_LIMIT = 2**24  # characters in one csv field; beyond it a quote was left open
LONGEST_LINE = 2**20  # characters of plain text; a longer line is read in pieces
BROKEN_UTF8 = "broken UTF-8"
BOM = b"\xef\xbb\xbf"
COLUMNS_FROM = 1000  # jsonl has no header: the keys of its first rows are its columns


class Record(NamedTuple):
    """``line`` counts from 1; ``values`` are those of the wanted columns, and empty where there is a ``problem``."""

    line: int
    values: tuple[Any, ...]
    problem: str = ""


class Rows:
    """A source of rows: its name for messages, its columns, and about how many bytes it has."""

    notes: tuple[str, ...] = ()
    header = False  # is the first row taken for the columns' names

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.size = path, str(path), path.stat().st_size
        self.title = path.name.encode("utf-8", "backslashreplace").decode("utf-8")  # says nothing of where it lies
        self.columns = self._columns()

    def key(self) -> str:
        """A hash of the content."""
        return sha256_file(self.path)

    def classes(self, label: str) -> tuple[str, ...]:
        """The names that the source itself declares for the values 0, 1, … of a label column."""
        return ()

    def count(self) -> int:
        """How many records there are."""
        return sum(1 for _ in self.records(self.columns[:1]))

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        raise NotImplementedError

    def _columns(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        with open(self.path, "rb") as raw:
            for number, line in enumerate(raw, start=1):
                yield number, line.removeprefix(BOM) if number == 1 else line


class Delimited(Rows):
    """Fields in lines; the first row that is not blank is the header."""

    header = True

    def _fields(self) -> Iterator[tuple[int, list[str], str]]:
        """The first line of each row, its fields, and what is wrong with it."""
        raise NotImplementedError

    def _rows(self) -> Iterator[tuple[int, list[str], str]]:
        return dropwhile(lambda row: not row[2] and not any(map(str.strip, row[1])), self._fields())

    def _columns(self) -> tuple[str, ...]:
        line, names, problem = next(self._rows(), (1, [], ""))
        if problem:
            message = f"{self.path}:{line}: the header cannot be read: {problem}"
            raise TicketsError(message, hint="the first row names the columns", code="data.unreadable")
        return tuple(name.strip() for name in names)

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        width, picks = len(self.columns), [self.columns.index(name) for name in wanted]
        for line, row, problem in islice(self._rows(), 1, None):
            if problem or len(row) != width:
                yield Record(line, (), problem or f"expected {width} columns, got {len(row)}")
            else:
                yield Record(line, tuple(row[i] for i in picks))


class CsvRows(Delimited):
    """RFC 4180 quoting, newlines inside quotes, BOM, CRLF; commas, semicolons or tabs."""

    def _columns(self) -> tuple[str, ...]:
        csv.field_size_limit(max(FIELD_LIMIT, csv.field_size_limit()))
        with open(self.path, "rb") as raw:
            first = next((line for line in raw.read(65536).removeprefix(BOM).splitlines() if line.strip()), b"")
        self.delimiter = next((d for d in (",", ";", "\t") if d.encode() in first), ",")
        if self.delimiter != ",":
            self.notes = (f"{self.path.name}: fields are separated by {self.delimiter!r}",)
        return super()._columns()

    def _fields(self) -> Iterator[tuple[int, list[str], str]]:
        with open(self.path, encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
            reader = csv.reader(stream, delimiter=self.delimiter, strict=True)
            while True:
                start = reader.line_num + 1
                try:
                    row = next(reader)
                except StopIteration:
                    return
                except csv.Error as problem:  # every line it swallowed is lost, so every one is listed
                    yield from ((n, [], f"broken quoting ({problem})") for n in range(start, reader.line_num + 1))
                else:
                    if row:  # an empty line is no row
                        yield start, row, ""


class TsvRows(Delimited):
    """One line is one row and a tab always separates: GLUE's files hold stray quotes. A whole field in quotes loses them."""

    def _fields(self) -> Iterator[tuple[int, list[str], str]]:
        for number, line in self._lines():
            if text := line.rstrip(b"\r\n").decode("utf-8", "surrogateescape"):
                yield number, [_unquote(field) for field in text.split("\t")], ""


class JsonlRows(Rows):
    """One JSON object a line; a key that a row lacks is a missing value."""

    def _columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(value for _, value, _ in islice(self._objects(), COLUMNS_FROM))))

    def _objects(self) -> Iterator[tuple[int, dict[str, Any], str]]:
        for number, line in self._lines():
            if not line.strip():
                continue
            try:
                value = json.loads(line.decode("utf-8"))
            except UnicodeDecodeError:
                yield number, {}, BROKEN_UTF8
            except (ValueError, RecursionError):
                yield number, {}, "not valid JSON"
            else:
                yield (number, value, "") if isinstance(value, dict) else (number, {}, "not a JSON object")

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        for number, value, problem in self._objects():
            yield Record(number, () if problem else tuple(map(value.get, wanted)), problem)


class ParquetRows(Rows):
    """A parquet file, read in batches of rows."""

    @contextmanager
    def _opened(self) -> Iterator[pyarrow.parquet.ParquetFile]:
        import pyarrow.parquet

        try:
            with pyarrow.parquet.ParquetFile(self.path, memory_map=True) as file:
                yield file  # a damaged page shows when it is reached
        except (pyarrow.ArrowException, OSError) as problem:
            message = f"{self.path} is not a readable parquet file: {problem}"
            raise TicketsError(message, hint="write or download it again", code="data.unreadable") from None

    def _columns(self) -> tuple[str, ...]:
        with self._opened() as file:
            groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
            self.size = sum(group.total_byte_size for group in groups)  # unpacked
            return tuple(file.schema_arrow.names)

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        with self._opened() as file:
            batches = file.iter_batches(batch_size=2048, columns=list(dict.fromkeys(wanted)))
            yield from numbered([_plain(batch.column(name)) for name in wanted] for batch in batches)


class TextRows(Rows):
    """Plain text, one document a line."""

    def _columns(self) -> tuple[str, ...]:
        return ("text",)

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        with open(self.path, encoding="utf-8-sig", errors="surrogateescape") as stream:
            pieces = iter(lambda: stream.readline(LONGEST_LINE), "")
            yield from numbered([[line.strip()]] for line in pieces)


def numbered(batches: Iterable[list[list[Any]]]) -> Iterator[Record]:
    """The rows of batches of columns, counted from 1."""
    rows = chain.from_iterable(zip(*columns, strict=True) for columns in batches)
    return (Record(number, values) for number, values in enumerate(rows, start=1))


READERS: dict[str, type[Rows]] = {".csv": CsvRows, ".tsv": TsvRows, ".jsonl": JsonlRows, ".parquet": ParquetRows}


def open_rows(path: Path, readers: Mapping[str, type[Rows]] = READERS) -> Rows:
    """The reader for ``path``, chosen by its ending."""
    if not path.is_file():
        message = f"{path} is a folder, expected a file" if path.is_dir() else f"no such file: {path}"
        raise TicketsError(message, hint=look_again(path), code="data.not_found")
    kind = path.suffix.lower()
    if kind not in readers:
        hint = "rename or convert the file (one JSON object a line is .jsonl)"
        raise TicketsError(f"{path}: files end in {', '.join(readers)}", hint=hint, code="data.format")
    with open(path, "rb") as raw:
        if raw.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            message = f"{path} is UTF-16, expected UTF-8"
            raise TicketsError(message, hint=_converted(path, "UTF-16"), code="data.encoding")
    rows = readers[kind](path)
    if not rows.columns:
        hint = "a csv or tsv begins with the columns' names; a jsonl file has one object a line, not one array of them"
        raise TicketsError(f"{path} has no rows", hint=hint, code="data.no_rows")
    return rows


def to_utf8(path: Path) -> str:
    """How to mend a file of which many rows are broken UTF-8; which encoding it has cannot be seen from its bytes.

    Windows-1252 has all of Latin-1's letters, and dashes and quotes where that has control characters.
    """
    if path.suffix.lower() == ".parquet":
        return f"{path.name} holds texts that are not UTF-8: write it again from the right encoding"
    return f"{path.name} is not UTF-8; if it is Windows-1252 or Latin-1: {_converted(path, 'CP1252')}"


def _converted(path: Path, encoding: str) -> str:
    return f"iconv -f {encoding} -t UTF-8 {shlex.quote(str(path))} > {shlex.quote(f'utf8-{path.name}')}"


def _unquote(field: str) -> str:
    inner = field[1:-1]
    if len(field) >= 2 and field[0] == field[-1] == '"' and '"' not in inner.replace('""', ""):
        return inner.replace('""', '"')
    return field


def _plain(column: Any) -> list[Any]:
    """Python values of an arrow column; strings go through bytes, because an arrow string may hold broken UTF-8."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
        return [None if value is None else value.decode("utf-8", "surrogateescape") for value in column.to_pylist()]
    return column.to_pylist()  # type: ignore[no-any-return]
