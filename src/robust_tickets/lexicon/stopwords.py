"""Stop words that attacks leave alone, as fixed data: what NLTK has changes under its users' feet (179 entries, 198 since February 2025).

Both lists are lower case, and the attacks compare case and all: "The" is no stop word.
"""

from __future__ import annotations

from importlib.resources import files


def _read(name: str) -> frozenset[str]:
    return frozenset((files("robust_tickets.lexicon") / name).read_text(encoding="utf-8").split())


TEXTFOOLER = _read("stopwords-textfooler.txt")  # 266, TextFooler's own list; see TEXTATTACK-NOTICE
NLTK = _read("stopwords-nltk.txt")  # 179, NLTK's English list as the papers had it
