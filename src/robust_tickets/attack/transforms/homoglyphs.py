"""One character of a word replaced by one that looks like it: a candidate for each that has a look-alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robust_tickets.attack.example import Game
from robust_tickets.attack.text import Text
from robust_tickets.errors import TicketsError

LONGEST = 2_000  # characters of a word: as many candidates of as many characters, 4 MB at the most


@dataclass(frozen=True)
class Homoglyphs:
    lookalike: Mapping[str, str]

    def replacements(self, game: Game, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        if len(word) > LONGEST:
            raise TicketsError(
                f"word {index + 1} has {len(word):,} characters, and a candidate for each of them is too many; the most is {LONGEST:,}",
                hint="cut such words from the data, or use an attack without look-alikes",
            )
        return [
            word[:at] + self.lookalike[found] + word[at + 1 :]
            for at, found in enumerate(word)
            if found in self.lookalike
        ]

    def describe(self) -> str:
        return f"candidates: any one character replaced by its look-alike (of {len(self.lookalike)})"
