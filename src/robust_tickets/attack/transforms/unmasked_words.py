"""BERT-Attack's candidates: words of a masked language model that reads the text as it is, beside the word they replace.

Pieces of words are joined in the order of the Cartesian product, without trying what cannot become one word. BERT-Attack joins one of K
tokens at each of a word's n pieces and wants the first K combinations that are one word. Nearly always these are among the first
hundred. But where the best token at an early piece is a comma, the next K^(n-2) combinations are two words each, and TextAttack tries
them all: for "mother-in-law" at K=48 that is years. Here a branch is entered only if one word can still come of it, which a table knows
beforehand: what follows depends on the joined characters only by how many words they hold and how they end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from robust_tickets.attack.components import Transformation
from robust_tickets.attack.example import ExampleState, Fill, Steps
from robust_tickets.attack.services import MASKED_NOISE, Filled, Masked
from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import OWN, Rules, chinese
from robust_tickets.attack.transforms.masked_word import mask_index
from robust_tickets.classifier.encode import clean
from robust_tickets.config import resource, setting
from robust_tickets.resources.masked_lm import CONTINUES, MaskedModel
from robust_tickets.resources.words import INSIDE, stands_in_words


@dataclass(slots=True)
class _Known:
    """What is remembered of the current text: one answer serves all its words."""

    text: Text | None = None
    beyond: int = 0  # words from here on lie behind the model's last token
    filled: Filled | None = None


@dataclass(frozen=True)
class UnmaskedWords(Transformation):
    """BERT-Attack: the model reads the text as it is, and offers ``count`` tokens at each of the word's own.

    A word of one token may become any of its tokens that is one word and no piece. For a word of several pieces, tokens are joined in
    the order of the Cartesian product, the last piece changing fastest, until ``count`` of them are one word. The word's place is where
    a mask put in its stead is found, and its pieces are those it has alone: where it is read otherwise in its text (an emoji attached,
    say), the positions are off by as much, and may lie in the padding. Nothing is re-cased, and what comes twice stays twice.
    """

    masked: MaskedModel = resource()
    count: int = setting(48, at_least=1)

    def services(self) -> Mapping[str, Masked]:
        return {"masked": Masked(self.masked, self.count)}

    def replacements(self, example: ExampleState, text: Text, index: int) -> Steps:
        language, known = self.masked, example.kept(self, _Known)
        if known.text is not text:
            known.text, known.beyond, known.filled = text, len(text), None
        first = mask_index(language, text, index) if index < known.beyond else None
        if first is None:
            known.beyond = min(known.beyond, index)
            return []
        tokens = list(range(first, min(first + language.pieces(clean(text.words[index])), language.longest)))
        if not tokens:
            return []
        filled = known.filled
        if filled is None or len(filled.ids) <= tokens[-1]:
            filled = known.filled = yield Fill(text.joined, rows=tokens[-1] + 1)
        found, tried = self.words(filled.ids[tokens], example.rules)
        if not filled.exact and doubtful(filled.gaps[tokens], tried):
            filled = known.filled = yield Fill(text.joined, rows=len(filled.ids), alone=True)
            found, _ = self.words(filled.ids[tokens], example.rules)
        return found

    def words(self, ids: np.ndarray, rules: Rules = OWN) -> tuple[list[str], int]:
        """The words to try for the best ids at each piece of a word, (pieces, ids), and how many combinations it took to find them."""
        tokens = [[self.masked.tokens[i] for i in row] for row in ids]
        if len(tokens) == 1:
            return [token for token in tokens[0] if CONTINUES not in token and rules.one_word(token)], len(tokens[0])
        found: list[str] = []
        for place, word in joined(tokens, rules):
            found.append(word)
            if len(found) == self.count:
                return found, place + 1
        return found, math.prod(map(len, tokens))

    def describe(self) -> str:
        return f"candidates: {self.count} words of a masked language model that reads the text unmasked, pieces of words joined"


def doubtful(gaps: np.ndarray, tried: int) -> bool:
    """Whether a batch's rounding could change which words the first ``tried`` combinations of ids are made of.

    Candidates are sorted later, so that only the choice matters: at each piece, the ids used with all that follows, the one in use when
    enough was found, and the rest must differ clearly; and those on the list from the others, where all of it was used.
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


# of a word; before: after characters such as "-", which only count as part of a word that follows
OUTSIDE, BEFORE, WITHIN = range(3)


class Read(NamedTuple):
    """What has been read so far, as far as it matters for what comes."""

    words: int = 0  # 2 stands for more than one
    where: int = OUTSIDE
    hashes: bool = False  # ends in a "#" that goes away if another follows: "##" is taken out of the joined text
    unclear: bool = False  # holds Chinese, which a profile's TextAttack cuts by a dictionary


Combination = tuple[int, str]  # its number in the product, from 0, and what it spells


def joined(tokens: Sequence[Sequence[str]], rules: Rules) -> Iterator[Combination]:
    """The combinations that are exactly one word, in order."""
    cut = rules.uses_dictionary()
    hopeful = _hopeful(tokens, cut)
    sizes = [len(row) for row in tokens]
    # read so far, number among those of its length, tokens
    open_ends: list[tuple[Read, int, tuple[str, ...]]] = [(Read(), 0, ())]
    while open_ends:
        read, place, parts = open_ends.pop()
        at = len(parts)
        if at == len(tokens):
            word = "".join(parts).replace(CONTINUES, "")
            if rules.one_word(word):
                yield place, word
            continue
        for number in reversed(range(sizes[at])):  # the last one put down is the first taken up
            after = _after(read, tokens[at][number], cut)
            if after in hopeful[at + 1]:
                open_ends.append((after, place * sizes[at] + number, (*parts, tokens[at][number])))


def _hopeful(tokens: Sequence[Sequence[str]], cut: bool) -> list[set[Read]]:
    """For every number of tokens read, the states of which one word may still come."""
    states = [{Read()}]
    for row in tokens:
        states.append({_after(read, token, cut) for read in states[-1] for token in set(row)})
    found = [{read for read in states[-1] if read.words == 1 or read.unclear}]
    for row, reached in zip(reversed(tokens), reversed(states[:-1]), strict=True):
        found.insert(0, {read for read in reached if any(_after(read, token, cut) in found[0] for token in set(row))})
    return found


@lru_cache(maxsize=1 << 17)
def _after(read: Read, token: str, cut: bool) -> Read:
    words, where, hashes, unclear = read
    unclear = unclear or (cut and chinese(token))
    for character in token:
        if character == "#":
            hashes = not hashes
            continue
        if hashes:  # a single one stays, and parts words
            where, hashes = OUTSIDE, False
        if character in INSIDE:
            where = max(where, BEFORE)
        elif not stands_in_words(character):
            where = OUTSIDE
        elif where != WITHIN:
            where, words = WITHIN, min(2, words + 1)
    return Read(words, where, hashes, unclear)


REGISTERED = UnmaskedWords
