"""The verdict in sentences: who is hardest to fool, how sure that is, what the ticket costs, what to know.

"Harder to fool" is only written where the exact paired test holds at 5 %, adjusted for all pairs of arms, since which arm is best is read
from the same data; "hardest" needs that against every other arm. An arm that gives every text one class is reported as such, and not
compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from robust_tickets.attack.examples import how, short_of
from robust_tickets.attack.flags import ONE_ANSWER
from robust_tickets.files import listed, mapping
from robust_tickets.report import format as numbers
from robust_tickets.report.format import GLUE
from robust_tickets.report.run_data import Arm, Attack, Interval, Run, number
from robust_tickets.stages import BAD_ROWS
from robust_tickets.stats.classification import ERROR, FAILED, only_class
from robust_tickets.stats.compare_runs import holm
from robust_tickets.stats.intervals import mcnemar_exact, paired_interval
from robust_tickets.stats.resampling import bootstrap_difference

ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two models on the texts that both were attacked on: ``arm`` minus ``other``, in percentage points."""

    arm: Arm
    other: Arm
    outcomes: tuple[tuple[bool, ...], tuple[bool, ...]]  # of each: whether it stayed right, text by text
    p: float  # exact McNemar test
    adjusted: float = 1.0  # for ``of`` comparisons
    of: int = 0

    @property
    def n(self) -> int:
        return len(self.outcomes[0])

    @property
    def difference(self) -> float:
        return 100 * (sum(self.outcomes[0]) - sum(self.outcomes[1])) / self.n

    @cached_property
    def interval(self) -> Interval:
        """Newcombe's, which has width at any n."""
        low, high = paired_interval(*self.outcomes)
        return 100 * low, 100 * high

    @property
    def bootstrap(self) -> Interval:
        """Percentile bootstrap; without width where the two never differ."""
        _, low, high = bootstrap_difference(*self.outcomes, seed=0)
        return 100 * low, 100 * high

    @property
    def alone(self) -> tuple[int, int]:
        """Texts that only the first, and only the second, still got right."""
        pairs = list(zip(*self.outcomes, strict=True))
        return pairs.count((True, False)), pairs.count((False, True))

    @property
    def better(self) -> bool:
        """Whether ``arm`` is shown to be harder to fool."""
        return self.adjusted < ALPHA and self.difference > 0

    def turned(self) -> Comparison:
        """The same, seen from the other arm."""
        return replace(self, arm=self.other, other=self.arm, outcomes=self.outcomes[::-1])

    def __str__(self) -> str:
        p = numbers.p_value(self.adjusted)
        p = f"McNemar p{GLUE}{p if p.startswith('<') else f'={GLUE}{p}'}"
        p += f", adjusted for {self.of} comparisons" if self.of > 1 else ""
        interval = f"95{GLUE}% interval {numbers.signed_span(self.interval)}"
        return f"{numbers.points(self.difference)} points ({interval}, {p}, n{GLUE}={GLUE}{self.n})"


Contest = Mapping[tuple[str, str], Comparison]  # by the names of two arms, in both orders


def contest(run: Run, attack: str | None) -> Contest:
    """All arms against one another under one attack, those that share attacked texts; p-values are adjusted for all pairs."""
    outcomes = {arm.name: _robust(found) for arm in run.arms if attack and (found := arm.attack(attack))}
    pairs = []
    for arm, other in combinations([arm for arm in run.arms if arm.name in outcomes], 2):
        mine, theirs = outcomes[arm.name], outcomes[other.name]
        if shared := sorted(mine.keys() & theirs.keys()):
            both = tuple(mine[i] for i in shared), tuple(theirs[i] for i in shared)
            pairs.append(Comparison(arm=arm, other=other, outcomes=both, p=mcnemar_exact(*both)))
    tests: dict[tuple[str, str], Comparison] = {}
    for pair, adjusted in zip(pairs, holm([pair.p for pair in pairs]), strict=True):
        pair = replace(pair, adjusted=adjusted, of=len(pairs))
        tests |= {(pair.arm.name, pair.other.name): pair, (pair.other.name, pair.arm.name): pair.turned()}
    return tests


def _robust(attack: Attack) -> dict[str, bool]:
    """Whether each example is still right under attack; examples with an error are left out."""
    return {example.id: example.status == FAILED for example in attack.texts if example.status != ERROR}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``headline`` is one line; ``sentences`` carry the numbers; ``sure`` says whether a difference was shown."""

    attack: str  # key
    headline: str
    sentences: tuple[str, ...]
    sure: bool


def verdict(run: Run, attack: str) -> Verdict:
    """Flags, degenerate arms, and the comparison of the other arms."""
    title, tests = run.attack_titles[attack], contest(run, attack)
    results = [(arm, found) for arm in run.arms if (found := arm.attack(attack)) is not None]
    lines = list(dict.fromkeys(f"{arm.title}: {flag}." for arm, found in results for flag in found.before))
    lines += [words for arm, _ in results if (words := degenerate(arm, attack))]
    ranked = [(arm, found) for arm, found in results if found.aua is not None and not degenerate(arm, attack)]
    ranked.sort(key=lambda pair: -(pair[1].aua or 0))
    if not ranked:
        lines = lines or [f"{title} left no result to compare."]
        return Verdict(attack=attack, headline=" ".join(lines), sentences=(), sure=False)
    (best, result), rest = ranked[0], [arm for arm, _ in ranked[1:]]
    accuracy = f"{best.title} still labels {numbers.percent(result.aua)} of {result.n} texts correctly under {title}"
    if ends := result.intervals.get("aua"):
        accuracy += f" (95{GLUE}% interval {numbers.span(ends)})"
    pairs = [tests[best.name, arm.name] for arm in rest if (best.name, arm.name) in tests]
    names = {arm.name for arm, _ in ranked}
    better = [pair for pair in tests.values() if pair.better and names >= {pair.arm.name, pair.other.name}]
    if not rest:
        lines.append(f"{accuracy}.")
    elif not pairs:
        lines.append(f"{best.title} came out highest under {title}, untested: no attacked example is stored for both.")
    elif len(pairs) == len(rest) and all(pair.better for pair in pairs):
        by = min(pair.difference for pair in pairs)
        lines.append(f"{best.title} is the hardest to fool: {by:.1f}{GLUE}points ahead of the next arm under {title}.")
    elif better:
        losers: dict[str, list[str]] = {}
        for pair in better:
            losers.setdefault(pair.arm.title, []).append(pair.other.title)
        words = "; ".join(f"{arm} is harder to fool than {numbers.listed(others)}" for arm, others in losers.items())
        lines.append(f"Under {title}, {words}.")
    else:
        n = min(pair.n for pair in pairs)
        what = f"under {title}, no arm is shown to be harder to fool"
        lines.append(f"No difference beyond noise at n{GLUE}={GLUE}{n}: {what}.")
    noise = {pair.other.name: "" if pair.adjusted < ALPHA else ", within noise" for pair in pairs}
    against = [f"Against {pair.other.title}: {pair}{noise[pair.other.name]}." for pair in pairs]
    sentences = (f"{accuracy}.", *against) if rest else ("There is no other arm to compare it with.",)
    return Verdict(attack=attack, headline=" ".join(lines), sentences=sentences, sure=bool(better))


# --- arms that give every text one class


def one_answer(per_class: Sequence[Mapping[str, Any]]) -> str | None:
    """The only class that an evaluation predicted; None for several or an incomplete file."""
    if any(number(row.get(key)) is None for row in per_class for key in ("n", "precision", "recall")):
        return None
    place = only_class(per_class)
    return None if place is None else str(per_class[place].get("label", place))


def degenerate(arm: Arm, attack: str) -> str:
    """A sentence on an arm that predicts one class, by its evaluation or else by the attacked texts; empty for any other."""
    found, evaluation = arm.attack(attack), arm.evaluation
    if evaluation is not None and evaluation.per_class:
        texts = "text" if one_answer(evaluation.per_class) is not None else ""
    else:
        texts = "attacked text" if found is not None and ONE_ANSWER in found.flag_codes else ""
    what = f"{arm.title} gives every {texts} one class, so that its numbers under attack say nothing"
    return f"{what}: train longer or on more rows, or see what it does with its texts." if texts else ""


# --- costs


KEPT = (  # kept, of how many, and what; the first that is known
    ("nonzero_encoder_parameters", "dense_encoder_parameters", "encoder parameters"),
    ("encoder_parameters", "dense_encoder_parameters", "encoder parameters"),
    ("parameters", "dense_parameters", "parameters"),
)


def costs(run: Run) -> list[str]:
    """Sentences on what each ticket loses and saves against the baseline."""
    base, sentences = run.base, []
    for arm in run.arms:
        if arm.ticket is None or arm is base:
            continue
        cost, parts = arm.cost, []
        if base is not None and arm.clean is not None and base.clean is not None:
            gap = numbers.points(arm.clean - base.clean)
            parts.append(f"labels {numbers.percent(arm.clean)} of unattacked texts correctly ({gap} points)")
        kept = next((one for one in KEPT if cost.get(one[0]) and cost.get(one[1])), None)
        if kept is not None:
            own, of = cost[kept[0]], cost[kept[1]]
            parts.append(f"keeps {numbers.amount(own)} of {numbers.amount(of)} {kept[2]} ({100 * own / of:.0f} %)")
        if kept is KEPT[0]:
            parts.append("brings no speed, for the others are zeros in matrices of the same size")
        elif cost.get("flops_per_example") and cost.get("dense_flops_per_example"):
            times = cost["dense_flops_per_example"] / cost["flops_per_example"]
            parts.append(f"needs {times:.2f} times fewer FLOPs per text")
        if base is not None and cost.get("train_seconds") and base.cost.get("train_seconds"):
            mine, theirs = (numbers.seconds(total_seconds(one)) for one in (arm, base))
            parts.append(f"took {mine} to {'find and ' * ('search_seconds' in cost)}train ({theirs})")
        if parts:
            sentences.append(f"{arm.title} {numbers.listed(parts)}.")
    if sentences and base is not None:
        sentences[-1] += f" Differences and times in brackets: {base.title}."
    return sentences


def total_seconds(arm: Arm) -> float | None:
    """Search and training together, where both are known."""
    train = arm.cost.get("train_seconds")
    return None if train is None else train + arm.cost.get("search_seconds", 0.0)


# --- warnings


def warnings(run: Run) -> list[str]:
    """Warnings on a run: flags, tickets that say little, word tables, data, files that could not be read."""
    results = [(key, found) for key in run.attack_titles for arm in run.arms if (found := arm.attack(key)) is not None]
    sentences = [flag_sentence(run, key, flag) for key, found in results for flag in found.flags]
    notes = {
        "The search did not converge; the ticket was drawn at its last point": [
            arm.title for arm in run.arms if arm.distances is not None and not arm.distances.converged
        ],
        "Near random: the search hardly moved the coefficients apart": [
            arm.title for arm in run.arms if arm.near_random
        ],
        "No speed: weights that a mask removes are zeros in matrices of the same size": [
            arm.title for arm in run.arms if arm.cost.get("nonzero_encoder_parameters")
        ],
    }
    sentences += [f"{words} ({', '.join(arms)})." for words, arms in notes.items() if arms]
    sentences += [words for arm in run.arms for words in _word_tables(run, arm)]
    if skipped := run.task.get("skipped_rows"):
        sentences.append(
            f"{skipped} rows of the data could not be used and were skipped; {BAD_ROWS} in the run folder lists them."
        )
    sentences += [f"The data: {words}." for words in listed(run.task.get("warnings")) if isinstance(words, str)]
    return list(dict.fromkeys([*sentences, *run.notes]))


def flag_sentence(run: Run, key: str, flag: str) -> str:
    """A flag of an attack, with the arms it is about where it is not about all."""
    results = [(arm, found) for arm in run.arms if (found := arm.attack(key)) is not None]
    owners = [arm.title for arm, found in results if flag in found.flags]
    where = "" if len(owners) == len(results) else f" on {numbers.listed(owners)}"
    return f"{run.attack_titles[key]}{where}: {flag}."


def _word_tables(run: Run, arm: Arm) -> list[str]:
    """A sentence on each word table of an arm, and one for each attack with word tables."""
    sentences = []
    for table in arm.tables:
        words = f"{arm.title} was {table.what} under {table.adversary} with words from {table.name} (sha256 {table.digest[:8]}…)"
        if table.swappable is not None:
            words += f", which can swap {numbers.percent(100 * table.swappable)} of the words of its training texts"
        sentences.append(f"{words}.")
        for key, title in run.attack_titles.items():
            found = arm.attack(key)
            digests = {str(used.get("digest") or "") for used in found.resources.values()} - {""} if found else set()
            if table.digest in digests:
                words = (
                    "draws from the same table as the training; what it shows need not hold for words from elsewhere"
                )
                sentences.append(f"{title} on {arm.title}: the attack {words}.")
            elif digests:
                sentences.append(f"{title} on {arm.title}: the attack does not draw from the table of the training.")
    return sentences


def cited(run: Run, attack: str | None, arm: Arm) -> tuple[int, ...]:
    """The numbers of the warnings about an attack on an arm."""
    if attack is None or (found := arm.attack(attack)) is None or not found.flags:
        return ()
    numbered = warnings(run)
    return tuple(numbered.index(flag_sentence(run, attack, flag)) + 1 for flag in dict.fromkeys(found.flags))


# --- how it was attacked


def conditions(run: Run, attack: str) -> dict[tuple[str, ...], list[str]]:
    """Rules, scoring and texts of one attack, with the titles of the arms attacked that way."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for arm in run.arms:
        if (found := arm.attack(attack)) is not None:
            groups.setdefault(_conditions(found), []).append(arm.title)
    return groups


def _conditions(found: Attack) -> tuple[str, ...]:
    task, fit, budget = found.task, mapping(found.calibration), found.query_budget
    names = [str(name) for name in listed(task.get("labels"))]
    counts = [int(count) for count in listed(task.get("by_class")) if number(count) is not None]
    subset = how(found.subset, found.seed, names, counts, task.get("rows"))
    parts = [
        f"by the rules of {found.compat}" if found.compat else f"by own rules, written from {found.semantics}",
        f"scored by {found.scoring}",
        f"temperature {found.temperature:g}",
        f"calibrated on {fit.get('n')} rows of {fit.get('split')}" if fit.get("fitted") else "",
        f"texts: {subset}" if subset else "",
        short_of(int(number(task.get("asked")) or 0), len(found.ids)),
        f"at most {budget} queries a text" if budget else "no query budget",
        *(f"substitute {kind}: {used.get('name')}" for kind, used in found.resources.items() if used.get("substitute")),
    ]
    return tuple(filter(None, parts))
