"""Two texts in one: changed words marked, and of a long text only the words near them.

The marks come from comparing the two texts word by word, not from the attack's own list of changes.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import groupby, takewhile
from typing import NamedTuple

LONG = 70  # words; a text up to that long is shown whole
NEAR = 20  # unchanged words shown on either side of a change
CLIP = 3000  # characters of one stretch of text; the file holds it whole
QUADRATIC = 1_000_000  # pairs of words above which the comparison takes short cuts
_WORDS = re.compile(r"[\w'’-]+|\s+|[^\w\s]")


class Piece(NamedTuple):
    """A stretch of a marked text: "", "del" or "ins", and the text so marked; ``fold``: the label under which it is folded away."""

    parts: list[tuple[str, str]]
    fold: str = ""


def opening(text: str) -> list[Piece]:
    """A text; of a long one only the beginning is unfolded."""
    tokens = _WORDS.findall(text)
    first, rest = "".join(tokens[: 2 * LONG]), "".join(tokens[2 * LONG :])
    return [Piece([("", _clip(first))]), *([Piece([("", _clip(rest))], "more")] if rest else [])]


def folded(before: str, after: str) -> list[Piece]:
    """``after`` with every changed word marked and what it replaced struck out before it; what is unchanged in a long text is folded."""
    runs, pieces, parts = _runs(_WORDS.findall(before), _WORDS.findall(after)), list[Piece](), list[tuple[str, str]]()
    for place, (same, old, new) in enumerate(runs):
        gone, come = "".join(old), "".join(new)
        if not same:
            parts += [("del", _clip(gone))] if gone.strip() else []
            parts += [("", " ")] if gone.strip() and come.strip() else []
            parts.append(("ins" if come.strip() else "", _clip(come)))
        elif len(new) <= 2 * LONG:  # a word and a space are two tokens
            parts.append(("", _clip(come)))
        else:
            start, end = 2 * NEAR * (place > 0), len(new) - 2 * NEAR * (place < len(runs) - 1)
            first, middle, last = ("".join(part) for part in (new[:start], new[start:end], new[end:]))
            fold = f"{len(middle.split())} words unchanged"
            pieces += [Piece([*parts, ("", first)]), Piece([("", _clip(middle))], fold)]
            parts = [("", last)]
    return [*pieces, Piece([part for part in parts if part[1]])]


def _clip(text: str) -> str:
    left = len(text) - CLIP
    return text if left <= 0 else f"{text[: CLIP // 2]} ⟨{left} characters left out⟩ {text[-CLIP // 2 :]}"


def _runs(old: list[str], new: list[str]) -> list[tuple[bool, list[str], list[str]]]:
    """Stretches of tokens of both texts, and whether they are the same."""
    if len(old) == len(new):  # word for word, the usual case; cheap and never shifted by a repeated word
        pairs = [list(pairs) for _, pairs in groupby(zip(old, new, strict=True), lambda pair: pair[0] == pair[1])]
        return [(run[0][0] == run[0][1], [a for a, _ in run], [b for _, b in run]) for run in pairs]
    head = _common(old, new)
    old, new = old[len(head) :], new[len(head) :]
    tail = _common(old[::-1], new[::-1])[::-1]
    old, new = old[: len(old) - len(tail)], new[: len(new) - len(tail)]
    codes = SequenceMatcher(a=old, b=new, autojunk=len(old) * len(new) > QUADRATIC).get_opcodes()
    middle = [(kind == "equal", old[a:b], new[c:d]) for kind, a, b, c, d in codes]
    return [run for run in [(True, head, head), *middle, (True, tail, tail)] if run[1] or run[2]]


def _common(old: list[str], new: list[str]) -> list[str]:
    """The tokens that both begin with."""
    return [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))]
