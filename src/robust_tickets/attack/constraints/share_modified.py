"""No word may change any more when a share of them has."""

from __future__ import annotations

import math
from dataclasses import dataclass

from robust_tickets.attack.components import WordConstraint
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text
from robust_tickets.config import setting


@dataclass(frozen=True)
class ShareModified(WordConstraint):
    """At most ``share`` of the words change (rounded up), but ``least`` in any case."""

    share: float = setting(0.1, at_least=0, at_most=1)
    least: int = setting(4, at_least=1)

    def allowed(self, example: ExampleState, text: Text) -> set[int]:
        most = max(math.ceil(len(text) * self.share), self.least)
        return set() if len(text.modified) >= most else set(range(len(text)))

    def describe(self) -> str:
        return f"at most {self.share:.0%} of the words change (rounded up), or {self.least} where that is more"


REGISTERED = ShareModified
