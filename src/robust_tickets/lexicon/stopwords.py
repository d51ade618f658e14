"""Stop words that attacks leave alone, as fixed data: what NLTK has changes under its users' feet (179 entries, 198 since February 2025).

Both lists are lower case, and the attacks compare case and all: "The" is no stop word.
"""

from __future__ import annotations

from importlib.resources import files


def _read(name: str) -> frozenset[str]:
    return frozenset((files("robust_tickets.lexicon") / name).read_text(encoding="utf-8").split())


TEXTFOOLER = _read("stopwords-textfooler.txt")  # 266, TextFooler's own list; see TEXTATTACK-NOTICE
NLTK = _read("stopwords-nltk.txt")  # 179, NLTK's English list as the papers had it
_SINCE_2025 = """he'd he'll he's i'd i'll i'm i've it'd it'll she'd she'll they'd they'll they're they've we'd we'll we're we've"""
_NLTK = {179: NLTK, 198: NLTK | frozenset(_SINCE_2025.split())}


def nltk(count: int) -> frozenset[str]:
    """NLTK's English list as it was when it had ``count`` words: 179, or 198."""
    return _NLTK[count]
