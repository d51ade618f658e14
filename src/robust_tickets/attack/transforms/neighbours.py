"""The nearest words of a word in a vector space, in the case of the word they replace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from robust_tickets.attack.game import Game
from robust_tickets.attack.text import Text
from robust_tickets.lexicon.words import like as like


@dataclass(frozen=True)
class Neighbours:
    vectors: Any  # lexicon.vectors.Vectors
    count: int

    def replacements(self, game: Game, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        return [like(word, near) for near, _ in self.vectors.neighbours(word.lower(), self.count)]

    def describe(self) -> str:
        return f"candidates: the {self.count} nearest words in the vectors, in the case of the word"
