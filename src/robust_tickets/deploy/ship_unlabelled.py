"""Why rows got no label: the reasons with their numbers, and what to do about the commonest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robust_tickets.data.readers import BROKEN_UTF8, to_utf8
from robust_tickets.errors import BAD_INPUT, FAILED

MOST = 1000  # different reasons that are kept apart; an error message may hold the text itself
REST = "other reasons"


@dataclass
class Reasons:
    """Rows without a label, by reason; ``unanswered`` of them could be read, but the classifier gave no answer."""

    counts: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0

    def add(self, reason: str, *, readable: bool) -> None:
        self.counts[reason if reason in self.counts or len(self.counts) < MOST else REST] += 1
        self.unanswered += readable

    @property
    def bad(self) -> int:
        return self.counts.total()

    def exit_code(self, rows: int) -> int:
        """Not 0 where more than half of the rows got no label: a script must not take such a file for a result."""
        if 2 * self.bad <= rows:
            return 0
        return FAILED if 2 * self.unanswered > self.bad else BAD_INPUT

    def told(self, data: Path) -> dict[str, Any]:
        """For the answer: all reasons, commonest first, and what to do."""
        reasons = [{"problem": reason, "rows": count} for reason, count in self.counts.most_common()]
        return {"bad": self.bad, "unanswered": self.unanswered, "reasons": reasons, "hint": self._hint(data)}

    def _hint(self, data: Path) -> str:
        if not self.bad:
            return ""
        if self.counts[BROKEN_UTF8] * 2 > self.bad:
            return to_utf8(data)
        return "see what is wrong with each row in the column of problems"
