"""One example under attack: the goal, the query counter, and comparisons that rounding cannot flip.

The goal is untargeted: the score of a text is 1 - p(label) in float32, and the attack has won when another class has the highest
probability. Queries are counted as TextAttack counts them: every text of every request, known or not, twice if it comes twice.

**Why comparisons need care.** A text's probabilities depend a little (about 1e-7 in fp32) on the batch it was run in, so two texts with
nearly equal scores could be ordered one way in batches of 16 and the other way in batches of 32. Rounding scores to a grid does not
help: a value near a grid line then flips instead. So the score of a text is *defined* as the one it gets when run alone. A batched score
is an approximation of it within ``noise`` (in log-odds). Where two scores are further apart than twice that, the approximation decides
as the exact scores would; where they are not, both texts are run alone and the exact scores decide. The result is that of batches of
one, at nearly the cost of large batches. Texts with equal token ids share one row, so that a true tie stays a tie.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from inspect import isgenerator
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import OWN, Rules
from robust_tickets.seeds import Dice


@dataclass(slots=True, eq=False)
class Row:
    """The victim's answer to one input; texts with equal token ids share one."""

    probabilities: np.ndarray  # float32, one per class
    logits: np.ndarray  # float32, divided by the temperature; of a callable, log p
    predicted: int  # the most probable class at temperature 1, so that no rounding at another one changes it
    exact: bool = False  # run alone, so that it depends on nothing but the text


@dataclass(slots=True)
class Ask:
    """Ask the victim about texts; the answer is one ``Row`` each. ``known`` are the rows this example has seen, by input."""

    texts: Sequence[tuple[str, ...]]
    known: dict[Any, Row]
    alone: bool = False  # every text in a batch of its own, also where it is known
    passes: int = 0  # forward passes this question cost, filled in by the victim's service
    service: str = field(default="victim", init=False)


@dataclass(slots=True)
class Encode:
    """Ask the sentence encoder about texts; the answer is one vector each, not necessarily of unit length."""

    texts: Sequence[str]
    alone: bool = False
    service: str = field(default="encoder", init=False)


@dataclass(slots=True)
class Fill:
    """Ask the masked language model which words suit the tokens of a text; the answer is an ``attack.masked.Filled``."""

    text: str
    rows: int = 0  # tokens to answer for at least, padding behind the text included
    at: int | None = None  # only this token
    alone: bool = False
    service: str = field(default="masked", init=False)


@dataclass(slots=True)
class Slope:
    """Ask how steep the victim's loss is at words of a text; the answer is an array, one number for each of ``words``."""

    text: Any  # attack.text.Text
    words: Sequence[int]
    odds: bool = False  # the slope of the log-odds instead, which does not vanish where the victim is sure
    cut: bool = True  # see ``attack.services``
    alone: bool = False
    service: str = field(default="gradient", init=False)


Steps = Generator[Any, Any, Any]  # yields questions, is sent answers, returns a result


def steps(result: Any) -> Steps:
    """Run a part of the kit that either has its result at once or asks for something first."""
    if isgenerator(result):
        return (yield from result)
    return result


IN_FLIGHT = 4_000_000  # characters all live examples together ask about at a time
ULP = 2.0**-23  # rounding of 1 - p in float32, generously
ORDINARY = 16.0  # logits up to which the noise was measured; larger ones come from larger weights, whose rounding is larger alike
STILL = 1e-6  # a score that moved by less has not moved: 8 times the rounding of float32


class Item(Protocol):
    """Something to ask the victim about: a text, or a candidate that makes its strings when they are wanted."""

    @property
    def columns(self) -> tuple[str, ...]: ...


@dataclass(slots=True)
class Scored:
    """A text and the victim's row for it."""

    item: Item
    row: Row
    label: int
    odds: bool = False  # score by log-odds
    similarity: float | None = None  # that a constraint measured, of the text the search ends with

    @property
    def score(self) -> float:
        """1 - p(label) in float32, as TextAttack has it; or the log-odds against the label in float64, which do not saturate."""
        if not self.odds:
            return float(np.float32(1) - self.row.probabilities[self.label])
        logits = self.row.logits.astype(np.float64)
        others = np.delete(logits, self.label)
        top = others.max()
        return float(top + np.log(np.exp(others - top).sum()) - logits[self.label])


@dataclass(slots=True)
class Game:
    """The state of the attack on one example."""

    original: Text
    label: int
    column_names: tuple[str, ...]
    noise: float  # the most a batch moves the log-odds of a class, 0 where it moves none
    rules: Rules = OWN
    odds: bool = False  # texts are scored by log-odds
    budget: float = float("inf")  # most queries
    seed: int = 0  # for recipes that draw at random, derived from the run's seed and the example's id
    in_flight: int = IN_FLIGHT  # characters this example asks about at a time
    queries: int = 0
    fell_at: int | None = None  # from which budget on a run breaks the example
    passes: int = 0
    tried: int = 0  # candidates the search asked about, those of the ranking left out
    first: Scored | None = None  # the answer to the clean text
    still: bool = True  # no text asked about so far moved the score
    blind: bool | None = None  # the ranking saw no score move
    known: dict[object, Row] = field(default_factory=dict)
    judged: tuple[Text, set[int]] | None = None  # the last text whose words were judged, and which of them may change
    slope_noise: float = 0.0  # the same where gradients are taken, whose batches have no fixed shapes
    vector_noise: float = 0.0  # the most a batch moves a cosine of the sentence encoder
    vectors: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # the sentence encoder's, by text, for the word being visited
    exact_vectors: set[str] = field(default_factory=set)
    edited: tuple[Text, int] | None = (
        None  # the last text whose edits from the original were counted, and how many they are
    )
    _dice: Dice | None = None
    _grown: float | None = None  # how many times larger than measured the noise may be, by the clean text's logits
    filled: Any = None  # attack.transforms.masked: the masked language model's last answer

    @property
    def dice(self) -> Dice:
        """The example's own random streams: what it draws does not depend on which others are attacked."""
        if self._dice is None:
            self._dice = Dice(self.seed)
        return self._dice

    @property
    def over(self) -> bool:
        return self.queries >= self.budget

    def ask(self, items: Sequence[Item]) -> Steps:
        """Query the victim: counts, cuts the list to the budget, returns a ``Scored`` each."""
        if self.budget < float("inf"):
            items = items[: max(0, int(self.budget) - self.queries)]
        self.queries += len(items)
        rows = yield from self._rows(items, alone=False)
        answers = [Scored(item, row, self.label, self.odds) for item, row in zip(items, rows, strict=True)]
        if self.still:
            yield from self._watch(answers)
        return answers

    def _watch(self, answers: list[Scored]) -> Steps:
        """Note the first score that differs from the clean text's; what a batch's rounding could decide is run alone."""
        if self.first is None:
            self.first = answers[0] if answers else None
            return
        moves = [
            (abs(answer.score - self.first.score), answer) for answer in answers if answer.row is not self.first.row
        ]
        slack = self.tolerance(self.first.score)
        if not any(move > STILL + slack for move, _ in moves):
            doubtful = [answer for move, answer in moves if move > STILL - slack]
            if doubtful:
                yield from self.settle([self.first, *doubtful])
        self.still = not any(abs(answer.score - self.first.score) > STILL for _, answer in moves)

    def _rows(self, items: Sequence[Item], alone: bool) -> Steps:
        """Rows of the items, asked for in portions, so that a text of 10,000 words does not fill the memory with its variants."""
        portion = max(1, self.in_flight // (1 + sum(map(len, self.original.columns))))
        found: list[Row] = []
        for start in range(0, len(items), portion):
            question = Ask([item.columns for item in items[start : start + portion]], self.known, alone)
            found += yield question
            self.passes += question.passes
        return found

    def forget(self, best: Scored) -> None:
        """Drop the rows of texts that will not come again, now that the search goes on from ``best``: of a long text they are many.

        The kept ones are those that a new text may equal, token by token, where a victim cuts it: equal texts must stay a tie.
        """
        kept = {id(best.row), id(self.first.row) if self.first else 0}
        self.known = {key: row for key, row in self.known.items() if id(row) in kept}

    # --- comparisons

    def tolerance(self, score: float) -> float:
        """How far apart two scores near ``score`` must be for the batched values to decide."""
        if self.noise == 0:
            return 0.0
        if self._grown is None and self.first is not None:
            # the score, too, where only a difference is at hand; the logits, where all are large and their difference is not
            self._grown = max(1.0, _grown(self.first.row), abs(self.first.score) / ORDINARY if self.odds else 0.0)
        grown = self._grown or 1.0
        if self.odds:
            return 2 * self.noise * max(grown, abs(score) / ORDINARY)
        return 2 * (self.noise * grown * score * (1 - score) + ULP)

    def near(self, a: float, b: float) -> bool:
        return abs(a - b) <= max(self.tolerance(a), self.tolerance(b))

    def settle(self, items: Iterable[Scored]) -> Steps:
        """Give the items exact rows. Not a query: the answer is about texts already asked for."""
        fresh = {id(scored.row): scored for scored in items if not scored.row.exact}
        if self.noise and fresh:
            yield from self._rows([scored.item for scored in fresh.values()], alone=True)

    def ordered(self, items: Sequence[Scored]) -> Steps:
        """The items by falling score, stable, with near neighbours settled."""
        ranked = sorted(items, key=lambda item: -item.score)
        close: list[Scored] = []
        for above, below in pairwise(ranked):
            if above.row is not below.row and self.near(above.score, below.score):
                close += [above, below]
        yield from self.settle(close)
        return sorted(items, key=lambda item: -item.score)

    def best(self, items: Sequence[Scored], than: Scored) -> Steps:
        """The first item of the highest score, or ``None`` if it is not above ``than``."""
        top = max(item.score for item in items)
        close = [item for item in items if self.near(item.score, top)]
        if len({id(item.row) for item in close}) > 1:
            yield from self.settle(close)
        winner = max(close, key=lambda item: item.score)
        if winner.row is not than.row and self.near(winner.score, than.score):
            yield from self.settle([*close, than])
            winner = max(close, key=lambda item: item.score)
        return winner if winner.score > than.score else None

    def won(self, item: Scored) -> Steps:
        """Whether another class than the label has the highest probability."""
        below, top = (float(p) for p in np.sort(item.row.probabilities)[-2:])
        noise = self.noise * max(1.0, _grown(item.row))
        if top - below <= 2 * (
            noise * top * (1 - top) + ULP
        ):  # so that the predicted class is settled too, whichever two compete
            yield from self.settle([item])
        return item.row.predicted != self.label


def _grown(row: Row) -> float:
    return float(np.abs(row.logits).max()) / ORDINARY
