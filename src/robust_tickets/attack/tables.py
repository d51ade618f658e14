"""The examples of an attack as a table: CSV, TSV or Parquet, a row an example, streamed.

Texts stand in columns of their own, ``original_<column>`` and ``perturbed_<column>``. A missing value is an empty cell; an empty text is
``""``. Values are written as they are: a text that begins with ``=``, ``+``, ``-`` or ``@`` is data, and a spreadsheet that takes it for a
formula must be told to import the column as text. Reading the file back gives the same values. Only lone surrogates, which no UTF-8 file
can hold, become U+FFFD; ``examples.jsonl`` has them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import check_writable, part_of, write_chunks

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = (".csv", ".tsv", ".parquet")
AT_ONCE, CHARACTERS = 1024, 4_000_000  # rows and characters of a Parquet batch; whichever comes first ends it
SPECIAL = re.compile('[",\t\r\n]')
SURROGATE = re.compile("[\ud800-\udfff]")
BEFORE = {"id": "string", "label": "int64", "status": "string"}  # columns before the texts, and their types
AFTER = {
    "queries": "int64", "fell_at": "int64", "words": "int64", "words_changed": "int64", "perturbed_percent": "float64",
    "predicted_before": "int64", "predicted_after": "int64", "score_before": "float64", "score_after": "float64",
    "similarity": "float64", "confidence": "float64", "candidates": "int64", "blind": "bool", "forward_passes": "int64",
    "error": "string",
}  # fmt: skip
MARK = {"column": "int64", "old": "string", "new": "string", "start": "int64", "end": "int64"}


def write_table(lines: Iterable[Mapping[str, Any]], columns: Sequence[str], path: str | Path) -> Path:
    """Write ``lines``, as ``examples.jsonl`` has them, to a file whose ending names its format; ``columns`` are the names of the texts."""
    path = checked(path)
    ending = path.suffix.lower()
    rows = (_row(line, columns) for line in lines)
    if ending == ".parquet":
        return _parquet(rows, columns, path)
    return write_chunks(path, _delimited(rows, columns, "," if ending == ".csv" else "\t"))


def checked(path: str | Path, *endings: str) -> Path:
    """``path``, if a table can be written there: told before an attack that takes hours, not after it."""
    path = Path(path)
    ending, allowed = path.suffix.lower(), endings or ENDINGS
    if ending not in allowed:
        raise TicketsError(
            f"cannot write a table as {ending or 'a file without ending'!r}: {path}",
            hint=f"end it in {', '.join(allowed)}",
        )
    if path.is_dir():
        raise TicketsError(f"{path} is a folder", hint="give a file name")
    check_writable(path.parent)
    return path


def names(columns: Sequence[str]) -> list[str]:
    """The columns of the table, in order."""
    return [*BEFORE, *_texts(columns), *AFTER, "changed"]


def _texts(columns: Sequence[str]) -> list[str]:
    return [f"{kind}_{column}" for kind in ("original", "perturbed") for column in columns]


def _row(line: Mapping[str, Any], columns: Sequence[str]) -> list[Any]:
    words, changed = line.get("words"), line.get("words_changed")
    share = 100 * changed / words if words and changed is not None and line["status"] == "success" else None
    none = [None] * len(columns)
    # padded: under the rules of an older TextAttack a pair may end as one text
    texts = [text for kind in ("original", "perturbed") for text in [*(line.get(kind) or none), *none][: len(columns)]]
    rest = [share if name == "perturbed_percent" else line.get(name) for name in AFTER]
    return [_valid(value) for value in [*(line[name] for name in BEFORE), *texts, *rest]] + [
        [{name: _valid(mark[name]) for name in MARK} for mark in line.get("changed") or ()]
    ]


def _valid(value: Any) -> Any:
    return SURROGATE.sub("\ufffd", value) if isinstance(value, str) and not value.isascii() else value


def _delimited(rows: Iterator[list[Any]], columns: Sequence[str], between: str) -> Iterator[bytes]:
    yield (between.join(_cell(_valid(name)) for name in names(columns)) + "\r\n").encode()
    for row in rows:
        *plain, changed = row
        yield (between.join([*map(_cell, plain), _cell(json.dumps(changed, ensure_ascii=False))]) + "\r\n").encode()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return json.dumps(value)
    return '"' + value.replace('"', '""') + '"' if not value or SPECIAL.search(value) else value


def _parquet(rows: Iterator[list[Any]], columns: Sequence[str], path: Path) -> Path:
    from pyarrow import parquet

    schema = _schema(columns)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part_of(path) as part:
            with parquet.ParquetWriter(part, schema) as writer:
                for batch in _batches(rows, schema):
                    writer.write_batch(batch)
            os.replace(part, path)
    except OSError as problem:
        raise TicketsError(
            f"could not write {path}: {problem.strerror or problem}",
            hint="check the disk and the folder's rights",
            exit_code=FAILED,
        ) from None
    return path


def _batches(rows: Iterator[list[Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    def batch(kept: list[list[Any]]) -> pa.RecordBatch:
        parts = zip(*kept, strict=True) if kept else ([] for _ in schema)
        return pa.RecordBatch.from_arrays(
            [pa.array(part, type=kind.type) for part, kind in zip(parts, schema, strict=True)], schema=schema
        )

    kept: list[list[Any]] = []
    size = 0
    for row in rows:
        kept.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
        if len(kept) >= AT_ONCE or size >= CHARACTERS:
            yield batch(kept)
            kept, size = [], 0
    yield batch(kept)


def _schema(columns: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    kinds = {**BEFORE, **dict.fromkeys(_texts(columns), "string"), **AFTER}
    marks = pa.list_(
        pa.struct([(name, getattr(pa, "string" if kind == "string" else "int64")()) for name, kind in MARK.items()])
    )
    made = {"string": pa.large_string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
    return pa.schema([*((name, made[kind]) for name, kind in kinds.items()), ("changed", marks)])
