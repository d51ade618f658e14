"""What a reader must know before believing an attack's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robust_tickets.measure.metrics import FEW

CONFIDENT = 0.99  # mean highest probability on the attacked texts: the score then hides in float rounding


def flags_of(
    *,
    n: int,
    errors: int,
    classes: int,
    confidence: float | None,
    resources: Mapping[str, Mapping[str, Any]],
    dropped: Sequence[str],
    foreign: bool,
    query_budget: int | None,
) -> list[str]:
    """Warnings in plain words, in a fixed order."""
    found = []
    if n < FEW:
        found.append(f"few examples: {n} attacked, fewer than {FEW}; look at the intervals")
    if classes < 2:
        found.append("one class: all attacked examples have the same label, so a victim that always says it looks robust")
    if confidence is not None and confidence > CONFIDENT:
        found.append(
            f"over-confident victim: the mean highest probability on the attacked texts is above {CONFIDENT}; "
            "a saturated score hides the way from the attack, so the victim may look more robust than it is"
        )
    for kind in sorted(resources):
        if resources[kind].get("substitute"):
            found.append(f"substitute {kind}: {resources[kind].get('name')}; numbers do not compare with the papers'")
    found += [f"constraint dropped: {what}" for what in dropped]
    if foreign:
        found.append("not English: most attacked texts do not look English, but the attack's words are")
    if query_budget is not None:
        found.append(f"query budget: at most {query_budget} queries an example; a larger budget may turn more")
    if errors:
        found.append(f"errors: {errors} example(s) failed and are left out of n")
    return found
