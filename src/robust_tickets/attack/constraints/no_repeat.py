"""No word is changed twice."""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.attack.components import WordConstraint
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text


@dataclass(frozen=True)
class NoRepeat(WordConstraint):
    def allowed(self, example: ExampleState, text: Text) -> set[int]:
        return set(range(len(text))) - text.modified

    def describe(self) -> str:
        return "each word is changed at most once"


REGISTERED = NoRepeat
