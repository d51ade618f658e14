"""Label a file of texts, streamed: every row in gives one row out, in order; a bad row gets no label and says why.

Written are the line, the columns of the file under their own names, the texts first, then ``predicted``, ``p_<label>`` of every class
and ``problem``. Where the file already has a column of one of these names, the written one gets underscores behind it until it is free.
Values keep their types in jsonl; elsewhere what is no text is written as JSON. A row whose text the classifier cannot answer is a bad
row too, unless so many fail one after another that the cause is not in the texts.
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

from robust_tickets.attack.failures import fatal, said
from robust_tickets.classifier.texts import clean
from robust_tickets.data.unlabelled import Unlabelled, open_texts, read_texts
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import sweep
from robust_tickets.progress import track
from robust_tickets.ship.unlabelled import Reasons

AT_ONCE = 2048  # rows in memory
HOPELESS = 20  # texts that failed in a row: the cause is not in them
Row = dict[str, Any]


def predict_file(clf: Any, data: Path, out: Path, *, text: str | Sequence[str] | None = None) -> dict[str, Any]:
    """Write ``out`` and return counts, also of why rows got no label. The format follows the ending of ``out``."""
    rows, columns = open_texts(data, text, like=clf.columns)
    clf.check_columns(columns, data.name)
    if out.suffix.lower() not in _WRITERS:
        raise TicketsError(f"cannot write {out.suffix or 'a file without ending'!r}: {out}", hint=f"end the name in {', '.join(_WRITERS)}")
    if out.is_dir():
        raise TicketsError(f"{out} is a folder", hint="give a file name")
    if out.exists() and data.exists() and out.samefile(data):
        raise TicketsError(f"{out} is the file to read from", hint="write to another file")
    rest = tuple(name for name in dict.fromkeys(rows.columns) if name not in columns)
    named = _Named.beside(columns, rest, clf.labels)
    ask = _Asking(clf)
    counts: Counter[str] = Counter(dict.fromkeys(clf.labels, 0))
    total, reasons = 0, Reasons()
    with _replacing(out) as part, _WRITERS[out.suffix.lower()](part, named) as write, track("predict", rows.size) as bar:
        stream = read_texts(rows, columns, rest)
        while chunk := list(islice(stream, AT_ONCE)):
            answers = _label(ask, chunk, named)
            write(answers)
            counts.update(row[named.predicted] for row in answers if row[named.predicted] is not None)
            for given, row in zip(chunk, answers, strict=True):
                if row[named.predicted] is None:
                    reasons.add(str(row[named.problem]), readable=not given.problem)
            total += len(answers)
            bar.advance(rows.position - bar.done, f"{total} rows")
        if ask.problem is not None and not sum(counts.values()):  # not one answer
            raise ask.problem
    told = {"out": str(out), "rows": total, "labels": dict(counts), "columns": list(columns), "written": named.all}
    return {**told, **reasons.told(data), "exit_code": reasons.exit_code(total)}


@dataclass(frozen=True, kw_only=True)
class _Named:
    """The columns of the written file."""

    texts: tuple[str, ...]
    rest: tuple[str, ...]  # the file's other columns
    line: str
    predicted: str
    scores: tuple[str, ...]  # one for each class, in id order
    problem: str

    @classmethod
    def beside(cls, texts: tuple[str, ...], rest: tuple[str, ...], labels: Sequence[str]) -> _Named:
        wished = ["line", "predicted", *(f"p_{label}" for label in labels), "problem"]
        taken, given = {*texts, *rest, *wished}, []
        for name in wished:
            if name in texts or name in rest:
                while name in taken:
                    name += "_"
                taken.add(name)
            given.append(name)
        return cls(texts=texts, rest=rest, line=given[0], predicted=given[1], scores=tuple(given[2:-1]), problem=given[-1])

    @property
    def all(self) -> list[str]:
        return [self.line, *self.texts, *self.rest, self.predicted, *self.scores, self.problem]


class _Asking:
    """A classifier that answers text by text: where a batch fails it is halved until the text at fault is found."""

    def __init__(self, clf: Any) -> None:
        self.clf = clf
        self.failed = 0  # texts in a row
        self.problem: Exception | None = None  # the last one

    def __call__(self, texts: Sequence[tuple[str, ...]]) -> Iterator[tuple[str | None, Sequence[Any], str]]:
        """The label, the probabilities and what went wrong, of each text."""
        if not texts:
            return
        try:
            labels, probabilities = self.clf.predict(texts)
        except Exception as problem:
            if end := fatal(problem):
                raise end from None
            if len(texts) > 1:
                half = len(texts) // 2
                yield from self(texts[:half])
                yield from self(texts[half:])
                return
            self.failed, self.problem = self.failed + 1, problem
            if self.failed >= HOPELESS:
                raise
            yield None, [None] * len(self.clf.labels), said(problem)
        else:
            self.failed = 0
            for label, p in zip(labels, probabilities, strict=True):
                yield label, [round(float(x), 6) for x in p], ""


def _label(ask: _Asking, chunk: Sequence[Unlabelled], named: _Named) -> list[Row]:
    told = iter(list(ask([row.texts for row in chunk if not row.problem])))
    answers = []
    for row in chunk:
        texts = dict(zip(named.texts, row.texts or [None] * len(named.texts), strict=True))
        rest = dict(zip(named.rest, row.rest or [None] * len(named.rest), strict=True))
        label, p, problem = (None, [None] * len(named.scores), row.problem) if row.problem else next(told)
        scores = dict(zip(named.scores, p, strict=True))
        answers.append({named.line: row.line, **texts, **rest, named.predicted: label, **scores, named.problem: problem or None})
    return answers


def _as_text(value: Any) -> Any:
    """A value of a column that is only passed on, for a file of texts."""
    if value is None or isinstance(value, str):
        return None if value is None else clean(value)
    return json.dumps(value, ensure_ascii=False, default=str)


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """A file beside ``out`` that takes its place once it is whole."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise TicketsError(f"cannot make the folder {out.parent} for {out.name}: {problem.strerror}", hint="write elsewhere") from None
    sweep(out)
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
        yield lambda rows: writer.writerows({**row, **{name: _as_text(row[name]) for name in named.rest}} for row in rows)


@contextmanager
def _jsonl(path: Path, named: _Named) -> Iterator[Callable[[list[Row]], None]]:
    with open(path, "w", encoding="utf-8") as stream:
        yield lambda rows: stream.writelines(clean(json.dumps(row, ensure_ascii=False, default=str)) + "\n" for row in rows)


@contextmanager
def _parquet(path: Path, named: _Named) -> Iterator[Callable[[list[Row]], None]]:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {named.line: pa.int64(), **dict.fromkeys(named.scores, pa.float64())}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in named.all])
    with parquet.ParquetWriter(path, schema) as writer:

        def write(rows: list[Row]) -> None:
            plain = [{**row, **{name: _as_text(row[name]) for name in named.rest}} for row in rows]
            writer.write_table(pa.Table.from_pylist(plain, schema=schema))

        yield write


_WRITERS: dict[str, Callable[[Path, _Named], Any]] = {
    ".csv": lambda path, named: _delimited(path, named, ","),
    ".tsv": lambda path, named: _delimited(path, named, "\t"),
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
