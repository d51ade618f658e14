"""A candidate must mean nearly what the text meant, by a sentence encoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from robust_tickets.attack.example import Encode, Game, Steps
from robust_tickets.attack.greedy import Candidate
from robust_tickets.attack.text import Text
from robust_tickets.config import one_of
from robust_tickets.errors import TicketsError

METRICS = ("angular", "cosine")
REFERENCES = ("original", "current")


@dataclass(frozen=True)
class SentenceSimilarity:
    """Similarity of two windows around the changed word at least ``least``: the candidate's, and the original or the current text's.

    The metric is the cosine, or the angular similarity 1 - angle/π. A window of ``math.inf`` words is the whole text from its first to
    its last word. With ``skip_short`` a candidate of fewer words than the window passes with similarity 1 and is not encoded. A candidate
    whose replacement holds no word is refused: there is no changed word to look around.

    The similarity is computed in the encoder's own precision and by the operations TextAttack uses, because its rounding shows: where
    the rules do not clamp a cosine, rounding beyond 1 leaves no angle, and the candidate is refused. As with scores (see ``game``), a
    cosine too near to a limit for a batch to decide is measured again with every window encoded alone.
    """

    least: float
    window: float = math.inf  # words
    metric: str = "angular"
    reference: str = "original"
    skip_short: bool = False

    def __post_init__(self) -> None:
        one_of("the metric of sentence similarity", self.metric, METRICS)
        one_of("the reference of sentence similarity", self.reference, REFERENCES)
        lowest = 0 if self.metric == "angular" else -1
        if not lowest <= self.least <= 1 or not self.window >= 1:
            raise TicketsError(
                f"{self.metric} similarity is from {lowest} to 1 and a window has at least 1 word, got {self.least} and {self.window}",
                hint="TextAttack has 0.8 on whole texts for TextBugger, 0.840845057 in 15 words for TextFooler (both angular)",
            )

    def keep(self, game: Game, candidates: list[Candidate], current: Text) -> Steps:
        self._forget(game)
        worded = [candidate for candidate in candidates if candidate.placed()]
        measured = [candidate for candidate in worded if not (self.skip_short and candidate.count() < self.window)]
        for candidate in worded:
            candidate.cosine, candidate.likeness, candidate.sharpen = 1.0, 1.0, None
        against = game.original if self.reference == "original" else current
        pairs = [self._windows(candidate, against) for candidate in measured]
        yield from _encode(game, [text for pair in pairs for text in pair])
        self._measure(game, measured, pairs)
        for candidate, pair in zip(measured, pairs, strict=True):
            candidate.sharpen = sharpen = self._sharpener(game, candidate, pair)
            if self._close(game, candidate):
                yield from sharpen()
        return [candidate for candidate in worded if self._passes(candidate)]

    def _windows(self, candidate: Candidate, against: Text) -> tuple[str, str]:
        # TextAttack takes whichever of the new words its set yields first, which need not be the leftmost
        around = next(iter({index for index, _ in candidate.placed()}))
        return against.window(around, self.window), candidate.window(around, self.window)

    def _measure(self, game: Game, candidates: list[Candidate], pairs: Sequence[tuple[str, str]]) -> None:
        """In the precision of the vectors, operation by operation as TextAttack does it. No row depends on the others."""
        if not pairs:
            return
        import torch

        ours, theirs = (torch.from_numpy(np.stack([_vector(game, pair[side]) for pair in pairs])) for side in (0, 1))
        cosines = alike = torch.nn.functional.cosine_similarity(ours, theirs, dim=1)
        if self.metric == "angular":
            within = torch.clamp(cosines, -1.0, 1.0) if game.rules.clamped else cosines
            alike = 1 - torch.acos(within) / math.pi
        for candidate, cosine, value in zip(candidates, cosines.tolist(), alike.tolist(), strict=True):
            candidate.cosine, candidate.likeness = min(1.0, max(-1.0, cosine)), value

    def _passes(self, candidate: Candidate) -> bool:
        return candidate.likeness is not None and candidate.likeness >= self.least  # not a number: no

    def _close(self, game: Game, candidate: Candidate) -> bool:
        """Whether a batch may have moved the cosine across a limit."""
        limits = [math.cos(math.pi * (1 - self.least)) if self.metric == "angular" else self.least]
        limits += [1.0] if self.metric == "angular" and not game.rules.clamped else []
        return candidate.cosine is not None and any(
            abs(candidate.cosine - limit) <= game.vector_noise for limit in limits
        )

    def _sharpener(self, game: Game, candidate: Candidate, pair: tuple[str, str]) -> Callable[[], Steps]:
        def sharpen() -> Steps:
            yield from _encode(game, pair, alone=True)
            self._measure(game, [candidate], [pair])

        return sharpen

    def _forget(self, game: Game) -> None:
        """Drop the windows around another word; the whole original text is wanted every time."""
        kept = (
            game.original.window(0, self.window)
            if self.window == math.inf and self.reference == "original" and len(game.original)
            else ""
        )
        for text in [text for text in game.vectors if text != kept]:
            del game.vectors[text]
        game.exact_vectors &= {kept}

    def describe(self) -> str:
        where = "over the whole text" if self.window == math.inf else f"in a window of {self.window} words"
        short = ", shorter texts pass" if self.skip_short and self.window != math.inf else ""
        return f"sentence encoder: {self.metric} similarity with the {self.reference} text at least {self.least} {where}{short}"


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


def _vector(game: Game, text: str) -> np.ndarray:
    vector = game.vectors[text]
    return vector if vector.dtype == np.float64 else vector.astype(np.float32)
