"""BAE's candidates, which A2T has a variant with: the best whole words of a masked language model for the masked word."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robust_tickets.attack.components import Transformation
from robust_tickets.attack.example import ExampleState, Fill, Steps
from robust_tickets.attack.services import MASKED_NOISE, Filled, Masked
from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import BETWEEN_COLUMNS
from robust_tickets.classifier.encode import clean
from robust_tickets.config import resource, setting
from robust_tickets.resources.masked_lm import CONTINUES, MaskedModel


@dataclass(frozen=True)
class MaskedWord(Transformation):
    """BAE: the word is masked, and the model offers the ``count`` best whole words; pieces count as the word they spell.

    What has no letter from a to z is left out afterwards, so that fewer may remain. TextAttack before 0.3.5 leaves nothing out, but shows
    the model the text from its first to its last word only, which cuts the brackets off a mask at either end: no candidates there.
    """

    masked: MaskedModel = resource()
    count: int = setting(20, at_least=1)

    def services(self) -> Mapping[str, Masked]:
        return {"masked": Masked(self.masked, self.count, self.masked.whole_words)}

    def replacements(self, example: ExampleState, text: Text, index: int) -> Steps:
        language, whole = self.masked, example.rules.shows_ends()
        masked = _masked(language, text, index) if whole else text.replace(index, language.mask).window(index, math.inf)
        place = language.place(clean(masked))
        if place is None:
            return []
        filled: Filled = yield Fill(masked, at=place)
        if not filled.exact and filled.gaps[0, -1] <= 2 * MASKED_NOISE:
            filled = yield Fill(masked, at=place, alone=True)
        tokens: Sequence[str] = [language.tokens[i].replace(CONTINUES, "") for i in filled.ids[0]]
        return [token for token in tokens if not whole or any("a" <= letter <= "z" for letter in token.lower())]

    def describe(self) -> str:
        return f"candidates: the {self.count} best words of a masked language model for the masked word"


def _masked(language: MaskedModel, text: Text, index: int) -> str:
    return BETWEEN_COLUMNS.join(text.swapped(index, language.mask))


def mask_index(language: MaskedModel, text: Text, index: int) -> int | None:
    """Which token the mask is, put in the place of word ``index``; none behind the model's last token."""
    return language.place(clean(_masked(language, text, index)))


REGISTERED = MaskedWord
