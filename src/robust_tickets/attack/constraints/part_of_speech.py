"""A substitute must be the same part of speech as the original word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robust_tickets.attack.components import Candidate, Constraint
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text
from robust_tickets.config import resource

BEFORE, AFTER = 4, 3  # words of context the tagger sees
SWAPPABLE = {"NOUN", "VERB"}
Tags = Callable[[list[str]], Sequence[str]]


@dataclass(frozen=True)
class SamePartOfSpeech(Constraint):
    """Equal universal tags in the context of the original text, or (``swap``) a noun for a verb and the other way round.

    A word's tag is the one at its *first* occurrence in the context, as TextAttack has it.
    """

    tagger: Tags = resource()  # a tagger (resources.tagger), or anything that is called like one
    swap: bool = True

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> list[Candidate]:
        words = example.original.words
        known: dict[int, str] = {}  # the original words' tags: all candidates of a word share one
        return [
            candidate
            for candidate in candidates
            if all(self._passes(words, known, *pair) for pair in candidate.placed())
        ]

    def _passes(self, original: tuple[str, ...], known: dict[int, str], index: int, word: str) -> bool:
        if index >= len(original):
            return False
        if index not in known:
            known[index] = self._tag(original, index, original[index])
        old, new = known[index], self._tag(original, index, word)
        return old == new or (self.swap and {old, new} == SWAPPABLE)

    def _tag(self, original: tuple[str, ...], index: int, word: str) -> str:
        context = [*original[max(0, index - BEFORE) : index], word, *original[index + 1 : index + 1 + AFTER]]
        place = context.index(word)
        at = getattr(self.tagger, "at", None)
        tag: str = self.tagger(context)[place] if at is None else at(context, place)
        return tag

    def describe(self) -> str:
        return "part of speech: as in the original text" + (", or noun for verb and verb for noun" if self.swap else "")


REGISTERED = SamePartOfSpeech
