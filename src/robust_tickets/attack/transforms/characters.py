"""One random edit of a word's characters, drawn at every visit."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from robust_tickets.attack.components import Transformation
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text


@dataclass(frozen=True)
class CharacterEdit(Transformation):
    """A character inserted, deleted or substituted, or two neighbouring ones swapped; ``letters`` are those that may be put in.

    A word of one letter is left alone. ``inner`` keeps an edit away from the first and the last character. Each draws first the place,
    then, where it needs one, the letter, as TextAttack does; a word too short for the edit draws nothing. Places are TextAttack's too:
    an insertion is always before a character, and with ``inner`` never before the last one.
    """

    edit: Literal["insert", "delete", "swap", "substitute"]
    inner: bool = False
    letters: str = string.ascii_letters  # lower case first; the order decides what a draw gives

    def replacements(self, example: ExampleState, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        end = len(word) - (self.edit == "swap")
        first, last = (1, end - 1) if self.inner else (0, end)
        if len(word) < 2 or first >= last:
            return []
        at = example.dice.place(first, last)
        if self.edit == "swap":
            return [word[:at] + word[at + 1] + word[at] + word[at + 2 :]]
        new = "" if self.edit == "delete" else example.dice.letter(self.letters)
        return [word[:at] + new + word[at + (self.edit != "insert") :]]

    def describe(self) -> str:
        what = {
            "insert": f"{'a space' if self.letters == ' ' else 'a random letter'} inserted",
            "delete": "a random character deleted",
            "swap": "two neighbouring characters swapped",
            "substitute": "a random character replaced by a random letter",
        }
        return f"candidates: {what[self.edit]}{' inside the word' if self.inner else ''}"


REGISTERED = CharacterEdit
