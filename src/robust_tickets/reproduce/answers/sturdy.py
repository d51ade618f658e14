"""B: is there a recipe that is sturdier, smaller and not worse? The chosen one beside the plain fine-tuning that it is to beat."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from robust_tickets.measure.runs import FEWEST_RUNS
from robust_tickets.report.numbers import points
from robust_tickets.reproduce import names
from robust_tickets.reproduce.answers.parts import CLAIM_HEADS, claim_cells, claims_table, examples, not_run, summary
from robust_tickets.reproduce.attacks import CONFIRM
from robust_tickets.reproduce.attacks import attack as attack_of
from robust_tickets.reproduce.attacks import attacks as attacks_of
from robust_tickets.reproduce.claims import Judged, Screened, family, form_of, judge, screened, told, trials, winner
from robust_tickets.reproduce.goals import Goal, goals, reached_of, trained_on
from robust_tickets.reproduce.names import arm_title, attack_phrase, attack_title, task_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.reading import NOT_RUN, Wanted, read_runs
from robust_tickets.reproduce.verdicts import answered
from robust_tickets.reproduce.wording import count, listed, markdown_table, mean

HEADS = "## B. Is there a recipe that is sturdier, smaller and not worse?"
IN_TABLE = ("unseen",)  # goals whose numbers stand with the claims
HELD_OUT = f"-{CONFIRM}"


def sturdy(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """The answer to B: first the recipe where it was not chosen, then what it owes to what, then how it was chosen."""
    asked, chosen, plain = told()["screen"], winner(outcomes, folder), winner(outcomes, folder, "plain")
    if not screened(outcomes, folder):
        some = any(one.unit.arm in asked["arms"] for one in outcomes)
        lacks = f"{arm_title(asked['against'])}, over which gains are taken, is not run" if some else "not run"
        return [HEADS, f"The screening of {count(len(asked['arms']), 'configuration')}: {lacks}."]
    if chosen is None or plain is None:
        return [HEADS, *_screening(outcomes, folder), _until(outcomes, folder)]
    arm = form_of(told()["goals"]["arm"], chosen)
    judged = judge(told()["goals"]["family"], outcomes, folder)
    return [
        HEADS,
        _short(arm, judged, outcomes),
        *_beside(arm, plain, judged, outcomes),
        *_unclaimed(arm, plain, outcomes),
        *_overlap(arm, outcomes),
        _goals(goals(outcomes, folder, judged), arm_title(plain)),
        *_forms(plain, outcomes, folder),
        *_screening(outcomes, folder),
    ]


def _short(arm: str, judged: Sequence[Judged], outcomes: Sequence[Outcome]) -> str:
    """The claims in words, and what they come to for somebody who would use it."""
    made = [one for one in judged if one.comparison]
    if not made:
        return not_run(judged)
    left = f" {len(judged) - len(made)} of {len(judged)} claims are not run." if len(made) < len(judged) else ""
    better, worse = (
        [one.claim.attack for one in made if one.comparison and one.comparison.different and up == (one.comparison.difference > 0)]
        for up in (True, False)
    )
    seen = told()["goals"]["seen"]
    own = f"@{attack_of(judged[0].claim.task, seen).candidates}"  # the words of that attack
    advice = ""
    if worse and better == [seen] and trained_on(arm, own, outcomes):
        advice = " So it guards against words it was trained on and leaves a model more open to some others: no protection in general."
    return f"**{answered(made)}{left}**{advice}"


def _beside(arm: str, plain: str, judged: Sequence[Judged], outcomes: Sequence[Outcome]) -> list[str]:
    """Recipe and rival in numbers, on texts that took no part in choosing either."""
    task, split, seen = judged[0].claim.task, judged[0].claim.split, told()["goals"]["seen"]
    clean = [summary(name, "clean", seen, task, split, outcomes) for name in (arm, plain)]
    difference = points(clean[0].mean - clean[1].mean) if clean[0] and clean[1] else ""
    rows = [("clean", *map(mean, clean), difference, "", "", "")]
    for one in judged:
        sides = [mean(side) if side else NOT_RUN for side in (one.arm, one.other)]
        rows.append((attack_title(one.claim.attack.removesuffix(HELD_OUT)), *sides, *claim_cells(one)))
    who = f"The recipe is {arm_title(arm)}; the plain rival, chosen among as many trials by the same rule, {arm_title(plain)}."
    if all(one.comparison is None for one in judged):
        return [who]
    where = f"{task_title(task)}, {examples(outcomes, task, seen, split)}, which chose nothing."
    return [f"{who} {where}", markdown_table(("", "recipe", "plain", *CLAIM_HEADS), rows)]


def _unclaimed(arm: str, plain: str, outcomes: Sequence[Outcome]) -> list[str]:
    """Attacks that the recipe saw on the split that chose it and that no claim is about: without them a loss would stand nowhere."""
    asked = told()["screen"]
    held_out = {one.name.removesuffix(HELD_OUT) for one in attacks_of(asked["task"], (CONFIRM,))}
    parts, runs, lower = [], set[int](), 0
    for attack in attacks_of(asked["task"], ("main", "more")):
        sides = [summary(name, "aua", attack.name, asked["task"], asked["split"], outcomes) for name in (arm, plain)]
        if attack.name not in held_out and sides[0] and sides[1]:
            parts.append(f"{attack_phrase(attack.name)} {sides[0].mean:.1f} beside {sides[1].mean:.1f}")
            runs |= {side.n for side in sides if side}
            lower += sides[0].mean < sides[1].mean
    if not parts:
        return []
    said = (
        f"Under attacks of which nothing was claimed beforehand, on {asked['split']}, recipe beside plain rival, means of {_span(runs)}: "
    )
    return [f"{said}{'; '.join(parts)}: lower under {lower} of {len(parts)}."]


def _span(runs: Collection[int]) -> str:
    return f"{min(runs)} to {max(runs)} runs" if min(runs) < max(runs) else count(min(runs), "run")


def _overlap(arm: str, outcomes: Sequence[Outcome]) -> list[str]:
    """How much of each attack's candidates was trained on."""
    said = [
        f"Trained on {names.TABLES[table]}, which hold of the candidates of "
        + ", ".join(f"{attack_phrase(attack)} {100 * share:.1f} %" for attack, share in shares.items())
        for table, shares in told()["overlap"].items()
        if trained_on(arm, table, outcomes)
    ]
    return [f"{'; '.join(said)}."] if said else []


def _goals(found: Sequence[Goal], plain: str) -> str:
    """Which are reached, with what the table above does not tell."""
    lines = []
    for goal in found:
        more = "" if goal.name in IN_TABLE and goal.reached is not None else f": {goal.told}"
        asked = goal.asked if goal.name == "cost" else goal.asked.replace(plain, "the plain rival")
        lines.append(f"- **{goal.verdict}**: {asked}{more}")
    return "\n".join([f"{reached_of(found)}:", "", *lines])


def _forms(plain: str, outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """What it owes to its ticket, its length and its adversary; claims without runs in one line."""
    asked, judged = family("B-forms"), judge("B-forms", outcomes, folder)
    made, rest = ([one for one in judged if bool(one.comparison) == ran] for ran in (True, False))
    if not made:
        return [f"{asked.question} {not_run(judged)}"]
    first = judged[0].claim
    said = f"{asked.question} {examples(outcomes, first.task, first.attack, first.split)}."
    return [said, claims_table(made), *([not_run(rest)] if rest else []), *_elsewhere(made, outcomes), *_reckoned(judged, plain, outcomes)]


def _elsewhere(made: Sequence[Judged], outcomes: Sequence[Outcome]) -> list[str]:
    """The same arms under other words, on the split that chose: the claims are about those trained on, and would read as general."""
    asked, first = told()["screen"], made[0].claim
    own = attack_of(first.task, first.attack).candidates
    if not trained_on(first.arm, f"@{own}", outcomes):
        return []
    claimed = [one.removesuffix(HELD_OUT) for one in dict.fromkeys(claim.attack for claim in family(told()["goals"]["family"]).claims)]
    kinds = [name for name in claimed if attack_of(asked["task"], name).candidates != own]
    arms = dict.fromkeys(name for one in made for name in (one.claim.arm, one.claim.other))
    found = {arm: [summary(arm, "aua", kind, asked["task"], asked["split"], outcomes) for kind in kinds] for arm in arms}
    whole = {arm: [one for one in some if one] for arm, some in found.items() if all(some)}
    if first.arm not in whole or len(whole) < 2:
        return []
    parts = [f"{_last(arm)} {', '.join(f'{one.mean:.1f}' for one in some)}" for arm, some in whole.items()]
    runs = _span({one.n for some in whole.values() for one in some})
    under = f"Under {listed([attack_phrase(kind) for kind in kinds])}, on {asked['split']}, shown and not claimed, means of {runs}"
    return [f"That is under words that were trained on. {under}: {'; '.join(parts)}."]


def _reckoned(judged: Sequence[Judged], plain: str, outcomes: Sequence[Outcome]) -> list[str]:
    """What each asks for, whoever chose it: the recipe's forms, the rivals at equal epochs and at about equal work. Few are timed."""
    arms = dict.fromkeys([plain, *(name for one in judged for name in (one.claim.arm, one.claim.other))])
    runs = {arm: read_runs(Wanted(arm=arm, task=judged[0].claim.task, metric="work"), outcomes, None).runs for arm in arms}
    told = [f"{_last(arm)} {one.mean:.0f}" for arm, one in runs.items() if one.units]
    return [f"Search and training in plain epochs of the whole model, reckoned by passes: {'; '.join(told)}."] if len(told) > 1 else []


def _last(arm: str) -> str:
    """A form's name without its recipe's."""
    return arm_title(arm).rpartition(": ")[2]


def _screening(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """How it was chosen. Once it is, the best lines are enough: the page has all."""
    asked, chosen, plain = told()["screen"], winner(outcomes, folder), winner(outcomes, folder, "plain")
    beside = screened(outcomes, folder)[0].beside
    said = (
        f"Screened on {task_title(asked['task'])}, {asked['split']}, {count(asked['seeds'], 'run')} each, which choose and claim nothing; "
        f"in brackets the gain over the mean of {count(beside, 'run')} of {arm_title(asked['against'])}, in points. The rule, fixed "
        f"before, looks at {attack_phrase(asked['attack'])} alone: {asked['rule']}."
    )
    if not (chosen and plain):
        return [said, _trials(outcomes, folder, [*asked["arms"], *asked["plain"]])]
    (first, second, *_), trials = screened(outcomes, folder), screened(outcomes, folder, "plain")
    firmest = max(trials, key=lambda one: one.aua)
    shown = [first.arm, second.arm, plain, firmest.arm]
    said += f" The best of {len(asked['arms'])} configurations and {len(asked['plain'])} plain trials (the page has all):"
    after = []
    if firmest.arm != plain:
        why = f"The rule passes {arm_title(firmest.arm)} over for its clean accuracy ({points(firmest.clean_gain)}); "
        after = [why + "so no claim holds it against the recipe."]
    return [said, _trials(outcomes, folder, shown), *after]


def _trials(outcomes: Sequence[Outcome], folder: Path | None, shown: Iterable[str]) -> str:
    """What was screened, the recipe's configurations before the plain fine-tunings, under the attack that chooses and another."""
    asked, kept = told()["screen"], set(shown)
    heads = ("", "clean", *(attack_phrase(asked[which]) for which in ("attack", "shown")))
    lines = []
    for one, other in (*trials(outcomes, folder, "arms"), *trials(outcomes, folder, "plain")):
        if one.arm in kept:
            numbers = [f"{value:.1f} ({points(gain)})" for value, gain in ((one.clean, one.clean_gain), (one.aua, one.gain))]
            lines.append((arm_title(one.arm) + _so_far(one), *numbers, _shown(other) if other else NOT_RUN))
    return markdown_table(heads, lines)


def _shown(one: Screened) -> str:
    less = f", over {one.beside} of {FEWEST_RUNS} runs" if one.beside < FEWEST_RUNS else ""
    return f"{one.aua:.1f} ({points(one.gain)}){_so_far(one)}{less}"


def _so_far(one: Screened) -> str:
    """That not all of its runs are there."""
    return "" if one.n == told()["screen"]["seeds"] else f", {count(one.n, 'run')} so far"


def _until(outcomes: Sequence[Outcome], folder: Path | None) -> str:
    """What is to be run before anything is chosen."""
    asked, ranked = told()["screen"], screened(outcomes, folder)
    whole = {one.arm for one in (*ranked, *screened(outcomes, folder, "plain")) if not _so_far(one)}
    left = [arm_title(arm) for arm in (*asked["arms"], *asked["plain"]) if arm not in whole]
    left += [f"{arm_title(asked['against'])}, {one.beside} of {FEWEST_RUNS} runs" for one in ranked[:1] if one.beside < FEWEST_RUNS]
    return f"Not all run: {'; '.join(left)}. Until then nothing is chosen, and the goals are not judged."
