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
from itertools import islice, pairwise
from typing import Any, Protocol

import numpy as np

from robust_tickets.attack.example import Game, Scored, Slope, Steps, steps
from robust_tickets.attack.text import BETWEEN_COLUMNS, Text
from robust_tickets.attack.transforms.several import Several


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
