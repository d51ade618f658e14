"""WordNet synonyms: the lemmas of all synsets of a word, any part of speech, single words, not re-cased."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robust_tickets.attack.components import Transformation
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text
from robust_tickets.resources import wordnet


@dataclass(frozen=True)
class Synonyms(Transformation):
    def replacements(self, example: ExampleState, text: Text, index: int) -> Sequence[str]:
        return wordnet.synonyms(text.words[index])

    def describe(self) -> str:
        return "candidates: all WordNet synonyms of the word, any part of speech, single words, not re-cased"


REGISTERED = Synonyms
