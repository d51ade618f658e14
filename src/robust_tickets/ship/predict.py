"""Label a file of texts, streamed: every row in gives one row out, in order; a bad row gets no label and says why.

Written are the line, the text columns under their own names, ``predicted``, ``p_<label>`` of every class and ``problem``. Where a
text column already has one of these names, the written one gets underscores behind it until it is free.
"""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
    named = _Named.beside(columns, clf.labels)
    counts: Counter[str] = Counter(dict.fromkeys(clf.labels, 0))
    bad = total = 0
    with _replacing(out) as part, _WRITERS[out.suffix.lower()](part, named) as write, track("predict", rows.size) as bar:
        stream = read_texts(rows, columns)
        while chunk := list(islice(stream, AT_ONCE)):
            answers = _label(clf, chunk, named)
            write(answers)
            counts.update(row[named.predicted] for row in answers if row[named.predicted] is not None)
            bad += sum(row[named.predicted] is None for row in answers)
            total += len(answers)
            bar.advance(rows.position - bar.done, f"{total} rows")
    return {"out": str(out), "rows": total, "bad": bad, "labels": dict(counts), "columns": list(columns), "written": named.all}


@dataclass(frozen=True, kw_only=True)
class _Named:
    """The columns of the written file."""

    texts: tuple[str, ...]
    line: str
    predicted: str
    scores: tuple[str, ...]  # one for each class, in id order
    problem: str

    @classmethod
    def beside(cls, texts: tuple[str, ...], labels: Sequence[str]) -> _Named:
        wished = ["line", "predicted", *(f"p_{label}" for label in labels), "problem"]
        taken, given = {*texts, *wished}, []
        for name in wished:
            if name in texts:
                while name in taken:
                    name += "_"
                taken.add(name)
            given.append(name)
        return cls(texts=texts, line=given[0], predicted=given[1], scores=tuple(given[2:-1]), problem=given[-1])

    @property
    def all(self) -> list[str]:
        return [self.line, *self.texts, self.predicted, *self.scores, self.problem]


def _label(clf: Any, chunk: Sequence[Unlabelled], named: _Named) -> list[Row]:
    good = [row for row in chunk if not row.problem]
    labels, probabilities = clf.predict([row.texts for row in good])
    told = iter(zip(labels, probabilities, strict=True))
    answers = []
    for row in chunk:
        texts = dict(zip(named.texts, row.texts or [None] * len(named.texts), strict=True))
        label, p = (None, [None] * len(clf.labels)) if row.problem else next(told)
        scores = {name: None if x is None else round(float(x), 6) for name, x in zip(named.scores, p, strict=True)}
        answers.append({named.line: row.line, **texts, named.predicted: label, **scores, named.problem: row.problem or None})
    return answers


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """A file beside ``out`` that takes its place once it is whole."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise TicketsError(f"cannot make the folder {out.parent} for {out.name}: {problem.strerror}", hint="write elsewhere") from None
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, out)
    except OSError as problem:
        raise TicketsError(f"could not write {out}: {problem.strerror}", hint="check the disk and its rights", exit_code=FAILED) from None
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _delimited(path: Path, named: _Named, delimiter: str) -> Iterator[Callable[[list[Row]], None]]:
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, named.all, delimiter=delimiter)
        writer.writeheader()
        yield writer.writerows


@contextmanager
def _jsonl(path: Path, named: _Named) -> Iterator[Callable[[list[Row]], None]]:
    with open(path, "w", encoding="utf-8") as stream:
        yield lambda rows: stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@contextmanager
def _parquet(path: Path, named: _Named) -> Iterator[Callable[[list[Row]], None]]:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {named.line: pa.int64(), **dict.fromkeys(named.scores, pa.float64())}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in named.all])
    with parquet.ParquetWriter(path, schema) as writer:
        yield lambda rows: writer.write_table(pa.Table.from_pylist(rows, schema=schema))


_WRITERS: dict[str, Callable[[Path, _Named], Any]] = {
    ".csv": lambda path, named: _delimited(path, named, ","),
    ".tsv": lambda path, named: _delimited(path, named, "\t"),
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
