"""The ranking of A2T: words where the victim's loss is steepest come first. It costs one backward pass and no query."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from robust_tickets.attack.asking import Slope, Steps
from robust_tickets.attack.game import Game
from robust_tickets.attack.greedy import Greedy
from robust_tickets.attack.ranking import ranked

SLACK = 10  # how much more a batch moves a slope, as a share of the steepest, than a score in log-odds; measured maxima are below 1


@dataclass(frozen=True)
class Steepest:
    """By the slope of the loss at the word (see ``gradient``), falling; slopes too near for a batch to tell apart are taken again, alone.

    Under log-odds scoring it is the slope of the log-odds: that of the loss vanishes where the victim is sure.
    """

    def order(self, game: Game, kit: Greedy) -> Steps:
        words = ranked(game, kit)
        if not words:
            return np.array([], dtype=np.int64)
        cut = game.rules.cuts_gradient
        question = Slope(game.original, words, odds=game.odds, cut=cut)
        slopes: np.ndarray = yield question
        game.passes += 1
        if self._doubtful(game, slopes):
            question.alone = True
            slopes = yield question
            game.passes += 1
        visited = sorted(words)[: len(slopes)] if cut else words
        return np.array(visited, dtype=np.int64)[(-slopes).argsort()]

    def _doubtful(self, game: Game, slopes: np.ndarray) -> bool:
        slack = 2 * SLACK * max(game.noise, game.slope_noise) * float(slopes.max())
        return any(above - below <= slack and above > 0 for above, below in pairwise(np.sort(slopes)[::-1]))
