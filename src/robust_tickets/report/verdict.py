"""The verdict in sentences: who is hardest to fool, how sure that is, what the ticket costs, what to know.

"Harder to fool" is only written where the exact paired test holds at 5 %, adjusted for all pairs of arms, since which arm is best is read from
the same data. "Hardest" needs that against every other arm. Otherwise the sentence says that the difference is within noise, and how large
an interval still allows it to be. An arm that gives every text one class is reported as such, and not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from robust_tickets.attack.examples import how, short_of
from robust_tickets.attack.flags import ONE_ANSWER
from robust_tickets.files import listed, mapping
from robust_tickets.report import format as numbers
from robust_tickets.report.run_data import Arm, Attack, Interval, Run, WordTable, number, whole
from robust_tickets.stages import BAD_ROWS, BAD_ROWS_KEPT
from robust_tickets.stats.classification import ERROR, FAILED, FEW, only_class
from robust_tickets.stats.compare_runs import holm
from robust_tickets.stats.intervals import mcnemar_exact, paired_interval
from robust_tickets.stats.resampling import bootstrap_difference

ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """``arm`` minus ``other``, in percentage points, over the ``n`` examples that both were attacked on."""

    arm: Arm
    other: Arm
    n: int
    difference: float
    low: float  # Newcombe's interval, which has width at any n
    high: float
    p: float
    adjusted: float  # p, adjusted for ``of`` comparisons
    of: int
    outcomes: tuple[tuple[bool, bool], ...]  # per shared example: did each stay right

    @property
    def clear(self) -> bool:
        return self.adjusted < ALPHA and self.difference != 0

    @property
    def bootstrap(self) -> Interval:
        """The percentile bootstrap interval of the difference; without width where the two never differ."""
        _, low, high = bootstrap_difference([a for a, _ in self.outcomes], [b for _, b in self.outcomes], seed=0)
        return 100 * low, 100 * high

    def turned(self) -> Comparison:
        """The same, seen from the other arm."""
        return replace(
            self,
            arm=self.other,
            other=self.arm,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
            outcomes=tuple((b, a) for a, b in self.outcomes),
        )


def compare(arm: Arm, other: Arm, attack: str) -> Comparison | None:
    """The paired comparison by itself, or None where the two share no attacked example."""
    first, second = arm.attack(attack), other.attack(attack)
    if first is None or second is None:
        return None
    a, b = _robust(first), _robust(second)
    shared = sorted(a.keys() & b.keys())
    if not shared:
        return None
    mine, theirs = [a[i] for i in shared], [b[i] for i in shared]
    low, high = paired_interval(mine, theirs)
    p = mcnemar_exact(mine, theirs)
    return Comparison(
        arm=arm,
        other=other,
        n=len(shared),
        difference=100 * (sum(mine) - sum(theirs)) / len(shared),
        low=100 * low,
        high=100 * high,
        p=p,
        adjusted=p,
        of=1,
        outcomes=tuple(zip(mine, theirs, strict=True)),
    )


@dataclass(frozen=True, kw_only=True)
class Contest:
    """All arms against one another under one attack; p-values are adjusted for all pairs."""

    pairs: tuple[Comparison, ...]

    def between(self, arm: Arm | None, other: Arm | None) -> Comparison | None:
        for pair in self.pairs:
            if pair.arm is arm and pair.other is other:
                return pair
            if pair.arm is other and pair.other is arm:
                return pair.turned()
        return None


def contest(run: Run, attack: str | None) -> Contest:
    found = [pair for a, b in combinations(run.arms, 2) if attack and (pair := compare(a, b, attack)) is not None]
    adjusted = holm([pair.p for pair in found])
    return Contest(
        pairs=tuple(replace(pair, adjusted=p, of=len(found)) for pair, p in zip(found, adjusted, strict=True))
    )


def _robust(attack: Attack) -> dict[str, bool]:
    """Whether each example is still right under attack; examples with an error are left out."""
    return {example.id: example.status == FAILED for example in attack.examples if example.status != ERROR}


MOST = 1  # sentences on pairs without the best arm


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``headline`` is one sentence; ``sentences`` carry the numbers; ``sure`` says whether a difference was shown."""

    attack: str  # key
    headline: str
    sentences: tuple[str, ...]
    sure: bool


def verdicts(run: Run) -> list[Verdict]:
    """One verdict per attack of the run."""
    return [verdict(run, key) for key in run.attack_keys]


def verdict(run: Run, attack: str) -> Verdict:
    """Flags, degenerate arms, and the comparison of the other arms."""
    found = _without_degenerate(run, attack)
    flagged = [(arm, flag) for arm in run.arms if (one := arm.attack(attack)) for flag in one.before]
    flags = dict.fromkeys(f"{arm.title}: {flag}." for arm, flag in flagged)
    return replace(found, headline=" ".join([*flags, found.headline]))


def _without_degenerate(run: Run, attack: str) -> Verdict:
    empty = [arm for arm in run.arms if degenerate(arm, attack)]
    if not empty:
        return _compared(run, attack, run.arms)
    empty_sentence = degenerate_sentence(empty, numbers.listed([arm.title for arm in empty]))
    sound = tuple(arm for arm in run.arms if not any(arm is other for other in empty))
    if not any(arm.attack(attack) for arm in sound):
        return Verdict(attack=attack, headline=empty_sentence, sentences=(), sure=False)
    rest = _compared(run, attack, sound)
    return replace(rest, headline=f"{empty_sentence} {rest.headline}")


def _compared(run: Run, attack: str, arms: tuple[Arm, ...]) -> Verdict:
    name = run.attack_titles[attack]
    ranked = sorted(
        ((arm, found) for arm in arms if (found := arm.attack(attack)) is not None and found.aua is not None),
        key=lambda pair: -(pair[1].aua or 0),
    )
    if not ranked:
        return Verdict(attack=attack, headline=f"{name} left no result to compare.", sentences=(), sure=False)
    (best, result), rest = ranked[0], [arm for arm, _ in ranked[1:]]
    accuracy = f"{best.title} still labels {numbers.percent(result.aua)} of {result.n} texts correctly under {name}"
    if "aua" in result.intervals:
        accuracy += f" (95{numbers.GLUE}% interval {numbers.span(result.intervals['aua'])})"
    if not rest:
        return Verdict(
            attack=attack, headline=f"{accuracy}.", sentences=("There is no other arm to compare it with.",), sure=False
        )
    all_pairs = contest(run, attack)
    pairs = [pair for arm in rest if (pair := all_pairs.between(best, arm)) is not None]
    met = [pair.other for pair in pairs]
    apart = [arm for arm in rest if not any(arm is other for other in met)]
    others = [
        c for c in all_pairs.pairs if c.clear and all(any(side is arm for arm in rest) for side in (c.arm, c.other))
    ]
    elsewhere = [c if c.difference > 0 else c.turned() for c in others]
    sentences = [f"{accuracy}.", *(_against(c) for c in pairs)]
    if apart:
        listed = numbers.listed([arm.title for arm in apart])
        sentences.append(f"No paired test against {listed}: no attacked example is stored for both.")
    sentences += [f"{c.arm.title} is harder to fool than {c.other.title}: {_numbers(c)}." for c in elsewhere[:MOST]]
    if len(elsewhere) > MOST:
        sentences.append(
            f"{len(elsewhere) - MOST} more pairs of the other arms differ beyond noise; the table of pairs has them all."
        )
    return Verdict(
        attack=attack,
        headline=_headline(best, pairs, apart, elsewhere, name),
        sentences=tuple(sentences),
        sure=any(c.clear for c in pairs) or bool(elsewhere),
    )


def _headline(best: Arm, pairs: list[Comparison], apart: list[Arm], elsewhere: list[Comparison], name: str) -> str:
    if not pairs:
        return f"{best.title} came out highest under {name}, untested: the arms share no attacked examples."
    ahead = [c for c in pairs if c.clear and c.difference > 0]
    behind = [c for c in pairs if c.clear and c.difference < 0]  # best over all, but not where both were attacked
    level = [c for c in pairs if not c.clear]
    if len(ahead) == len(pairs) and not apart:
        by = min(c.difference for c in pairs)
        return f"{best.title} is the hardest to fool: {by:.1f}{numbers.GLUE}points ahead of the next arm under {name}."
    parts = []
    if ahead:
        parts.append(f"{best.title} is harder to fool than {_titles(ahead)}")
    if behind:
        parts.append(f"on the texts that both met, {best.title} is easier to fool than {_titles(behind)}")
    if parts:
        parts[0] = f"Under {name}, {parts[0]}"
        if level:
            parts.append(f"against {_titles(level)} there is no difference beyond noise")
    elif elsewhere:
        first = elsewhere[0]
        parts.append(f"Under {name}, {first.arm.title} is harder to fool than {first.other.title}")
        parts.append(f"{best.title} came out highest, but not beyond noise")
    else:
        n = min(c.n for c in pairs)
        parts.append(
            f"No difference beyond noise at n{numbers.GLUE}={numbers.GLUE}{n}: under {name}, no arm is shown to be harder to fool"
        )
    if apart:
        parts.append(f"{numbers.listed([arm.title for arm in apart])} could not be compared")
    return "; ".join(parts) + "."


def _titles(pairs: list[Comparison]) -> str:
    return numbers.listed([c.other.title for c in pairs])


def _against(c: Comparison) -> str:
    if c.clear:
        return f"Against {c.other.title} that is {_numbers(c)}."
    if c.difference == 0:
        return f"Against {c.other.title} there is no difference at all ({_how(c)})."
    why = "is within noise" if c.p >= ALPHA else "is not significant once adjusted"
    return f"Against {c.other.title} it is {numbers.points(c.difference)} points, which {why} ({_how(c)})."


def _numbers(c: Comparison) -> str:
    return f"{numbers.points(c.difference)} points ({_how(c)})"


def _how(c: Comparison) -> str:
    glue = numbers.GLUE
    adjusted = f", adjusted for {c.of} comparisons" if c.of > 1 else ""
    interval = f"95{glue}% interval {numbers.signed_span((c.low, c.high))}"
    return f"{interval}, McNemar p{glue}{_equals(c.adjusted)}{adjusted}, n{glue}={glue}{c.n}"


def costs(run: Run) -> list[str]:
    """Sentences on what each ticket loses and saves against the baseline."""
    base = run.base
    sentences: list[str] = []
    for arm in run.arms:
        if arm.shape is None or arm is base:
            continue
        parts = []
        if base is not None and arm.clean is not None and base.clean is not None:
            gap = arm.clean - base.clean
            parts.append(
                f"labels {numbers.percent(arm.clean)} of unattacked texts correctly ({numbers.points(gap)} points)"
            )
        parts += _savings(arm)
        if base is not None and arm.cost.get("train_seconds") and base.cost.get("train_seconds"):
            mine, theirs = total_seconds(arm), total_seconds(base)
            what = "find and train" if arm.cost.get("search_seconds") else "train"
            parts.append(f"took {numbers.seconds(mine)} to {what} ({numbers.seconds(theirs)})")
        if parts:
            sentences.append(f"{arm.title} {numbers.listed(parts)}.")
    if sentences and base is not None:
        sentences[-1] += f" Differences and times in brackets: {base.title}."
    return sentences


def _savings(arm: Arm) -> list[str]:
    cost, parts = arm.cost, []
    if cost.get("nonzero_encoder_parameters") and cost.get("dense_encoder_parameters"):
        kept, of = cost["nonzero_encoder_parameters"], cost["dense_encoder_parameters"]
        parts.append(
            f"keeps {numbers.amount(kept)} of {numbers.amount(of)} encoder parameters ({100 * kept / of:.0f} %)"
        )
        return [*parts, "brings no speed, for the others are zeros in matrices of the same size"]
    for key, dense, what in (
        ("encoder_parameters", "dense_encoder_parameters", "encoder parameters"),
        ("parameters", "dense_parameters", "parameters"),
    ):
        if cost.get(key) and cost.get(dense):
            share = 100 * cost[key] / cost[dense]
            parts.append(f"keeps {numbers.amount(cost[key])} of {numbers.amount(cost[dense])} {what} ({share:.0f} %)")
            break
    if cost.get("flops_per_example") and cost.get("dense_flops_per_example"):
        parts.append(
            f"needs {cost['dense_flops_per_example'] / cost['flops_per_example']:.2f} times fewer FLOPs per text"
        )
    return parts


def total_seconds(arm: Arm) -> float | None:
    """Search and training together, where both are known."""
    train = arm.cost.get("train_seconds")
    return None if train is None else train + arm.cost.get("search_seconds", 0.0)


def warnings(run: Run) -> list[str]:
    """Warnings on a run: flags, small samples, errors, files that could not be read."""
    sentences: list[str] = []
    for key, title in run.attack_titles.items():
        results = [(arm, found) for arm in run.arms if (found := arm.attack(key)) is not None]
        sentences += [
            flag_sentence(run, key, flag)
            for flag in dict.fromkeys(flag for _, found in results for flag in found.flags)
        ]
        sentences += [
            f"{title}: only {found.n} examples on {arm.title}: expect a sampling error of about "
            f"±{98 / max(found.n, 1) ** 0.5:.0f} points on every accuracy."  # 1.96 · sqrt(.5 · .5 / n): the widest case
            for arm, found in results
            if found.n < FEW and not _has_flag(found, "few")
        ]
        for arm, found in results:
            if found.errors and not _has_flag(found, "error") and not found.before:
                sentences.append(
                    f"{title} on {arm.title}: {found.errors} examples failed with an error and are left out."
                )
    unconverged = [arm.title for arm in run.arms if arm.distances is not None and not arm.distances.converged]
    if unconverged:  # one sentence, as arms may share a search
        whose = "its ticket was" if len(unconverged) == 1 else "their tickets were"
        sentences.append(
            f"The search for {numbers.listed(unconverged)} did not converge; {whose} drawn at the last point."
        )
    near = [arm.title for arm in run.arms if arm.near_random]
    if near:
        what = "ticket is" if len(near) == 1 else "tickets are"
        sentences.append(
            f"Near random: {numbers.listed(near)}, whose {what} drawn from coefficients that the search hardly moved apart."
        )
    masked = [arm.title for arm in run.arms if arm.cost.get("nonzero_encoder_parameters")]
    if masked:
        sentences.append(
            f"No speed comes from {numbers.listed(masked)}: weights that a mask removes are zeros in matrices of the same size."
        )
    for arm in run.arms:
        for table in arm.tables:
            sentences += _word_table_sentences(run, arm, table)
    skipped = run.task.get("skipped_rows")
    if skipped:
        where = (
            f"; {BAD_ROWS} in the run folder lists them, up to {BAD_ROWS_KEPT:,}" if run.task.get("bad_rows") else ""
        )
        sentences.append(f"{skipped} rows of the data could not be used and were skipped{where}.")
    sentences += [f"The data: {words}." for words in listed(run.task.get("warnings") or []) if isinstance(words, str)]
    sentences += run.notes
    return list(dict.fromkeys(sentences))


def flag_sentence(run: Run, key: str, flag: str) -> str:
    """A flag of an attack, with the arms it is about where it is not about all."""
    results = [(arm, found) for arm in run.arms if (found := arm.attack(key)) is not None]
    owners = [arm.title for arm, found in results if flag in found.flags]
    where = "" if len(owners) == len(results) else f" on {numbers.listed(owners)}"
    return f"{run.attack_titles[key]}{where}: {flag}."


def _has_flag(found: Attack, word: str) -> bool:
    return any(flag.lower().startswith(word) for flag in found.flags)


def _equals(p: float) -> str:
    text = numbers.p_value(p)
    return text if text.startswith("<") else f"={numbers.GLUE}{text}"


COUNTS = ("n", "precision", "recall")


def one_answer(per_class: Sequence[Mapping[str, Any]]) -> str | None:
    """The only class that an evaluation predicted; None for several or an incomplete file."""
    rows = [{key: value for key in COUNTS if (value := number(row.get(key))) is not None} for row in per_class]
    if any(len(row) < len(COUNTS) for row in rows):
        return None
    place = only_class(rows)
    return None if place is None else str(per_class[place].get("label", place))


def gives_one_class(arm: Arm) -> bool:
    """Whether the arm predicted one class for all rows that it was evaluated on."""
    return arm.evaluation is not None and one_answer(arm.evaluation.per_class) is not None


def degenerate(arm: Arm, attack: str) -> bool:
    """Whether the arm predicts one class, by its evaluation or else by the attacked texts."""
    found = arm.attack(attack)
    if found is not None and arm.evaluation is not None and arm.evaluation.per_class:
        return gives_one_class(arm)
    return found is not None and ONE_ANSWER in found.codes


def degenerate_sentence(arms: Sequence[Arm], titles: str) -> str:
    """A sentence on degenerate arms: what is wrong and what to do."""
    many = len(arms) > 1
    texts = "every text" if all(map(gives_one_class, arms)) else "every attacked text"
    cure = (
        "train longer or on more rows"
        if all(arm.evaluation is not None for arm in arms)
        else "see what the victim does with its texts"
    )
    return f"{titles} give{'' if many else 's'} {texts} one class: {cure}; {'their' if many else 'its'} numbers under attack say nothing."


SHOWN = 8  # characters of a digest


def _word_table_sentences(run: Run, arm: Arm, table: WordTable) -> list[str]:
    """A sentence on a word table of an arm, and one for each attack with word tables."""
    what = f"{arm.title} was {table.what} under {table.adversary} with words from {table.name} (sha256 {table.digest[:SHOWN]}…)"
    if table.swappable is not None:
        what += f", which can swap {numbers.percent(100 * table.swappable)} of the words of its training texts"
    sentences = [f"{what}."]
    for key, title in run.attack_titles.items():
        found = arm.attack(key)
        used = mapping(found.about.get("resources")).values() if found else ()
        digests = {digest for resource in used if (digest := mapping(resource).get("digest"))}
        if table.digest and table.digest in digests:
            ground = "what it shows there need not hold for words from elsewhere"
            sentences.append(
                f"{title} on {arm.title}: the attack draws from the same table as the training, so {ground}."
            )
        elif digests:
            sentences.append(f"{title} on {arm.title}: the attack does not draw from the table of the training.")
    return sentences


ALL = ("clean_attacked", "aua", "suc")
CONCERNS: Mapping[str, tuple[str, ...]] = {  # code of a flag → the cells it is about
    "below-chance": ALL,
    "failed-examples": ALL,
    "few-examples": ALL,
    "one-class": ALL,
    "one-answer": ALL,
    "first-rows": ALL,
    "seen-in-training": ALL,
    "errors": ALL,
    "query-budget": ("aua", "suc", "queries"),
    "compat": ("aua", "suc", "queries"),
    "substitute": ("aua", "suc", "perturbed", "similarity"),
    "constraint-dropped": ("aua", "suc", "perturbed", "similarity"),
}
OTHERS = ("aua", "suc")  # of any other flag


def cited(run: Run, attack: str | None, arm: Arm) -> dict[str, tuple[int, ...]]:
    """The numbers of the warnings about each cell."""
    found = arm.attack(attack)
    if found is None or attack is None:
        return {}
    numbered = warnings(run)
    notes: dict[str, dict[int, None]] = {}
    for flag, code in zip(found.flags, found.codes, strict=True):
        number_of = numbered.index(flag_sentence(run, attack, flag)) + 1
        for cell in CONCERNS.get(code, OTHERS):
            notes.setdefault(cell, {})[number_of] = None
    return {cell: tuple(numbers_of) for cell, numbers_of in notes.items()}


def conditions(run: Run, attack: str) -> tuple[list[str], dict[str, list[str]]]:
    """Rules, scoring and texts of one attack: those of every arm, and by title those that differ."""
    by_arm = {arm.title: _conditions(found) for arm in run.arms if (found := arm.attack(attack)) is not None}
    every = [part for part in next(iter(by_arm.values()), []) if all(part in parts for parts in by_arm.values())]
    return every, {
        title: own for title, parts in by_arm.items() if (own := [part for part in parts if part not in every])
    }


def _conditions(found: Attack) -> list[str]:
    about, task, heat = found.about, mapping(found.about.get("task")), number(found.about.get("temperature"))
    parts = []
    if about.get("compat"):
        parts.append(f"by the rules of {about['compat']}")
    elif about.get("semantics"):
        parts.append(f"by this package's own rules, written from {about['semantics']}")
    if about.get("scoring"):
        parts.append(f"scored by {about['scoring']}")
    if heat is not None:
        fit = mapping(about.get("calibration"))
        how_hot = f", calibrated on {fit.get('n')} rows of {fit.get('split')}" if fit.get("fitted") else ""
        parts.append(f"temperature {heat:g}{how_hot or (' (the victim as it is)' if heat == 1 else '')}")
    if subset := _subset(found, task):
        parts.append(f"texts: {subset}")
    if (asked := whole(task.get("asked"))) is not None and (short := short_of(asked, len(found.ids))):
        parts.append(short)
    if "query_budget" in about:
        budget = about["query_budget"]
        parts.append(f"at most {budget} queries a text" if budget else "no query budget")
    if parts:
        used = {kind: mapping(one) for kind, one in mapping(about.get("resources")).items()}
        parts += [f"substitute {kind}: {one.get('name')}" for kind, one in used.items() if one.get("substitute")]
    return parts


def _subset(found: Attack, task: Mapping[str, Any]) -> str:
    """How the texts were chosen, by class."""
    names = [str(name) for name in listed(task.get("labels") or [])]
    counts = [count for count in map(whole, listed(task.get("by_class") or [])) if count is not None]
    if not counts:
        labels = [example.label for example in found.examples if isinstance(example.label, int)]
        counts = [labels.count(place) for place in range(len(names))]
    return how(str(found.about.get("subset")), found.seed, names, counts, whole(task.get("rows")))
