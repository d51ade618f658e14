"""Flags: what a reader must know before relying on an attack's numbers.

A flag is a sentence for people and a code for programs. Most of them name a way in which a victim can look more robust than it is: a
score that the attack cannot see move, texts that were learnt by heart, a set of one class, words that have no candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from robust_tickets.attack.cuda import HEAD
from robust_tickets.attack.scheduler import too_many
from robust_tickets.classifier import CallableClassifier
from robust_tickets.stats.classification import FEW
from robust_tickets.stats.intervals import wilson

if TYPE_CHECKING:
    from robust_tickets.attack.attack import AttackRun
    from robust_tickets.attack.result import Tally

CONFIDENT = 0.99  # mean highest probability on the attacked texts: the score then hides in float rounding
MANY = 0.1  # share of the attacked examples above which a fault of single ones says something about the whole
FAILED_EXAMPLES, BELOW_CHANCE = "failed-examples", "below-chance"
ONE_ANSWER, UNMOVED, UNSTEADY = "one-answer", "unmoved", "unsteady"
FIRST = (FAILED_EXAMPLES, BELOW_CHANCE)  # flags that stand before the numbers, in this order
DEGENERATE = (ONE_ANSWER, UNMOVED)  # with one of these an accuracy under attack means nothing
CODES = (
    BELOW_CHANCE, FAILED_EXAMPLES, "few-examples", "one-class", *DEGENERATE, UNSTEADY, "first-rows", "seen-in-training",
    "cut", "errors", "over-confident", "saturated", "no-candidates", "log-odds", "temperature", "not-calibrated", "precision", "compat",
    "query-budget", "substitute", "constraint-dropped",
)  # fmt: skip


class Flag(NamedTuple):
    code: str
    text: str


class Answers(NamedTuple):
    """The victim's answers to the clean texts, and what its classes are called."""

    # how often (label of the task, its label that the victim gave; None: it has no such)
    given: Mapping[tuple[int, int | None], int]
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
        hint = f"this label map turns it: --label-map {pasted}" if pasted else "see which class each label is"
        return Flag(
            BELOW_CHANCE,
            f"below chance: the victim labels {100 * self.right / n:.1f} % of {n} texts correctly (95 % interval {100 * low:.1f} to "
            f"{100 * high:.1f}), chance {100 * chance:.1f} %; its labels look exchanged, and its numbers say nothing; {hint}",
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


def flags_of(run: AttackRun, tally: Tally) -> list[Flag]:
    """In a fixed order: about the examples, about what the attack saw of the victim, about the attack itself."""
    classes = run.classes or range(len(run.victim.labels))
    below = Answers(tally.given, tally.attacked, run.victim.labels, classes, run.called).below_chance()
    return [
        *filter(None, [below]),
        *failed(tally.errors, len(run.ids), run.options.max_failed, tally.reasons.often),
        *_examples(run, tally),
        *_answers(run, tally),
        *_unsteady(tally.unsteady, len(run.probes)),
        *_saturation(run, tally),
        *_settings(run),
        *_precision(run, tally),
        *_substitutes(run),
    ]


def _examples(run: AttackRun, tally: Tally) -> Iterator[Flag]:
    if tally.n < FEW:
        yield Flag(
            "few-examples",
            f"few examples: {tally.n}, fewer than {FEW}, of which {tally.attacked} were right and attacked; look at the "
            "intervals",
        )
    if len(tally.classes) < 2:
        yield Flag(
            "one-class",
            "one class: all attacked examples have the same label, so a victim that always says it looks robust",
        )
    if run.subset == "first":
        yield Flag(
            "first-rows",
            "first rows: the attacked examples are the first of the split; where its rows are sorted, they are one-sided",
        )
    if run.seen is not None and run.seen["count"]:
        yield Flag(
            "seen-in-training",
            f"seen in training: {run.seen['count']} of the attacked texts are among those the victim was trained on "
            f"({run.seen['split']}); a text learnt by heart is harder to turn",
        )
    if run.cut:
        yield Flag(
            "cut",
            f"cut: {run.cut} of the attacked texts are longer than the {run.victim.cut_at} tokens that the victim reads; words "
            "behind the cut cannot turn it, whatever they are changed to",
        )


def failed(errors: int, of: int, most: float, often: str) -> Iterator[Flag]:
    """``most``: the percentage of failed examples that is allowed; ``often``: the most frequent reason."""
    counted = "one that was right counts as fallen, one whose clean text was not answered is left out"
    if too_many(errors, of, most):
        yield Flag(
            FAILED_EXAMPLES,
            f"failed examples: {errors}, more than {most:g} %, so that the numbers do not hold; {counted}{often}; the same command "
            "attacks them again",
        )
    elif errors:
        yield Flag("errors", f"errors: {errors} example(s) failed; {counted}{often}")


def _answers(run: AttackRun, tally: Tally) -> Iterator[Flag]:
    """A victim that does not read its texts cannot be turned by changing them: it is not robust, it was not tested."""
    if tally.only_answer is not None and len(tally.classes) > 1:
        yield Flag(
            ONE_ANSWER,
            f"one answer: the victim gives all {tally.n} attacked texts the class {run.labels[tally.only_answer]}, whatever they "
            "say; its accuracy is the share of that class, and its numbers under attack say nothing",
        )
    # a budget may end before a word that counts is tried
    if not run.options.query_budget and tally.unmoved > MANY * tally.ended:
        yield Flag(
            UNMOVED,
            f"unmoved: on {tally.unmoved} of {tally.ended} attacked texts no change moved the victim's answer at all, and they "
            "count as robust; see that it reads the texts it is given, and that its probabilities are not rounded",
        )


def _unsteady(moved: int, asked: int) -> Iterator[Flag]:
    if moved:
        yield Flag(
            UNSTEADY,
            f"unsteady: the victim gave {moved} of {asked} texts another answer when it was asked again; one that draws at random has no "
            "robustness to measure",
        )


def _saturation(run: AttackRun, tally: Tally) -> Iterator[Flag]:
    confidence, by_probability = tally.mean_confidence(), run.recipe.scoring == "probability"
    hard = isinstance(run.victim, CallableClassifier) and confidence == 1  # it returns labels for probabilities
    if confidence is not None and confidence > CONFIDENT and by_probability:
        yield Flag(
            "over-confident",
            f"over-confident victim: the mean highest probability on the attacked texts is above {CONFIDENT}; "
            "a saturated score hides the way from the attack, so the victim may look more robust than it is",
        )
    hint = "try log-odds scoring or a calibrated temperature"
    if not by_probability or hard:
        hint = "what the victim returns holds no more" + ("; let it return probabilities, not labels" if hard else "")
    if tally.blind > MANY * tally.ended:
        yield Flag(
            "saturated",
            f"early saturation: on {tally.blind} of {tally.ended} attacked examples the victim is certain and no word moved its "
            f"score, so the attack took the words in no order; {hint}",
        )
    if not run.options.query_budget and tally.stuck > MANY * tally.ended:
        yield Flag(
            "no-candidates",
            f"nothing to try: on {tally.stuck} of {tally.ended} attacked examples no word had a candidate that passes the "
            "constraints; they count as robust",
        )


def _settings(run: AttackRun) -> Iterator[Flag]:
    if run.recipe.scoring != "probability":
        yield Flag(
            "log-odds", "log-odds: candidates were judged by log-odds, not by probability as TextAttack judges them"
        )
    if run.calibration is not None and not run.calibration["fitted"]:
        yield Flag("not-calibrated", f"not calibrated: {run.calibration['why']}; the victim was attacked as it is")
    elif run.temperature != 1:
        how = (
            "given"
            if run.calibration is None
            else f"fitted on {run.calibration['n']} rows of {run.calibration['split']} that are not attacked"
        )
        yield Flag(
            "temperature",
            f"temperature: the attack saw the logits divided by {run.temperature:g} ({how}); no prediction depends on it",
        )
    if run.rules.name is not None:
        yield Flag("compat", f"compat: the rules of {run.rules.name}, not this package's own")
    if (budget := run.options.query_budget) is not None:
        yield Flag("query-budget", f"query budget: at most {budget} queries an example; a larger budget may turn more")


def _precision(run: AttackRun, tally: Tally) -> Iterator[Flag]:
    if run.options.precision is not None:
        yield Flag(
            "precision",
            f"precision: a copy of the victim in {run.options.precision}, its head in {HEAD}, was attacked; "
            f"put to the victim itself, {tally.unconfirmed} of {tally.n} outcomes differ",
        )


def _substitutes(run: AttackRun) -> Iterator[Flag]:
    for kind in sorted(run.resources):
        if run.resources[kind].get("substitute"):
            yield Flag(
                "substitute",
                f"substitute {kind}: {run.resources[kind].get('name')}; numbers do not compare with the papers'",
            )
    for what in run.search.dropped:
        yield Flag("constraint-dropped", f"constraint dropped: {what}")
