"""What a word is: the one rule that attacks, synonyms and checks share (TextAttack 0.3.11's, written anew).

A word is a maximal run of letters, digits and a few characters that may stand inside one, without those few at its ends. So "don't"
and "well-made" are one word, "U.S." is two, "'fine'" is "fine", and punctuation is none. Case is kept. TextAttack first cuts Chinese
text by a dictionary (jieba); here a run of CJK characters is one word, because no English resource knows such words anyway.
"""

from __future__ import annotations

import re
from functools import lru_cache

INSIDE = "'-_*@"  # may stand inside a word, not at its ends
# Look-alikes that TextBugger puts into words; most are letters, but ˗ ` and × would otherwise cut a bugged word in two.
HOMOGLYPHS = "˗৭Ȣ𝟕бƼᏎƷᒿlO`ɑЬϲԁе𝚏ɡհіϳ𝒌ⅼｍոорԛⲅѕ𝚝սѵԝ×уᴢ"

SHORT = 40  # characters; the words of a text up to this length are remembered

_RUN = re.compile(rf"[\w{re.escape(INSIDE + HOMOGLYPHS)}]+")


def words(text: str, endings: bool = False) -> list[tuple[int, int]]:
    """The (start, end) of every word of ``text``, in order.

    With ``endings`` the few characters belong to a word they follow too ("'fine'" is "fine'"), as in TextAttack until 0.3.10.
    """
    return list(_scanned(text, endings) if len(text) > SHORT else _remembered(text, endings))


@lru_cache(maxsize=1 << 16)  # an attack asks about the same few thousand candidates again and again
def _remembered(text: str, endings: bool) -> list[tuple[int, int]]:
    return _scanned(text, endings)


def _scanned(text: str, endings: bool) -> list[tuple[int, int]]:
    spans = []
    for run in _RUN.finditer(text):
        found = run.group()
        start = run.start() + len(found) - len(found.lstrip(INSIDE))
        end = run.end() if endings else run.end() - len(found) + len(found.rstrip(INSIDE))
        if start < end:
            spans.append((start, end))
    return spans


def stands_in_words(character: str) -> bool:
    """Whether a character may be part of a word."""
    return _RUN.match(character) is not None


def word_list(text: str) -> list[str]:
    """The words of ``text`` themselves."""
    return [text[start:end] for start, end in words(text)]


def is_one_word(text: str) -> bool:
    """Whether ``text`` holds exactly one word (it may carry punctuation besides)."""
    return len(words(text)) == 1


def like(word: str, new: str) -> str:
    """``new`` in the case of ``word``: all lower, ALL UPPER (from two letters on), Capitalised, or as it is."""
    if word.islower():
        return new.lower()
    if word.isupper() and len(word) > 1:
        return new.upper()
    if word[0].isupper() and word[1:].islower():
        return new.capitalize()
    return new
