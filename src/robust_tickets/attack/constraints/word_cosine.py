"""A substitute must be near the original word in a vector space."""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.attack.components import Candidate, Constraint
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text
from robust_tickets.config import resource, setting
from robust_tickets.resources.vectors import Vectors, WordLists


@dataclass(frozen=True)
class WordCosine(Constraint):
    """Cosine of the words' vectors at least ``least``, against the original text; a pair with an unknown word passes, and all of lists do.

    A replacement without any word is refused: there is nothing to compare.
    """

    vectors: Vectors | WordLists = resource()
    least: float = setting(0.5, at_least=-1, at_most=1)

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> list[Candidate]:
        return [candidate for candidate in candidates if self._passes(example.original.words, candidate.placed())]

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


REGISTERED = WordCosine
