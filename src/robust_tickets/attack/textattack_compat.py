"""The rules an attack follows: this package's own, or those of one version of TextAttack (``compat``).

The algorithms are the same; versions of TextAttack differ in what counts as a word, how a word is found again in its text, which words
are ranked, how rounding is treated, which stop words there are and how many words BERT-Attack considers (docs/guides/attacks/versions.md has
the whole list). A profile is offered for a recipe only where files of TextAttack's own results are replayed by the tests (``OFFERED``).
Own rules are those of 0.3.11, except for what that page lists.
"""

from __future__ import annotations

import logging
import math
import re
import tempfile
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Literal

from robust_tickets.errors import TicketsError
from robust_tickets.resources.words import words as words_of

PREFIX = "ta-"
BETWEEN_COLUMNS = "\n"  # how two columns read as one text
MARK = "<SPLIT>"  # how TextAttack joins them while it swaps a word

Span = tuple[int, int, int]  # column, start, end


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What differs between versions; the defaults are our own."""

    name: str | None = None  # the profile's name in results; none for our own

    # --- words
    keeps_endings: bool = False  # the characters ' - _ * @ belong to a word they follow, not only to one they are in
    segments: bool = False  # a text with a Chinese character is cut into words by jieba, the whole text
    # --- where a word stands
    searches: bool = False  # in windows and swaps a word is searched for; what that may find instead counts (``swap``)
    stuck: bool = False  # the search for a window starts at the last word's beginning: "an" is found inside "banana"
    splits_blindly: bool = False  # <SPLIT> may be taken for a word such as "I", and breaks when that is swapped
    # --- the search
    ranks_all: bool = False  # every word is ranked, at a query each, also those that may not change
    cuts_gradient: bool = True  # A2T's gradient is of the text up to the last word it ranks, as many as fit the model
    gathers: bool = False  # several transformations gather the words to rank in one more set, whose order decides ties
    drops_doubles: bool = True  # a text that two transformations of a recipe make is asked about once
    # --- resources and constraints
    stopwords: Literal["nltk-179", "nltk-198"] = "nltk-179"  # NLTK's English list, longer since February 2025
    clamped: bool = True  # a cosine that rounding pushed beyond 1 counts as 1; otherwise it rejects the candidate
    # a model that fills in a blank sees the text to its ends, and what it offers must have a letter
    shows_ends: bool = True
    masked_words: int = 48  # BERT-Attack's K: words the masked language model offers for a position

    # --- words, and where they are

    def pieces(self, text: str) -> list[tuple[int, int]]:
        """The (start, end) of every word of a text alone."""
        if not (self.segments and chinese(text)) or len(text) == 1:
            return words_of(text, self.keeps_endings)
        found, at = [], 0
        for piece in cut(text):
            found += [(at + start, at + end) for start, end in words_of(piece, self.keeps_endings)]
            at += len(piece)
        return found

    def one_word(self, text: str) -> bool:
        """Whether ``text`` holds exactly one word (it may carry punctuation besides)."""
        return len(self.pieces(text)) == 1

    def spans(self, columns: Sequence[str]) -> tuple[Span, ...]:
        """The (column, start, end) of every word; one Chinese character lets the words of all columns be cut by jieba."""
        if not (self.segments and any(map(chinese, columns))):
            return tuple((c, *span) for c, part in enumerate(columns) for span in words_of(part, self.keeps_endings))
        found: list[Span] = []
        column = begin = 0
        for start, end in self.pieces(BETWEEN_COLUMNS.join(columns)):
            while start > begin + len(columns[column]):
                begin += len(columns[column]) + len(BETWEEN_COLUMNS)
                column += 1
            found.append((column, start - begin, end - begin))
        return tuple(found)

    def astray(self, columns: Sequence[str], found: Sequence[Span]) -> bool:
        """Whether a search may end elsewhere than at the word, so that a swap in this text must be searched for."""
        if not self.searches:
            return False
        if any(MARK in column for column in columns) or (self.segments and any(map(chinese, columns))):
            return True
        return any(b[0] != a[0] and columns[b[0]][b[1] : b[2]] in MARK for a, b in pairwise(((0, 0, 0), *found)))

    def strange(self, new: str) -> bool:
        """Whether what is put in may move the words around it."""
        if not self.searches:
            return False
        if "SPLIT" in new or (self.segments and chinese(new)):
            return True
        return self.keeps_endings and new != "" and not self.pieces(new)  # "a b" with "-" for b is "a-"

    def swap(
        self, columns: Sequence[str], words: Sequence[str], modified: Collection[int], index: int, new: str
    ) -> tuple[tuple[str, ...], set[int], list[int]]:
        """The columns with word ``index`` replaced, the indices that count as modified then, and those that just became so."""
        text = MARK.join(columns)
        done: list[str] = []
        newly: list[int] = []
        marked, at, place = set(modified), 0, 0  # place: up to where the text is done
        for i, word in enumerate(words):
            put = new if i == index else word
            start = self._find(word, text, place)
            before, place = text[place:start], start + len(word)
            count = len(self.pieces(put))
            grown = 0 if i != index else count - len(self.pieces(word))
            if grown:
                marked = {m if m < i else m + grown for m in marked if m != i}
            if put != word:
                newly += range(at, at + count)
                marked |= set(newly)
            at += count
            if count == 0 and place < len(text):  # a deletion takes one space with it
                if i == 0:
                    place += text.startswith(" ", place)
                else:
                    before = before.removesuffix(" ")
            done += (before, put)
        return tuple("".join((*done, text[place:])).split(MARK)[: len(columns)]), marked, newly

    def _find(self, word: str, text: str, place: int) -> int:
        start = text.find(word, place)
        mark = text.find(MARK, place) if word in MARK and not self.splits_blindly else -1
        if mark >= 0 and mark <= start < mark + len(MARK):
            past = text[place:].replace(MARK, "").find(word)
            start = place + past + len(MARK) if past >= 0 else -1
        if start < 0:
            raise TicketsError(
                f"{self.name} itself fails on this text: it joins columns by {MARK} and then does not find the word {word!r}",
                hint="leave compat out for this package's own rules",
                code="attack.compat_text",
            )
        return start

    def searches_windows(self, columns: Iterable[str]) -> bool:
        """Whether the words of a window are searched for in its text (``starts``)."""
        return self.stuck or (self.searches and not all(map(str.isascii, columns)))

    def starts(self, text: str, words: Sequence[str]) -> list[int]:
        """Where every word begins, by searching the lower-cased text."""
        lower, found, after = text.lower(), [], 0
        for word in words:
            at = lower.find(word.lower(), after)
            after = at if self.stuck else at + len(word)
            found.append(at)
        return found

    # --- the search

    def ranked(self, count: int, changeable: Collection[int], transformations: int) -> list[int]:
        """The words an order is made of, of ``count``: those that may change, or all. The order of a set decides ties, as in TextAttack."""
        if self.ranks_all:
            return list(range(count))
        if not self.gathers or transformations < 2:
            return list(changeable)
        gathered: set[int] = set()
        for _ in range(transformations):
            # the same words, maybe in a larger table, which they then leave in another order
            gathered.update(changeable)
        return list(gathered)

    def ranked_by_gradient(self, words: Sequence[int], most: int) -> list[int]:
        """The words that a gradient ranks, of which the model may take ``most``."""
        return sorted(words)[:most] if self.cuts_gradient else list(words)

    def gradient_end(self, columns: int, words: Sequence[int]) -> int | None:
        """The last word of the text that the gradient is taken of; none for the whole text."""
        return words[-1] if self.cuts_gradient and columns == 1 and len(words) else None

    # --- resources and constraints

    def angular(self, cosines: Any) -> Any:
        """1 - angle/π of a tensor of cosines; not a number where rounding beyond 1 leaves no angle."""
        return 1 - (cosines.clamp(-1.0, 1.0) if self.clamped else cosines).acos() / math.pi

    def angular_limits(self, least: float) -> list[float]:
        """The cosines at which an angular similarity begins or ceases to be at least ``least``."""
        return [math.cos(math.pi * (1 - least)), *([] if self.clamped else [1.0])]


OWN = Rules()
_10 = Rules(
    name="ta-0.3.10",
    keeps_endings=True,
    segments=True,
    searches=True,
    splits_blindly=True,
    cuts_gradient=False,
    gathers=True,
    clamped=False,
)
_4 = replace(_10, name="ta-0.3.4", segments=False, ranks_all=True, drops_doubles=False, shows_ends=False)
_11 = Rules(name="ta-0.3.11", segments=True, searches=True, stopwords="nltk-198", masked_words=8)
PROFILES: Mapping[str, Rules] = {
    rules.name: rules for rules in (_11, _10, _4, replace(_4, name="ta-0.3.0", stuck=True)) if rules.name
}
OFFERED: Mapping[str, tuple[str, ...]] = {  # recipe -> profiles that golden files verify
    "a2t": ("ta-0.3.11", "ta-0.3.4"),
    **dict.fromkeys(
        ["bertattack", "bertattack_papers", "deepwordbug", "pwws", "textbugger", "textfooler"], tuple(PROFILES)
    ),
}


def rules_of(compat: str | None, recipe: str) -> Rules:
    """The rules of a profile ("ta-0.3.4" or "0.3.4"), if it is verified for the recipe."""
    if compat is None:
        return OWN
    name, offered = PREFIX + compat.removeprefix(PREFIX), OFFERED.get(recipe, ())
    if name not in offered:
        has = ", ".join(offered) or "none"
        message = f"{recipe} has no profile {compat!r} that was checked against TextAttack's own results; it has: {has}"
        raise TicketsError(message, hint="leave compat out for this package's own rules", code="attack.compat")
    return PROFILES[name]


_CHINESE = re.compile("[\u4e00-\u9fff]")


def chinese(text: str) -> bool:
    """Whether ``text`` holds a character that makes TextAttack call jieba."""
    return _CHINESE.search(text) is not None


def cut(text: str) -> list[str]:
    """``text`` in pieces, which joined give it again; English words in it are cut too ("don't" in three)."""
    return [str(piece) for piece in _tokenizer().cut(text)]


@cache
def _tokenizer() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it imports setuptools' pkg_resources, which warns of its end
            import jieba
    except ImportError as error:
        raise TicketsError(
            "the text holds Chinese characters, and this profile's TextAttack cuts such texts by jieba, which is not installed",
            hint='pip install "robust-tickets[chinese]"; or leave compat out: a run of Chinese characters is then one word',
            code="attack.jieba",
        ) from error
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()
    with tempfile.TemporaryDirectory() as folder:  # it would read a cache from the shared folder for temporary files
        tokenizer.tmp_dir = folder
        tokenizer.initialize()
    return tokenizer
