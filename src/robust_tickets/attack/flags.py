"""Flags: what a reader must know before relying on an attack's numbers.

A flag is a sentence for people and a code for programs. Most of them name a way in which a victim can look more robust than it is: a
score that the attack cannot see move, texts that were learnt by heart, a set of one class, words that have no candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from robust_tickets.attack.cuda import HEAD
from robust_tickets.classifier import CallableClassifier
from robust_tickets.stats.classification import FEW
from robust_tickets.stats.intervals import wilson

if TYPE_CHECKING:
    from robust_tickets.attack.attack import AttackRun
    from robust_tickets.attack.result import Tally

CONFIDENT = 0.99  # mean highest probability on the attacked texts: the score then hides in float rounding
MANY = 0.1  # share of the attacked examples above which a fault of single ones says something about the whole
ALWAYS = 2  # examples that may fail
REASON = 120  # letters of a reason inside a flag; examples.jsonl has it whole
FAILED_EXAMPLES, BELOW_CHANCE, ERRORS = "failed-examples", "below-chance", "errors"
ONE_ANSWER, UNMOVED, UNSTEADY = "one-answer", "unmoved", "unsteady"
FIRST = (FAILED_EXAMPLES, BELOW_CHANCE)  # flags that stand before the numbers, in this order
DEGENERATE = (ONE_ANSWER, UNMOVED)  # with one of these an accuracy under attack means nothing

# code, whether it is raised, sentence
FLAGS: tuple[tuple[str, Callable[[AttackRun, Tally], Any], str], ...] = (
    # about the examples
    ("few-examples", lambda run, tally: tally.n < FEW,
     "few examples: {tally.n}, fewer than 100, of which {tally.attacked} were right and attacked; look at the intervals"),
    ("one-class", lambda run, tally: len(tally.classes) < 2,
     "one class: all attacked examples have the same label, so a victim that always says it looks robust"),
    ("first-rows", lambda run, tally: run.subset == "first",
     "first rows: the attacked examples are the first of the split; where its rows are sorted, they are one-sided"),
    ("seen-in-training", lambda run, tally: run.seen and run.seen["count"],
     "seen in training: {run.seen[count]} of the attacked texts are among those the victim was trained on "
     "({run.seen[split]}); a text learnt by heart is harder to turn"),
    ("cut", lambda run, tally: run.cut,
     "cut: {run.cut} of the attacked texts are longer than the {run.victim.cut_at} tokens that the victim reads; "
     "words behind the cut cannot turn it, whatever they are changed to"),
    # about what the attack saw of the victim: one that does not read its texts is not robust, it was not tested
    (ONE_ANSWER, lambda run, tally: tally.only_answer is not None and len(tally.classes) > 1,
     "one answer: the victim gives all {tally.n} attacked texts the class {answer}, whatever they say; its accuracy is "
     "the share of that class, and its numbers under attack say nothing"),
    # a query budget may end before a word that counts is tried
    (UNMOVED, lambda run, tally: not run.options.query_budget and tally.unmoved > MANY * tally.ended,
     "unmoved: on {tally.unmoved} of {tally.ended} attacked texts no change moved the victim's answer at all, and they "
     "count as robust; see that it reads the texts it is given, and that its probabilities are not rounded"),
    (UNSTEADY, lambda run, tally: tally.unsteady,
     "unsteady: the victim gave {tally.unsteady} of {probes} texts another answer when it was asked again; one that "
     "draws at random has no robustness to measure"),
    ("over-confident", lambda run, tally: run.recipe.scoring == "probability" and tally.mean_confidence > CONFIDENT,
     "over-confident victim: the mean highest probability on the attacked texts is above 0.99; a saturated score hides "
     "the way from the attack, so the victim may look more robust than it is"),
    ("saturated", lambda run, tally: tally.blind > MANY * tally.ended,
     "early saturation: on {tally.blind} of {tally.ended} attacked examples the victim is certain and no word moved its "
     "score, so the attack took the words in no order; {cure}"),
    ("no-candidates", lambda run, tally: not run.options.query_budget and tally.stuck > MANY * tally.ended,
     "nothing to try: on {tally.stuck} of {tally.ended} attacked examples no word had a candidate that passes the "
     "constraints; they count as robust"),
    # about the attack itself
    ("log-odds", lambda run, tally: run.recipe.scoring != "probability",
     "log-odds: candidates were judged by log-odds, not by probability as TextAttack judges them"),
    ("not-calibrated", lambda run, tally: run.calibration and not run.calibration["fitted"],
     "not calibrated: {run.calibration[why]}; the victim was attacked as it is"),
    ("temperature", lambda run, tally: run.temperature != 1 and (not run.calibration or run.calibration["fitted"]),
     "temperature: the attack saw the logits divided by {run.temperature:g} ({how}); no prediction depends on it"),
    ("compat", lambda run, tally: run.rules.name, "compat: the rules of {run.rules.name}, not this package's own"),
    ("query-budget", lambda run, tally: run.options.query_budget,
     "query budget: at most {run.options.query_budget} queries an example; a larger budget may turn more"),
    ("precision", lambda run, tally: run.options.precision,
     "precision: a copy of the victim in {run.options.precision}, its head in " + HEAD + ", was attacked; put to the "
     "victim itself, {tally.unconfirmed} of {tally.n} outcomes differ"),
)  # fmt: skip
CODES = (BELOW_CHANCE, FAILED_EXAMPLES, ERRORS, *(code for code, *_ in FLAGS), "substitute", "constraint-dropped")


class Flag(NamedTuple):
    code: str
    text: str


def flags_of(run: AttackRun, tally: Tally) -> list[Flag]:
    """In a fixed order: about the examples, about what the attack saw of the victim, about the attack itself."""
    cure, how = "try log-odds scoring or a calibrated temperature", "given"
    if isinstance(run.victim, CallableClassifier) and tally.mean_confidence == 1:
        cure = "what the victim returns holds no more; let it return probabilities, not labels"
    elif run.recipe.scoring != "probability":
        cure = "what the victim returns holds no more"
    if run.calibration:
        how = f"fitted on {run.calibration['n']} rows of {run.calibration['split']} that are not attacked"
    answer = run.labels[tally.only_answer or 0]
    words = {"run": run, "tally": tally, "answer": answer, "probes": len(run.probes), "cure": cure, "how": how}
    return [
        *below_chance(tally.attacked, tally.n, len(run.victim.labels)),
        *failed(tally.reasons, len(run.ids), run.options.max_failed),
        *(Flag(code, sentence.format(**words)) for code, holds, sentence in FLAGS if holds(run, tally)),
        *(
            Flag("substitute", f"substitute {kind}: {about.get('name')}; numbers do not compare with the papers'")
            for kind, about in sorted(run.resources.items())
            if about.get("substitute")
        ),
        *(Flag("constraint-dropped", f"constraint dropped: {what}") for what in run.search.dropped),
    ]


def below_chance(right: int, of: int, classes: int) -> list[Flag]:
    """A victim that is right less often than chance knows its classes and is asked about them under exchanged names."""
    low, high = wilson(right, of)
    if high >= 1 / classes:
        return []
    text = (
        f"below chance: the victim labels {100 * right / of:.1f} % of {of} texts correctly (95 % interval {100 * low:.1f} "
        f"to {100 * high:.1f}), chance {100 / classes:.1f} %; its labels look exchanged, and its numbers say nothing; see "
        "which class each label is, and give a label map"
    )
    return [Flag(BELOW_CHANCE, text)]


def failed(reasons: Counter[str], of: int, most: float) -> list[Flag]:
    """``most``: the percentage of failed examples that is allowed; ``reasons``: how often each, in short, was why."""
    errors = reasons.total()
    often = next((f"; most often: {reason}" for reason, _ in reasons.most_common(1) if reason), "")
    counted = f"one that was right counts as fallen, one whose clean text was not answered is left out{often}"
    if too_many(errors, of, most):
        text = f"failed examples: {errors}, more than {most:g} %, so that the numbers do not hold; {counted}"
        return [Flag(FAILED_EXAMPLES, f"{text}; the same command attacks them again")]
    return [Flag(ERRORS, f"errors: {errors} example(s) failed; {counted}")] if errors else []


def too_many(failed: int, of: int, most: float) -> bool:
    """Whether more than ``most`` percent of the examples failed, and more than two."""
    return failed > ALWAYS and 100 * failed > most * of


def in_short(reason: str) -> str:
    """A reason on one line that ends like no sentence: it is to stand inside one."""
    plain = " ".join(reason.split()).rstrip(".")
    return plain if len(plain) <= REASON else plain[: REASON - 1].rstrip() + "…"
