"""The averaged perceptron tagger's decisions, six times as fast: NLTK's model and features (Honnibal, 2013; Apache-2.0), other arithmetic.

A word's tag is the class with the highest sum of its features' weights, ties to the later name; features are the word, its
neighbours two to either side, and the two tags before it. NLTK adds up dictionaries; here a feature's weights are one array, made when
it is first met, and added in the same order, so that the sums are the same bits. A decision is remembered by what it depends on, because
the contexts an attack asks about differ in one word. A test holds both against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

START, END = ("-START-", "-START2-"), ("-END-", "-END2-")  # what stands beyond the ends of a text
DECISIONS = 1 << 17  # remembered, about 40 MB
LONGEST = 1000  # characters of a context whose decisions are remembered


class Perceptron:
    """``tag(words)`` gives Penn Treebank tags; ``tag(words, last)`` stops after the word at ``last``."""

    def __init__(
        self, weights: Mapping[str, Mapping[str, float]], certain: Mapping[str, str], classes: Sequence[str]
    ) -> None:
        self.certain = certain  # words that nearly always have one tag
        self.classes = sorted(classes, reverse=True)  # so that the first maximum is the one with the later name
        self._weights = weights
        self._place = {name: place for place, name in enumerate(self.classes)}
        self._arrays: dict[str, np.ndarray | None] = {}
        self._decided = lru_cache(maxsize=DECISIONS)(self._decide)

    def tag(self, words: Sequence[str], last: int | None = None) -> list[str]:
        end = len(words) if last is None else last + 1
        shown = [*START, *map(shape, words[: end + 2]), *END]
        before, before2 = START
        decide: Callable[..., str] = (
            self._decided if sum(map(len, words)) <= LONGEST else self._decide
        )  # what is remembered is bounded
        found = []
        for i in range(end):
            tag = self.certain.get(words[i])
            if not tag:
                # a word two to the right that training never saw there cannot decide anything: all such share one decision
                far = shown[i + 4] if f"i+2 word {shown[i + 4]}" in self._weights else None
                tag = decide(words[i], *shown[i : i + 4], far, before, before2)
            found.append(tag)
            before, before2 = tag, before
        return found

    def _decide(
        self, word: str, left2: str, left: str, own: str, right: str, right2: str | None, before: str, before2: str
    ) -> str:
        names = (
            "bias",
            f"i suffix {word[-3:]}",
            f"i pref1 {word[:1]}",
            f"i-1 tag {before}",
            f"i-2 tag {before2}",
            f"i tag+i-2 tag {before} {before2}",
            f"i word {own}",
            f"i-1 tag+i word {before} {own}",
            f"i-1 word {left}",
            f"i-1 suffix {left[-3:]}",
            f"i-2 word {left2}",
            f"i+1 word {right}",
            f"i+1 suffix {right[-3:]}",
            f"i+2 word {right2}",
        )
        total = np.zeros(len(self.classes))
        for name in names:
            row = self._arrays.get(name, _UNSEEN)
            row = self._array(name) if row is _UNSEEN else row
            if row is not None:
                total += row
        return self.classes[int(total.argmax())]

    def _array(self, name: str) -> np.ndarray | None:
        """A feature's weights by class; none for a feature that training never saw (not remembered: there is no end to them)."""
        weights = self._weights.get(name)
        if weights is None:
            return None
        row = np.zeros(len(self.classes))
        for label, weight in weights.items():
            if label in self._place:
                row[self._place[label]] = weight
        self._arrays[name] = row
        return row


_UNSEEN = np.zeros(0)


def shape(word: str) -> str:
    """A word as its neighbours see it: lower case, with numbers and hyphenated words thrown together."""
    if "-" in word and word[0] != "-":
        return "!HYPHEN"
    if word.isdigit() and len(word) == 4:
        return "!YEAR"
    return "!DIGITS" if word[:1].isdigit() else word.lower()
