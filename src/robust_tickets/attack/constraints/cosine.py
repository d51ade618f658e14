"""A substitute must be near the original word in a vector space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robust_tickets.attack.example import Game
from robust_tickets.attack.greedy import Candidate
from robust_tickets.attack.text import Text
from robust_tickets.resources.vectors import WordLists


@dataclass(frozen=True)
class WordCosine:
    """Cosine of the words' vectors at least ``least``, against the original text; a pair with an unknown word passes, and all of lists do.

    A replacement without any word is refused: there is nothing to compare.
    """

    vectors: Any  # lexicon.vectors.Vectors, or lexicon.vectors.WordLists
    least: float

    def keep(self, game: Game, candidates: list[Candidate], current: Text) -> list[Candidate]:
        return [candidate for candidate in candidates if self._passes(game.original.words, candidate.placed())]

    def _passes(self, original: tuple[str, ...], placed: list[tuple[int, str]]) -> bool:
        for index, word in placed:
            if index >= len(original):
                return False
            cosine = self.vectors.cosine(original[index].lower(), word.lower())
            if cosine is not None and cosine < self.least:
                return False
        return bool(placed)

    def describe(self) -> str:
        if isinstance(self.vectors, WordLists):
            return "word vectors: no cosine is known of lists of words, so that every listed word is near enough"
        return f"word vectors: cosine with the original word at least {self.least}"
