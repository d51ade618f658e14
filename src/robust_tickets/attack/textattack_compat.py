"""Whose rules an attack follows: this package's own, or those of one version of TextAttack (``compat``).

The algorithms are the same; versions of TextAttack differ in what counts as a word, how a word is found again in its text, which words
are ranked, how rounding is treated, which stop words there are and how many words BERT-Attack considers (docs/guides/attacks/versions.md has
the whole list). A profile is offered for a recipe only where files of TextAttack's own results are replayed by the tests (``OFFERED``).
Own rules are those of 0.3.11, except for the places that page lists.
"""

from __future__ import annotations

import logging
import re
import tempfile
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from robust_tickets.errors import TicketsError
from robust_tickets.resources.words import words as words_of

PREFIX = "ta-"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What differs between versions; the defaults are our own."""

    name: str | None = None  # the profile's name in results; none for our own

    # --- words
    keeps_endings: bool = (
        False  # the characters ' - _ * @ belong to a word they follow, not only to one they stand inside
    )
    segments: bool = False  # a text with a Chinese character is cut into words by jieba, the whole text
    # --- where a word stands
    searches: bool = False  # in windows and swaps a word is searched from left to right; what that may find instead counts (see literal)
    stuck: bool = False  # the search for a window starts at the last word's beginning, so "an" is found inside "banana"
    splits_blindly: bool = (
        False  # the mark <SPLIT> between columns may be taken for a word such as "I", and breaks when that is swapped
    )
    # --- the search
    ranks_all: bool = False  # every word is ranked, at a query each, also those that may not change
    cuts_gradient: bool = (
        True  # A2T takes the gradient of the text up to the last word it ranks, and ranks no more than fit the model
    )
    gathers: bool = (
        False  # a recipe of several transformations gathers the words to rank in one more set, whose order decides ties
    )
    doubles: bool = False  # a text that two transformations of a recipe make is asked about twice
    # --- resources and constraints
    stopwords: int = 179  # NLTK's English list: 179 words, or 198 since February 2025
    clamped: bool = True  # a cosine that rounding pushed beyond 1 counts as 1; otherwise it rejects the candidate
    masks_bare: bool = (
        False  # a masked language model that fills in a blank sees the text without the marks at its ends
    )
    masked_words: int = 48  # BERT-Attack's K: words the masked language model offers for a position


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
_4 = replace(_10, name="ta-0.3.4", segments=False, ranks_all=True, doubles=True, masks_bare=True)
PROFILES: Mapping[str, Rules] = {
    "ta-0.3.11": Rules(name="ta-0.3.11", segments=True, searches=True, stopwords=198, masked_words=8),
    "ta-0.3.10": _10,
    "ta-0.3.4": _4,
    "ta-0.3.0": replace(_4, name="ta-0.3.0", stuck=True),
}
OFFERED: Mapping[str, tuple[str, ...]] = {  # recipe -> profiles that golden files verify
    "a2t": ("ta-0.3.11", "ta-0.3.4"),
    "bertattack": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
    "bertattack_papers": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
    "deepwordbug": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
    "pwws": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
    "textbugger": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
    "textfooler": ("ta-0.3.11", "ta-0.3.10", "ta-0.3.4", "ta-0.3.0"),
}


def rules_of(compat: str | None, recipe: str) -> Rules:
    """The rules of a profile ("ta-0.3.4" or "0.3.4"), if it is verified for the recipe."""
    if compat is None:
        return OWN
    name = compat if compat.startswith(PREFIX) else PREFIX + compat
    offered = OFFERED.get(recipe, ())
    if name not in offered:
        said = ", ".join(offered) if offered else "none"
        raise TicketsError(
            f"{recipe} has no profile {compat!r} that was checked against TextAttack's own results; it has: {said}",
            hint="leave compat out for this package's own rules",
        )
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
            warnings.simplefilter(
                "ignore"
            )  # it imports setuptools' pkg_resources, where there is one, which warns of its end
            import jieba
    except ImportError as error:
        raise TicketsError(
            "the text holds Chinese characters, and this profile's TextAttack cuts such texts by jieba, which is not installed",
            hint='pip install "robust-tickets[chinese]"; or leave compat out: a run of Chinese characters is then one word',
        ) from error
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # it would read a cache of its own making from the shared folder for temporary files
        tokenizer.tmp_dir = folder
        tokenizer.initialize()
    return tokenizer


BETWEEN_COLUMNS = "\n"  # how two columns read as one text
MARK = "<SPLIT>"  # how TextAttack joins them while it swaps a word

Span = tuple[int, int, int]  # column, start, end


def pieces(text: str, rules: Rules) -> list[tuple[int, int]]:
    """The (start, end) of every word of a text alone."""
    if not (rules.segments and chinese(text)) or len(text) == 1:
        return words_of(text, rules.keeps_endings)
    found, at = [], 0
    for piece in cut(text):
        found += [(at + start, at + end) for start, end in words_of(piece, rules.keeps_endings)]
        at += len(piece)
    return found


def one_word(text: str, rules: Rules) -> bool:
    """Whether ``text`` holds exactly one word (it may carry punctuation besides)."""
    return len(pieces(text, rules)) == 1


def spans(columns: Sequence[str], rules: Rules) -> tuple[Span, ...]:
    """The (column, start, end) of every word; one Chinese character lets the words of all columns be cut by jieba."""
    if not (rules.segments and any(map(chinese, columns))):
        return tuple(
            (c, start, end) for c, part in enumerate(columns) for start, end in words_of(part, rules.keeps_endings)
        )
    found: list[Span] = []
    column = begin = 0
    for start, end in pieces(BETWEEN_COLUMNS.join(columns), rules):
        while start > begin + len(columns[column]):
            begin += len(columns[column]) + len(BETWEEN_COLUMNS)
            column += 1
        found.append((column, start - begin, end - begin))
    return tuple(found)


def astray(columns: Sequence[str], found: Sequence[Span], rules: Rules) -> bool:
    """Whether a search may end elsewhere than at the word, so that a swap in this text must be searched for."""
    if not rules.searches:
        return False
    if any(MARK in column for column in columns) or (rules.segments and any(map(chinese, columns))):
        return True
    last = 0
    for column, start, end in found if len(columns) > 1 else ():
        if column != last and columns[column][start:end] in MARK:
            return True
        last = column
    return False


def strange(new: str, rules: Rules) -> bool:
    """Whether what is put in may move the words around it."""
    if not rules.searches:
        return False
    if "SPLIT" in new or (rules.segments and chinese(new)):
        return True
    return rules.keeps_endings and new != "" and not pieces(new, rules)  # "a b" with "-" for b is "a-"


def swap(
    columns: Sequence[str], words: Sequence[str], modified: Collection[int], index: int, new: str, rules: Rules
) -> tuple[tuple[str, ...], set[int], list[int]]:
    """The columns with word ``index`` replaced, the indices that count as modified then, and those that just became so."""
    text = MARK.join(columns)
    done: list[str] = []
    newly: list[int] = []
    marked, at, place = set(modified), 0, 0  # place: up to where the text is done
    for i, word in enumerate(words):
        put = new if i == index else word
        start = _find(word, text, place, rules)
        before, place = text[place:start], start + len(word)
        count = len(pieces(put, rules))
        grown = 0 if i != index else count - len(pieces(word, rules))
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


def _find(word: str, text: str, place: int, rules: Rules) -> int:
    start = text.find(word, place)
    mark = text.find(MARK, place) if word in MARK and not rules.splits_blindly else -1
    if mark >= 0 and mark <= start < mark + len(MARK):
        past = text[place:].replace(MARK, "").find(word)
        start = place + past + len(MARK) if past >= 0 else -1
    if start < 0:
        raise TicketsError(
            f"{rules.name} itself fails on this text: it joins columns by {MARK} and then does not find the word {word!r}",
            hint="leave compat out for this package's own rules",
        )
    return start


def starts(text: str, words: Sequence[str], rules: Rules) -> list[int]:
    """Where every word begins, by searching the lower-cased text."""
    lower, found, after = text.lower(), [], 0
    for word in words:
        at = lower.find(word.lower(), after)
        after = at if rules.stuck else at + len(word)
        found.append(at)
    return found
