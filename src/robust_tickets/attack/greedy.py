"""The greedy kit: rank the words once, then swap them one after another, best candidate first.

A recipe is a ranking × a transformation × constraints. Each part may answer at once or, as a generator, ask the victim or another
service first. The search is TextAttack's ``GreedyWordSwapWIR``, on which most word-swap attacks run:

- words are ranked on the *original* text; a rank is an original index and is used on the current text without shifting;
- a candidate is kept only if it scores strictly higher than the current text; equal scores go to the first in the order of the texts;
- after the first success the winner is the most similar one among the leading successes, where a constraint measured similarity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from robust_tickets.attack.asking import Steps, steps
from robust_tickets.attack.budget import fell_at
from robust_tickets.attack.game import Game, Scored
from robust_tickets.attack.text import BETWEEN_COLUMNS, Text

ROUNDING = 1e-6  # cosines nearer than this may be one number in a constraint's own metric


@dataclass(eq=False, slots=True)
class Candidate:
    """Word ``index`` of ``base`` replaced by ``new``; strings are made when they are wanted and not kept."""

    base: Text
    index: int
    new: str
    cosine: float | None = None  # similarity that a constraint measured
    likeness: float | None = None  # the same in the constraint's own metric, which chooses among successes
    sharpen: Callable[[], Steps] | None = None  # measures it again, exactly

    @property
    def measured(self) -> float | None:
        """The cosine for the record. A text too short for its constraint counts as equal in the search, which is no measurement."""
        return None if self.sharpen is None else self.cosine

    @property
    def columns(self) -> tuple[str, ...]:
        return self.base.swapped(self.index, self.new)

    @property
    def key(self) -> str:
        return BETWEEN_COLUMNS.join(self.columns)

    @property
    def text(self) -> Text:
        return self.base.replace(self.index, self.new)

    def window(self, around: int, size: float) -> str:
        """``text.window``, for which the whole text need not be made."""
        return self.base.window_with(self.index, self.new, around, size)

    @property
    def local(self) -> bool:
        """Whether the texts differ in this one word only."""
        return self.base.local(self.new)

    def count(self) -> int:
        """How many words the candidate has."""
        return self.base.count(self.index, self.new)

    def placed(self) -> list[tuple[int, str]]:
        """The words the replacement puts into the text, and where; more than one where it holds several."""
        return self.base.placed(self.index, self.new)


class Frozen(Protocol):
    """A rule about which words may change at all."""

    def allowed(self, game: Game, text: Text) -> set[int]: ...


class Transform(Protocol):
    """What may stand in a word's place: a list of strings, or steps that return one."""

    def replacements(self, game: Game, text: Text, index: int) -> Sequence[str] | Steps: ...


class Constraint(Protocol):
    """Which candidates pass: a list, or steps that return one."""

    def keep(self, game: Game, candidates: list[Candidate], current: Text) -> list[Candidate] | Steps: ...


class Ranking(Protocol):
    """In which order the words are visited: an array of word indices, or steps that return one."""

    def order(self, game: Game, kit: Greedy) -> np.ndarray | Steps: ...


@dataclass(frozen=True, kw_only=True)
class Greedy:
    """A ranking, a transformation, rules about words, constraints on candidates."""

    ranking: Any
    transform: Any
    frozen: tuple[Any, ...] = ()
    constraints: tuple[Any, ...] = ()

    def modifiable(self, game: Game, text: Text) -> set[int]:
        """Words that may change. How the set came about decides its order, and that decides ties of the ranking, as in TextAttack."""
        if game.judged is None or game.judged[0] is not text:
            indices = set(range(len(text)))
            for rule in self.frozen:
                indices = indices & rule.allowed(game, text)
            game.judged = (text, indices)
        return game.judged[1]

    def candidates(self, game: Game, text: Text, index: int) -> Steps:
        """Texts with word ``index`` replaced that pass every constraint, by text."""
        if index not in self.modifiable(game, text):
            return []
        found = yield from steps(self.transform.replacements(game, text, index))
        kept = [Candidate(text, index, new) for new in found if new != text.words[index]]
        for constraint in self.constraints:
            if not kept:
                return []
            kept = yield from steps(constraint.keep(game, kept, text))
        return sorted(kept, key=lambda candidate: candidate.key)

    def attack(self, game: Game) -> Steps:
        """The search on one example; returns (status, final text, first answer, last answer)."""
        first: Scored = (yield from game.ask([game.original]))[0]
        if (yield from game.won(first)):
            return "skipped", game.original, first, first
        order = yield from steps(self.ranking.order(game, self))
        game.blind = game.still if game.queries > 1 else None  # a ranking by gradients asks nothing
        text, best = game.original, first
        for index in order:
            if game.over:
                break
            found: list[Candidate] = yield from self.candidates(game, text, int(index))
            asked = game.queries
            answers: list[Scored] = yield from game.ask(found)
            game.tried += len(answers)
            if not answers:
                continue
            top = yield from game.best(answers, best)
            if top is None:
                continue
            if (yield from game.won(top)):
                game.fell_at = yield from fell_at(game, asked, best, answers)
                chosen = yield from self._winner(game, found, answers, top)
                answers[chosen].similarity = found[chosen].measured
                return "success", found[chosen].text, first, answers[chosen]
            accepted = found[_place(answers, top)]
            text, best = accepted.text, top
            best.similarity = accepted.measured
            game.forget(best)
        return "failed", text, first, best

    def _winner(self, game: Game, found: list[Candidate], answers: list[Scored], top: Scored) -> Steps:
        """Index of the most similar of the successes that lead the answers; ``top`` where nothing measured similarity."""
        if found[_place(answers, top)].cosine is None:
            return _place(answers, top)
        leading: list[int] = []
        places = {id(answer): place for place, answer in enumerate(answers)}
        for answer in (yield from game.ordered(answers)):
            if not (yield from game.won(answer)):
                break
            leading.append(places[id(answer)])
        highest = max(_cosine(found[i]) for i in leading)
        near = 2 * game.vector_noise + ROUNDING  # each may be off by the noise, either way
        close = [i for i in leading if highest - _cosine(found[i]) <= near]
        if len(close) > 1:
            for i in close:
                sharpen = found[i].sharpen
                if sharpen is not None:
                    yield from sharpen()
        return max(close, key=lambda i: _likeness(found[i]))


def _place(answers: list[Scored], wanted: Scored) -> int:
    return next(i for i, answer in enumerate(answers) if answer is wanted)


def _cosine(candidate: Candidate) -> float:
    return -1.0 if candidate.cosine is None else candidate.cosine


def _likeness(candidate: Candidate) -> float:
    return _cosine(candidate) if candidate.likeness is None else candidate.likeness
