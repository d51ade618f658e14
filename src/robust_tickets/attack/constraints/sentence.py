"""A candidate must mean nearly what the text meant, by a sentence encoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from robust_tickets.attack.asking import Encode, Steps
from robust_tickets.attack.game import Game
from robust_tickets.attack.greedy import Candidate
from robust_tickets.attack.text import Text


@dataclass(frozen=True)
class SentenceSimilarity:
    """Angular similarity 1 - angle/π of a window around the changed word at least ``least``, against the *current* text.

    A candidate of fewer words than the window passes with similarity 1 and is not encoded. As with scores (see ``game``), a cosine too
    near to the threshold for a batch to decide is measured again with every window encoded alone.
    """

    least: float
    window: int

    def keep(self, game: Game, candidates: list[Candidate], current: Text) -> Steps:
        game.vectors.clear()  # windows around another word
        game.exact_vectors.clear()
        threshold = math.cos(math.pi * (1 - self.least))
        measured = [candidate for candidate in candidates if candidate.count() >= self.window]
        for candidate in candidates:
            candidate.cosine = 1.0
        pairs = [self._windows(candidate, current) for candidate in measured]
        yield from _encode(game, [text for pair in pairs for text in pair])
        for candidate, pair in zip(measured, pairs, strict=True):
            candidate.cosine = _cosine(game, *pair)
            candidate.sharpen = sharpen = _sharpener(game, candidate, pair)
            if abs(candidate.cosine - threshold) <= game.vector_noise:
                yield from sharpen()
        return [candidate for candidate in candidates if _angular(candidate.cosine) >= self.least]

    def _windows(self, candidate: Candidate, current: Text) -> tuple[str, str]:
        return current.window(candidate.index, self.window), candidate.text.window(candidate.index, self.window)

    def describe(self) -> str:
        return f"sentence encoder: angular similarity with the current text at least {self.least} in a window of {self.window} words"


def _sharpener(game: Game, candidate: Candidate, pair: tuple[str, str]) -> Callable[[], Steps]:
    def sharpen() -> Steps:
        yield from _encode(game, pair, alone=True)
        candidate.cosine = _cosine(game, *pair)

    return sharpen


def _encode(game: Game, texts: Sequence[str], alone: bool = False) -> Steps:
    known = game.exact_vectors if alone else game.vectors
    wanted = [text for text in dict.fromkeys(texts) if text not in known]
    if not wanted:
        return
    found = yield Encode(wanted, alone)
    for text, vector in zip(wanted, found, strict=True):
        game.vectors[text] = vector
        if alone:
            game.exact_vectors.add(text)


def _cosine(game: Game, a: str, b: str) -> float:
    """At most 1: rounding may not push equal texts beyond it, where the angle has no meaning."""
    u, v = game.vectors[a].astype(np.float64), game.vectors[b].astype(np.float64)
    size = float(np.linalg.norm(u) * np.linalg.norm(v))
    return min(1.0, max(-1.0, float(u @ v) / size)) if size else 0.0


def _angular(cosine: float | None) -> float:
    return 1 - math.acos(1.0 if cosine is None else cosine) / math.pi
