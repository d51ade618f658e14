"""Several transformations side by side: the candidates of each in turn, none twice (but for rules that double them)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from robust_tickets.attack.example import Game, Steps, steps
from robust_tickets.attack.text import Text


@dataclass(frozen=True)
class Several:
    parts: tuple[Any, ...]

    def replacements(self, game: Game, text: Text, index: int) -> Steps:
        found: list[str] = []
        for part in self.parts:
            found += _once(
                (yield from steps(part.replacements(game, text, index))), text, index
            )  # never twice by the same one
        return found if game.rules.doubles else _once(found, text, index)

    def describe(self) -> str:
        return "; ".join(part.describe() for part in self.parts)


def _once(found: Sequence[str], text: Text, index: int) -> list[str]:
    """One of those that make the same text, which in a text with odd marks different words may do."""
    if not text.astray:
        return list(dict.fromkeys(found))
    kept: dict[tuple[str, ...], str] = {}
    for new in found:
        kept.setdefault(text.swapped(index, new), new)
    return list(kept.values())
