"""The answers to the campaigns' questions as Markdown, from outcomes alone: numbers, intervals, verdicts; "not run" where nothing ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robust_tickets.measure.runs import FEWEST_RUNS, summarise_runs
from robust_tickets.report.numbers import NONE, p_value, points, signed_span
from robust_tickets.reproduce import names
from robust_tickets.reproduce.claims import Judged, family, form_of, judge, screened, spreads, told, winner
from robust_tickets.reproduce.goals import goals, trained_on
from robust_tickets.reproduce.names import arm_title, attack_title, task_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.reading import NOT_RUN, Wanted, read_runs
from robust_tickets.reproduce.wording import count, markdown_table, mean

READ = (
    "Numbers are percent of the attacked sentences that a model still gets right, means over training runs with 95 % intervals over runs. "
    f"A claim needs {FEWEST_RUNS} runs of both sides; claims and their margin (±{{margin:g}} points) were fixed before the runs, and "
    "each family is adjusted by Holm. *Undecided* is neither a difference nor its absence."
)


def findings(outcomes: Sequence[Outcome], folder: Path | None = None) -> str:
    """What the runs say to A and B, in about two screens. ``folder`` is where the outcomes lie."""
    parts = [
        *_robust_ticket(outcomes, folder),
        *_sturdy(outcomes, folder),
        "## How to read this\n\n" + READ.format(margin=told()["margin"]),
    ]
    return "\n\n".join(parts) + "\n"


def verdicts(judged: Sequence[Judged]) -> str:
    """One word or two for claims of one arm against one other under several attacks."""
    found = [one.verdict for one in judged]
    if NOT_RUN in found:
        return NOT_RUN if set(found) == {NOT_RUN} else "not all run"
    if "too few runs" in found:
        return "no claim: too few runs"
    better = [one.comparison is not None and one.comparison.different and one.comparison.difference > 0 for one in judged]
    worse = [one.comparison is not None and one.comparison.different and one.comparison.difference < 0 for one in judged]
    if all(better):
        return "yes"
    if any(worse):
        return "no: less sturdy" if all(worse) else "no: under some attacks less sturdy"
    if any(better):
        return f"under {count(sum(better), 'attack')} of {len(found)}"
    return "no: equivalent" if set(found) == {"equivalent"} else "undecided"


def _robust_ticket(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    asked, judged = family("A"), judge("A", outcomes, folder)
    arms = list(dict.fromkeys(name for claim in asked.claims for name in (claim.other, claim.arm)))
    attacks = list(dict.fromkeys(claim.attack for claim in asked.claims))
    task, split = asked.claims[0].task, asked.claims[0].split
    heads = f"## A. {asked.question}"
    if all(one.comparison is None for one in judged):
        return [heads, _not_run(judged)]
    others = dict.fromkeys(claim.other for claim in asked.claims)
    short = [f"- than {arm_title(name)}: **{verdicts([one for one in judged if one.claim.other == name])}**" for name in others]
    told = [f"{asked.title}, {_examples(outcomes, task, attacks[0], split)}.", _table(arms, attacks, task, split, outcomes)]
    return [heads, "\n".join(short), *told, *_claims(judged), *_repeats(outcomes, task, attacks, split), *_more("C", outcomes, folder)]


def _sturdy(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    asked, chosen = told()["screen"], winner(outcomes, folder)
    parts = ["## B. Is there a recipe that is sturdier, smaller and not worse?"]
    ranked = screened(outcomes, folder)
    if not ranked:
        return [*parts, f"The screening of {count(len(asked['arms']), 'configuration')}: not run."]
    rows = [
        (arm_title(one.arm), str(one.n), f"{one.aua:.1f}", points(one.gain), f"{one.clean:.1f}", points(one.clean_gain)) for one in ranked
    ]
    attack = attack_title(asked["attack"])
    parts.append(
        f"Screened on {task_title(asked['task'])}, {asked['split']}, {attack}; differences to {arm_title(asked['against'])}. "
        f"Some runs each: this chooses, it claims nothing. The rule, fixed before: {asked['rule']}."
    )
    parts.append(markdown_table(("configuration", "runs", "under attack", "gain", "clean", "gain"), rows))
    left = [arm_title(arm) for arm in asked["arms"] if arm not in {one.arm for one in ranked}]
    if chosen is None:
        return [*parts, f"Not run: {', '.join(left)}. Until then nothing is chosen, and the goals are not judged."]
    parts.append(f"Chosen: **{arm_title(chosen)}**. The runs that chose it may be among those below, which are judged on other sentences.")
    plain, trials = (
        winner(outcomes, folder, "plain"),
        ", ".join(f"{arm_title(o.arm)} {o.aua:.1f}" for o in screened(outcomes, folder, "plain")),
    )
    best = f"the best by the same rule, **{arm_title(plain)}**, is what is to be beaten" if plain else "not all of them are run"
    parts.append(f"Plain fine-tuning has as many trials, under attack: {trials}; {best}.")
    reached = {True: "reached", False: "not reached", None: "cannot be told"}
    parts.append(
        markdown_table(("goal", "", "found"), [(g.asked, f"**{reached[g.reached]}**", g.told) for g in goals(outcomes, folder)], 3)
    )
    parts += _overlap(form_of(told()["goals"]["arm"], chosen), outcomes)
    for id in ("B", "B-forms", "B-validation"):
        parts += _family(id, outcomes, folder)
    return parts


def _overlap(arm: str, outcomes: Sequence[Outcome]) -> list[str]:
    """How much of each attack's candidates was trained on."""
    rows = [
        [names.VARIANTS.get(table.removeprefix("@"), table), *(f"{100 * share:.1f} %" for share in shares.values())]
        for table, shares in told()["overlap"].items()
        if trained_on(arm, table, outcomes)
    ]
    attacks = next(iter(told()["overlap"].values()))
    return [markdown_table(("candidates that were trained on", *map(attack_title, attacks)), rows)] if rows else []


def _family(id: str, outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    asked, judged = family(id), judge(id, outcomes, folder)
    heads = f"### {asked.title}\n\n{asked.question}"
    if all(one.comparison is None for one in judged):
        return [heads, _not_run(judged)]
    arms = list(dict.fromkeys(name for one in judged for name in (one.claim.other, one.claim.arm)))
    attacks = list(dict.fromkeys(one.claim.attack for one in judged))
    task, split = judged[0].claim.task, judged[0].claim.split
    return [heads, f"{_examples(outcomes, task, attacks[0], split)}.", _table(arms, attacks, task, split, outcomes), *_claims(judged)]


def _more(id: str, outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """A family that adds to an answer, left out until some of it was run."""
    return _family(id, outcomes, folder) if any(one.comparison for one in judge(id, outcomes, folder)) else []


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


def _repeats(outcomes: Sequence[Outcome], task: str, attacks: Sequence[str], split: str | None) -> list[str]:
    """How far runs of one seed lie apart, beside runs of several."""
    rows = [
        (
            arm_title(one.name),
            attack_title(attack),
            *_apart(one.repeated, one.within_range, one.within),
            *_apart(one.seeds, one.between_range, one.between),
        )
        for attack in attacks
        for one in spreads(outcomes, task=task, attack=attack, split=split)
    ]
    heads = ("the same seed again", "", "runs", "range", "deviation", "seeds", "range", "deviation")
    return [markdown_table(heads, rows, 2)] if rows else []


def _apart(n: int, range: float | None, deviation: float | None) -> tuple[str, str, str]:
    return str(n), _shown(range), _shown(deviation)


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
    return f"{' or '.join(map(str, sorted(sizes))) or 'no'} examples of {split}"


def _claims(judged: Sequence[Judged]) -> list[str]:
    """A claim a line, and what was substituted."""
    heads = ("claim", "", "difference, points", "on further examples too", "p, Holm", "verdict")
    rows = [
        (f"{arm_title(one.claim.arm)} against {arm_title(one.claim.other)}", attack_title(one.claim.attack), *_judged(one))
        for one in judged
    ]
    substituted = dict.fromkeys(words for one in judged for words in one.substituted)
    return [markdown_table(heads, rows, 2), *([f"Substituted: {'; '.join(substituted)}."] if substituted else [])]


def _judged(one: Judged) -> tuple[str, str, str, str]:
    found = one.comparison
    if found is None:
        return "", "", "", NOT_RUN
    span = f" ({signed_span(found.interval)})" if found.interval else ""
    over = signed_span(found.over_examples) if found.over_examples else NONE
    p = found.adjusted_equivalence_p if found.verdict == "equivalent" else found.adjusted_p
    verdict = {"different": "sturdier" if found.difference > 0 else "less sturdy", "equivalent": f"equivalent within {found.margin:g}"}
    return points(found.difference) + span, over, p_value(p), f"**{verdict.get(found.verdict, found.verdict)}**"


def _not_run(judged: Sequence[Judged]) -> str:
    """Why, each reason once."""
    return "Not run: " + "; ".join(dict.fromkeys(part for one in judged for part in one.why.split("; "))) + "."
