"""Universal part-of-speech tags by NLTK's averaged perceptron, read from a given nltk_data folder: no pickle, no download.

The folder holds the tagger's three JSON files and the map from Penn Treebank tags to universal ones; the package nltk is not needed. A
function of the user's may take its place.

The perceptron's decisions are NLTK's (Honnibal, 2013; Apache-2.0), six times as fast by other arithmetic. A word's tag is the class with
the highest sum of its features' weights, ties to the later name; features are the word, its neighbours two to either side, and the two
tags before it. NLTK adds up dictionaries; here a feature's weights are one array, made when it is first met, and added in the same order,
so that the sums are the same bits. A decision is remembered by what it depends on, because the contexts an attack asks about differ in
one word. A test holds both against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json

MODEL = "averaged_perceptron_tagger_eng"
PARTS = ("weights", "tagdict", "classes")
MAP = Path("universal_tagset") / "en-ptb.map"
GET = (
    f"mkdir -p {{cache}} && cd {{cache}} && for part in {MODEL} {MAP.parent}; do curl -LO "
    "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/taggers/$part.zip && unzip $part.zip; done"
)
CONTEXTS = 1 << 15  # contexts whose tags by a function are remembered, about 10 MB
DECISIONS = 1 << 17  # of the perceptron that are remembered, about 40 MB
LONGEST = 1000  # characters of a context that is remembered
START, END = ("-START-", "-START2-"), ("-END-", "-END2-")  # what stands beyond the ends of a text


def tagger_files(path: Path) -> list[Path] | None:
    """The tagger's files and the map below ``path`` (an nltk_data folder, its ``taggers``, or the tagger's own); none if incomplete."""
    for root in (path / "taggers", path, path.parent):
        files = [*(root / MODEL / f"{MODEL}.{part}.json" for part in PARTS), root / MAP]
        if all(file.is_file() for file in files):
            return files
    return None


class Tagger:
    """``tags(words)`` gives the universal tag of every word in this context ("X" for a tag without one)."""

    def __init__(self, model: Perceptron, universal: Mapping[str, str]) -> None:
        self._model, self._universal = model, universal

    @classmethod
    def load(cls, path: Path | str) -> Tagger:
        """The tagger of an nltk_data folder."""
        files = tagger_files(Path(path))
        if files is None:
            hint = "give an nltk_data folder that holds both"
            raise TicketsError(f"no {MODEL} with {MAP.name} in {path}", hint=hint, code="tagger.missing")
        weights, certain, classes = map(read_json, files[:3])
        lines = files[3].read_text(encoding="utf-8").splitlines()
        try:
            universal = dict(line.split() for line in lines if line.strip())
            return cls(Perceptron({**weights}, {**certain}, classes), universal)
        except (ValueError, TypeError):
            message = f"{files[0].parent} or {files[3]} is not what NLTK published"
            raise TicketsError(message, hint="get both again", code="tagger.damaged") from None

    def tags(self, words: Sequence[str]) -> list[str]:
        return [self._universal.get(tag, "X") for tag in self._model.tag(words)]

    __call__ = tags

    def at(self, words: Sequence[str], place: int) -> str:
        """``tags(words)[place]``; the words after it are not tagged."""
        return self._universal.get(self._model.tag(words, place)[place], "X")


class FunctionTagger:
    """Tags by a function of the user's: a list of words in, one tag a word out."""

    def __init__(self, function: Callable[[list[str]], Sequence[str]], *, name: str) -> None:
        self._function, self._name = function, name
        self._remembered = lru_cache(maxsize=CONTEXTS)(self._tags)

    def __call__(self, words: Sequence[str]) -> tuple[str, ...]:
        tags = self._remembered if sum(map(len, words)) <= LONGEST else self._tags
        return tags(tuple(words))

    def _tags(self, words: tuple[str, ...]) -> tuple[str, ...]:
        tags = tuple(self._function(list(words)))
        if len(tags) != len(words) or not all(isinstance(tag, str) for tag in tags):
            message = f"{self._name} answers {len(words)} words with {tags!r:.200}"
            raise TicketsError(message, hint="expected a list of one tag a word", code="tagger.answer")
        return tags


class Perceptron:
    """``tag(words)`` gives Penn Treebank tags; ``tag(words, last)`` stops after the word at ``last``."""

    def __init__(
        self, weights: Mapping[str, Mapping[str, float]], certain: Mapping[str, str], classes: Sequence[str]
    ) -> None:
        self.certain = certain  # words that nearly always have one tag
        self.classes = sorted(classes, reverse=True)  # so that the first maximum is the one with the later name
        self._weights = weights
        self._place = {name: place for place, name in enumerate(self.classes)}
        self._arrays: dict[str, np.ndarray] = {}
        self._decided = lru_cache(maxsize=DECISIONS)(self._decide)

    def tag(self, words: Sequence[str], last: int | None = None) -> list[str]:
        end = len(words) if last is None else last + 1
        shown = [*START, *map(shape, words[: end + 2]), *END]
        before, before2 = START
        # what is remembered is bounded
        decide: Callable[..., str] = self._decided if sum(map(len, words)) <= LONGEST else self._decide
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
            row = self._arrays.get(name)
            if row is None and name in self._weights:  # others were never seen in training, and there is no end to them
                row = self._arrays[name] = np.zeros(len(self.classes))
                for label, weight in self._weights[name].items():
                    if label in self._place:
                        row[self._place[label]] = weight
            if row is not None:
                total += row
        return self.classes[int(total.argmax())]


def shape(word: str) -> str:
    """A word as its neighbours see it: lower case, with numbers and hyphenated words thrown together."""
    if "-" in word and word[0] != "-":
        return "!HYPHEN"
    if word.isdigit() and len(word) == 4:
        return "!YEAR"
    return "!DIGITS" if word[:1].isdigit() else word.lower()
