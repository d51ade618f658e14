"""Reading files row by row: csv, tsv, jsonl and parquet, in bounded memory.

A reader never stops at a bad row: it yields a ``Record`` that says what is wrong, so that broken UTF-8 or a torn line costs one row.
Text is decoded with ``surrogateescape``; a lone surrogate in a field therefore marks bytes that were not UTF-8.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from robust_tickets.errors import TicketsError
from robust_tickets.files import look_again, sha256_file

FIELD_LIMIT = 2**24  # characters in one csv field; beyond it a quote was left open
BROKEN_UTF8 = "broken UTF-8"
COLUMNS_FROM = 1000  # jsonl has no header: the keys of its first rows are its columns


class Record(NamedTuple):
    """``line`` counts from 1; ``values`` are those of the wanted columns, and empty where there is a ``problem``."""

    line: int
    values: tuple[Any, ...]
    problem: str


class Rows:
    """One source of rows: its name for messages, its columns, its records, its size and how far it has been read (bytes)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self.title = path.name.encode("utf-8", "backslashreplace").decode("utf-8")  # says nothing of where it lies
        self.size = path.stat().st_size
        self.position = 0
        self.columns: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()

    def key(self) -> str:
        """A hash of the content."""
        return sha256_file(self.path)

    def count(self) -> int:
        """How many records there are, which is less work than reading them."""
        raise TypeError("use one of the readers")

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        raise TypeError("use one of the readers")


class CsvRows(Rows):
    """RFC 4180 quoting, newlines inside quotes, BOM, CRLF. The first row that is not blank is the header."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        csv.field_size_limit(max(FIELD_LIMIT, csv.field_size_limit()))
        first = next((line for line in _head(path).splitlines() if line.strip()), "")
        self.delimiter = next((d for d in (",", ";", "\t") if d in first), ",")
        if self.delimiter != ",":
            self.notes = (
                f"{path.name}: fields are separated by {'tabs' if self.delimiter == chr(9) else 'semicolons'}",
            )
        with open(path, "rb") as raw:
            reader = self._reader(raw)
            try:
                self.columns = tuple(name.strip() for name in _first(reader))
            except csv.Error as problem:
                raise TicketsError(
                    f"{path}:1: the header cannot be read: {problem}",
                    hint="the first row names the columns",
                    code="data.unreadable",
                ) from None

    def _reader(self, raw: Any) -> Any:
        stream = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
        return csv.reader(stream, delimiter=self.delimiter, strict=True)

    def count(self) -> int:
        count = 0
        with open(self.path, "rb") as raw:
            reader = self._reader(raw)  # not lines: a quoted field may hold line breaks
            _first(reader)
            while True:
                start = reader.line_num
                try:
                    for row in reader:
                        count += bool(row)
                        start = reader.line_num
                    return count
                except csv.Error:
                    count += reader.line_num - start

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        picks, width = _places(self.columns, wanted), len(self.columns)
        with open(self.path, "rb") as raw:
            reader = self._reader(raw)
            _first(reader)
            while True:
                start = reader.line_num + 1
                try:
                    row = next(reader)
                except StopIteration:
                    return
                except csv.Error as problem:  # every line it swallowed is lost, so every one is listed
                    for line in range(start, reader.line_num + 1):
                        yield Record(line, (), f"broken quoting ({problem})")
                    continue
                self.position = raw.tell()
                if len(row) == width:
                    yield Record(start, tuple(row[i] for i in picks), "")
                elif row:  # an empty line is no row
                    yield Record(start, (), f"expected {width} columns, got {len(row)}")


class TsvRows(Rows):
    """One line is one row and a tab always separates: GLUE's files hold stray quotes. A whole field in quotes loses them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with open(path, "rb") as raw:
            header = next((line for line in map(_bare, raw) if line.strip()), b"")
        self.columns = tuple(name.strip() for name in self._fields(header)) if header else ()

    @staticmethod
    def _fields(line: bytes) -> list[str]:
        fields = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape").split("\t")
        return [_unquote(field) for field in fields]

    def count(self) -> int:
        with open(self.path, "rb") as raw:
            any(_bare(line).strip() for line in raw)  # up to the header
            return sum(1 for line in raw if line.strip(b"\r\n"))

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        picks, width = _places(self.columns, wanted), len(self.columns)
        with open(self.path, "rb") as raw:
            header = False
            for number, line in enumerate(raw, start=1):
                self.position += len(line)
                if not header:
                    header = bool(_bare(line).strip())
                    continue
                if not line.strip(b"\r\n"):
                    continue
                row = self._fields(line)
                if len(row) == width:
                    yield Record(number, tuple(row[i] for i in picks), "")
                else:
                    yield Record(number, (), f"expected {width} columns, got {len(row)}")


class JsonlRows(Rows):
    """One JSON object a line; a key that a row lacks is a missing value."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        seen: dict[str, None] = {}
        for count, (_, value, _) in enumerate(self._objects()):
            seen.update(dict.fromkeys(value))
            if count >= COLUMNS_FROM:
                break
        self.columns = tuple(seen)

    def count(self) -> int:
        with open(self.path, "rb") as raw:
            first = bool(raw.readline().removeprefix(b"\xef\xbb\xbf").strip())
            return first + sum(1 for line in raw if line.strip())

    def _objects(self) -> Iterator[tuple[int, dict[str, Any], str]]:
        self.position = 0
        with open(self.path, "rb") as raw:
            for number, line in enumerate(raw, start=1):
                self.position += len(line)
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if not line.strip():
                    continue
                try:
                    value = json.loads(line.decode("utf-8"))
                except UnicodeDecodeError:
                    yield number, {}, BROKEN_UTF8
                except (ValueError, RecursionError):
                    yield number, {}, "not valid JSON"
                else:
                    good = isinstance(value, dict)
                    yield number, value if good else {}, "" if good else "not a JSON object"

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        for number, value, problem in self._objects():
            yield Record(number, () if problem else tuple(value.get(name) for name in wanted), problem)


class ParquetRows(Rows):
    """A parquet file, read in batches of rows."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with self._open() as file:
            self.columns = tuple(file.schema_arrow.names)

    def _open(self) -> Any:
        import pyarrow.parquet

        with self._readable():
            return pyarrow.parquet.ParquetFile(self.path, memory_map=True)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, OSError) as problem:
            why = next(iter(str(problem).splitlines()), type(problem).__name__)
            raise TicketsError(
                f"{self.path} is not a readable parquet file: {why}",
                hint="write or download it again",
                code="data.unreadable",
            ) from None

    def count(self) -> int:
        with self._open() as file:
            return int(file.metadata.num_rows)

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        number = 0
        with self._open() as file:
            total = max(1, file.metadata.num_rows)
            batches = file.iter_batches(batch_size=2048, columns=list(dict.fromkeys(wanted)))
            while True:
                with self._readable():  # a damaged page shows when it is reached
                    batch = next(batches, None)
                if batch is None:
                    return
                columns = {name: _plain(batch.column(name)) for name in dict.fromkeys(wanted)}
                for values in zip(*(columns[name] for name in wanted), strict=True):
                    number += 1
                    yield Record(number, values, "")
                self.position = self.size * number // total


def _places(columns: tuple[str, ...], wanted: tuple[str, ...]) -> list[int]:
    """Where the wanted columns stand, of two with one name the first."""
    first = dict(zip(reversed(columns), reversed(range(len(columns))), strict=True))
    return [first[name] for name in wanted]


READERS: dict[str, type[Rows]] = {".csv": CsvRows, ".tsv": TsvRows, ".jsonl": JsonlRows, ".parquet": ParquetRows}


def open_rows(path: Path) -> Rows:
    """The reader for ``path``, chosen by its ending."""
    path = Path(path)
    if path.is_dir():
        raise TicketsError(
            f"{path} is a folder, expected a file", hint="give one of the files in it", code="data.format"
        )
    if not path.is_file():
        raise TicketsError(f"no such file: {path}", hint=look_again(path), code="data.not_found")
    if path.suffix.lower() not in READERS:
        raise TicketsError(
            f"{path}: files end in {', '.join(READERS)}",
            hint="rename or convert the file (one JSON object a line is .jsonl)",
            code="data.format",
        )
    if path.suffix.lower() != ".parquet" and _head(path)[:1] in ("\ufffe", "\ufeff"):
        raise TicketsError(
            f"{path} is UTF-16, expected UTF-8",
            hint=f"iconv -f UTF-16 -t UTF-8 {from_to(path, 'utf8')}",
            code="data.encoding",
        )
    _one_object_a_line(path)
    rows = READERS[path.suffix.lower()](path)
    if not rows.columns:
        if isinstance(rows, JsonlRows) and _head(path).strip():
            raise TicketsError(
                f"no line of {path} is a JSON object with keys",
                hint='write one object a line: {"text": "…", "label": "…"}',
                code="data.format",
            )
        raise TicketsError(
            f"{path} has no rows",
            hint="give a file with a header (csv, tsv) and at least a few rows",
            code="data.no_rows",
        )
    return rows


def to_utf8(path: Path) -> str:
    """How to mend a file of which many rows are broken UTF-8; which encoding it has, nobody can tell from its bytes.

    Windows-1252 has all of Latin-1's letters, and dashes and quotes where that has control characters.
    """
    if path.suffix.lower() == ".parquet":
        return f"{path.name} holds texts that are not UTF-8: write it again from the right encoding"
    return (
        f"{path.name} is not UTF-8; if it is Windows-1252 or Latin-1: iconv -f CP1252 -t UTF-8 {from_to(path, 'utf8')}"
    )


def from_to(path: Path, made: str, sign: str = "") -> str:
    """The end of a command that reads ``path`` and writes a file beside whoever calls it; to be pasted into a shell."""
    return f"{sign}{shlex.quote(str(path))} > {shlex.quote(f'{made}-{path.name}')}"


def _one_object_a_line(path: Path) -> None:
    """Refuse what cannot be read line by line, looking at the start of the file only."""
    head = _head(path)
    if path.suffix.lower() in (".tsv", ".jsonl") and "\r" in head.rstrip() and "\n" not in head:
        raise TicketsError(
            f"{path}: its lines end in CR alone", hint=f"tr '\\r' '\\n' {from_to(path, 'lf', '< ')}", code="data.format"
        )
    if path.suffix.lower() != ".jsonl" or not head.lstrip().startswith("["):
        return
    first, _, rest = head.lstrip().partition("\n")
    if rest.strip():
        try:
            json.loads(first)
        except (ValueError, RecursionError):
            pass
        else:
            return  # a stray array among lines of objects: a bad row
    raise TicketsError(
        f"{path} holds one JSON array, expected one JSON object a line",
        hint="python -c 'import json, sys; [print(json.dumps(row)) for row in json.load(open(sys.argv[1], encoding=\"utf-8\"))]' "
        + from_to(path, "lines"),
        code="data.format",
    )


def _first(reader: Any) -> list[str]:
    """The first row of a csv that is not blank."""
    return next((row for row in reader if any(map(str.strip, row)) or len(row) > 1), [])


def _bare(line: bytes) -> bytes:
    return line.removeprefix(b"\xef\xbb\xbf")


def _head(path: Path) -> str:
    with open(path, "rb") as raw:
        start = raw.read(65536)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "\ufeff"
    return start.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def _unquote(field: str) -> str:
    if len(field) >= 2 and field[0] == field[-1] == '"':
        inner = field[1:-1].replace('""', "\0")
        if '"' not in inner:
            return inner.replace("\0", '"')
    return field


def _plain(column: Any) -> list[Any]:
    """Python values of an arrow column; strings go through bytes, because an arrow string may hold broken UTF-8."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.binary() if pa.types.is_string(column.type) else pa.large_binary())
        return [None if value is None else value.decode("utf-8", "surrogateescape") for value in column.to_pylist()]
    return column.to_pylist()
