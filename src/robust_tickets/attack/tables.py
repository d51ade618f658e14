"""The examples of an attack as a table: CSV, TSV or Parquet, a row an example, streamed (see ``tabular``).

Texts stand in columns of their own, ``original_<column>`` and ``perturbed_<column>``. Only lone surrogates, which no UTF-8 file can hold,
become U+FFFD; ``examples.jsonl`` has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.files import check_writable
from robust_tickets.tabular import row_writer, writable_as

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = (".csv", ".tsv", ".parquet")
AT_ONCE, CHARACTERS = 1024, 4_000_000  # rows and characters written at a time; whichever comes first ends it
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
    with row_writer(path, _schema(columns)) as write:
        for some in _some(dict(zip(names(columns), _row(line, columns), strict=True)) for line in lines):
            write(some)
    return path


def checked(path: str | Path, *endings: str) -> Path:
    """``path``, if a table can be written there: checked before an attack that takes hours, not after it."""
    path = writable_as(path, endings or ENDINGS)
    check_writable(path.parent)
    return path


def names(columns: Sequence[str]) -> list[str]:
    """The columns of the table, in order."""
    return [_valid(name) for name in (*BEFORE, *_texts(columns), *AFTER, "changed")]


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


def _some(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    kept: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        kept.append(row)
        size += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(kept) >= AT_ONCE or size >= CHARACTERS:
            yield kept
            kept, size = [], 0
    yield kept


def _schema(columns: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    kinds = {**BEFORE, **dict.fromkeys(_texts(columns), "string"), **AFTER}
    marks = pa.list_(
        pa.struct([(name, getattr(pa, "string" if kind == "string" else "int64")()) for name, kind in MARK.items()])
    )
    made = {"string": pa.large_string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
    return pa.schema([*((_valid(name), made[kind]) for name, kind in kinds.items()), ("changed", marks)])
