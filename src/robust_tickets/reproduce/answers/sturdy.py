"""B: is there a recipe that is sturdier, smaller and not worse? The chosen one beside the plain fine-tuning that it is to beat."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from robust_tickets.measure.runs import FEWEST_RUNS
from robust_tickets.report.numbers import points
from robust_tickets.reproduce import names
from robust_tickets.reproduce.answers.parts import (
    CLAIM_HEADS,
    claim_cells,
    claims_table,
    examples,
    not_run,
    summary,
    versions,
)
from robust_tickets.reproduce.attacks import CONFIRM
from robust_tickets.reproduce.attacks import attack as attack_of
from robust_tickets.reproduce.attacks import attacks as attacks_of
from robust_tickets.reproduce.claims import (
    Among,
    Judged,
    Screened,
    family,
    form_of,
    judge,
    screened,
    told,
    trials,
    winner,
)
from robust_tickets.reproduce.goals import Goal, goals, reached_of, trained_on
from robust_tickets.reproduce.names import arm_title, attack_phrase, attack_title, task_title, variant
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.reading import NOT_RUN
from robust_tickets.reproduce.verdicts import answered
from robust_tickets.reproduce.wording import count, listed, markdown_table, mean

HEADS = "## B. Is there a recipe that is sturdier, smaller and not worse?"
FULL = f", {FEWEST_RUNS} and {FEWEST_RUNS} runs"  # as the table says
FREELB = "freelb3"
KINDS: tuple[Among, ...] = ("arms", "plain")
IN_TABLE = ("unseen",)  # goals whose numbers stand with the claims
HELD_OUT = f"-{CONFIRM}"
HELD = names.VARIANTS[CONFIRM]


def sturdy(judged: Sequence[Judged], outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """The answer to B from the recipe's claims: the recipe where it was not chosen, then what it owes to what, then how it was chosen."""
    asked, chosen, plain = told()["screen"], winner(outcomes, folder), winner(outcomes, folder, "plain")
    if not screened(outcomes, folder):
        some = any(one.unit.arm in asked["arms"] for one in outcomes)
        lacks = f"{arm_title(asked['against'])}, over which gains are taken, is not run" if some else "not run"
        return [HEADS, f"The screening of {count(len(asked['arms']), 'configuration')}: {lacks}."]
    if chosen is None or plain is None:
        return [HEADS, *_screening(outcomes, folder), _until(outcomes, folder)]
    arm = form_of(told()["goals"]["arm"], chosen)
    aims, forms = goals(outcomes, folder, judged), judge("B-forms", outcomes, folder)
    return [
        HEADS,
        f"{_short(judged, aims)} {_who(arm, plain, judged, forms, outcomes)}",
        _goals(aims, arm_title(plain)),
        *_beside(arm, plain, judged, outcomes),
        *_forms(forms, outcomes, _unclaimed(arm, plain, outcomes)),
        *_screening(outcomes, folder),
    ]


def _short(judged: Sequence[Judged], aims: Sequence[Goal]) -> str:
    """Yes or no by the goals, and the claims in words."""
    made = [one for one in judged if one.comparison]
    if not made:
        return not_run(judged)
    reached = {goal.reached for goal in aims}
    word = "No" if False in reached else "Not to be told yet" if None in reached else "Yes"
    left = f" {len(judged) - len(made)} of {len(judged)} claims are not run." if len(made) < len(judged) else ""
    return f"**{word}: {reached_of(aims)}. {_bare(answered(made))}{left}**"


def _bare(words: str) -> str:
    """Without what is said of all of it at once: that these texts chose nothing."""
    return words.replace(f" ({HELD})", "").replace(f", {HELD}", "")


def _who(arm: str, plain: str, judged: Sequence[Judged], forms: Sequence[Judged], outcomes: Sequence[Outcome]) -> str:
    """Which recipe, which rival, on which texts."""
    named = f"The recipe is {arm_title(arm)}, the plain rival {arm_title(plain)},"
    if any(one.comparison for one in judged):
        named = "The two, recipe and plain rival, are"  # whom the claims name
    said = f"{named} each the best of {len(told()['screen']['arms'])} by one rule"
    if all(one.comparison is None for one in (*judged, *forms)):
        return f"{said}."
    code, first = versions([*judged, *forms], outcomes), judged[0].claim
    where = f"{task_title(first.task)}, {examples(outcomes, first.task, told()['goals']['seen'], first.split)}, which chose nothing"
    return f"{said}; {where}{f'; the arms were {code}' if code else ''}."


def _beside(arm: str, plain: str, judged: Sequence[Judged], outcomes: Sequence[Outcome]) -> list[str]:
    """Recipe and rival in numbers, on texts that took no part in choosing either."""
    task, split, seen = judged[0].claim.task, judged[0].claim.split, told()["goals"]["seen"]
    clean = [summary(name, "clean", seen, task, split, outcomes) for name in (arm, plain)]
    difference = points(clean[0].mean - clean[1].mean) if clean[0] and clean[1] else ""
    trained = _overlap(arm, outcomes)
    rows = [("clean", *map(mean, clean), difference, "", "", "", *[""] * bool(trained))]
    for one in judged:
        name, sides = (
            one.claim.attack.removesuffix(HELD_OUT),
            [mean(side) if side else NOT_RUN for side in (one.arm, one.other)],
        )
        rows.append((attack_title(name), *sides, *claim_cells(one), *([trained.get(name, "")] if trained else [])))
    if all(one.comparison is None for one in judged):
        return []
    return [markdown_table(("", "recipe", "plain", *CLAIM_HEADS, *["its words trained on"] * bool(trained)), rows)]


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
    said = f"Under attacks of which nothing was claimed, on {asked['split']}, recipe beside plain rival, means of {_span(runs)}: "
    return [f"{said}{'; '.join(parts)}: lower under {lower} of {len(parts)}."]


def _span(runs: Collection[int]) -> str:
    return f"{min(runs)} to {max(runs)} runs" if min(runs) < max(runs) else count(min(runs), "run")


def _overlap(arm: str, outcomes: Sequence[Outcome]) -> dict[str, str]:
    """How much of each attack's candidates was trained on; of several tables, each table's."""
    found: dict[str, list[str]] = {}
    for shares in (shares for table, shares in told()["overlap"].items() if trained_on(arm, table, outcomes)):
        for attack, share in shares.items():
            found.setdefault(attack, []).append(f"{100 * share:.1f} %")
    return {attack: "; ".join(shares) for attack, shares in found.items()}


def _goals(found: Sequence[Goal], plain: str) -> str:
    """Which are reached, with what the table above does not tell."""
    lines = []
    for goal in found:
        more = "" if goal.name in IN_TABLE and goal.reached is not None else f": {goal.told}"
        asked = goal.asked if goal.name == "cost" else goal.asked.replace(plain, "the plain rival")
        lines.append(f"- **{goal.verdict}**: {_bare(asked)}{more.replace(FULL, '')}")
    return "\n".join(lines)


def _forms(judged: Sequence[Judged], outcomes: Sequence[Outcome], before: Sequence[str] = ()) -> list[str]:
    """What it owes to its ticket, its length and its adversary, after what is said ``before``; claims without runs in one line."""
    asked = family("B-forms")
    made, rest = ([one for one in judged if bool(one.comparison) == ran] for ran in (True, False))
    if not made:
        return [" ".join([*before, asked.question, not_run(judged)])]
    after = [*_rivals(made), *_elsewhere(made, outcomes)]
    return [
        " ".join([*before, asked.question]),
        claims_table(made),
        *([not_run(rest)] if rest else []),
        *([" ".join(after)] if after else []),
    ]


def _rivals(made: Sequence[Judged]) -> list[str]:
    """What is unlike between the sides, beyond what is claimed."""
    if not any(one.claim.other.startswith(FREELB) for one in made):
        return []
    best = f"not the best of {len(told()['screen']['arms'])} as recipe and plain rival are"
    return [f"{arm_title(FREELB)} is one configuration with a published step size, without averaged weights, {best}."]


def _elsewhere(made: Sequence[Judged], outcomes: Sequence[Outcome]) -> list[str]:
    """The same arms under other words, on the split that chose: the claims are about those trained on, and would read as general."""
    asked, first = told()["screen"], made[0].claim
    own = attack_of(first.task, first.attack).candidates
    if not trained_on(first.arm, f"@{own}", outcomes):
        return []
    claimed = [
        one.removesuffix(HELD_OUT)
        for one in dict.fromkeys(claim.attack for claim in family(told()["goals"]["family"]).claims)
    ]
    kinds = [name for name in claimed if attack_of(asked["task"], name).candidates != own]
    arms = dict.fromkeys(name for one in made for name in (one.claim.arm, one.claim.other))
    found = {
        arm: [summary(arm, "aua", kind, asked["task"], asked["split"], outcomes) for kind in kinds] for arm in arms
    }
    whole = {arm: [one for one in some if one] for arm, some in found.items() if all(some)}
    if first.arm not in whole or len(whole) < 2:
        return []
    own_means = whole.pop(first.arm)
    below: dict[int, list[str]] = {}
    for arm, some in whole.items():
        below.setdefault(sum(a.mean < b.mean for a, b in zip(own_means, some, strict=True)), []).append(_last(arm))
    parts = [
        f"under {number} of {len(kinds)} lower than {listed(found)}"
        for number, found in sorted(below.items(), reverse=True)
    ]
    under = f"Under {listed([attack_phrase(kind) for kind in kinds])}, on {asked['split']}, not claimed, the {_last(first.arm)} has "
    under += f"{', '.join(f'{one.mean:.1f}' for one in own_means)}, {', '.join(parts)}"
    return [f"All this is under words trained on. {under}."]


def _last(arm: str) -> str:
    """A form's name without its recipe's."""
    return arm_title(arm).rpartition(": ")[2]


def _screening(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """How it was chosen. Once it is, that is told in short: the page has all trials."""
    asked, chosen, plain = told()["screen"], winner(outcomes, folder), winner(outcomes, folder, "plain")
    where, beside = f"{asked['split']}, {count(asked['seeds'], 'run')} each", screened(outcomes, folder)[0].beside
    if not (chosen and plain):
        said = (
            f"Screened on {task_title(asked['task'])}, {where}, which choose and claim nothing; in brackets the gain over the mean of "
            f"{count(beside, 'run')} of {arm_title(asked['against'])}, in points. The rule, fixed before, looks at "
            f"{attack_phrase(asked['attack'])} alone: {asked['rule']}."
        )
        return [said, _trials(outcomes, folder)]
    kinds = f"{len(asked['arms'])} configurations and {len(asked['plain'])} plain trials"
    said = f"Chosen on {where}, among {kinds}, by clean accuracy and {attack_phrase(asked['attack'])} (the page has rule and trials)."
    found = {one.arm: (one, other) for among in KINDS for one, other in trials(outcomes, folder, among)}
    firmest = max(screened(outcomes, folder, "plain"), key=lambda one: one.aua)
    if firmest.arm != plain:
        said += f" The rule passes {arm_title(firmest.arm)} over for its clean accuracy ({points(firmest.clean_gain)}); so no claim holds it "
        said += f"against the recipe: {_pair(*found[firmest.arm])} beside {_pair(*found[chosen])}."
    return [said]


def _pair(one: Screened, other: Screened | None) -> str:
    """Under the attack that chooses and the one that is shown."""
    asked = told()["screen"]
    shown = f" and {other.aua:.1f} ({variant(asked['shown'])})" if other else ""
    return f"{one.aua:.1f} ({variant(asked['attack'])}){shown}"


def _trials(outcomes: Sequence[Outcome], folder: Path | None) -> str:
    """What was screened, the recipe's configurations before the plain fine-tunings, under the attack that chooses and another."""
    asked = told()["screen"]
    heads = ("", "clean", *(attack_phrase(asked[which]) for which in ("attack", "shown")))
    lines = []
    for one, other in (pair for among in KINDS for pair in trials(outcomes, folder, among)):
        numbers = [
            f"{value:.1f} ({points(gain)})" for value, gain in ((one.clean, one.clean_gain), (one.aua, one.gain))
        ]
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
    left += [
        f"{arm_title(asked['against'])}, {one.beside} of {FEWEST_RUNS} runs"
        for one in ranked[:1]
        if one.beside < FEWEST_RUNS
    ]
    return f"Not all run: {'; '.join(left)}. Until then nothing is chosen, and the goals are not judged."
