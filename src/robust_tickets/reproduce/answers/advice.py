"""What to do, in three sentences, for somebody who reads no further. Said only where the claims bear it out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robust_tickets.report.numbers import points
from robust_tickets.reproduce.answers.parts import summary
from robust_tickets.reproduce.attacks import CONFIRM
from robust_tickets.reproduce.attacks import attack as attack_of
from robust_tickets.reproduce.claims import Judged, form_of, told, winner
from robust_tickets.reproduce.goals import trained_on
from robust_tickets.reproduce.names import attack_phrase
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.wording import listed, rehearsed

SHIPPED = "sturdy_a"  # the configuration that `tickets run sturdy` trains


def advice(
    ticket: Sequence[Judged], recipe: Sequence[Judged], outcomes: Sequence[Outcome], folder: Path | None
) -> list[str]:
    """One paragraph, or none, from the claims of A and of the recipe; a rehearsal on a part of the data advises nobody."""
    if rehearsed([one for one in outcomes if one.clean]):
        return []
    said = [*_ticket(ticket), *_recipe(recipe, outcomes, folder)]
    return [f"**In short.** {' '.join(said)}"] if said else []


def _ticket(judged: Sequence[Judged]) -> list[str]:
    """What a searched ticket is good for. Where its claims differ among themselves, the answer is longer than this."""
    if not all(one.comparison and one.comparison.enough for one in judged):
        return []
    gains = {one.comparison.difference > 0 if one.comparison.different else None for one in judged if one.comparison}
    if gains == {True}:
        return ["A searched ticket is smaller, and sturdier at equal length."]
    return (
        ["Take a searched ticket for its size: that it is sturdier at equal length is not shown."]
        if gains == {None}
        else []
    )


def _recipe(judged: Sequence[Judged], outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """What training on words is good for, where it helps under these and harms under others."""
    chosen, plain = winner(outcomes, folder), winner(outcomes, folder, "plain")
    if chosen is None or plain is None:
        return []
    arm, seen = form_of(told()["goals"]["arm"], chosen), told()["goals"]["seen"]
    made = [(one.claim, one.comparison) for one in judged if one.comparison]
    better, worse = (
        [(claim, found) for claim, found in made if found.different and up == (found.difference > 0)]
        for up in (True, False)
    )
    if not worse or [claim.attack for claim, _ in better] != [seen]:
        return []
    (claim, gain), *_ = better
    if not trained_on(arm, f"@{attack_of(claim.task, seen).candidates}", outcomes):
        return []
    lost = [
        f"{points(found.difference)} under {attack_phrase(other.attack.removesuffix(f'-{CONFIRM}'))}"
        for other, found in worse
    ]
    clean = [summary(name, "clean", seen, claim.task, claim.split, outcomes) for name in (arm, plain)]
    if clean[0] and clean[1] and round(below := clean[0].mean - clean[1].mean, 1) < 0:
        lost.append(f"{points(below)} clean")
    how = " (`tickets run sturdy`)" if chosen == SHIPPED else ""  # another's numbers are not that recipe's
    return [
        f"If you know which words will be swapped, train on them{how}: {points(gain.difference)} points under these, but "
        f"{listed(lost)}: no protection in general.",
        "Judge a model by attacks whose words it has not met.",
    ]
