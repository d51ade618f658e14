"""A text under attack: its columns, where its words are, and which of them were changed.

All edits are span arithmetic: swapping a word never scans the text again, because a word's neighbours are never word characters, so
the words of the result are the old ones with the words of the replacement in the place of one (a property test holds this against a
full scan). ``swapped`` gives the bare strings of a candidate, ``replace`` the whole value, which only an accepted candidate needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from robust_tickets.lexicon.words import words as spans_of

BETWEEN_COLUMNS = "\n"  # how two columns read as one text


@dataclass(frozen=True, slots=True)
class Text:
    """One or several columns read as one list of words."""

    columns: tuple[str, ...]
    spans: tuple[tuple[int, int, int], ...]  # (column, start, end) of every word
    words: tuple[str, ...]
    modified: frozenset[int] = frozenset()  # word indices changed so far
    sources: tuple[int, ...] = ()  # for every word, the index of the original word it stands for

    @classmethod
    def of(cls, columns: str | Sequence[str]) -> Text:
        parts = (columns,) if isinstance(columns, str) else tuple(columns)
        spans = tuple((c, start, end) for c, part in enumerate(parts) for start, end in spans_of(part))
        words = tuple(parts[c][start:end] for c, start, end in spans)
        return cls(parts, spans, words, sources=tuple(range(len(words))))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def joined(self) -> str:
        return BETWEEN_COLUMNS.join(self.columns)

    def swapped(self, index: int, new: str) -> tuple[str, ...]:
        """The columns with word ``index`` replaced by ``new``."""
        return self._cut(index, new, bool(spans_of(new)))[0]

    def replace(self, index: int, new: str) -> Text:
        """Word ``index`` replaced by ``new``, which may hold no word (a deletion), one, or several.

        The new words count as modified and the marks to their right move along. A deletion also takes one space with it: the one
        before the word, or the one after it for the first word; nothing where no text remains to the right.
        """
        inner = spans_of(new)
        grown = len(inner) - 1  # by how many words the text grows
        columns, begin = self._cut(index, new, bool(inner))
        column = self.spans[index][0]
        shift = len(columns[column]) - len(self.columns[column])
        before = self.spans[:index]
        inside = tuple((column, begin + a, begin + b) for a, b in inner)
        after = tuple((c, a + shift, b + shift) if c == column else (c, a, b) for c, a, b in self.spans[index + 1 :])
        kept = {m if m < index else m + grown for m in self.modified if m != index}
        return Text(
            columns,
            before + inside + after,
            self.words[:index] + tuple(new[a:b] for a, b in inner) + self.words[index + 1 :],
            frozenset(kept) | frozenset(range(index, index + len(inner))),
            self.sources[:index] + (self.sources[index],) * len(inner) + self.sources[index + 1 :],
        )

    def _cut(self, index: int, new: str, has_word: bool) -> tuple[tuple[str, ...], int]:
        """The columns with the word swapped, and where ``new`` begins in its column."""
        column, start, end = self.spans[index]
        text = self.columns[column]
        left_cut = right_cut = 0
        # "to the right" is the rest of all columns: the mark between two columns counts as text
        if not has_word and (end < len(text) or column + 1 < len(self.columns)):
            if index == 0:
                right_cut = int(text.startswith(" ", end))
            else:
                left_cut = int(start > 0 and text[start - 1] == " ")
        changed = text[: start - left_cut] + new + text[end + right_cut :]
        return (*self.columns[:column], changed, *self.columns[column + 1 :]), start - left_cut

    def window(self, index: int, size: float) -> str:
        """The text from the first to the last of ``size`` words around word ``index``; ``math.inf`` takes all words.

        Punctuation outside the first and the last word is cut off. Near an end the window moves inwards instead of shrinking.
        """
        count = len(self.words)
        half = (size - 1) / 2
        if index - half < 0:
            first, last = 0.0, min(size - 1, count - 1)
        elif index + half >= count:
            first, last = max(0, count - size), count - 1
        else:
            first, last = index - math.ceil(half), index + math.floor(half)
        offsets = [0]
        for column in self.columns[:-1]:
            offsets.append(offsets[-1] + len(column) + len(BETWEEN_COLUMNS))
        (c, start, _), (d, _, end) = self.spans[int(first)], self.spans[int(last)]
        return self.joined[offsets[c] + start : offsets[d] + end]


def words_changed(original: Text, other: Text) -> int:
    """At how many word positions the two differ, up to the shorter one (TextAttack's count)."""
    return sum(a != b for a, b in zip(original.words, other.words, strict=False))


def marks(original: Text, other: Text) -> list[dict[str, object]]:
    """What a reader should see marked: every original word that was replaced, by what, and where that stands in ``other``."""
    found: dict[int, list[int]] = {}
    for position, source in enumerate(other.sources):
        found.setdefault(source, []).append(position)
    changed: list[dict[str, object]] = []
    at = [0] * len(original.columns)  # where the text continues after the last word seen, per column
    for source, old in enumerate(original.words):
        column = original.spans[source][0]
        places = found.get(source, [])
        if places:
            start, end = other.spans[places[0]][1], other.spans[places[-1]][2]
        else:
            start = end = at[column]
        new = other.columns[column][start:end]
        if new != old:
            changed.append({"column": column, "old": old, "new": new, "start": start, "end": end})
        at[column] = end
    return changed
