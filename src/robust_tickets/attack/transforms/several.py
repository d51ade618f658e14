"""Several transformations side by side: the candidates of each in turn, none twice (but for rules that double them)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robust_tickets.attack.asking import Steps, steps
from robust_tickets.attack.game import Game
from robust_tickets.attack.text import Text


@dataclass(frozen=True)
class Several:
    parts: tuple[Any, ...]

    def replacements(self, game: Game, text: Text, index: int) -> Steps:
        found: list[str] = []
        for part in self.parts:
            found += dict.fromkeys((yield from steps(part.replacements(game, text, index))))  # never twice by the same one
        return found if game.rules.doubles else list(dict.fromkeys(found))

    def describe(self) -> str:
        return "; ".join(part.describe() for part in self.parts)
