"""The state of one example under attack: queries, known answers, questions, and comparisons that rounding cannot turn.

Queries are counted as TextAttack counts them: every text of every request, known or not, twice if it comes twice.

**Why comparisons need care.** A text's probabilities depend a little (about 1e-7 in fp32) on the batch it was run in, so two texts with
nearly equal scores could be ordered one way in batches of 16 and the other way in batches of 32. Rounding scores to a grid does not
help: a value near a grid line then turns instead. So the score of a text is *defined* as the one it gets when run alone. A batched score
is an approximation of it within ``noise`` (in log-odds). Where two scores are further apart than twice that, the approximation decides
as the exact scores would; where they are not, both texts are run alone and the exact scores decide. The result is that of batches of
one, at nearly the cost of large batches. Texts with equal token ids share one row, so that a true tie stays a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from inspect import isgenerator
from itertools import pairwise
from typing import Any, ClassVar, Protocol, TypeVar

from robust_tickets.attack.goals import Goal, Row
from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import Rules
from robust_tickets.seeds import Dice

T = TypeVar("T")

# --- the four questions; a question of a constraint's own needs no more than a ``service``, the name of what answers it


@dataclass(slots=True)
class Ask:
    """Ask the victim about texts; the answer is one ``Row`` each. ``known`` are the rows this example has seen, by input."""

    texts: Sequence[tuple[str, ...]]
    known: dict[Any, Row]
    alone: bool = False  # every text in a batch of its own, also where it is known
    passes: int = 0  # forward passes this question cost, filled in by the victim's service
    service: ClassVar[str] = "victim"


@dataclass(slots=True)
class Encode:
    """Ask the sentence encoder about texts; the answer is one vector each, not necessarily of unit length."""

    texts: Sequence[str]
    alone: bool = False
    service: ClassVar[str] = "encoder"


@dataclass(slots=True)
class Fill:
    """Ask the masked language model which words suit the tokens of a text; the answer is a ``services.Filled``."""

    text: str
    rows: int = 0  # tokens to answer for at least, padding behind the text included
    at: int | None = None  # only this token
    alone: bool = False
    service: ClassVar[str] = "masked"


@dataclass(slots=True)
class Slope:
    """Ask how steep the victim's loss is at words of a text; the answer is an array, one number for each of ``words``."""

    text: Text
    words: Sequence[int]
    odds: bool = False  # the slope of the log-odds instead, which does not vanish where the victim is sure
    alone: bool = False
    service: ClassVar[str] = "gradient"


Steps = Generator[Any, Any, Any]  # yields questions, is sent answers, returns a result


def steps(result: Any) -> Steps:
    """Run a part of the search that either has its result at once or asks for something first."""
    if isgenerator(result):
        return (yield from result)
    return result


IN_FLIGHT = 4_000_000  # characters all live examples together ask about at a time
STILL = 1e-6  # a score that moved by less has not moved: 8 times the rounding of float32
ENCODER_NOISE = 1e-5  # how much a batch may move a cosine in float32; measured maxima are about a tenth


class Item(Protocol):
    """Something to ask the victim about: a text, or a candidate that makes its strings when they are wanted."""

    @property
    def columns(self) -> tuple[str, ...]: ...


@dataclass(slots=True)
class Scored:
    """A text and the victim's row for it."""

    item: Item
    row: Row
    goal: Goal
    similarity: float | None = None  # that a constraint measured, of the text the search ends with

    @property
    def score(self) -> float:
        row = self.row
        if row.score is None:  # worked out once for all who share the row, and again when it was run alone
            row.score = self.goal.score(row)
        return row.score


@dataclass(slots=True)
class ExampleState:
    """The state of the attack on one example."""

    original: Text
    goal: Goal
    column_names: tuple[str, ...]
    noise: float  # the most a batch moves the log-odds of a class, 0 where it moves none
    slope_noise: float = 0.0  # the same where gradients are taken, whose batches have no fixed shapes
    vector_noise: float = ENCODER_NOISE  # the most a batch moves a cosine of the sentence encoder
    budget: float = float("inf")  # most queries
    seed: int = 0  # of what is drawn at random, derived from the run's seed and the example's id
    in_flight: int = IN_FLIGHT  # characters this example asks about at a time
    queries: int = 0
    fell_at: int | None = None  # from which budget on a run breaks the example
    passes: int = 0
    tried: int = 0  # candidates the search asked about, those of the ranking left out
    first: Scored | None = None  # the answer to the clean text
    still: bool = True  # no text asked about so far moved the score
    blind: bool | None = None  # the ranking saw no score move
    known: dict[object, Row] = field(default_factory=dict)
    _kept: dict[int, Any] = field(default_factory=dict)
    _growth: float | None = None
    _dice: Dice | None = None

    @property
    def dice(self) -> Dice:
        """The example's own random streams: what it draws does not depend on which others are attacked."""
        if self._dice is None:
            self._dice = Dice(self.seed)
        return self._dice

    @property
    def rules(self) -> Rules:
        return self.original.rules

    @property
    def over(self) -> bool:
        return self.queries >= self.budget

    def kept(self, owner: object, make: Callable[[], T]) -> T:
        """What ``owner``, a part of the search, remembers of this example; ``make`` gives what it begins with."""
        if id(owner) not in self._kept:
            self._kept[id(owner)] = make()
        return self._kept[id(owner)]  # type: ignore[no-any-return]

    def kept_of(self, owner: object, text: Text, make: Callable[[], T]) -> T:
        """The same of one text: made anew when the text is another."""
        last: tuple[Text | None, Any] = self._kept.get(id(owner), (None, None))
        if last[0] is not text:
            last = self._kept[id(owner)] = text, make()
        return last[1]  # type: ignore[no-any-return]

    def ask(self, items: Sequence[Item]) -> Steps:
        """Query the victim: counts, cuts the list to the budget, returns a ``Scored`` each."""
        if self.budget < float("inf"):
            items = items[: max(0, int(self.budget) - self.queries)]
        self.queries += len(items)
        rows = yield from self._rows(items, alone=False)
        answers = [Scored(item, row, self.goal) for item, row in zip(items, rows, strict=True)]
        if self.still:
            yield from self._watch(answers)
        return answers

    def _watch(self, answers: list[Scored]) -> Steps:
        """Note the first score that differs from the clean text's; what a batch's rounding could decide is run alone."""
        if self.first is None:
            self.first = answers[0] if answers else None
            return
        first = self.first
        moves = [(abs(answer.score - first.score), answer) for answer in answers if answer.row is not first.row]
        slack = self.tolerance(first.score)
        if not any(move > STILL + slack for move, _ in moves):
            doubtful = [answer for move, answer in moves if move > STILL - slack]
            if doubtful:
                yield from self.score_alone([first, *doubtful])
        self.still = not any(abs(answer.score - first.score) > STILL for _, answer in moves)

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
        """Drop the rows of texts that will not come again, now that the search continues from ``best``: of a long text they are many.

        The kept ones are those that a new text may equal, token by token, where a victim cuts it: equal texts must stay a tie.
        """
        kept = {id(best.row), id(self.first.row) if self.first else 0}
        self.known = {key: row for key, row in self.known.items() if id(row) in kept}

    # --- comparisons

    def tolerance(self, score: float) -> float:
        """How far apart two scores near ``score`` must be for the batched values to decide."""
        if self.noise == 0:
            return 0.0
        if self._growth is None:
            if self.first is None:
                return 2 * self.goal.error(score, self.noise, 1.0)
            self._growth = self.goal.growth(self.first.row)
        return 2 * self.goal.error(score, self.noise, self._growth)

    def near(self, a: float, b: float) -> bool:
        return abs(a - b) <= max(self.tolerance(a), self.tolerance(b))

    def score_alone(self, items: Iterable[Scored]) -> Steps:
        """Give the items exact rows: each text in a batch of its own. Not a query: they were asked for before."""
        fresh = {id(scored.row): scored for scored in items if not scored.row.exact}
        if self.noise and fresh:
            yield from self._rows([scored.item for scored in fresh.values()], alone=True)

    def ordered(self, items: Sequence[Scored]) -> Steps:
        """The items by falling score, stable, with near neighbours decided exactly."""
        ranked = sorted(items, key=lambda item: -item.score)
        close: list[Scored] = []
        for above, below in pairwise(ranked):
            if above.row is not below.row and self.near(above.score, below.score):
                close += [above, below]
        yield from self.score_alone(close)
        return sorted(items, key=lambda item: -item.score)

    def best(self, items: Sequence[Scored], than: Scored) -> Steps:
        """The first item of the highest score, or ``None`` if it is not above ``than``."""
        top = max(item.score for item in items)
        close = [item for item in items if self.near(item.score, top)]
        if len({id(item.row) for item in close}) > 1:
            yield from self.score_alone(close)
        winner = max(close, key=lambda item: item.score)
        if winner.row is not than.row and self.near(winner.score, than.score):
            yield from self.score_alone([*close, than])
            winner = max(close, key=lambda item: item.score)
        return winner if winner.score > than.score else None

    def reached(self, item: Scored) -> Steps:
        """Whether the text reaches the goal."""
        if item.row.close(self.noise):
            yield from self.score_alone([item])
        return self.goal.reached(item.row)
