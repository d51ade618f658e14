"""Two texts side by side in one: changed words marked, and of a long text only the sentences around them.

The marks come from comparing the two texts word by word, not from the attack's own list of changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby

LONG = 70  # words; a text up to that long is shown whole
CONTEXT = 1  # unchanged sentences shown on either side of a changed one
RUN_ON = 40  # words after which a sentence without an end is cut
CLIP = 3000  # characters of one stretch of text; the file holds it whole
QUADRATIC = 1_000_000  # pairs of words above which the comparison takes short cuts
_WORDS = re.compile(r"[\w'’-]+|\s+|[^\w\s]")
_END, _WIDE_END = frozenset(".!?…"), frozenset("。！？")

Part = tuple[bool, str, str]  # whether nothing changed, the old words, the new words
Marked = tuple[str, str]  # "", "del" or "ins", and the text so marked


@dataclass
class Sentence:
    """Parts of both texts up to an end of a sentence they share."""

    parts: list[Part] = field(default_factory=list)
    words: int = 0

    @property
    def changed(self) -> bool:
        return any(not same and (old.strip() or new.strip()) for same, old, new in self.parts)


@dataclass(frozen=True)
class Piece:
    """A stretch of a marked text; ``fold``: the label under which it is folded away."""

    parts: list[Marked]
    fold: str = ""


def marked(before: str, after: str) -> list[Piece]:
    """``after`` with every changed word marked and what it replaced struck out before it."""
    return [_piece(list(sentences(before, after)))]


def folded(before: str, after: str) -> list[Piece]:
    """``marked``, with unchanged sentences of a long text folded away."""
    found = list(sentences(before, after))
    near = {k for i, sentence in enumerate(found) if sentence.changed for k in range(i - CONTEXT, i + CONTEXT + 1)}
    return _pieces(found, near, "unchanged", len(after))


def opening(text: str) -> list[Piece]:
    """A text; of a long one only the beginning is unfolded."""
    return _pieces(list(sentences(text, text)), {0, 1}, "more", len(text))


def _pieces(found: list[Sentence], shown: set[int], what: str, size: int) -> list[Piece]:
    if sum(sentence.words for sentence in found) <= LONG and size <= CLIP:
        return [_piece(found)]
    pieces = []
    for near, group in groupby(range(len(found)), lambda i: i in shown):
        some = [found[i] for i in group]
        pieces.append(_piece(some, "" if near else f"{len(some)} sentence{'s' if len(some) > 1 else ''} {what}"))
    return pieces


def _piece(found: Sequence[Sentence], fold: str = "") -> Piece:
    parts: list[Marked] = []
    for same, gone, come in (part for sentence in found for part in sentence.parts):
        if same:
            parts.append(("", _clip(come)))
            continue
        parts += [("del", _clip(gone))] if gone.strip() else []
        parts += [("", " ")] if gone.strip() and come.strip() else []
        parts.append(("ins", _clip(come)) if come.strip() else ("", come))
    return Piece(parts, fold)


def sentences(before: str, after: str) -> Iterator[Sentence]:
    """Both texts cut at the ends of sentences; cuts are only where they agree."""
    current, last = Sentence(), ""
    for same, old, new in _runs(_WORDS.findall(before), _WORDS.findall(after)):
        if not same:
            current.parts.append((False, "".join(old), "".join(new)))
            current.words += sum(token[0].isalnum() for token in new)
            last = new[-1] if new else last
            continue
        start = 0
        for i, token in enumerate(new):
            current.words += token[0].isalnum()
            gap = token.isspace() and (last in _END or "\n" in token or current.words >= RUN_ON)
            last = token
            if gap or token in _WIDE_END:
                whole = "".join(new[start : i + 1])
                current.parts.append((True, whole, whole))
                yield current
                current, start = Sentence(), i + 1
        if start < len(new):
            whole = "".join(new[start:])
            current.parts.append((True, whole, whole))
    if current.parts:
        yield current


def _clip(text: str) -> str:
    left = len(text) - CLIP
    return text if left <= 0 else f"{text[: CLIP // 2]} ⟨{left} characters left out⟩ {text[-CLIP // 2 :]}"


def _runs(old: list[str], new: list[str]) -> list[tuple[bool, list[str], list[str]]]:
    if len(old) == len(new):  # word for word, the usual case; cheap and never shifted by a repeated word
        return [(a == b, [a], [b]) for a, b in zip(old, new, strict=True)]
    head = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - head
    tail = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    long = len(inner_old) * len(inner_new) > QUADRATIC
    codes = SequenceMatcher(a=inner_old, b=inner_new, autojunk=long).get_opcodes()
    middle = [(kind == "equal", inner_old[a:b], inner_new[c:d]) for kind, a, b, c, d in codes]
    begin, end = old[:head], old[len(old) - tail :]
    return [part for part in [(True, begin, begin), *middle, (True, end, end)] if part[1] or part[2]]
