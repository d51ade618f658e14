"""The greedy word swap: rank the words once, then swap them one after another, best candidate first.

A recipe is a ranking × transformations × constraints. Each part may answer at once or, as a generator, ask the victim or another
service first. The search is TextAttack's ``GreedyWordSwapWIR``, on which most word-swap attacks run:

- words are ranked on the *original* text; a rank is an original index and is used on the current text without shifting;
- a candidate is kept only if it scores strictly higher than the current text; equal scores go to the first in the order of the texts;
- after the first success the winner is the most similar one among the leading successes, where a constraint measured similarity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from robust_tickets.attack.components import Candidate, Constraint, Transformation, WordConstraint
from robust_tickets.attack.example import ExampleState, Scored, Slope, Steps, steps
from robust_tickets.attack.text import Text

if TYPE_CHECKING:
    from robust_tickets.attack.scheduler import Service

ROUNDING = 1e-6  # cosines nearer than this may be one number in a constraint's own metric
UNKNOWN = "[UNK]"
NO_WORDS = np.array([], dtype=np.int64)  # the order where a budget was spent on ranking


class Ranking(Protocol):
    """In which order the words are visited: an array of word indices, or steps that return one."""

    def order(self, example: ExampleState, search: GreedySearch) -> np.ndarray | Steps: ...


@dataclass(frozen=True, kw_only=True)
class GreedySearch:
    """A ranking, transformations, and constraints on words and on candidates."""

    title: str
    ranking: Ranking
    transformations: tuple[Transformation, ...]
    modifiable: tuple[WordConstraint, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    dropped: tuple[str, ...] = ()  # what was left out for want of a resource

    def describe(self) -> tuple[str, ...]:
        return tuple(part.describe() for part in self._parts())

    def services(self) -> dict[str, Service]:
        """What its steps may ask besides the victim, by name."""
        return {name: service for part in self._parts() for name, service in part.services().items()}

    def warm(self, words: Iterable[str]) -> None:
        """Look up the words of all texts beforehand."""
        wanted = [word for word in words if all(rule.may_change(word) for rule in self.modifiable)]
        for transformation in self.transformations:
            transformation.warm(wanted)

    def _parts(self) -> tuple[Transformation | WordConstraint | Constraint, ...]:
        return (*self.transformations, *self.modifiable, *self.constraints)

    def changeable(self, example: ExampleState, text: Text) -> set[int]:
        """Words that may change. How the set came about decides its order, and that decides ties of the ranking, as in TextAttack."""

        def judged() -> set[int]:
            words = set(range(len(text)))
            for rule in self.modifiable:
                words = words & rule.allowed(example, text)
            return words

        return example.kept_of(self, text, judged)

    def candidates(self, example: ExampleState, text: Text, index: int) -> Steps:
        """Texts with word ``index`` replaced that pass every constraint, by text."""
        if index not in self.changeable(example, text):
            return []
        found = yield from self._replacements(example, text, index)
        kept = [Candidate(text, index, new) for new in found if new != text.words[index]]
        for constraint in self.constraints:
            if not kept:
                return []
            kept = yield from steps(constraint.keep(example, kept, text))
        return sorted(kept, key=lambda candidate: candidate.key)

    def _replacements(self, example: ExampleState, text: Text, index: int) -> Steps:
        """What the transformations offer: of one as it is, of several each in turn and none twice (but for rules that double them)."""
        found: list[str] = []
        for part in self.transformations:
            offered = yield from steps(part.replacements(example, text, index))
            if len(self.transformations) == 1:
                return offered
            found += _once(offered, text, index)  # never twice by the same one
        return _once(found, text, index) if example.rules.drops_doubles else found

    def attack(self, example: ExampleState) -> Steps:
        """The search on one example; returns (status, final text, first answer, last answer)."""
        first: Scored = (yield from example.ask([example.original]))[0]
        if (yield from example.reached(first)):
            return "skipped", example.original, first, first
        order = yield from steps(self.ranking.order(example, self))
        example.blind = example.still if example.queries > 1 else None  # a ranking by gradients asks nothing
        text, best = example.original, first
        for index in order:
            if example.over:
                break
            found: list[Candidate] = yield from self.candidates(example, text, int(index))
            asked = example.queries
            answers: list[Scored] = yield from example.ask(found)
            example.tried += len(answers)
            if not answers:
                continue
            top = yield from example.best(answers, best)
            if top is None:
                continue
            if (yield from example.reached(top)):
                example.fell_at = yield from _fell_at(example, asked, best, answers)
                best = yield from self._winner(example, answers, top)
                text, best.similarity = _candidate(best).text, _candidate(best).measured
                return "success", text, first, best
            text, best = _candidate(top).text, top
            best.similarity = _candidate(best).measured
            example.forget(best)
        return "failed", text, first, best

    def _winner(self, example: ExampleState, answers: list[Scored], top: Scored) -> Steps:
        """The most similar of the successes that lead the answers; ``top`` where nothing measured similarity."""
        if _candidate(top).cosine is None:
            return top
        leading: list[Scored] = []
        for answer in (yield from example.ordered(answers)):
            if not (yield from example.reached(answer)):
                break
            leading.append(answer)
        highest = max(map(_cosine, leading))
        near = 2 * example.vector_noise + ROUNDING  # each may be off by the noise, either way
        close = [answer for answer in leading if highest - _cosine(answer) <= near]
        for answer in close if len(close) > 1 else ():
            if (sharpen := _candidate(answer).sharpen) is not None:
                yield from sharpen()
        return max(close, key=_likeness)


def _candidate(answer: Scored) -> Candidate:
    assert isinstance(answer.item, Candidate)  # only the first answer is to a text
    return answer.item


def _cosine(answer: Scored) -> float:
    cosine = _candidate(answer).cosine
    return -1.0 if cosine is None else cosine


def _likeness(answer: Scored) -> float:
    own = _candidate(answer).likeness
    return _cosine(answer) if own is None else own


def _once(found: Sequence[str], text: Text, index: int) -> list[str]:
    """One of those that make the same text, which in a text with odd marks different words may do."""
    if not text.astray:
        return list(dict.fromkeys(found))
    kept: dict[tuple[str, ...], str] = {}
    for new in found:
        kept.setdefault(text.swapped(index, new), new)
    return list(kept.values())


def _fell_at(example: ExampleState, asked: int, best: Scored, answers: Sequence[Scored]) -> Steps:
    """The smallest budget from which on every budget wins, of a step that won; ``asked`` queries came before it.

    A budget that ends inside the step leaves the first of its ``answers``: they win where the highest of them, if it is above ``best``,
    reaches the goal. So the highest so far is followed through the list, with near scores decided exactly as everywhere.
    """
    top, since = best, None
    for number, answer in enumerate(answers, start=1):
        if answer.row is not top.row and example.near(answer.score, top.score):
            yield from example.score_alone([answer, top])
        if answer.score > top.score:
            top = answer
            if not (yield from example.reached(top)):
                since = None
            elif since is None:
                since = asked + number
    return example.queries if since is None else since


# --- rankings


def ranked(example: ExampleState, search: GreedySearch) -> list[int]:
    """The words an order is made of; one that may not change yields no candidates when its turn comes."""
    text = example.original
    return example.rules.ranked(len(text), search.changeable(example, text), len(search.transformations))


@dataclass(frozen=True)
class DropScore:
    """By the score of the text without the word (``replacement=""``) or with another in its place."""

    replacement: str = ""

    def order(self, example: ExampleState, search: GreedySearch) -> Steps:
        indices = ranked(example, search)
        hidden = [Candidate(example.original, i, self.replacement) for i in indices]
        answers: list[Scored] = yield from example.ask(hidden)
        if example.over:
            return NO_WORDS
        yield from example.ordered(answers)
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

    def order(self, example: ExampleState, search: GreedySearch) -> Steps:
        indices = ranked(example, search)
        hidden: list[Scored] = yield from example.ask([Candidate(example.original, i, UNKNOWN) for i in indices])
        candidates: list[Candidate] = []
        sizes: list[int] = []
        for i in indices:
            if example.queries + len(candidates) >= example.budget:
                break  # the rest could not be asked about
            group = yield from search.candidates(example, example.original, i)
            candidates += group
            sizes.append(len(group))
        answers: list[Scored] = yield from example.ask(candidates)
        if example.over:
            return NO_WORDS
        flat = iter(answers)
        swaps = [list(islice(flat, size)) for size in sizes]
        doubtful = self._doubtful(example, hidden, swaps)
        if doubtful:
            clean = [example.first] if example.goal.odds and example.first else []
            yield from example.score_alone([*hidden, *doubtful, *clean])
        products = _softmax(hidden) * _gains(example, swaps)
        return np.array(indices, dtype=np.int64)[(-products).argsort()]

    def _doubtful(self, example: ExampleState, hidden: list[Scored], swaps: list[list[Scored]]) -> list[Scored]:
        """The answers behind products that lie too near to one another."""
        if not hidden or example.noise == 0:
            return []
        gains, weights = _gains(example, swaps), _softmax(hidden)
        products = weights * gains
        spread = max(example.tolerance(answer.score) for answer in hidden)
        # da <= 2 a ds for a softmax, so d(a·d) <= a·dd + 2 a·d·ds; under log-odds d is off by what both its scores are
        near = np.array([example.tolerance(gain) for gain in gains])
        slack = weights * (1 + example.goal.odds) * near + 2 * weights * gains * spread
        tied = set[int]()
        for above, below in pairwise(int(i) for i in np.argsort(-products, kind="stable") if swaps[i]):
            if products[above] - products[below] <= slack[above] + slack[below]:
                tied |= {above, below}
        found = []
        for i in sorted(tied):
            top = max(answer.score for answer in swaps[i])
            found += [answer for answer in swaps[i] if example.near(answer.score, top)]
        return found


def _gains(example: ExampleState, swaps: list[list[Scored]]) -> np.ndarray:
    clean = example.first.score if example.goal.odds and example.first is not None else None
    best = [max((answer.score for answer in group), default=clean or 0.0) for group in swaps]
    return np.array(best if clean is None else [max(0.0, score - clean) for score in best], dtype=np.float64)


def _softmax(hidden: list[Scored]) -> np.ndarray:
    """In float32, as TextAttack takes it; of log-odds, which lie further apart, in float64."""
    odds = any(answer.goal.odds for answer in hidden)
    scores = np.array([answer.score for answer in hidden], dtype=np.float64 if odds else np.float32)
    if not scores.size:
        return scores
    grown = np.exp(scores - scores.max())
    return np.asarray(grown / grown.sum(), dtype=scores.dtype)


SLACK = 10  # how much more a batch moves a slope, as a share of the steepest, than a score in log-odds; measured maxima are below 1


@dataclass(frozen=True)
class GradientRanking:
    """By the slope of the loss at the word (see ``gradient``), falling; slopes too near for a batch to tell apart are taken again, alone.

    Under log-odds scoring it is the slope of the log-odds: that of the loss vanishes where the victim is sure.
    """

    def order(self, example: ExampleState, search: GreedySearch) -> Steps:
        words = ranked(example, search)
        if not words:
            return NO_WORDS
        question = Slope(example.original, words, odds=example.goal.odds)
        slopes: np.ndarray = yield question
        example.passes += 1
        if self._doubtful(example, slopes):
            question.alone = True
            slopes = yield question
            example.passes += 1
        visited = example.rules.ranked_by_gradient(words, len(slopes))
        return np.array(visited, dtype=np.int64)[(-slopes).argsort()]

    def _doubtful(self, example: ExampleState, slopes: np.ndarray) -> bool:
        slack = 2 * SLACK * max(example.noise, example.slope_noise) * float(slopes.max())
        return any(above - below <= slack and above > 0 for above, below in pairwise(np.sort(slopes)[::-1]))
