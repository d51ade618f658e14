"""Which words may change at all."""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.attack.example import Game
from robust_tickets.attack.text import Text


@dataclass(frozen=True)
class NoRepeat:
    """A word is changed at most once."""

    def allowed(self, game: Game, text: Text) -> set[int]:
        return set(range(len(text))) - text.modified

    def describe(self) -> str:
        return "each word is changed at most once"


@dataclass(frozen=True)
class NoStopwords:
    """Stop words stay. The test is case-sensitive, as TextAttack's is: "The" may change, "the" may not."""

    stopwords: frozenset[str]
    name: str

    def allowed(self, game: Game, text: Text) -> set[int]:
        found = set()
        for index, word in enumerate(text.words):
            if word not in self.stopwords:
                found.add(index)
        return found

    def describe(self) -> str:
        return f"stop words stay: {self.name} ({len(self.stopwords)})"


@dataclass(frozen=True)
class KeepColumn:
    """Where the columns are called exactly ``columns``, the one called ``kept`` stays; under any other names all may change."""

    columns: tuple[str, ...]
    kept: str

    def allowed(self, game: Game, text: Text) -> set[int]:
        if game.column_names[: len(text.columns)] != self.columns:  # a profile's swap may have broken the columns
            return set(range(len(text)))
        found: set[int] = set()
        first = 0
        for name, count in zip(self.columns, text.per_column(), strict=True):
            if name != self.kept:
                found |= set(
                    range(first, first + count)
                )  # built as TextAttack builds it: the order of a set decides ties
            first += count
        return found

    def describe(self) -> str:
        return f"with columns {' and '.join(self.columns)}, {self.kept} stays"
