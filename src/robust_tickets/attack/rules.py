"""Whose rules an attack follows: this package's own, or those of one version of TextAttack (``compat``).

The algorithms are the same; versions of TextAttack differ in what counts as a word, how a word is found again in its text, which words
are ranked, how rounding is treated, which stop words there are and how many words BERT-Attack considers (docs/attacks/versions.md has
the whole list). A profile is offered for a recipe only where files of TextAttack's own results are replayed by the tests (``OFFERED``).
Own rules are those of 0.3.11, except for the places that page lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from robust_tickets.errors import TicketsError

PREFIX = "ta-"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What differs between versions; the defaults are our own."""

    name: str | None = None  # the profile's name in results; none for our own

    # --- words
    keeps_endings: bool = (
        False  # the characters ' - _ * @ belong to a word they follow, not only to one they stand inside
    )
    segments: bool = False  # a text with a Chinese character is cut into words by jieba, the whole text
    # --- where a word stands
    searches: bool = False  # in windows and swaps a word is searched from left to right; what that may find instead counts (see literal)
    stuck: bool = False  # the search for a window starts at the last word's beginning, so "an" is found inside "banana"
    splits_blindly: bool = (
        False  # the mark <SPLIT> between columns may be taken for a word such as "I", and breaks when that is swapped
    )
    # --- the search
    ranks_all: bool = False  # every word is ranked, at a query each, also those that may not change
    cuts_gradient: bool = (
        True  # A2T takes the gradient of the text up to the last word it ranks, and ranks no more than fit the model
    )
    gathers: bool = (
        False  # a recipe of several transformations gathers the words to rank in one more set, whose order decides ties
    )
    doubles: bool = False  # a text that two transformations of a recipe make is asked about twice
    # --- resources and constraints
    stopwords: int = 179  # NLTK's English list: 179 words, or 198 since February 2025
    clamped: bool = True  # a cosine that rounding pushed beyond 1 counts as 1; otherwise it rejects the candidate
    masks_bare: bool = (
        False  # a masked language model that fills in a blank sees the text without the marks at its ends
    )
    masked_words: int = 48  # BERT-Attack's K: words the masked language model offers for a position


OWN = Rules()
_10 = Rules(
    name="ta-0.3.10",
    keeps_endings=True,
    segments=True,
    searches=True,
    splits_blindly=True,
    cuts_gradient=False,
    gathers=True,
    clamped=False,
)
_4 = replace(_10, name="ta-0.3.4", segments=False, ranks_all=True, doubles=True, masks_bare=True)
PROFILES: Mapping[str, Rules] = {
    "ta-0.3.11": Rules(name="ta-0.3.11", segments=True, searches=True, stopwords=198, masked_words=8),
    "ta-0.3.10": _10,
    "ta-0.3.4": _4,
    "ta-0.3.0": replace(_4, name="ta-0.3.0", stuck=True),
}
OFFERED: Mapping[str, tuple[str, ...]] = {  # recipe -> profiles that golden files verify
    "a2t": ("ta-0.3.11", "ta-0.3.4"),
    "bertattack": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
    "bertattack_papers": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
    "deepwordbug": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
    "pwws": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
    "textbugger": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
    "textfooler": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
}


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
