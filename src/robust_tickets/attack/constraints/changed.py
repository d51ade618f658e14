"""How many words of a text may change."""

from __future__ import annotations

import math
from dataclasses import dataclass

from robust_tickets.attack.example import Game
from robust_tickets.attack.greedy import Candidate
from robust_tickets.attack.text import Text, words_changed


@dataclass(frozen=True)
class ShareChanged:
    """A candidate: words that differ from the original, place by place up to the shorter one, at most ``share`` of them, rounded up."""

    share: float

    def keep(self, game: Game, candidates: list[Candidate], current: Text) -> list[Candidate]:
        before = words_changed(game.original, current)
        return [candidate for candidate in candidates if self._passes(game.original, candidate, before)]

    def _passes(self, original: Text, candidate: Candidate, before: int) -> bool:
        placed, index = candidate.placed(), candidate.index
        if (
            len(placed) != 1 or index >= len(original) or not candidate.local
        ):  # words behind it move, or have no counterpart
            changed = words_changed(original, candidate.text)
        else:
            word = original.words[index]
            changed = before - (candidate.base.words[index] != word) + (placed[0][1] != word)
        return changed <= math.ceil(min(candidate.count(), len(original)) * self.share)

    def describe(self) -> str:
        return f"at most {self.share:.0%} of the words differ from the original (rounded up)"


@dataclass(frozen=True)
class ShareModified:
    """A rule about words: none may change any more when ``share`` of the words are changed (rounded up, but ``least`` in any case)."""

    share: float
    least: int

    def allowed(self, game: Game, text: Text) -> set[int]:
        most = max(math.ceil(len(text) * self.share), self.least)
        return set() if len(text.modified) >= most else set(range(len(text)))

    def describe(self) -> str:
        return f"at most {self.share:.0%} of the words change (rounded up), or {self.least} where that is more"
