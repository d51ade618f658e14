"""Label a file of texts, streamed: every row in gives one row out, in order; a bad row gets no label and says why."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from robust_tickets.data.unlabelled import Unlabelled, open_texts, read_texts
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.progress import track

AT_ONCE = 2048  # rows in memory
Row = dict[str, Any]


def predict_file(clf: Any, data: Path, out: Path, *, text: str | Sequence[str] | None = None) -> dict[str, Any]:
    """Write ``out`` and return counts. The format follows the ending of ``out``."""
    rows, columns = open_texts(data, text, like=clf.columns)
    if out.suffix.lower() not in _WRITERS:
        raise TicketsError(f"cannot write {out.suffix or 'a file without ending'!r}: {out}", hint=f"end the name in {', '.join(_WRITERS)}")
    if out.is_dir():
        raise TicketsError(f"{out} is a folder", hint="give a file name")
    if out.exists() and data.exists() and out.samefile(data):
        raise TicketsError(f"{out} is the file to read from", hint="write to another file")
    names = ["line", *columns, "label", *(f"p_{label}" for label in clf.labels), "problem"]
    counts: Counter[str] = Counter(dict.fromkeys(clf.labels, 0))
    bad = total = 0
    with _replacing(out) as part, _WRITERS[out.suffix.lower()](part, names) as write, track("predict", rows.size) as bar:
        stream = read_texts(rows, columns)
        while chunk := list(islice(stream, AT_ONCE)):
            answers = _label(clf, chunk, columns)
            write(answers)
            counts.update(row["label"] for row in answers if row["label"] is not None)
            bad += sum(row["label"] is None for row in answers)
            total += len(answers)
            bar.advance(rows.position - bar.done, f"{total} rows")
    return {"out": str(out), "rows": total, "bad": bad, "labels": dict(counts), "columns": list(columns)}


def _label(clf: Any, chunk: Sequence[Unlabelled], columns: tuple[str, ...]) -> list[Row]:
    good = [row for row in chunk if not row.problem]
    labels, probabilities = clf.predict([row.texts for row in good])
    told = iter(zip(labels, probabilities, strict=True))
    answers = []
    for row in chunk:
        texts = dict(zip(columns, row.texts or [None] * len(columns), strict=True))
        label, p = (None, [None] * len(clf.labels)) if row.problem else next(told)
        scores = {f"p_{name}": None if x is None else round(float(x), 6) for name, x in zip(clf.labels, p, strict=True)}
        answers.append({"line": row.line, **texts, "label": label, **scores, "problem": row.problem or None})
    return answers


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """A file beside ``out`` that takes its place once it is whole."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, out)
    except OSError as problem:
        raise TicketsError(f"could not write {out}: {problem.strerror}", hint="check the disk and its rights", exit_code=FAILED) from None
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _delimited(path: Path, names: list[str], delimiter: str) -> Iterator[Callable[[list[Row]], None]]:
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, names, delimiter=delimiter)
        writer.writeheader()
        yield writer.writerows


@contextmanager
def _jsonl(path: Path, names: list[str]) -> Iterator[Callable[[list[Row]], None]]:
    with open(path, "w", encoding="utf-8") as stream:
        yield lambda rows: stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@contextmanager
def _parquet(path: Path, names: list[str]) -> Iterator[Callable[[list[Row]], None]]:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {"line": pa.int64(), **{name: pa.float64() for name in names if name.startswith("p_")}}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in names])
    with parquet.ParquetWriter(path, schema) as writer:
        yield lambda rows: writer.write_table(pa.Table.from_pylist(rows, schema=schema))


_WRITERS: dict[str, Callable[[Path, list[str]], Any]] = {
    ".csv": lambda path, names: _delimited(path, names, ","),
    ".tsv": lambda path, names: _delimited(path, names, "\t"),
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
