"""The answers to the campaigns' two questions as Markdown, from outcomes alone: numbers, intervals, verdicts.

What has no runs is called so. The page of the results has every claim; here stand those that the two questions ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robust_tickets.reproduce.answers.robust import robust_ticket
from robust_tickets.reproduce.answers.sturdy import sturdy
from robust_tickets.reproduce.outcome import Outcome


def answers(outcomes: Sequence[Outcome], folder: Path | None = None) -> list[str]:
    """What the runs say to A and B, paragraph by paragraph. ``folder`` is where the outcomes lie."""
    return [*robust_ticket(outcomes, folder), *sturdy(outcomes, folder)]
