"""A substitute must be the same part of speech as the original word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robust_tickets.attack.game import Game
from robust_tickets.attack.greedy import Candidate
from robust_tickets.attack.text import Text

BEFORE, AFTER = 4, 3  # words of context the tagger sees
SWAPPABLE = {"NOUN", "VERB"}


@dataclass(frozen=True)
class SameSpeech:
    """Equal universal tags in the context of the original text, or (``swap``) a noun for a verb and the other way round.

    A word's tag is the one at its *first* occurrence in the context, as TextAttack has it.
    """

    tags: Callable[[list[str]], Sequence[str]]  # remembers what it was asked
    swap: bool = True

    def keep(self, game: Game, candidates: list[Candidate], current: Text) -> list[Candidate]:
        return [candidate for candidate in candidates if all(self._passes(game.original.words, *pair) for pair in candidate.placed())]

    def _passes(self, original: tuple[str, ...], index: int, word: str) -> bool:
        if index >= len(original):
            return False
        before, after = original[max(0, index - BEFORE) : index], original[index + 1 : index + 1 + AFTER]
        old, new = self._tag(before, original[index], after), self._tag(before, word, after)
        return old == new or (self.swap and {old, new} == SWAPPABLE)

    def _tag(self, before: tuple[str, ...], word: str, after: tuple[str, ...]) -> str:
        context = [*before, word, *after]
        return self.tags(context)[context.index(word)]

    def describe(self) -> str:
        return "part of speech: as in the original text" + (", or noun for verb and verb for noun" if self.swap else "")
