"""An attack's numbers, counted line by line: percentages, means with intervals, the spread of the queries, and accuracy against budget.

**Accuracy against budget, from one run.** A budget of q queries does what the whole search does up to its q-th query and then stops: a
list of texts that does not fit any more is cut, and what is left of it is judged. So the run itself knows when an example would have
fallen: at ``fell_at``, the smallest budget from which on every budget breaks it (noted in the step that won). The curve counts an
example as broken within q where ``fell_at <= q``. With two classes that is what a run with ``query_budget=q`` finds, example for
example: the score decides the winner and the class alike, so a list without a winner has none among its first texts either. With more
classes a cut list may hold a winner that the whole list hides behind a text of higher score, so a run with that budget may break a few
examples more; the curve is then an upper bound on its accuracy. It ends at the accuracy under attack in any case.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from robust_tickets.attack.failures import Reasons
from robust_tickets.attack.game import STILL
from robust_tickets.stats.metrics import ERROR, FAILED, SKIPPED, STATUSES, SUCCESS, UNKNOWN, attack_metrics, wilson

DIGITS = 4  # decimals of percentages and means in result.json
SATURATED = 0.9999  # a probability above which a move of the logits by 0.01 is within the rounding of 1 - p
Z = 1.959964  # of a 95 % interval
SPREAD = {"min": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p90": 0.9, "max": 1.0}


@dataclass
class Mean:
    """Sums behind a mean and the normal interval around it."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.squares += value * value

    @property
    def value(self) -> float | None:
        return self.total / self.count if self.count else None

    def interval(self) -> tuple[float, float] | None:
        if self.count < 2:
            return None
        mean = self.total / self.count
        variance = max(0.0, (self.squares - self.count * mean * mean) / (self.count - 1))
        half = Z * math.sqrt(variance / self.count)
        return mean - half, mean + half


@dataclass
class Tally:
    """Running sums over examples. What grows is one count for every different number of queries and every reason of an error."""

    statuses: Counter[str] = field(default_factory=Counter)
    classes: set[int] = field(default_factory=set)
    given: Counter[tuple[int, int | None]] = field(
        default_factory=Counter
    )  # label, and that given before; None: the task has no such
    queries: Mean = field(default_factory=Mean)  # over those whose attack came to its end, as the next four
    words: Mean = field(default_factory=Mean)
    confidence: Mean = field(default_factory=Mean)
    spent: Counter[int] = field(default_factory=Counter)  # how many took so many queries
    fell: Counter[int] = field(default_factory=Counter)  # how many fell at so many
    changed: Mean = field(default_factory=Mean)  # percent of the words, over successes that have words
    similarity: Mean = field(default_factory=Mean)  # over successes whose similarity a constraint measured
    blind: int = 0  # attacked examples whose ranking saw no score move, and whose victim is as good as certain
    unmoved: int = 0  # those whose victim is not certain, and whose score no text at all moved
    stuck: int = 0  # those for which there was no candidate to try
    passes: int = 0
    reasons: Reasons = field(default_factory=Reasons)  # of the errors

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> Tally:
        tally = cls()
        for line in lines:
            tally.add(line)
        return tally

    def add(self, line: Mapping[str, Any]) -> None:
        status = line["status"]
        self.statuses[status] += 1
        self.passes += line["forward_passes"]
        if status in (UNKNOWN, ERROR):
            self.reasons.add(line.get("error") or "")
        if status == ERROR:
            return
        self.classes.add(line["label"])
        self.given[line["label"], line.get("predicted_before")] += 1
        if status in (SUCCESS, FAILED):
            self.queries.add(line["queries"])
            self.words.add(line["words"])
            self.confidence.add(line["confidence"])
            self.spent[line["queries"]] += 1
            certain, blind = line["confidence"] > SATURATED, bool(line.get("blind"))
            self.blind += blind and certain
            self.unmoved += (
                blind and not certain and status == FAILED and abs(line["score_after"] - line["score_before"]) <= STILL
            )
            self.stuck += line.get("candidates") == 0
        if status == SUCCESS:
            at = line.get("fell_at")
            self.fell[line["queries"] if at is None else at] += 1
            if line["words"]:
                self.changed.add(100 * line["words_changed"] / line["words"])
            if line.get("similarity") is not None:
                self.similarity.add(line["similarity"])

    @property
    def only_answer(self) -> int | None:
        """The one class that every text got, before the attack and after it; none where there were several, or one that the task does not
        have. A victim that some change turned does read its texts.
        """
        answers = {answer for _, answer in self.given}
        return next(iter(answers)) if len(answers) == 1 and not self.statuses[SUCCESS] else None

    @property
    def n(self) -> int:
        """Examples whose clean text was answered."""
        return sum(self.statuses.values()) - self.statuses[ERROR]

    @property
    def errors(self) -> int:
        """Examples that failed, before or after their clean text was answered."""
        return self.statuses[UNKNOWN] + self.statuses[ERROR]

    @property
    def attacked(self) -> int:
        """Examples that were right before."""
        return self.ended + self.statuses[UNKNOWN]

    @property
    def ended(self) -> int:
        """Attacked examples whose attack came to its end."""
        return self.statuses[SUCCESS] + self.statuses[FAILED]

    def mean_confidence(self) -> float | None:
        return self.confidence.value

    def metrics(self, query_budget: int | None = None) -> dict[str, Any]:
        """The numbers of result.json, counted as TextAttack counts; None where nothing was counted."""
        s, f, k, u = (self.statuses[name] for name in (SUCCESS, FAILED, SKIPPED, UNKNOWN))
        values, ends = attack_metrics(successes=s, failures=f, skipped=k, unknown=u)
        found: dict[str, Any] = dict(values)
        means = {"queries": self.queries, "perturbed": self.changed, "similarity": self.similarity}
        found |= {name: mean.value for name, mean in means.items()} | {"words": self.words.value}
        ends |= {name: both for name, mean in means.items() if (both := mean.interval()) is not None}
        return {
            **{name: None if value is None else _round(value) for name, value in found.items()},
            "intervals": {name: (_round(low), _round(high)) for name, (low, high) in ends.items()},
            "outcomes": {status: self.statuses[status] for status in STATUSES},
            "spread": self.spread(),
            "curve": self.curve(query_budget),
            "n": self.n,
            "errors": self.errors,
            "forward_passes": self.passes,
        }

    def spread(self) -> dict[str, int] | None:
        """Quantiles of the queries an attacked example took: the smallest number that such a share of them did not exceed."""
        if not self.spent:
            return None
        found, ranked, seen = {}, sorted(self.spent.items()), 0
        wanted = [(name, max(1, math.ceil(share * self.ended))) for name, share in SPREAD.items()]
        for number, times in ranked:
            seen += times
            while wanted and seen >= wanted[0][1]:
                found[wanted.pop(0)[0]] = number
        return found

    def curve(self, query_budget: int | None = None) -> tuple[dict[str, Any], ...]:
        """Accuracy at budgets 1, 2, 5, 10, …, up to where nothing changes any more or the run's own budget ends."""
        points: list[dict[str, Any]] = []
        if not self.n:
            return ()
        last = max(self.spent, default=1)
        for budget in budgets(last if query_budget is None else min(last, query_budget), query_budget):
            broken = sum(times for at, times in self.fell.items() if at <= budget)
            right = self.ended - broken  # what is unknown has fallen, at any budget
            low, high = wilson(right, self.n)
            interval = (_round(100 * low), _round(100 * high))
            points.append(
                {"budget": budget, "broken": broken, "accuracy": _round(100 * right / self.n), "interval": interval}
            )
        return tuple(points)


def budgets(last: int, most: int | None = None) -> Iterator[int]:
    """1, 2, 5, 10, 20, … up to the first that is not below ``last``, none above ``most``, which is then the end."""
    for power in count():
        for step in (1, 2, 5):
            budget = step * 10**power
            if most is not None and budget >= most:
                yield most
                return
            yield budget
            if budget >= last:
                return


def _round(value: float) -> float:
    return round(value, DIGITS)
