"""The file that a prediction writes: the names of its columns, its formats, and that it is there whole or not at all."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robust_tickets.classifier.texts import clean
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import part_of

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Named:
    """The columns of the written file."""

    texts: tuple[str, ...]
    rest: tuple[str, ...]  # the file's other columns
    line: str
    predicted: str
    scores: tuple[str, ...]  # one for each class, in id order
    problem: str

    @classmethod
    def beside(cls, texts: tuple[str, ...], rest: tuple[str, ...], labels: Sequence[str]) -> Named:
        wished = ["line", "predicted", *(f"p_{label}" for label in labels), "problem"]
        taken, given = {*texts, *rest, *wished}, []
        for name in wished:
            if name in texts or name in rest:
                while name in taken:
                    name += "_"
                taken.add(name)
            given.append(name)
        return cls(
            texts=texts, rest=rest, line=given[0], predicted=given[1], scores=tuple(given[2:-1]), problem=given[-1]
        )

    @property
    def all(self) -> list[str]:
        return [self.line, *self.texts, *self.rest, self.predicted, *self.scores, self.problem]


def _as_text(value: Any) -> Any:
    """A value of a column that is only passed on, for a file of texts."""
    if value is None or isinstance(value, str):
        return None if value is None else clean(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def make_folder(out: Path) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise TicketsError(
            f"cannot make the folder {out.parent} for {out.name}: {problem.strerror}", hint="write elsewhere"
        ) from None


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A file beside ``out`` that takes its place once it is whole."""
    try:
        with part_of(out) as part:
            yield part
            os.replace(part, out)
    except OSError as problem:
        raise TicketsError(
            f"could not write {out}: {problem.strerror}", hint="check the disk and its rights", exit_code=FAILED
        ) from None


@contextmanager
def _delimited(path: Path, named: Named, delimiter: str) -> Iterator[Callable[[list[Row]], None]]:
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, named.all, delimiter=delimiter)
        writer.writeheader()
        yield lambda rows: writer.writerows(
            {**row, **{name: _as_text(row[name]) for name in named.rest}} for row in rows
        )


@contextmanager
def _jsonl(path: Path, named: Named) -> Iterator[Callable[[list[Row]], None]]:
    with open(path, "w", encoding="utf-8") as stream:
        yield lambda rows: stream.writelines(
            clean(json.dumps(row, ensure_ascii=False, default=str)) + "\n" for row in rows
        )


@contextmanager
def _parquet(path: Path, named: Named) -> Iterator[Callable[[list[Row]], None]]:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {named.line: pa.int64(), **dict.fromkeys(named.scores, pa.float64())}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in named.all])
    with parquet.ParquetWriter(path, schema) as writer:

        def write(rows: list[Row]) -> None:
            plain = [{**row, **{name: _as_text(row[name]) for name in named.rest}} for row in rows]
            writer.write_table(pa.Table.from_pylist(plain, schema=schema))

        yield write


WRITERS: dict[str, Callable[[Path, Named], Any]] = {
    ".csv": lambda path, named: _delimited(path, named, ","),
    ".tsv": lambda path, named: _delimited(path, named, "\t"),
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
