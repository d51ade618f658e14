"""The nearest words of a word in a vector space, in the case of the word they replace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from robust_tickets.attack.example import Game
from robust_tickets.attack.text import Text
from robust_tickets.resources.vectors import WordLists
from robust_tickets.resources.words import like as like


@dataclass(frozen=True)
class Neighbours:
    vectors: Any  # lexicon.vectors.Vectors, or lexicon.vectors.WordLists
    count: int

    def replacements(self, game: Game, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        return [like(word, near) for near, _ in self.vectors.neighbours(word.lower(), self.count)]

    def warmed(self, stopwords: Collection[str]) -> Callable[[Iterable[str]], object]:
        """Looks up all words that may change at once: much cheaper than one by one."""
        return lambda words: self.vectors.table((word.lower() for word in words if word not in stopwords), self.count)

    def describe(self) -> str:
        where = "first words of its list" if isinstance(self.vectors, WordLists) else "nearest words in the vectors"
        return f"candidates: the {self.count} {where}, in the case of the word"
