"""A table of nearest neighbours that grows: one for all datasets, kept on disk under the hash of what went in.

A word's list does not depend on the words asked beside it, so that lists made for one dataset serve the next, and only new words are
searched for. The whole vocabulary at once would share as much, but makes the first attack wait: 65 s on one core for 71,680 words of
width 100, where the words of an attack take a second or two. A table of all of them is 43 MB (50 neighbours).
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robust_tickets.files import write_bytes


@dataclass(frozen=True)
class Table:
    """Row ``rows[i]`` (ascending) has the neighbours ``near[i]``, nearest first, with these cosines. All lists have one length."""

    rows: np.ndarray  # (m,) int64
    near: np.ndarray  # (m, k) int32
    cosines: np.ndarray  # (m, k) float64

    @classmethod
    def empty(cls, length: int) -> Table:
        return cls(np.empty(0, np.int64), np.empty((0, length), np.int32), np.empty((0, length)))

    def place(self, row: int) -> int | None:
        """Where a word's list is; none without one."""
        found = int(np.searchsorted(self.rows, row))
        return found if found < len(self.rows) and self.rows[found] == row else None

    def without(self, rows: np.ndarray) -> np.ndarray:
        """Those of ``rows`` that it does not have."""
        return rows[~np.isin(rows, self.rows)]

    def joined(self, other: Table) -> Table:
        """Both; where both have a list they have the same."""
        rows, first = np.unique(np.concatenate([self.rows, other.rows]), return_index=True)
        near, cosines = np.concatenate([self.near, other.near]), np.concatenate([self.cosines, other.cosines])
        return Table(rows, near[first], cosines[first])

    def write(self, place: Path) -> None:
        stream = io.BytesIO()
        np.savez(stream, rows=self.rows, near=self.near, cosines=self.cosines)
        write_bytes(place, stream.getvalue())

    @classmethod
    def read(cls, place: Path, words: int, length: int) -> Table:
        """What is stored there; empty if nothing is or it is damaged (it is then built again)."""
        try:
            with open(place, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
                found = cls(stored["rows"], stored["near"], stored["cosines"])
        except (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile):
            return cls.empty(length)
        shape = (len(found.rows), length)
        fits = (
            found.near.shape == found.cosines.shape == shape
            and found.rows.dtype == np.int64
            and found.near.dtype == np.int32
        )
        inside = (
            fits
            and bool((np.diff(found.rows) > 0).all())
            and all(not part.size or 0 <= part.min() <= part.max() < words for part in (found.rows, found.near))
        )
        return found if inside else cls.empty(length)
