"""One character of a word replaced by one that looks like it: a candidate for each that has a look-alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robust_tickets.attack.game import Game
from robust_tickets.attack.text import Text


@dataclass(frozen=True)
class Homoglyphs:
    lookalike: Mapping[str, str]

    def replacements(self, game: Game, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        return [word[:at] + self.lookalike[found] + word[at + 1 :] for at, found in enumerate(word) if found in self.lookalike]

    def describe(self) -> str:
        return f"candidates: any one character replaced by its look-alike (of {len(self.lookalike)})"
