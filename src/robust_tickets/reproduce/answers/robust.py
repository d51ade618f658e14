"""A: at equal length, is the robust ticket sturdier than fine-tuning, and than a random ticket?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robust_tickets.report.numbers import points
from robust_tickets.reproduce.answers.parts import claims_table, examples, not_run, summary, versions
from robust_tickets.reproduce.answers.printed import printed, printed_columns, printed_note
from robust_tickets.reproduce.attacks import attacks as attacks_of
from robust_tickets.reproduce.claims import Judged, family, judge, spreads, told
from robust_tickets.reproduce.names import arm_title, attack_phrase, attack_title, variant
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.reading import NOT_RUN
from robust_tickets.reproduce.verdicts import answered, caveat
from robust_tickets.reproduce.wording import count, listed, markdown_table, mean


def verdicts(judged: Sequence[Judged]) -> str:
    """One word or two for claims of one arm against one other under several attacks."""
    found = [one.verdict for one in judged]
    if NOT_RUN in found:
        return NOT_RUN if set(found) == {NOT_RUN} else "not all run"
    if "too few runs" in found:
        return "no claim: too few runs"
    different = [one for one in judged if one.comparison and one.comparison.different]
    better, worse = (
        [one for one in different if one.comparison and up == (one.comparison.difference > 0)] for up in (True, False)
    )
    if len(better) == len(judged):
        return f"yes{caveat(better)}"
    if worse:
        return ("no: less sturdy" if len(worse) == len(judged) else "no: under some attacks less sturdy") + caveat(
            worse
        )
    if better:
        return f"under {count(len(better), 'attack')} of {len(found)}{caveat(better)}, not shown under the rest"
    if set(found) == {"equivalent"}:
        return f"not by {told()['margin']:g} points or more: equivalent{caveat(judged)}"
    return "not shown: undecided" + (" in part" if "equivalent" in found else "")


def robust_ticket(judged: Sequence[Judged], outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """The answer to A from its claims, with what other attacks and runs of one seed say to it."""
    asked = family("A")
    heads = f"## A. {asked.question}"
    if all(one.comparison is None for one in judged):
        return [heads, not_run(judged)]
    arms = list(dict.fromkeys(name for claim in asked.claims for name in (claim.other, claim.arm)))
    attacks = list(dict.fromkeys(claim.attack for claim in asked.claims))
    task, split = asked.claims[0].task, asked.claims[0].split
    where = (asked.title, examples(outcomes, task, attacks[0], split), versions(judged, outcomes))
    further = [
        *_others(outcomes, folder),
        *_encoders(asked.claims[0].arm, arms, outcomes, task, attacks, split),
        *_repeats(arms, outcomes, task, attacks, split),
        *_methods(outcomes, folder),
    ]
    return [
        heads,
        _short(judged, outcomes),
        _table(arms, attacks, task, split, outcomes),
        claims_table(judged, printed_columns(judged, outcomes)),
        " ".join([f"{'; '.join(filter(None, where))}.", *printed_note(judged, outcomes), *_substituted(judged)]),
        *([" ".join(further)] if further else []),
    ]


def _short(judged: Sequence[Judged], outcomes: Sequence[Outcome]) -> str:
    """Against each other arm a word, the differences, and what the paper has."""
    lines = []
    for name in dict.fromkeys(one.claim.other for one in judged):
        own = [one for one in judged if one.claim.other == name]
        found, paper = _differences(own), printed(own[0].claim, outcomes)
        told = f"; {found}" + (f", the paper {points(paper.difference)}" if paper else "") if found else ""
        lines.append(f"- sturdier than {arm_title(name)}: **{verdicts(own)}**{told}")
    return "\n".join(lines)


def _differences(judged: Sequence[Judged]) -> str:
    """Each with its attack's candidates; empty where nothing was compared."""
    return listed(
        [f"{points(one.comparison.difference)} ({variant(one.claim.attack)})" for one in judged if one.comparison]
    )


def _methods(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """Other ways to train that have runs enough for a claim of their family."""
    judged = [one for one in judge("C-methods", outcomes, folder) if one.comparison and one.verdict != "too few runs"]
    said = []
    for pair in dict.fromkeys((one.claim.arm, one.claim.other) for one in judged):
        own = [one for one in judged if (one.claim.arm, one.claim.other) == pair]
        said.append(f"{arm_title(pair[0])} sturdier than {arm_title(pair[1])}: {verdicts(own)}; {_differences(own)}.")
    return said


def _others(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """Whether A's answer holds under other attacks, left out until some of it was run."""
    judged = [one for one in judge("C", outcomes, folder) if one.comparison]
    if not judged:
        return []
    attacks = list(dict.fromkeys(attack_phrase(one.claim.attack) for one in judged))
    return [f"Under {listed(attacks)}, in a family of its own, {_small(answered(judged))}"]


def _small(words: str) -> str:
    """Within a sentence: what begins with a name keeps its capital."""
    return words[:1].lower() + words[1:] if words.startswith(("All ", "It ")) else words


def _encoders(
    own: str, arms: Sequence[str], outcomes: Sequence[Outcome], task: str, attacks: Sequence[str], split: str | None
) -> list[str]:
    """The same attacks with a sentence encoder at each of its thresholds, of which nothing is claimed: differences, the page has more."""
    kinds = {
        attack: [one.name for one in attacks_of(task, ("encoder",)) if one.name.startswith(f"{attack}-")]
        for attack in attacks
    }
    apart: dict[str, list[str]] = {}
    for attack, names in kinds.items():
        found = {arm: [summary(arm, "aua", name, task, split, outcomes) for name in names] for arm in arms}
        if names and all(map(all, found.values())):
            for arm in (one for one in arms if one != own):
                gaps = [points(a.mean - b.mean) for a, b in zip(found[own], found[arm], strict=True) if a and b]
                apart.setdefault(arm, []).append(f"{', '.join(gaps)} ({variant(attack)})")
    passed = listed([name.rpartition("encoder")[2] for name in next(iter(kinds.values()), [])])
    said = "; ".join(f"{listed(gaps)} against {arm_title(arm)}" for arm, gaps in apart.items())
    under = listed(list(dict.fromkeys(attack_title(attack).partition(", ")[0] for attack in attacks)))
    how = f"With a substitute sentence encoder that passes {passed} % of the candidates of {under}, not claimed"
    return [f"{how}: {said}."] if said else []


def _table(
    arms: Sequence[str], attacks: Sequence[str], task: str, split: str | None, outcomes: Sequence[Outcome]
) -> str:
    """An arm a line: clean accuracy, then each attack."""
    rows = []
    for arm in arms:
        wanted = (("clean", attacks[0]), *(("aua", attack) for attack in attacks))
        found = [summary(arm, metric, attack, task, split, outcomes) for metric, attack in wanted]
        rows.append((arm_title(arm), *(mean(one) if one else NOT_RUN for one in found)))
    return markdown_table(("", "clean", *map(attack_title, attacks)), rows)


def _repeats(
    arms: Sequence[str], outcomes: Sequence[Outcome], task: str, attacks: Sequence[str], split: str | None
) -> list[str]:
    """How far runs of one seed lie apart, beside runs of several."""
    found = [(attack, one) for attack in attacks for one in spreads(outcomes, task=task, attack=attack, split=split)]
    found = [(attack, one) for attack, one in found if one.name in arms]
    known = [(attack, one) for attack, one in found if one.within_range is not None]
    if not known:
        return []
    attack, most = max(known, key=lambda pair: pair[1].within_range or 0.0)
    who = f"{arm_title(most.name)}, {count(most.repeated, 'run')}, {attack_title(attack)}"
    return [f"Runs of one seed lie up to {most.within_range:.1f} points apart ({who})."]


def _substituted(judged: Sequence[Judged]) -> list[str]:
    found: dict[str, list[str]] = {}
    for one in judged:
        for words in one.substituted:
            found.setdefault(words, []).append(attack_title(one.claim.attack))
    said = [f"{words} ({listed(list(dict.fromkeys(attacks)))})" for words, attacks in found.items()]
    return [f"Substituted: {'; '.join(said)}."] if said else []
