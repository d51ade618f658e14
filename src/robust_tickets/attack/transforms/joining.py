"""Pieces of words joined to words, in the order of the Cartesian product, without walking through what cannot become one word.

BERT-Attack joins one of K tokens at each of a word's n pieces and wants the first K combinations that are one word. Nearly always these are
among the first hundred. But where the best token at an early piece is a comma, the next K^(n-2) combinations are two words each, and
TextAttack tries them all: for "mother-in-law" at K=48 that is years. Here a branch is entered only if one word can still come of it, which
a table knows beforehand: what follows depends on the joined characters only by how many words they hold and how they end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from robust_tickets.attack import textattack_compat
from robust_tickets.attack.textattack_compat import Rules, one_word
from robust_tickets.resources.masked_lm import CONTINUES
from robust_tickets.resources.words import INSIDE, stands_in_words

OUTSIDE, BEFORE, WITHIN = range(
    3
)  # of a word; before: after characters such as "-", which only count as part of a word that follows


class Read(NamedTuple):
    """What has been read so far, as far as it matters for what comes."""

    words: int = 0  # 2 stands for more than one
    where: int = OUTSIDE
    hashes: bool = False  # ends in a "#" that goes away if another follows: "##" is taken out of the joined text
    unclear: bool = False  # holds Chinese, which a profile's TextAttack cuts by a dictionary


Combination = tuple[int, str]  # its place in the product, from 0, and what it spells


def joined(tokens: Sequence[Sequence[str]], rules: Rules) -> Iterator[Combination]:
    """The combinations that are exactly one word, in order."""
    hopeful = _hopeful(tokens, rules.segments)
    sizes = [len(row) for row in tokens]
    open_ends: list[tuple[Read, int, tuple[str, ...]]] = [
        (Read(), 0, ())
    ]  # read so far, place among those of its length, tokens
    while open_ends:
        read, place, parts = open_ends.pop()
        at = len(parts)
        if at == len(tokens):
            word = "".join(parts).replace(CONTINUES, "")
            if one_word(word, rules):
                yield place, word
            continue
        for number in reversed(range(sizes[at])):  # the last one put down is the first taken up
            after = _after(read, tokens[at][number], rules.segments)
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
    unclear = unclear or (cut and textattack_compat.chinese(token))
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
