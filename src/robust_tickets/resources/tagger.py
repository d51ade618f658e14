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

CONTEXTS = 1 << 15  # tag sequences, about 10 MB
LONGEST = 1000  # characters of a context that is remembered


class Remembering:
    """``tags(words)`` over ``_tag``, which a tagger supplies; the tagger itself may be called like ``tags``."""

    def __init__(self) -> None:
        self._remembered = lru_cache(maxsize=CONTEXTS)(self._tag)

    def tags(self, words: Sequence[str]) -> list[str]:
        """The universal tag of every word of this context ("X" for a tag without one)."""
        return list(self._tags_of(tuple(words)))

    __call__ = tags

    def at(self, words: Sequence[str], place: int) -> str:
        """``tags(words)[place]``, which may cost less."""
        return self._tags_of(tuple(words))[place]

    def _tags_of(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return self._remembered(words) if sum(map(len, words)) <= LONGEST else self._tag(words)

    def _tag(self, words: tuple[str, ...]) -> tuple[str, ...]:
        raise TypeError(f"{type(self).__name__} has no _tag")  # a mistake of its author


MODEL = "averaged_perceptron_tagger_eng"
PARTS = ("weights", "tagdict", "classes")
MAP = Path("universal_tagset") / "en-ptb.map"
GET = (
    f"mkdir -p {{cache}} && cd {{cache}} && for part in {MODEL} {MAP.parent}; do curl -LO "
    "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/taggers/$part.zip && unzip $part.zip; done"
)


def tagger_files(path: Path) -> list[Path] | None:
    """The tagger's files and the map below ``path`` (an nltk_data folder, its ``taggers``, or the tagger's own); none if incomplete."""
    for root in (path / "taggers", path, path.parent):
        files = [*(root / MODEL / f"{MODEL}.{part}.json" for part in PARTS), root / MAP]
        if all(file.is_file() for file in files):
            return files
    return None


class Tagger(Remembering):
    """``tags(words)`` gives one universal tag a word, in context."""

    def __init__(self, model: Perceptron, universal: dict[str, str]) -> None:
        super().__init__()
        self._model, self._universal = model, universal

    @classmethod
    def load(cls, path: Path | str) -> Tagger:
        """The tagger of an nltk_data folder."""
        files = tagger_files(Path(path))
        if files is None:
            raise TicketsError(
                f"no {MODEL} with {MAP.name} in {path}",
                hint="give an nltk_data folder that holds both",
                code="tagger.missing",
            )
        weights, tagdict, classes = (read_json(file) for file in files[:3])
        if not isinstance(weights, dict) or not isinstance(tagdict, dict) or not isinstance(classes, list):
            raise TicketsError(
                f"{files[0].parent} is not the JSON form of the tagger", hint="get it again", code="tagger.damaged"
            )
        lines = files[3].read_text(encoding="utf-8").splitlines()
        pairs = [line.split() for line in lines if line.strip()]
        if any(len(pair) != 2 for pair in pairs):
            raise TicketsError(
                f"{files[3]} is not a map of tags",
                hint="expected two columns, the Penn tag and the universal one",
                code="tagger.damaged",
            )
        return cls(Perceptron(weights, tagdict, classes), {pair[0]: pair[1] for pair in pairs})

    def _tag(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._universal.get(tag, "X") for tag in self._model.tag(words))

    def at(self, words: Sequence[str], place: int) -> str:
        return self._universal.get(self._model.tag(words, place)[place], "X")  # words after it are not tagged


class FunctionTagger(Remembering):
    """``tags(words)`` by a function of the user's: a list of words in, one tag a word out."""

    def __init__(self, function: Callable[[list[str]], Sequence[str]], *, name: str) -> None:
        super().__init__()
        self._function, self._name = function, name

    def _tag(self, words: tuple[str, ...]) -> tuple[str, ...]:
        tags = tuple(self._function(list(words)))
        if len(tags) != len(words) or not all(isinstance(tag, str) for tag in tags):
            raise TicketsError(
                f"{self._name} answers {len(words)} words with {tags!r:.200}",
                hint="expected a list of one tag a word",
                code="tagger.answer",
            )
        return tags


START, END = ("-START-", "-START2-"), ("-END-", "-END2-")  # what stands beyond the ends of a text
DECISIONS = 1 << 17  # remembered, about 40 MB


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
