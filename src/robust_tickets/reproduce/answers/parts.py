"""What the answers have in common: tables of means and of claims, which texts they are about, and what is not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from robust_tickets.measure.runs import RunSummary, summarise_runs
from robust_tickets.report.numbers import NONE, p_value, points, signed_span
from robust_tickets.reproduce.claims import Judged, after_choice
from robust_tickets.reproduce.names import arm_title, attack_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.reading import NOT_RUN, Wanted, read_runs
from robust_tickets.reproduce.verdicts import here, small, word
from robust_tickets.reproduce.wording import markdown_table

CLAIM_HEADS = ("difference", "other texts", "p", "verdict")


def summary(
    arm: str, metric: str, attack: str | None, task: str, split: str | None, outcomes: Sequence[Outcome]
) -> RunSummary | None:
    """An arm's runs, without those that chose it. Clean accuracy is the one that was evaluated, as on the leaderboard; where the split
    was only attacked, that of the attacked texts.
    """
    own = after_choice(arm, outcomes)
    for by in (None, attack) if metric == "clean" else (attack,):
        runs = read_runs(Wanted(arm=arm, task=task, metric=metric, attack=by, split=split), own, None).runs
        if runs.units:
            return summarise_runs(runs, resamples=0)
    return None


def claims_table(judged: Sequence[Judged], more: Mapping[str, Sequence[str]] | None = None) -> str:
    """A claim a line; an attack or an arm that all of them share stands in the heading. ``more``: further columns by their heading."""
    further = more or {}
    attacks, arms = {one.claim.attack for one in judged}, {one.claim.arm for one in judged}
    who = f"{arm_title(judged[0].claim.arm)} against" if len(arms) == 1 else "claim"
    heads = (f"{who}, {attack_title(judged[0].claim.attack)}" if len(attacks) == 1 else who, *CLAIM_HEADS, *further)
    rows = []
    for i, one in enumerate(judged):
        first, second = arm_title(one.claim.arm), arm_title(one.claim.other)
        recipe = first.partition(": ")[0] + ": "  # the text around says which
        name = second if len(arms) == 1 else f"{first.removeprefix(recipe)} against {second.removeprefix(recipe)}"
        own = [cells[i] for cells in further.values()]
        rows.append(
            (f"{name}, {attack_title(one.claim.attack)}" if len(attacks) > 1 else name, *claim_cells(one), *own)
        )
    return markdown_table(heads, rows)


def claim_cells(one: Judged) -> tuple[str, str, str, str]:
    """What stands under ``CLAIM_HEADS``."""
    found = one.comparison
    if found is None:
        return "", "", "", NOT_RUN
    span = f" ({signed_span(found.shown)})" if found.shown else ""
    over = signed_span(found.shown_over_examples) if found.shown_over_examples else NONE
    p = found.adjusted_equivalence_p if found.verdict == "equivalent" else found.adjusted_p
    return points(found.difference) + span, over, p_value(p), f"**{word(found)}**{small(found)}{here(found)}"


def examples(outcomes: Sequence[Outcome], task: str, attack: str, split: str | None) -> str:
    """Which texts were attacked."""
    sizes = {
        len(found.statuses)
        for outcome in outcomes
        if outcome.unit.task == task
        for found in outcome.attacks
        if found.name == attack and found.split == split
    }
    return f"{' or '.join(map(str, sorted(sizes))) or 'no'} texts of {split}"


def versions(judged: Sequence[Judged], outcomes: Sequence[Outcome]) -> str:
    """By how many versions of the code the runs behind these claims were made; nothing where it is one."""
    made = [
        (
            Wanted(
                arm=name, task=one.claim.task, metric=one.claim.metric, attack=one.claim.attack, split=one.claim.split
            ),
            name,
        )
        for one in judged
        if one.comparison
        for name in (one.claim.arm, one.claim.other)
    ]
    units = {
        unit
        for wanted, name in dict.fromkeys(made)
        for unit in read_runs(wanted, after_choice(name, outcomes), None).units
    }
    codes = {one.inputs.get("code") for one in outcomes if one.unit.id in units}
    return f"run by {len(codes)} versions of the code" if len(codes) > 1 else ""


def not_run(judged: Sequence[Judged]) -> str:
    """What, and why where there is something of it; each once."""
    parts = (part.removesuffix(f": {NOT_RUN}") for one in judged for part in one.why.split("; "))
    return f"Not run: {'; '.join(dict.fromkeys(parts))}."
