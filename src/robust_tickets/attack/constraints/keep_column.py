"""One column of a pair stays."""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.attack.components import WordConstraint
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text


@dataclass(frozen=True)
class KeepColumn(WordConstraint):
    """Where the columns are called exactly ``columns``, the one called ``kept`` stays; under any other names all may change."""

    columns: tuple[str, ...]
    kept: str

    def allowed(self, example: ExampleState, text: Text) -> set[int]:
        if example.column_names[: len(text.columns)] != self.columns:  # a profile's swap may have broken the columns
            return set(range(len(text)))
        found: set[int] = set()
        first = 0
        for name, count in zip(self.columns, text.per_column(), strict=True):
            if name != self.kept:
                found |= set(range(first, first + count))  # as TextAttack builds it: the order of a set decides ties
            first += count
        return found

    def describe(self) -> str:
        return f"with columns {' and '.join(self.columns)}, {self.kept} stays"


REGISTERED = KeepColumn
