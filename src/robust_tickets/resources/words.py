"""The word rule, stop words, and look-alike characters.

The word rule is the one that attacks, synonyms and checks share (TextAttack 0.3.11's, rewritten). A word is a maximal run of letters, digits
and a few characters that may stand inside one, without those few at its ends. So "don't" and "well-made" are one word, "U.S." is two,
"'fine'" is "fine", and punctuation is none. Case is kept. TextAttack first cuts Chinese text by a dictionary (jieba); here a run of CJK
characters is one word, because no English resource knows such words anyway.

Stop words are fixed data: what NLTK has changes under its users' feet (179 entries, 198 since February 2025). Both lists are lower case,
and the attacks compare case and all: "The" is no stop word.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files

SHORT = 40  # characters; the words of a text up to this length are remembered


def _file(name: str) -> str:
    return (files("robust_tickets.resources") / "files" / name).read_text(encoding="utf-8")


INSIDE = "'-_*@"  # may stand inside a word, not at its ends
# Characters that look like others: TextAttack's table of 38, for digits, lower-case letters, hyphen and apostrophe (see its notice).
# TextBugger puts them into words; most are letters, but ˗ ` and × would otherwise cut a bugged word in two.
LOOKALIKE = {line[0]: line[2] for line in _file("homoglyphs.txt").splitlines()}
HOMOGLYPHS = "".join(LOOKALIKE.values())
TEXTFOOLER = frozenset(_file("stopwords-textfooler.txt").split())  # 266, TextFooler's own list; see TEXTATTACK-NOTICE
NLTK = frozenset(_file("stopwords-nltk.txt").split())  # 179, NLTK's English list as the papers had it
_SINCE_2025 = """he'd he'll he's i'd i'll i'm i've it'd it'll she'd she'll they'd they'll they're they've we'd we'll we're we've"""
STOPWORDS = {"textfooler": TEXTFOOLER, "nltk-179": NLTK, "nltk-198": NLTK | frozenset(_SINCE_2025.split())}

_RUN = re.compile(rf"[\w{re.escape(INSIDE + HOMOGLYPHS)}]+")


def words(text: str, endings: bool = False) -> list[tuple[int, int]]:
    """The (start, end) of every word of ``text``, in order.

    With ``endings`` the few characters belong to a word they follow too ("'fine'" is "fine'"), as in TextAttack until 0.3.10.
    """
    return list((_scanned if len(text) > SHORT else _remembered)(text, endings))


def _scanned(text: str, endings: bool) -> list[tuple[int, int]]:
    spans = []
    for run in _RUN.finditer(text):
        found = run.group()
        start = run.start() + len(found) - len(found.lstrip(INSIDE))
        end = run.end() if endings else run.end() - len(found) + len(found.rstrip(INSIDE))
        if start < end:
            spans.append((start, end))
    return spans


_remembered = lru_cache(maxsize=1 << 16)(
    _scanned
)  # an attack asks about the same few thousand candidates again and again


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
