"""In which order an attack visits the words: the more a word matters to the victim, the earlier.

Ties fall as numpy's default ``argsort`` lets them, on indices in the order of ``Greedy.modifiable``; scores that are too near for a
batched forward pass to tell apart are settled first (see ``game``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from robust_tickets.attack.asking import Steps
from robust_tickets.attack.game import Game, Scored
from robust_tickets.attack.greedy import Candidate, Greedy
from robust_tickets.attack.transforms.several import Several

UNKNOWN = "[UNK]"
NOWHERE = np.array([], dtype=np.int64)  # where a budget was spent on ranking, no word is visited


def ranked(game: Game, kit: Greedy) -> list[int]:
    """The words an order is made of: those that may change, or all; a word that may not yields no candidates when its turn comes."""
    if game.rules.ranks_all:
        return list(range(len(game.original)))
    found = kit.modifiable(game, game.original)
    if game.rules.gathers and isinstance(kit.transform, Several) and len(kit.transform.parts) > 1:
        gathered: set[int] = set()
        for _ in kit.transform.parts:
            gathered.update(found)  # the same words, maybe in a larger table, which they then leave in another order
        return list(gathered)
    return list(found)


@dataclass(frozen=True)
class DropScore:
    """By the score of the text without the word (``replacement=""``) or with another in its place."""

    replacement: str = ""

    def order(self, game: Game, kit: Greedy) -> Steps:
        indices = ranked(game, kit)
        answers: list[Scored] = yield from game.ask([Candidate(game.original, i, self.replacement) for i in indices])
        if game.over:
            return NOWHERE
        yield from game.ordered(answers)
        scores = np.array([answer.score for answer in answers], dtype=np.float64)
        return np.array(indices, dtype=np.int64)[(-scores).argsort()]


@dataclass(frozen=True)
class WeightedSaliency:
    """PWWS: how much the victim needs the word, times how much its best substitute gains.

    a = softmax over the modifiable words of the score with the word replaced by ``[UNK]``; d = the highest score over the word's
    candidates in the original text, 0 without any; words by a·d, falling. All these texts are queries.

    A product of this kind needs d >= 0, which probabilities are and log-odds are not: under log-odds d is the paper's own difference,
    how far the best candidate raises the clean text's score, and 0 where it does not. Softmax sees no shift, so a stays as it is.
    """

    def order(self, game: Game, kit: Greedy) -> Steps:
        indices = ranked(game, kit)
        hidden: list[Scored] = yield from game.ask([Candidate(game.original, i, UNKNOWN) for i in indices])
        candidates: list[Candidate] = []
        sizes: list[int] = []
        for i in indices:
            if game.queries + len(candidates) >= game.budget:
                break  # the rest could not be asked about
            group = yield from kit.candidates(game, game.original, i)
            candidates += group
            sizes.append(len(group))
        answers: list[Scored] = yield from game.ask(candidates)
        if game.over:
            return NOWHERE
        flat = iter(answers)
        swaps = [list(islice(flat, size)) for size in sizes]
        doubtful = self._doubtful(game, hidden, swaps)
        if doubtful:
            yield from game.settle([*hidden, *doubtful, *([game.first] if game.odds and game.first else [])])
        products = _softmax(hidden) * _gains(game, swaps)
        return np.array(indices, dtype=np.int64)[(-products).argsort()]

    def _doubtful(self, game: Game, hidden: list[Scored], swaps: list[list[Scored]]) -> list[Scored]:
        """The answers behind products that lie too near to one another."""
        if not hidden or game.noise == 0:
            return []
        gains, weights = _gains(game, swaps), _softmax(hidden)
        products = weights * gains
        spread = max(game.tolerance(answer.score) for answer in hidden)
        # da <= 2 a ds for a softmax, so d(a·d) <= a·dd + 2 a·d·ds; under log-odds d is off by what both its scores are
        slack = np.array(
            [w * (1 + game.odds) * game.tolerance(g) + 2 * w * g * spread for w, g in zip(weights, gains, strict=True)]
        )
        ranked = [int(i) for i in np.argsort(-products, kind="stable") if swaps[int(i)]]
        tied = {
            i
            for above, below in pairwise(ranked)
            if products[above] - products[below] <= slack[above] + slack[below]
            for i in (above, below)
        }
        found = []
        for i in sorted(tied):
            top = max(answer.score for answer in swaps[i])
            found += [answer for answer in swaps[i] if game.near(answer.score, top)]
        return found


def _gains(game: Game, swaps: list[list[Scored]]) -> np.ndarray:
    best = [max((answer.score for answer in group), default=None) for group in swaps]
    if not game.odds or game.first is None:
        return np.array([0.0 if score is None else score for score in best], dtype=np.float64)
    clean = game.first.score
    return np.array([0.0 if score is None else max(0.0, score - clean) for score in best], dtype=np.float64)


def _softmax(hidden: list[Scored]) -> np.ndarray:
    """In float32, as TextAttack takes it; of log-odds, which lie further apart, in float64."""
    odds = any(answer.odds for answer in hidden)
    scores = np.array([answer.score for answer in hidden], dtype=np.float64 if odds else np.float32)
    if not scores.size:
        return scores
    grown = np.exp(scores - scores.max())
    return np.asarray(grown / grown.sum(), dtype=scores.dtype)
