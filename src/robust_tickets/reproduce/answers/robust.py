"""A: at equal length, is the robust ticket sturdier than fine-tuning, and than a random ticket?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robust_tickets.reproduce.answers.parts import claims_table, examples, not_run, summary
from robust_tickets.reproduce.attacks import attacks as attacks_of
from robust_tickets.reproduce.claims import Judged, family, judge, spreads, told
from robust_tickets.reproduce.names import arm_title, attack_phrase, attack_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.reading import NOT_RUN
from robust_tickets.reproduce.repeated import models_told, repeated
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
    better, worse = ([one for one in different if one.comparison and up == (one.comparison.difference > 0)] for up in (True, False))
    if len(better) == len(judged):
        return f"yes{caveat(better)}"
    if worse:
        return ("no: less sturdy" if len(worse) == len(judged) else "no: under some attacks less sturdy") + caveat(worse)
    if better:
        return f"under {count(len(better), 'attack')} of {len(found)}{caveat(better)}, not shown under the rest"
    if set(found) == {"equivalent"}:
        return f"not by {told()['margin']:g} points or more: equivalent{caveat(judged)}"
    return "not shown: undecided" + (" in part" if "equivalent" in found else "")


def robust_ticket(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """The answer to A, with what other attacks and runs of one seed say to it."""
    asked, judged = family("A"), judge("A", outcomes, folder)
    heads = f"## A. {asked.question}"
    if all(one.comparison is None for one in judged):
        return [heads, not_run(judged)]
    arms = list(dict.fromkeys(name for claim in asked.claims for name in (claim.other, claim.arm)))
    attacks = list(dict.fromkeys(claim.attack for claim in asked.claims))
    task, split = asked.claims[0].task, asked.claims[0].split
    return [
        heads,
        _short(judged),
        f"{asked.title}; {examples(outcomes, task, attacks[0], split)}.",
        _table(arms, attacks, task, split, outcomes),
        claims_table(judged),
        *_substituted(judged),
        *_repeats(arms, outcomes, task, attacks, split),
        *_others(outcomes, folder),
        *_encoders(arms, outcomes, task, attacks[0], split),
    ]


def _short(judged: Sequence[Judged]) -> str:
    """Against each other arm a word."""
    others = dict.fromkeys(one.claim.other for one in judged)
    return "\n".join(
        f"- sturdier than {arm_title(name)}: **{verdicts([one for one in judged if one.claim.other == name])}**" for name in others
    )


def _others(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """Whether A's answer holds under other attacks, left out until some of it was run."""
    judged = [one for one in judge("C", outcomes, folder) if one.comparison]
    if not judged:
        return []
    attacks = list(dict.fromkeys(attack_phrase(one.claim.attack) for one in judged))
    return [f"Under {listed(attacks)}, a family of its own: {answered(judged)}"]


def _encoders(arms: Sequence[str], outcomes: Sequence[Outcome], task: str, attack: str, split: str | None) -> list[str]:
    """The same attack with a sentence encoder at each of its thresholds, of which nothing is claimed."""
    kinds = [one.name for one in attacks_of(task, ("encoder",)) if one.name.startswith(f"{attack}-")]
    found = {arm: [summary(arm, "aua", kind, task, split, outcomes) for kind in kinds] for arm in arms}
    means = [
        f"{arm_title(arm)} {', '.join(f'{one.mean:.1f}' for one in some if one)} ({count(min(one.n for one in some if one), 'run')})"
        for arm, some in found.items()
        if all(some)
    ]
    if not kinds or len(means) < len(arms):
        return []
    passed = listed([kind.rpartition("encoder")[2] for kind in kinds])
    return [f"With a substitute sentence encoder that passes {passed} % of the candidates, {attack_phrase(attack)}: {'; '.join(means)}."]


def _table(arms: Sequence[str], attacks: Sequence[str], task: str, split: str | None, outcomes: Sequence[Outcome]) -> str:
    """An arm a line: clean accuracy, then each attack."""
    rows = []
    for arm in arms:
        wanted = (("clean", attacks[0]), *(("aua", attack) for attack in attacks))
        found = [summary(arm, metric, attack, task, split, outcomes) for metric, attack in wanted]
        rows.append((arm_title(arm), *(mean(one) if one else NOT_RUN for one in found)))
    return markdown_table(("", "clean", *map(attack_title, attacks)), rows)


def _repeats(arms: Sequence[str], outcomes: Sequence[Outcome], task: str, attacks: Sequence[str], split: str | None) -> list[str]:
    """How far runs of one seed lie apart, beside runs of several."""
    found = [(attack, one) for attack in attacks for one in spreads(outcomes, task=task, attack=attack, split=split)]
    found = [(attack, one) for attack, one in found if one.name in arms]
    known = [(attack, one) for attack, one in found if one.within_range is not None]
    if not known:
        return []
    attack, most = max(known, key=lambda pair: pair[1].within_range or 0.0)
    said = f"**One seed, run again:** up to {most.within_range:.1f} points apart ({arm_title(most.name)}, {count(most.repeated, 'run')}, "
    models = models_told([one for one in repeated(outcomes, task=task) if one.arm in arms])
    return [f"{said}{attack_title(attack)}). {models}".rstrip()]


def _substituted(judged: Sequence[Judged]) -> list[str]:
    found = dict.fromkeys(f"{attack_title(one.claim.attack)}: {words}" for one in judged for words in one.substituted)
    return [f"Substituted under {'; under '.join(found)}."] if found else []
