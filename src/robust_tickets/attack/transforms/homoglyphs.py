"""One character of a word replaced by one that looks like it: a candidate for each that has a look-alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robust_tickets.attack.components import Transformation
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text
from robust_tickets.errors import TicketsError
from robust_tickets.resources.words import LOOKALIKE

LONGEST = 2_000  # characters of a word: as many candidates of as many characters, 4 MB at the most


@dataclass(frozen=True)
class Homoglyphs(Transformation):
    def replacements(self, example: ExampleState, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        if len(word) > LONGEST:
            raise TicketsError(
                f"word {index + 1} has {len(word):,} characters, and a candidate for each of them is too many; the most is {LONGEST:,}",
                hint="cut such words from the data, or use an attack without look-alikes",
                code="attack.long_word",
            )
        return [word[:at] + LOOKALIKE[found] + word[at + 1 :] for at, found in enumerate(word) if found in LOOKALIKE]

    def describe(self) -> str:
        return f"candidates: any one character replaced by its look-alike (of {len(LOOKALIKE)})"


REGISTERED = Homoglyphs
