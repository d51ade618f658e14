"""A task: named splits of labelled texts (single or pairs), its label names, and notes from reading.

A ``Split`` is a view on rows of a memory-mapped table: opening one costs a few integers a row, its texts stay on disk until they are
asked for. Digests depend on texts and labels only, never on paths or times, so that they are equal on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from robust_tickets.config import digest as config_digest
from robust_tickets.errors import TicketsError, did_you_mean

if TYPE_CHECKING:
    from robust_tickets.data.arrow_tables import Table


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled text or pair. ``id`` is ``<split>:<position of the record in its source, from 0>``."""

    id: str
    texts: tuple[str, ...]
    label: int


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was left out: ``row`` is the line of a text file, the row of a table, from 1."""

    file: str
    row: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.row}: {self.reason}"


class Split:
    """Labelled rows of a table. Cheap to open, to slice (``select``) and to read by index (``take``)."""

    def __init__(self, name: str, columns: tuple[str, ...], table: Table, rows: np.ndarray, labels: np.ndarray) -> None:
        self.name, self.columns, self.table, self.rows, self.labels = name, columns, table, rows, labels
        self.labels.setflags(write=False)

    @classmethod
    def of(
        cls,
        texts: Sequence[str | Sequence[str]],
        labels: Sequence[int],
        *,
        name: str = "test",
        columns: tuple[str, ...] = (),
    ) -> Split:
        """A split of texts (or pairs) that are already in memory."""
        from robust_tickets.classifier.encode import rows_of
        from robust_tickets.data.arrow_tables import memory_table

        rows = rows_of(texts)
        width = len(columns) or (len(rows[0]) if rows else 1)
        odd = next((i for i, row in enumerate(rows) if len(row) != width), None)
        if odd is not None:
            message = f"expected {width} string(s) for each text, got {len(rows[odd])} at place {odd} of the list"
            raise TicketsError(message, hint="give single texts or pairs, not both", code="data.columns")
        names = columns or (("text",) if width == 1 else ("text1", "text2"))
        return cls(name, names, memory_table(rows, width), np.arange(len(rows)), _class_numbers(labels, len(rows)))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Example:
        texts, record = self.table.read(int(self.rows[index]))
        return Example(f"{self.name}:{record}", texts, int(self.labels[index]))

    def __iter__(self) -> Iterator[Example]:
        return (self[i] for i in range(len(self)))

    def take(self, indices: Iterable[int]) -> list[Example]:
        """The examples at these positions, in this order; each read costs the same however large the split is."""
        return [self[int(i)] for i in indices]

    @property
    def lengths(self) -> np.ndarray:
        """Characters of each row, all columns together (int32)."""
        return self.table.numbers("length")[self.rows]

    @property
    def keys(self) -> np.ndarray:
        """A hash of each row's normalised text (uint64): equal texts have equal keys."""
        return self.table.numbers("key")[self.rows]

    @cached_property
    def digest(self) -> str:
        """sha256 over every row's text hash and label, in order."""
        hashed = hashlib.sha256(f"{len(self.columns)} {len(self)}\n".encode())
        hashed.update(self.table.numbers("content")[self.rows].astype("<u8").tobytes())
        hashed.update(self.labels.astype("<i4").tobytes())
        return hashed.hexdigest()

    def select(self, indices: Sequence[int] | np.ndarray, name: str = "") -> Split:
        """The rows at these positions; ids stay what they are, but for the ``name`` of a new split."""
        chosen = np.asarray(indices, dtype=np.int64)
        return Split(name or self.name, self.columns, self.table, self.rows[chosen], self.labels[chosen])


def _class_numbers(labels: Sequence[int], count: int) -> np.ndarray:
    try:
        found = np.array(labels)
    except ValueError:  # lists of several lengths
        found = np.array(None)
    if found.shape != (count,) or (count and (found.dtype.kind not in "iub" or found.max() > np.iinfo(np.int32).max)):
        message = f"expected {count} label(s), the class number of each text, got {labels!r:.80}"
        raise TicketsError(message, hint="0 for the first class, 1 for the second, …", code="data.class_numbers")
    return found.astype(np.int32)


@dataclass(frozen=True)
class Task:
    """Splits by name, which of them trains, selects and is attacked, and what was inferred and left out while reading."""

    name: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    splits: Mapping[str, Split]
    train_split: str = "train"
    validation_split: str = "validation"
    test_split: str = "test"
    unlabelled: tuple[str, ...] = ()  # splits of the source that have no public labels
    skipped: tuple[BadRow, ...] = ()
    notes: tuple[str, ...] = ()  # what was inferred
    warnings: tuple[str, ...] = ()  # what may spoil the results: shared texts, absent classes, guessed labels

    @property
    def files(self) -> list[tuple[str, str]]:
        """What its splits were read from: name and sha256."""
        return [file for split in self.splits.values() for file in split.table.files]

    def split(self, name: str) -> Split:
        if name in self.unlabelled:
            message = (
                f"the split {name!r} of {self.name} has no public labels: it can neither be trained on nor attacked"
            )
            raise TicketsError(message, hint=f"use one of: {', '.join(self.splits)}", code="data.no_labels")
        if name not in self.splits:
            hint = did_you_mean(name, self.splits)
            raise TicketsError(f"{self.name} has no split {name!r} here", hint=hint, code="data.no_split")
        return self.splits[name]

    @property
    def train(self) -> Split:
        """What is trained on."""
        return self.split(self.train_split)

    @property
    def validation(self) -> Split:
        """What epochs, ratios and temperatures are picked on; shares no row with ``test``."""
        return self.split(self.validation_split)

    @property
    def test(self) -> Split:
        """What is evaluated and attacked."""
        return self.split(self.test_split)

    @cached_property
    def digest(self) -> str:
        return config_digest(
            {
                "labels": self.labels,
                "columns": self.columns,
                "splits": {name: split.digest for name, split in self.splits.items()},
                "roles": [self.train_split, self.validation_split, self.test_split],
            }
        )
