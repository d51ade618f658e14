"""Words a masked language model puts in a word's place: read beside the word (BERT-Attack), or in its stead (BAE, A2T's variant)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robust_tickets.attack.example import Fill, Game, Steps
from robust_tickets.attack.services import MASKED_NOISE, Filled
from robust_tickets.attack.text import BETWEEN_COLUMNS, Text
from robust_tickets.attack.textattack_compat import OWN, Rules, one_word
from robust_tickets.attack.transforms.joining import joined
from robust_tickets.classifier.encode import clean
from robust_tickets.resources.masked_lm import CONTINUES


@dataclass(slots=True)
class Known:
    """What is remembered of the current text: one answer serves all its words."""

    text: Text
    beyond: int  # words from here on lie behind the model's last token
    filled: Filled | None = None


@dataclass(frozen=True)
class Suited:
    """BERT-Attack: the model reads the text as it is, and offers ``count`` tokens at each of the word's own.

    A word of one token may become any of its tokens that is one word and no piece. For a word of several pieces, tokens are joined in
    the order of the Cartesian product, the last piece changing fastest, until ``count`` of them are one word. The word's place is where
    a mask put in its stead is found, and its pieces are those it has alone: where it is read otherwise in its text (an emoji attached,
    say), the places are off by as much, and may lie in the padding. Nothing is re-cased, and what comes twice stays twice.
    """

    language: Any  # lexicon.masked_lm.MaskedModel
    count: int

    def replacements(self, game: Game, text: Text, index: int) -> Steps:
        known = game.filled
        if known is None or known.text is not text:
            known = game.filled = Known(text, len(text))
        place = _place(self.language, text, index) if index < known.beyond else None
        if place is None:
            known.beyond = min(known.beyond, index)
            return []
        places = list(range(place, min(place + self.language.pieces(clean(text.words[index])), self.language.longest)))
        if not places:
            return []
        if known.filled is None or len(known.filled.ids) <= places[-1]:
            known.filled = yield Fill(text.joined, rows=places[-1] + 1)
        found, tried = self.words(known.filled.ids[places], game.rules)
        if not known.filled.exact and doubtful(known.filled.gaps[places], tried):
            known.filled = yield Fill(text.joined, rows=len(known.filled.ids), alone=True)
            found, _ = self.words(known.filled.ids[places], game.rules)
        return found

    def words(self, ids: np.ndarray, rules: Rules = OWN) -> tuple[list[str], int]:
        """The words to try for the best ids at each piece of a word, (pieces, ids), and how many combinations it took to find them."""
        tokens = [[self.language.tokens[i] for i in row] for row in ids]
        if len(tokens) == 1:
            return [token for token in tokens[0] if CONTINUES not in token and one_word(token, rules)], len(tokens[0])
        found: list[str] = []
        for place, word in joined(tokens, rules):
            found.append(word)
            if len(found) == self.count:
                return found, place + 1
        return found, math.prod(map(len, tokens))

    def describe(self) -> str:
        return f"candidates: {self.count} words of a masked language model that reads the text unmasked, pieces of words joined"


@dataclass(frozen=True)
class Blank:
    """BAE: the word is masked, and the model offers the ``count`` best whole words; pieces count as the word they spell.

    What has no letter from a to z is left out afterwards, so that fewer may remain. TextAttack before 0.3.5 leaves nothing out, but shows
    the model the text from its first to its last word only, which cuts the brackets off a mask at either end: no candidates there.
    """

    language: Any  # lexicon.masked_lm.MaskedModel
    count: int

    def replacements(self, game: Game, text: Text, index: int) -> Steps:
        bare = game.rules.masks_bare
        masked = (
            text.replace(index, self.language.mask).window(index, math.inf)
            if bare
            else _masked(self.language, text, index)
        )
        place = self.language.place(clean(masked))
        if place is None:
            return []
        filled: Filled = yield Fill(masked, at=place)
        if not filled.exact and filled.gaps[0, -1] <= 2 * MASKED_NOISE:
            filled = yield Fill(masked, at=place, alone=True)
        tokens: Sequence[str] = [self.language.tokens[i].replace(CONTINUES, "") for i in filled.ids[0]]
        return [token for token in tokens if bare or any("a" <= letter <= "z" for letter in token.lower())]

    def describe(self) -> str:
        return f"candidates: the {self.count} best words of a masked language model for the masked word"


def _masked(language: Any, text: Text, index: int) -> str:
    return BETWEEN_COLUMNS.join(text.swapped(index, language.mask))


def doubtful(gaps: np.ndarray, tried: int) -> bool:
    """Whether a batch's rounding could change which words the first ``tried`` combinations of ids are made of.

    Candidates are sorted later, so that only the choice matters: at each piece, the ids used with all that follows, the one in use when
    enough was found, and the rest must be told apart; and those on the list from the others, where all of it was used.
    """
    pieces, count = gaps.shape
    for piece, row in enumerate(gaps):
        inner = count ** (pieces - 1 - piece)  # combinations for each id of this piece
        rounds, last = divmod((tried - 1) // inner, count)
        ends = {last, count - 1} if rounds else {last}
        ends |= {last - 1} if inner > 1 and last else set()
        if min(row[end] for end in ends) <= 2 * MASKED_NOISE:
            return True
    return False


def _place(language: Any, text: Text, index: int) -> int | None:
    return language.place(clean(_masked(language, text, index)))  # type: ignore[no-any-return]
