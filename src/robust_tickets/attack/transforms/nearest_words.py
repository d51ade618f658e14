"""The nearest words of a word in a vector space, in the case of the word they replace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from robust_tickets.attack.components import Transformation
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text
from robust_tickets.config import resource, setting
from robust_tickets.resources.vectors import Vectors, WordLists
from robust_tickets.resources.words import like


@dataclass(frozen=True)
class NearestWords(Transformation):
    vectors: Vectors | WordLists = resource()
    count: int = setting(50, at_least=1)

    def replacements(self, example: ExampleState, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        return [like(word, near) for near, _ in self.vectors.neighbours(word.lower(), self.count)]

    def warm(self, words: Iterable[str]) -> None:
        self.vectors.look_up((word.lower() for word in words), self.count)

    def describe(self) -> str:
        where = "first words of its list" if isinstance(self.vectors, WordLists) else "nearest words in the vectors"
        return f"candidates: the {self.count} {where}, in the case of the word"


REGISTERED = NearestWords
