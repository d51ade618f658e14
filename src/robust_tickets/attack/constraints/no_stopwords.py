"""Stop words stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from robust_tickets.attack.components import WordConstraint
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text
from robust_tickets.resources.words import STOPWORDS


@dataclass(frozen=True)
class NoStopwords(WordConstraint):
    """``words``: which list. The test is case-sensitive, as TextAttack's is: "The" may change, "the" may not."""

    words: Literal["nltk-179", "nltk-198", "textfooler"] = "nltk-179"

    def allowed(self, example: ExampleState, text: Text) -> set[int]:
        stop, found = self.stopwords, set[int]()
        for index, word in enumerate(text.words):
            if word not in stop:
                found.add(index)  # built as TextAttack builds it: the order of a set decides ties
        return found

    def may_change(self, word: str) -> bool:
        return word not in self.stopwords

    @property
    def stopwords(self) -> frozenset[str]:
        return STOPWORDS[self.words]

    def describe(self) -> str:
        name = "TextFooler's list" if self.words == "textfooler" else "NLTK's English list"
        return f"stop words stay: {name} ({len(self.stopwords)})"


REGISTERED = NoStopwords
