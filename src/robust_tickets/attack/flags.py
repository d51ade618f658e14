"""What a reader must know before believing an attack's numbers.

A flag is a sentence for people and a code for programs. Most of them name a way in which a victim can look more robust than it is: a
score that the attack cannot see move, texts that were learnt by heart, a set of one class, words that have no candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from robust_tickets.attack.cuda import HEAD
from robust_tickets.stats.classification import FEW
from robust_tickets.stats.intervals import wilson

CONFIDENT = 0.99  # mean highest probability on the attacked texts: the score then hides in float rounding
MANY = 0.1  # share of the attacked examples above which a fault of single ones says something about the whole
FAILED_EXAMPLES, BELOW_CHANCE = "failed-examples", "below-chance"
ONE_ANSWER, UNMOVED = "one-answer", "unmoved"
FIRST = (FAILED_EXAMPLES, BELOW_CHANCE)  # flags that stand before the numbers, in this order
HOLLOW = (
    ONE_ANSWER,
    UNMOVED,
)  # flags that take the meaning out of an accuracy under attack: a gate that lets it pass says so
CODES = (
    BELOW_CHANCE, FAILED_EXAMPLES, "few-examples", "one-class", *HOLLOW, "unsteady", "first-rows", "seen-in-training",
    "cut", "errors", "over-confident", "saturated", "no-candidates", "log-odds", "temperature", "not-calibrated", "precision", "compat",
    "query-budget", "substitute", "constraint-dropped",
)  # fmt: skip


class Flag(NamedTuple):
    code: str
    text: str


class Answers(NamedTuple):
    """What the victim said of the clean texts that it answered, and what its classes are called."""

    given: Mapping[
        tuple[int, int | None], int
    ]  # how often (label of the task, its label that the victim gave; None: it has no such)
    right: int
    classes: Sequence[str]  # the victim's
    of: Sequence[int]  # which of them each label of the task is
    called: Mapping[str, int]  # what the data calls a label of the task

    def below_chance(self) -> Flag | None:
        """A victim that is right less often than chance knows its classes and is asked about them under exchanged names."""
        n, chance = sum(self.given.values()), 1 / len(self.classes)
        low, high = wilson(self.right, n)
        if high >= chance:
            return None
        turned = self._turned()
        names = [str(i) if set(",= ") & set(name) else name for i, name in enumerate(self.classes)]
        pasted = (
            ",".join(f"{name}={names[self.of[turned[label]]]}" for name, label in self.called.items()) if turned else ""
        )
        cure = f"this label map turns it: --label-map {pasted}" if pasted else "see which class each label is"
        return Flag(
            BELOW_CHANCE,
            f"below chance: the victim labels {100 * self.right / n:.1f} % of {n} texts correctly (95 % interval {100 * low:.1f} to "
            f"{100 * high:.1f}), chance {100 * chance:.1f} %; its labels look exchanged, and its numbers say nothing; {cure}",
        )

    def _turned(self) -> Sequence[int]:
        """The label that the victim means by each; of two the other, of more the one it gave most often, where no two are the same."""
        count = len(self.of)
        if len(set(self.of)) != count:
            return ()
        if count == len(self.classes) == 2:
            return (1, 0)
        rows = [[self.given.get((label, answer), 0) for answer in range(count)] for label in range(count)]
        most = [max(range(count), key=row.__getitem__) for row in rows]
        return most if all(map(any, rows)) and len(set(most)) == count else ()


def flags_of(
    *,
    n: int,
    attacked: int,
    ended: int,
    errors: int,
    limit: float | None,
    often: str,
    below: Flag | None,
    classes: int,
    answer: str | None,
    confidence: float | None,
    hard: bool,
    blind: int,
    unmoved: int,
    unsteady: tuple[int, int],
    stuck: int,
    seen: Mapping[str, Any] | None,
    subset: str,
    scoring: str,
    compat: str | None,
    temperature: float,
    calibration: Mapping[str, Any] | None,
    resources: Mapping[str, Mapping[str, Any]],
    dropped: Sequence[str],
    cut: tuple[int, int | None],
    query_budget: int | None,
    precision: str | None,
    unconfirmed: int | None,
) -> list[Flag]:
    """In a fixed order: about the examples, about what the attack saw of the victim, about the attack itself.

    ``ended`` are the attacked examples whose attack did not fail; ``limit`` is the percentage of failed examples that was allowed, where
    more failed, and none where they did not; ``answer`` is the class that the victim gave to every text, before the attack and after it,
    if it gave only one; ``hard`` says that it returns labels for probabilities; ``unsteady`` counts the texts to which it gave another
    answer when it was asked again, and those that it was asked about twice; ``cut`` those that it does not read to their end, and how
    many tokens it reads.
    """
    return [
        *filter(None, [below]),
        *failed(errors, limit, often),
        *_examples(n, attacked, classes, subset, seen),
        *_unread(*cut),
        *_answers(
            n, ended, classes, answer, 0 if query_budget else unmoved
        ),  # a budget may end before a word that counts is tried
        *_twice(*unsteady),
        *_sight(ended, confidence, blind, 0 if query_budget else stuck, scoring, hard),
        *_settings(scoring, temperature, calibration, compat, query_budget),
        *_bits(precision, unconfirmed, n),
        *_means(resources, dropped),
    ]


def _examples(n: int, attacked: int, classes: int, subset: str, seen: Mapping[str, Any] | None) -> Iterator[Flag]:
    if n < FEW:
        yield Flag(
            "few-examples",
            f"few examples: {n}, fewer than {FEW}, of which {attacked} were right and attacked; look at the intervals",
        )
    if classes < 2:
        yield Flag(
            "one-class",
            "one class: all attacked examples have the same label, so a victim that always says it looks robust",
        )
    if subset == "first":
        yield Flag(
            "first-rows",
            "first rows: the attacked examples are the first of the split; where its rows are sorted, they are one-sided",
        )
    if seen is not None and seen["count"]:
        yield Flag(
            "seen-in-training",
            f"seen in training: {seen['count']} of the attacked texts are among those the victim was trained on ({seen['split']}); "
            "a text learnt by heart is harder to turn",
        )


def _unread(cut: int, tokens: int | None) -> Iterator[Flag]:
    if cut:
        yield Flag(
            "cut",
            f"cut: {cut} of the attacked texts are longer than the {tokens} tokens that the victim reads; words behind the cut cannot turn "
            "it, whatever they are changed to",
        )


def failed(errors: int, limit: float | None, often: str) -> Iterator[Flag]:
    """``limit``: as ``flags_of`` has it."""
    counted = "one that was right counts as fallen, one whose clean text was not answered is left out"
    if limit is not None:
        yield Flag(
            FAILED_EXAMPLES,
            f"failed examples: {errors}, more than {limit:g} %, so that the numbers do not hold; {counted}{often}; the same command "
            "attacks them again",
        )
    elif errors:
        yield Flag("errors", f"errors: {errors} example(s) failed; {counted}{often}")


def _answers(n: int, attacked: int, classes: int, answer: str | None, unmoved: int) -> Iterator[Flag]:
    """A victim that does not read its texts cannot be turned by changing them: it is not robust, it was not tested."""
    if answer is not None and classes > 1:
        yield Flag(
            ONE_ANSWER,
            f"one answer: the victim gives all {n} attacked texts the class {answer}, whatever they say; its accuracy is the share of that "
            "class, and its numbers under attack say nothing",
        )
    if attacked and unmoved > MANY * attacked:
        yield Flag(
            UNMOVED,
            f"unmoved: on {unmoved} of {attacked} attacked texts no change moved the victim's answer at all, and they count as robust; see "
            "that it reads the texts it is given, and that its probabilities are not rounded",
        )


def _twice(moved: int, asked: int) -> Iterator[Flag]:
    if moved:
        yield Flag(
            "unsteady",
            f"unsteady: the victim gave {moved} of {asked} texts another answer when it was asked again; one that draws at random has no "
            "robustness to measure",
        )


def _sight(attacked: int, confidence: float | None, blind: int, stuck: int, scoring: str, hard: bool) -> Iterator[Flag]:
    if confidence is not None and confidence > CONFIDENT and scoring == "probability":
        yield Flag(
            "over-confident",
            f"over-confident victim: the mean highest probability on the attacked texts is above {CONFIDENT}; "
            "a saturated score hides the way from the attack, so the victim may look more robust than it is",
        )
    cure = "try log-odds scoring or a calibrated temperature"
    if scoring != "probability" or hard:
        cure = "what the victim returns holds no more" + ("; let it return probabilities, not labels" if hard else "")
    if attacked and blind > MANY * attacked:
        yield Flag(
            "saturated",
            f"early saturation: on {blind} of {attacked} attacked examples the victim is certain and no word moved its score, so the "
            f"attack took the words in no order; {cure}",
        )
    if attacked and stuck > MANY * attacked:
        yield Flag(
            "no-candidates",
            f"nothing to try: on {stuck} of {attacked} attacked examples no word had a candidate that passes the constraints; "
            "they count as robust",
        )


def _settings(
    scoring: str,
    temperature: float,
    calibration: Mapping[str, Any] | None,
    compat: str | None,
    query_budget: int | None,
) -> Iterator[Flag]:
    if scoring != "probability":
        yield Flag(
            "log-odds", "log-odds: candidates were judged by log-odds, not by probability as TextAttack judges them"
        )
    if calibration is not None and not calibration["fitted"]:
        yield Flag("not-calibrated", f"not calibrated: {calibration['why']}; the victim was attacked as it is")
    elif temperature != 1:
        how = (
            "given"
            if calibration is None
            else f"fitted on {calibration['n']} rows of {calibration['split']} that are not attacked"
        )
        yield Flag(
            "temperature",
            f"temperature: the attack saw the logits divided by {temperature:g} ({how}); no prediction depends on it",
        )
    if compat is not None:
        yield Flag("compat", f"compat: the rules of {compat}, not this package's own")
    if query_budget is not None:
        yield Flag(
            "query-budget", f"query budget: at most {query_budget} queries an example; a larger budget may turn more"
        )


def _bits(precision: str | None, unconfirmed: int | None, n: int) -> Iterator[Flag]:
    if precision is not None:
        yield Flag(
            "precision",
            f"precision: a copy of the victim in {precision}, its head in {HEAD}, was attacked; "
            f"put to the victim itself, {unconfirmed} of {n} outcomes differ",
        )


def _means(resources: Mapping[str, Mapping[str, Any]], dropped: Sequence[str]) -> Iterator[Flag]:
    for kind in sorted(resources):
        if resources[kind].get("substitute"):
            yield Flag(
                "substitute",
                f"substitute {kind}: {resources[kind].get('name')}; numbers do not compare with the papers'",
            )
    for what in dropped:
        yield Flag("constraint-dropped", f"constraint dropped: {what}")
