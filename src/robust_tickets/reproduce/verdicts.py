"""Verdicts in words: a claim in one sentence, the answer to a family of claims in a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from robust_tickets.report.format import p_value, points, signed_span
from robust_tickets.reproduce.claims import Judged
from robust_tickets.reproduce.names import arm_title, attack_phrase, attack_title, task_title
from robust_tickets.reproduce.wording import count, listed
from robust_tickets.stats.verdict import RunComparison, Verdict

HERE = " (on these texts; others may differ)"  # where the interval over runs and texts does not say the same
MOST = 4  # sentences of an answer
UNIT = " points"  # after the first number of a sentence


def word(found: RunComparison) -> str:
    """A verdict with its direction."""
    return {"different": "sturdier" if found.difference > 0 else "less sturdy"}.get(found.verdict, found.verdict)


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
        f"p {p_value(p)} after Holm over {count(found.of, 'claim')}"
        for p in (found.adjusted_p, found.adjusted_equivalence_p)
    )
    return {
        "different": f"{who}: {word(found)}{small(found)}, {difference}, {adjusted}.",
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
    return (
        HERE if about and len(about) == len(judged) else HERE.replace(")", f" under {listed(about)})") if about else ""
    )


def _apart(found: Sequence[Judged]) -> list[str]:
    """What is sturdier than what, or weaker: a sentence an arm and rival, or an arm and attack, whichever are fewer."""
    pairs: dict[tuple[str, str], list[str]] = {}
    under: dict[tuple[str, str], list[str]] = {}
    for one in found:
        c, claim = one.comparison, one.claim
        assert c is not None
        by = f"{abs(c.difference):.1f}{UNIT} {'sturdier' if c.difference > 0 else 'weaker'}"
        pairs.setdefault((claim.arm, claim.other), []).append(f"{by} under {attack_phrase(claim.attack)}{here(c)}")
        under.setdefault((claim.arm, claim.attack), []).append(f"{by} than {_called(claim.other, claim.arm)}{here(c)}")
    many = len(under) > len(pairs)
    told, before, first = [], "", None
    for (arm, beside), items in (pairs if many else under).items():
        start = f"against {_called(beside, arm)}" if many else f"under {attack_phrase(beside)}"
        said = f"{_called(arm, first)} is {listed([items[0], *(item.replace(UNIT, '', 1) for item in items[1:])])}."
        told.append(_capital(said if start == before else f"{start}, {said}"))
        before, first = start, first or arm
    return told


def _called(arm: str, beside: str | None) -> str:
    """An arm that is named beside another, or again: a form of the same recipe by its form alone."""
    recipe, colon, form = arm_title(arm).partition(": ")
    same = beside is not None and arm_title(beside).startswith(f"{recipe}: ")
    return f"the {form}" if colon and same else arm_title(arm)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _alike(found: Sequence[Judged]) -> list[str]:
    """A sentence for each pair, with all attacks under which it is so."""
    groups: dict[tuple[str, str], list[Judged]] = {}
    for one in found:
        groups.setdefault((one.claim.arm, one.claim.other), []).append(one)
    margin = f"{found[0].comparison.margin:g}" if found and found[0].comparison else ""
    return [
        f"{arm_title(arm)} and {_called(other, arm)} lie within {margin} points of each other "
        f"under {listed([attack_phrase(one.claim.attack) for one in alike])}{caveat(alike)}."
        for (arm, other), alike in groups.items()
    ]
