"""Words and numbers of filled tables and claims, the same in the terminal, in Markdown and on the page. Intervals are at 95 %."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import get_args

from robust_tickets.measure.runs import RunSummary
from robust_tickets.measure.verdict import RunComparison, Verdict
from robust_tickets.report.numbers import NONE, brief, p_value, points, signed_span
from robust_tickets.reproduce.claims import Judged
from robust_tickets.reproduce.names import arm_title, attack_phrase, attack_title, task_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.protocol import part_of

MEASURES = {
    "clean": "clean accuracy, %", "aua": "accuracy under attack, %", "suc": "attacks that succeed, %", "queries": "queries an example",
    "speedup_vs_pgd": "speed-up over PGD", "speedup_vs_freelb": "speed-up over FreeLB",
    "speedup_lost_to_search": "speed-up lost to the search",
    "encoder_millions": "parameters without embeddings, millions", "total_millions": "parameters, millions",
}  # fmt: skip
HERE = " (on these texts; others may differ)"  # where the interval over runs and texts does not say the same
MOST = 4  # sentences of an answer
FIRST = "under an attack by the nearest of ours"  # how a paper's number is counted
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
INSIDE = {True: "yes", False: "no", None: NONE}


def measure(metric: str, by: str | None) -> str:
    return MEASURES.get(metric, metric) + (f": {attack_title(by)}" if by else "")


def mean(summary: RunSummary | None) -> str:
    """``45.3 (43.2–47.4), 5 runs``."""
    if summary is None:
        return NONE
    span = f" ({brief(summary.shown)})" if summary.shown else ""
    return f"{summary.mean:.1f}{span}, {count(summary.n, 'run')}"


def count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def rehearsed(outcomes: Sequence[Outcome]) -> str | None:
    """The warning that some of these results are of a part of the data, if some are."""
    part = sum(part_of(outcome.notes) is not None for outcome in outcomes)
    told = f"{part} of {count(len(outcomes), 'result')} {'is' if part == 1 else 'are'} of a part of the data, a rehearsal"
    return f"{told}: not to be held against the papers' numbers." if part else None


def hours(seconds: float) -> str:
    """A rough time: ``35 min``, ``2.4 h``, ``31 h``."""
    return f"{seconds / 3600:.0f} h" if seconds >= 36000 else f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def merged(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text once; those that differ in numbers alone become one, with the numbers' ranges: every run tells its own."""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for text in texts:
        groups.setdefault(tuple(_NUMBER.split(text)), []).append(_NUMBER.findall(text))
    found = []
    for parts, told in groups.items():
        ranges = [_range(values) for values in zip(*told, strict=True)]
        found.append("".join(part + number for part, number in zip(parts, [*ranges, ""], strict=True)))
    return tuple(found)


def numberless(text: str) -> str:
    """What two texts share that ``merged`` makes one."""
    return _NUMBER.sub("0", text)


def _range(values: Sequence[str]) -> str:
    low, high = min(values, key=float), max(values, key=float)
    return low if float(low) == float(high) else f"{low} to {high}"


def listed(words: Sequence[str]) -> str:
    """“a, b and c”."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def sentence(one: Judged) -> str:
    """A claim in one sentence, whatever came of it."""
    claim, found = one.claim, one.comparison
    who = f"{arm_title(claim.arm)} against {arm_title(claim.other)}, {task_title(claim.task)}, {attack_title(claim.attack)}"
    if found is None:
        return f"{who}: not run ({one.why})."
    span = f" ({signed_span(found.shown)})" if found.shown else ""
    over = f"; on further examples too {signed_span(found.shown_over_examples)}" if found.shown_over_examples else ""
    difference = f"{points(found.difference)} points{span}{over}"
    least, most = sorted(found.n)
    runs = count(least, "run") + (f" and {most}" if most != least else " each")
    adjusted, same = (
        f"p {p_value(p)} after Holm over {count(found.of, 'claim')}" for p in (found.adjusted_p, found.adjusted_equivalence_p)
    )
    return {
        "different": f"{who}: {'sturdier' if found.difference > 0 else 'less sturdy'}{small(found)}, {difference}, {adjusted}.",
        "equivalent": f"{who}: equivalent within {found.margin:g} points, {difference}, {same}.",
        "undecided": f"{who}: undecided, {difference}, {adjusted}.",
        "too few runs": f"{who}: {difference}, {runs}: no claim, that takes five.",
    }[found.verdict]


def answered(made: Sequence[Judged]) -> str:
    """The answer in short, from the verdicts alone: what is sure, then how many claims are not."""
    counts = {verdict: [one for one in made if one.verdict == verdict] for verdict in get_args(Verdict)}
    told = [*_apart(counts["different"]), *_alike(counts["equivalent"])]
    if len(told) > MOST:
        told = [*told[:MOST], f"{len(told) - MOST} more of the kind are below."]
    rest = {"undecided": counts["undecided"], "left open by too few runs": counts["too few runs"]}
    for words, found in rest.items():
        if len(found) == len(made):
            told.append(f"All {len(found)} claims are {words}." if len(found) > 1 else f"It is {words}.")
        elif found:
            told.append(f"{len(found)} of {len(made)} claims {'are' if len(found) > 1 else 'is'} {words}.")
    return " ".join(told)


def _apart(found: Sequence[Judged]) -> list[str]:
    """What is sturdier than what, or weaker: a sentence a pair, or an arm and attack, whichever are fewer."""
    pairs: dict[tuple[str, str, bool], list[str]] = {}
    under: dict[tuple[str, str, bool], list[str]] = {}
    for one in found:
        c, claim = one.comparison, one.claim
        assert c is not None
        by, tail = f"by {abs(c.difference):.1f}", here(c)
        pairs.setdefault((claim.arm, claim.other, c.difference > 0), []).append(f"{by} under {attack_phrase(claim.attack)}{tail}")
        under.setdefault((claim.arm, claim.attack, c.difference > 0), []).append(f"{arm_title(claim.other)} {by}{tail}")
    if len(pairs) < len(under):
        return [
            f"{arm_title(arm)} is {_than(up)} {arm_title(other)} {listed(told).replace(' under', ' points under', 1)}."
            for (arm, other, up), told in pairs.items()
        ]
    return [
        f"{arm_title(arm)} is {_than(up)} {_points(listed(told))} under {attack_phrase(attack)}."
        for (arm, attack, up), told in under.items()
    ]


def here(found: RunComparison) -> str:
    """What is to be added to a verdict that the interval over runs and texts does not bear out; nothing where it does."""
    if found.over_examples is None or found.verdict not in ("different", "equivalent"):
        return ""
    low, high = found.over_examples
    borne = low > 0 or high < 0 if found.verdict == "different" else -found.margin < low and high < found.margin
    return "" if borne else HERE


def small(found: RunComparison) -> str:
    """What is to be added to a difference that was shown to lie within the margin, on other texts too: it is sure, and small."""
    within = found.over_examples is None or max(map(abs, found.over_examples)) < found.margin
    return f", by less than {found.margin:g} points" if found.different and found.equivalent and within else ""


def caveat(judged: Sequence[Judged]) -> str:
    """``here`` of several claims at once, with the attacks that it is about where it is not about all of them."""
    about = [attack_phrase(one.claim.attack) for one in judged if one.comparison and here(one.comparison)]
    return HERE if about and len(about) == len(judged) else HERE.replace(")", f" under {listed(about)})") if about else ""


def _points(told: str) -> str:
    """The unit after the last number."""
    return f"{told.removesuffix(HERE)} points{HERE}" if told.endswith(HERE) else f"{told} points"


def _than(up: bool) -> str:
    return "sturdier than" if up else "weaker than"


def _alike(found: Sequence[Judged]) -> list[str]:
    """A sentence for each pair, with all attacks under which it is so."""
    groups: dict[tuple[str, str], list[Judged]] = {}
    for one in found:
        groups.setdefault((one.claim.arm, one.claim.other), []).append(one)
    margin = f"{found[0].comparison.margin:g}" if found and found[0].comparison else ""
    return [
        f"{arm_title(arm)} and {arm_title(other)} lie within {margin} points of each other "
        f"under {listed([attack_phrase(one.claim.attack) for one in alike])}{caveat(alike)}."
        for (arm, other), alike in groups.items()
    ]


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 1) -> str:
    """Columns from ``numbers`` on are flush right."""
    rule = [":--" if i < numbers else "--:" for i in range(len(heads))]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.replace("|", "\\|").splitlines()) for cell in row) + " |" for row in (heads, rule, *rows)
    )
