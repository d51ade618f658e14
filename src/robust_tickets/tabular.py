"""Rows to a file: CSV, TSV and Parquet through pyarrow, or JSON lines; the file is there whole or not at all.

In CSV and TSV every text stands in quotes, so that a missing value is an empty cell and an empty text is ``""``; lists are JSON. Reading
the file back gives the same values. A text that begins with ``=``, ``+``, ``-`` or ``@`` is data, and a spreadsheet that takes it for a
formula must be set to import the column as text. Callers mend half surrogates, which no UTF-8 file can hold.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.errors import TicketsError
from robust_tickets.files import part_of, writing

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
Write = Callable[[Sequence[Mapping[str, Any]]], None]


def writable_as(path: str | Path, endings: Sequence[str] = ENDINGS) -> Path:
    """``path``, if its ending names one of these formats and it is no folder."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        hint = f"end it in {', '.join(endings)}"
        raise TicketsError(f"cannot write a table as {path}", hint=hint, code="table.ending")
    if path.is_dir():
        raise TicketsError(f"{path} is a folder", hint="give a file name", code="file.is_folder")
    return path


@contextmanager
def row_writer(path: Path, schema: pa.Schema) -> Iterator[Write]:
    """A function that writes some rows at a time; ``path``, whose ending names the format, is replaced at the end."""
    ending = path.suffix.lower()
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with part_of(path) as part:
            with _lines(part) if ending == ".jsonl" else _arrow(part, ending, schema) as write:
                yield write
            os.replace(part, path)


@contextmanager
def _lines(part: Path) -> Iterator[Write]:
    with open(part, "w", encoding="utf-8") as stream:
        yield lambda rows: stream.writelines(_json(row) + "\n" for row in rows)


@contextmanager
def _arrow(part: Path, ending: str, schema: pa.Schema) -> Iterator[Write]:
    import pyarrow as pa
    from pyarrow import csv, parquet

    if ending == ".parquet":
        with parquet.ParquetWriter(part, schema) as writer:
            yield lambda rows: writer.write_batch(_batch(rows, schema))
        return
    plain = pa.schema([(f.name, pa.large_string() if pa.types.is_nested(f.type) else f.type) for f in schema])
    options = csv.WriteOptions(delimiter="," if ending == ".csv" else "\t")
    with csv.CSVWriter(os.fspath(part), plain, write_options=options) as writer:
        yield lambda rows: writer.write(_batch(rows, plain))


def _batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    texts = {f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)}
    columns = [[_text(row[f.name]) if f.name in texts else row[f.name] for row in rows] for f in schema]
    arrays = [pa.array(column, type=f.type) for column, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    """JSON of any value; half surrogates, which may stand inside a list, where no caller looks, become U+FFFD."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
