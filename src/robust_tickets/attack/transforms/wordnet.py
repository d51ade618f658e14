"""WordNet synonyms: the lemmas of all synsets of a word, any part of speech, single words, not re-cased."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robust_tickets.attack.example import Game
from robust_tickets.attack.text import Text


@dataclass(frozen=True)
class Synonyms:
    lookup: Callable[[str], Sequence[str]]

    def replacements(self, game: Game, text: Text, index: int) -> Sequence[str]:
        return self.lookup(text.words[index])

    def describe(self) -> str:
        return "candidates: all WordNet synonyms of the word, any part of speech, single words, not re-cased"
