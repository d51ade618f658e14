"""At which query an example fell: from which budget on a run with that budget would have broken it."""

from __future__ import annotations

from collections.abc import Sequence

from robust_tickets.attack.asking import Steps
from robust_tickets.attack.game import Game, Scored


def fell_at(game: Game, asked: int, best: Scored, answers: Sequence[Scored]) -> Steps:
    """The smallest budget from which on every budget wins, of a step that won; ``asked`` queries came before it.

    A budget that ends inside the step leaves the first of its ``answers``: they win where the highest of them, if it is above ``best``,
    has another class. So the highest so far is followed through the list, with near scores settled as everywhere.
    """
    top, since = best, None
    for number, answer in enumerate(answers, start=1):
        if answer.row is not top.row and game.near(answer.score, top.score):
            yield from game.settle([answer, top])
        if answer.score > top.score:
            top = answer
            if not (yield from game.won(top)):
                since = None
            elif since is None:
                since = asked + number
    return game.queries if since is None else since
