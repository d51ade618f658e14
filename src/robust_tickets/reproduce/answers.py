"""The answers to the campaigns' two questions as Markdown, from outcomes alone: numbers, intervals, verdicts.

What has no runs is called so. The page of the results has every claim; here stand those that the two questions ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robust_tickets.measure.runs import FEWEST_RUNS, summarise_runs
from robust_tickets.report.numbers import NONE, p_value, points, signed_span
from robust_tickets.reproduce import names
from robust_tickets.reproduce.claims import Judged, Screened, family, form_of, judge, screened, spreads, told, winner
from robust_tickets.reproduce.goals import goals, reached_of, trained_on
from robust_tickets.reproduce.names import arm_title, attack_phrase, attack_title, task_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.reading import NOT_RUN, Wanted, read_runs
from robust_tickets.reproduce.repeated import models_told, repeated
from robust_tickets.reproduce.wording import answered, caveat, count, listed, markdown_table, mean

REACHED = {True: "reached", False: "not reached", None: "cannot be told"}


def answers(outcomes: Sequence[Outcome], folder: Path | None = None) -> list[str]:
    """What the runs say to A and B, paragraph by paragraph. ``folder`` is where the outcomes lie."""
    return [*_robust_ticket(outcomes, folder), *_sturdy(outcomes, folder)]


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


def _robust_ticket(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    asked, judged = family("A"), judge("A", outcomes, folder)
    heads = f"## A. {asked.question}"
    if all(one.comparison is None for one in judged):
        return [heads, _not_run(judged)]
    arms = list(dict.fromkeys(name for claim in asked.claims for name in (claim.other, claim.arm)))
    attacks = list(dict.fromkeys(claim.attack for claim in asked.claims))
    task, split = asked.claims[0].task, asked.claims[0].split
    return [
        heads,
        _short(judged),
        f"{asked.title}; {_examples(outcomes, task, attacks[0], split)}.",
        _table(arms, attacks, task, split, outcomes),
        _claims(judged),
        *_substituted(judged),
        *_repeats(arms, outcomes, task, attacks, split),
        *_others(outcomes, folder),
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


def _sturdy(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    asked, chosen = told()["screen"], winner(outcomes, folder)
    heads = "## B. Is there a recipe that is sturdier, smaller and not worse?"
    ranked = screened(outcomes, folder)
    if not ranked:
        return [heads, f"The screening of {count(len(asked['arms']), 'configuration')}: not run."]
    screen = [
        f"Screened on {task_title(asked['task'])}, {asked['split']}, {count(asked['seeds'], 'run')} each, which choose and claim nothing; "
        f"in brackets the gain over {arm_title(asked['against'])}, in points. The rule, fixed before, looks at "
        f"{attack_phrase(asked['attack'])} alone: {asked['rule']}. {_plain(outcomes, folder)}",
        _trials(outcomes, folder),
    ]
    if chosen is None:
        whole = {one.arm for one in (*ranked, *screened(outcomes, folder, "plain")) if not _so_far(one)}
        left = [arm_title(arm) for arm in (*asked["arms"], *asked["plain"]) if arm not in whole]
        left += [f"{arm_title(asked['against'])}, {one.beside} of {FEWEST_RUNS} runs" for one in ranked[:1] if one.beside < FEWEST_RUNS]
        until = f"Not all run: {'; '.join(left)}. Until then nothing is chosen, and the goals are not judged."
        return [heads, *screen, until]
    found = goals(outcomes, folder)
    listed_goals = markdown_table(("goal", "", "found"), [(g.asked, f"**{REACHED[g.reached]}**", g.told) for g in found], 3)
    return [
        heads,
        f"**{reached_of(found)}** by {arm_title(chosen)}, on texts that took no part in choosing it.",
        listed_goals,
        *_overlap(form_of(told()["goals"]["arm"], chosen), outcomes),
        *_family("B-forms", outcomes, folder),
        *screen,
    ]


def _trials(outcomes: Sequence[Outcome], folder: Path | None) -> str:
    """All that was screened, the recipe's configurations before the plain fine-tunings, under the attack that chooses and another."""
    asked = told()["screen"]
    heads = ("", "clean", *(attack_phrase(asked[which]) for which in ("attack", "shown")))
    lines = []
    for among in ("arms", "plain"):
        shown = {one.arm: one for one in screened(outcomes, folder, among, asked["shown"])}
        for one in screened(outcomes, folder, among):
            numbers = [f"{value:.1f} ({points(gain)})" for value, gain in ((one.clean, one.clean_gain), (one.aua, one.gain))]
            other = shown.get(one.arm)
            lines.append((arm_title(one.arm) + _so_far(one), *numbers, _beside(other) if other else "not run"))
    return markdown_table(heads, lines)


def _beside(one: Screened) -> str:
    less = f", over {one.beside} of {FEWEST_RUNS} runs" if one.beside < FEWEST_RUNS else ""
    return f"{one.aua:.1f} ({points(one.gain)}){_so_far(one)}{less}"


def _plain(outcomes: Sequence[Outcome], folder: Path | None) -> str:
    """The fine-tunings that the recipe is held against the best of."""
    plain = winner(outcomes, folder, "plain")
    best = f"the best of them by the same rule, **{arm_title(plain)}**, is what is to be beaten" if plain else "not all of them are run"
    return f"Plain fine-tuning has as many trials; {best}."


def _so_far(one: Screened) -> str:
    """That not all of its runs are there."""
    return "" if one.n == told()["screen"]["seeds"] else f", {count(one.n, 'run')} so far"


def _overlap(arm: str, outcomes: Sequence[Outcome]) -> list[str]:
    """How much of each attack's candidates was trained on."""
    said = [
        f"Trained on {names.TABLES[table]}, which hold of the candidates of "
        + ", ".join(f"{attack_phrase(attack)} {100 * share:.1f} %" for attack, share in shares.items())
        for table, shares in told()["overlap"].items()
        if trained_on(arm, table, outcomes)
    ]
    return [f"{'; '.join(said)}."] if said else []


def _family(id: str, outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    asked, judged = family(id), judge(id, outcomes, folder)
    if all(one.comparison is None for one in judged):
        return [f"{asked.question} {_not_run(judged)}"]
    split = judged[0].claim.split
    return [f"{asked.question} {_examples(outcomes, judged[0].claim.task, judged[0].claim.attack, split)}:", _claims(judged)]


def _table(arms: Sequence[str], attacks: Sequence[str], task: str, split: str | None, outcomes: Sequence[Outcome]) -> str:
    """An arm a line: clean accuracy on the attacked examples, then each attack."""
    rows = []
    for arm in arms:
        cells = []
        for metric, attack in (("clean", attacks[0]), *(("aua", attack) for attack in attacks)):
            found = read_runs(Wanted(arm=arm, task=task, metric=metric, attack=attack, split=split), outcomes, None)
            cells.append(mean(summarise_runs(found.runs, resamples=0)) if found.runs.units else NOT_RUN)
        rows.append((arm_title(arm), *cells))
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
    said += f"{attack_title(attack)}). Standard deviations over runs of one seed beside those over seeds, in points: "
    told = [f"{arm_title(one.name)} {_shown(one.within)} beside {_shown(one.between)}" for name, one in known if name == attacks[0]]
    models = models_told([one for one in repeated(outcomes, task=task) if one.arm in arms])
    return [said + "; ".join(told) + f" ({attack_title(attacks[0])}). {models}".rstrip()]


def _shown(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}"


def _examples(outcomes: Sequence[Outcome], task: str, attack: str, split: str | None) -> str:
    sizes = {
        len(found.statuses)
        for outcome in outcomes
        if outcome.unit.task == task
        for found in outcome.attacks
        if found.name == attack and found.split == split
    }
    return f"{' or '.join(map(str, sorted(sizes))) or 'no'} texts of {split}"


def _claims(judged: Sequence[Judged]) -> str:
    """A claim a line; an attack or an arm that all of them share stands in the heading."""
    attacks, arms = {one.claim.attack for one in judged}, {one.claim.arm for one in judged}
    who = f"{arm_title(judged[0].claim.arm)} against" if len(arms) == 1 else "claim"
    heads = (f"{who}, {attack_title(judged[0].claim.attack)}" if len(attacks) == 1 else who, "difference", "other texts", "p", "verdict")
    rows = []
    for one in judged:
        first, second = arm_title(one.claim.arm), arm_title(one.claim.other)
        recipe = first.partition(": ")[0] + ": "  # the text around says which
        name = second if len(arms) == 1 else f"{first.removeprefix(recipe)} against {second.removeprefix(recipe)}"
        rows.append((f"{name}, {attack_title(one.claim.attack)}" if len(attacks) > 1 else name, *_judged(one)))
    return markdown_table(heads, rows)


def _substituted(judged: Sequence[Judged]) -> list[str]:
    found = dict.fromkeys(f"{attack_title(one.claim.attack)}: {words}" for one in judged for words in one.substituted)
    return [f"Substituted under {'; under '.join(found)}."] if found else []


def _judged(one: Judged) -> tuple[str, str, str, str]:
    found = one.comparison
    if found is None:
        return "", "", "", NOT_RUN
    span = f" ({signed_span(found.interval)})" if found.interval else ""
    over = signed_span(found.over_examples) if found.over_examples else NONE
    p = found.adjusted_equivalence_p if found.verdict == "equivalent" else found.adjusted_p
    verdict = {"different": "sturdier" if found.difference > 0 else "less sturdy"}
    return points(found.difference) + span, over, p_value(p), f"**{verdict.get(found.verdict, found.verdict)}**"


def _not_run(judged: Sequence[Judged]) -> str:
    """Why, each reason once."""
    return "Not run: " + "; ".join(dict.fromkeys(part for one in judged for part in one.why.split("; "))) + "."
