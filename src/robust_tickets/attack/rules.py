"""Whose rules an attack follows: this package's own, or those of one version of TextAttack (``compat``).

The algorithms are the same; versions of TextAttack differ in what counts as a word, which words are ranked, how rounding is treated and
how many words BERT-Attack considers. A profile is offered for a recipe only where files of TextAttack's own results are replayed by the
tests (``OFFERED``). Own rules are those of 0.3.11, except for the places its page in the documentation lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from robust_tickets.errors import TicketsError

PREFIX = "ta-"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What differs between versions; the defaults are our own."""

    name: str | None = None  # the profile's name in results; none for our own
    ranks_all: bool = False  # every word is ranked, at a query each, also those that may not change
    clamped: bool = True  # a cosine that rounding pushed beyond 1 counts as 1; otherwise it rejects the candidate
    masked_words: int = 48  # BERT-Attack's K: words the masked language model offers for a position


OWN = Rules()
PROFILES: Mapping[str, Rules] = {
    "ta-0.3.11": Rules(name="ta-0.3.11", masked_words=8),
    "ta-0.3.10": Rules(name="ta-0.3.10", clamped=False),
    "ta-0.3.4": Rules(name="ta-0.3.4", clamped=False, ranks_all=True),
    "ta-0.3.0": Rules(name="ta-0.3.0", clamped=False, ranks_all=True),
}
OFFERED: Mapping[str, tuple[str, ...]] = {}  # recipe -> profiles that golden files verify


def rules_of(compat: str | None, recipe: str) -> Rules:
    """The rules of a profile ("ta-0.3.4" or "0.3.4"), if it is verified for the recipe."""
    if compat is None:
        return OWN
    name = compat if compat.startswith(PREFIX) else PREFIX + compat
    offered = OFFERED.get(recipe, ())
    if name not in offered:
        said = ", ".join(offered) if offered else "none"
        raise TicketsError(
            f"{recipe} has no profile {compat!r} that was checked against TextAttack's own results; it has: {said}",
            hint="leave compat out for this package's own rules",
        )
    return PROFILES[name]
