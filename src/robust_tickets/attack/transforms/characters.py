"""One random edit of a word's characters, drawn anew at every visit.

A word of one letter is left alone. ``inner`` keeps an edit away from the first and the last character. Each draws first the place, then,
where it needs one, the letter, as TextAttack does; a word too short for the edit draws nothing. Places are TextAttack's too: an insertion
is always before a character, and with ``inner`` never before the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robust_tickets.attack.example import Game
from robust_tickets.attack.text import Text


@dataclass(frozen=True)
class Insertion:
    letters: str
    inner: bool = False

    def replacements(self, game: Game, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        at = _place(game, word, len(word), self.inner)
        return [] if at is None else [word[:at] + game.dice.letter(self.letters) + word[at:]]

    def describe(self) -> str:
        return f"candidates: {'a space' if self.letters == ' ' else 'a random letter'} inserted{_where(self.inner)}"


@dataclass(frozen=True)
class Deletion:
    inner: bool = False

    def replacements(self, game: Game, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        at = _place(game, word, len(word), self.inner)
        return [] if at is None else [word[:at] + word[at + 1 :]]

    def describe(self) -> str:
        return f"candidates: a random character deleted{_where(self.inner)}"


@dataclass(frozen=True)
class NeighbourSwap:
    """Two characters that stand next to each other change places."""

    inner: bool = False

    def replacements(self, game: Game, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        at = _place(game, word, len(word) - 1, self.inner)
        return [] if at is None else [word[:at] + word[at + 1] + word[at] + word[at + 2 :]]

    def describe(self) -> str:
        return f"candidates: two neighbouring characters swapped{_where(self.inner)}"


@dataclass(frozen=True)
class Substitution:
    letters: str

    def replacements(self, game: Game, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        at = _place(game, word, len(word), inner=False)
        return [] if at is None else [word[:at] + game.dice.letter(self.letters) + word[at + 1 :]]

    def describe(self) -> str:
        return "candidates: a random character replaced by a random letter"


def _place(game: Game, word: str, end: int, inner: bool) -> int | None:
    """A random place below ``end``; none where the word has no such place."""
    first, last = (1, end - 1) if inner else (0, end)
    return game.dice.place(first, last) if len(word) > 1 and first < last else None


def _where(inner: bool) -> str:
    return " inside the word" if inner else ""
