"""The examples of an attack as a table: CSV, TSV or Parquet, a row an example, streamed (see ``tabular``).

Texts stand in columns of their own, ``original_<column>`` and ``perturbed_<column>``. Only lone surrogates, which no UTF-8 file can hold,
become U+FFFD; ``examples.jsonl`` has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from robust_tickets.files import check_writable
from robust_tickets.tabular import row_writer, writable_as

ENDINGS = (".csv", ".tsv", ".parquet")
AT_ONCE = 128  # rows
SURROGATE = re.compile("[\ud800-\udfff]")
BEFORE = {"id": "large_string", "label": "int64", "status": "large_string"}  # columns before the texts, and their types
AFTER = {
    "queries": "int64", "fell_at": "int64", "words": "int64", "words_changed": "int64", "perturbed_percent": "float64",
    "predicted_before": "int64", "predicted_after": "int64", "score_before": "float64", "score_after": "float64",
    "similarity": "float64", "confidence": "float64", "candidates": "int64", "blind": "bool_", "forward_passes": "int64",
    "error": "large_string",
}  # fmt: skip
MARK = {"column": "int64", "old": "string", "new": "string", "start": "int64", "end": "int64"}


def write_table(lines: Iterable[Mapping[str, Any]], columns: Sequence[str], path: str | Path) -> Path:
    """Write ``lines``, as ``examples.jsonl`` has them, to a file whose ending names its format; ``columns`` are the names of the texts."""
    import pyarrow as pa

    path = checked(path)
    texts = [f"{kind}_{column}" for kind in ("original", "perturbed") for column in columns]
    kinds = {**BEFORE, **dict.fromkeys(texts, "large_string"), **AFTER}
    marks = pa.list_(pa.struct([(name, getattr(pa, kind)()) for name, kind in MARK.items()]))
    schema = pa.schema([*((_valid(name), getattr(pa, kind)()) for name, kind in kinds.items()), ("changed", marks)])
    rows = (_row(line, columns, schema.names) for line in lines)
    with row_writer(path, schema) as write:
        while some := list(islice(rows, AT_ONCE)):
            write(some)
    return path


def checked(path: str | Path, *endings: str) -> Path:
    """``path``, if a table can be written there: checked before an attack that takes hours, not after it."""
    path = writable_as(path, endings or ENDINGS)
    check_writable(path.parent)
    return path


def _row(line: Mapping[str, Any], columns: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    words, none = line.get("words"), [None] * len(columns)
    share = 100 * line["words_changed"] / words if words and line["status"] == "success" else None
    # padded: under the rules of an older TextAttack a pair may end as one text
    texts = [text for kind in ("original", "perturbed") for text in [*(line.get(kind) or none), *none][: len(columns)]]
    rest = [share if name == "perturbed_percent" else line.get(name) for name in AFTER]
    marks = [{name: _valid(mark[name]) for name in MARK} for mark in line.get("changed") or ()]
    return dict(zip(names, [*map(_valid, [*(line[name] for name in BEFORE), *texts, *rest]), marks], strict=True))


def _valid(value: Any) -> Any:
    return SURROGATE.sub("\ufffd", value) if isinstance(value, str) and not value.isascii() else value
