"""At most a share of the words differ from the original text."""

from __future__ import annotations

import math
from dataclasses import dataclass

from robust_tickets.attack.components import Candidate, Constraint
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text, words_changed
from robust_tickets.config import setting


@dataclass(frozen=True)
class ShareChanged(Constraint):
    """Words that differ from the original, one by one up to the shorter text's end, are at most ``share`` of them, rounded up."""

    share: float = setting(0.4, above=0, at_most=1)

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> list[Candidate]:
        before = words_changed(example.original, current)
        return [candidate for candidate in candidates if self._passes(example.original, candidate, before)]

    def _passes(self, original: Text, candidate: Candidate, before: int) -> bool:
        placed, index = candidate.placed(), candidate.index
        # words behind it move, or have no counterpart
        if len(placed) != 1 or index >= len(original) or not candidate.local:
            changed = words_changed(original, candidate.text)
        else:
            word = original.words[index]
            changed = before - (candidate.base.words[index] != word) + (placed[0][1] != word)
        return changed <= math.ceil(min(candidate.count(), len(original)) * self.share)

    def describe(self) -> str:
        return f"at most {self.share:.0%} of the words differ from the original (rounded up)"


REGISTERED = ShareChanged
