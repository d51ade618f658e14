"""A text under attack: its columns, where its words are, and which of them were changed.

All edits are span arithmetic: swapping a word never scans the text again, because a word's neighbours are never word characters, so
the words of the result are the old ones with the words of the replacement in the place of one (a property test holds this against a
full scan). ``swapped`` gives the bare strings of a candidate, ``replace`` the whole value, which only an accepted candidate needs.
TextAttack searches for words instead; where that ends elsewhere, its profiles take the long way (``Rules.swap``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from robust_tickets.attack.textattack_compat import BETWEEN_COLUMNS, OWN, Rules


@dataclass(frozen=True, slots=True)
class Text:
    """One or several columns read as one list of words."""

    columns: tuple[str, ...]
    spans: tuple[tuple[int, int, int], ...]  # (column, start, end) of every word
    words: tuple[str, ...]
    modified: frozenset[int] = frozenset()  # word indices changed so far
    sources: tuple[int, ...] = ()  # for every word, the index of the original word it stands for
    rules: Rules = OWN
    astray: bool = False  # whether span arithmetic would not agree with the rules' search for words

    @classmethod
    def of(cls, columns: str | Sequence[str], rules: Rules = OWN) -> Text:
        parts = (columns,) if isinstance(columns, str) else tuple(columns)
        spans = rules.spans(parts)
        words = tuple(parts[c][start:end] for c, start, end in spans)
        astray = rules.astray(parts, spans)
        return cls(parts, spans, words, sources=tuple(range(len(words))), rules=rules, astray=astray)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def joined(self) -> str:
        return BETWEEN_COLUMNS.join(self.columns)

    def per_column(self) -> list[int]:
        """How many words each column has, read alone."""
        return [len(self.rules.pieces(column)) for column in self.columns]

    def local(self, new: str) -> bool:
        """Whether putting in ``new`` for a word changes that word and nothing else, as it always does by our own rules."""
        return not self.astray and not self.rules.strange(new)

    def swapped(self, index: int, new: str) -> tuple[str, ...]:
        """The columns with word ``index`` replaced by ``new``."""
        return (self._cut if self.local(new) else self._search)(index, new)[0]

    def count(self, index: int, new: str) -> int:
        """How many words the text has with ``new`` for word ``index``."""
        if not self.local(new):
            return len(self.rules.spans(self._search(index, new)[0]))
        return len(self) + len(self.rules.pieces(new)) - 1

    def placed(self, index: int, new: str) -> list[tuple[int, str]]:
        """The words that ``new`` puts into the text in place of word ``index``, and where; more than one where it holds several."""
        if not self.local(new):
            columns, _, newly = self._search(index, new)
            words = Text.of(columns, self.rules).words
            return [(i, words[i]) for i in newly if i < len(words)]
        return [(index + k, new[start:end]) for k, (start, end) in enumerate(self.rules.pieces(new))]

    def replace(self, index: int, new: str) -> Text:
        """Word ``index`` replaced by ``new``, which may hold no word (a deletion), one, or several.

        The new words count as modified and the marks to their right move along. A deletion also takes one space with it: the one
        before the word, or the one after it for the first word; nothing where no text remains to the right.
        """
        words = len(self.rules.pieces(new))
        sources = self.sources[:index] + (self.sources[index],) * words + self.sources[index + 1 :]
        if not self.local(new):
            columns, modified, _ = self._search(index, new)
            found = Text.of(columns, self.rules)
            known = (*sources, *(self.sources[-1:] * len(found)))  # the text may have come apart: a best guess then
            return dataclasses.replace(found, modified=frozenset(modified), sources=known[: len(found)])
        columns, begin, inner = self._cut(index, new)
        column = self.spans[index][0]
        shift = len(columns[column]) - len(self.columns[column])
        inside = tuple((column, begin + a, begin + b) for a, b in inner)
        after = tuple((c, a + shift, b + shift) if c == column else (c, a, b) for c, a, b in self.spans[index + 1 :])
        spans = self.spans[:index] + inside + after
        grown = len(inner) - 1  # by how many words the text grows
        kept = {m if m < index else m + grown for m in self.modified if m != index}
        return Text(
            columns,
            spans,
            self.words[:index] + tuple(new[a:b] for a, b in inner) + self.words[index + 1 :],
            frozenset(kept) | frozenset(range(index, index + len(inner))),
            sources,
            self.rules,
            self.rules.astray(columns, spans),
        )

    def _search(self, index: int, new: str) -> tuple[tuple[str, ...], set[int], list[int]]:
        return self.rules.swap(self.columns, self.words, self.modified, index, new)

    def _cut(self, index: int, new: str) -> tuple[tuple[str, ...], int, list[tuple[int, int]]]:
        """The columns with the word swapped, where ``new`` begins in its column, and its words' spans in it."""
        column, start, end = self.spans[index]
        text, inner = self.columns[column], self.rules.pieces(new)
        left_cut = right_cut = 0
        # "to the right" is the rest of all columns: the mark between two columns counts as text
        if not inner and (end < len(text) or column + 1 < len(self.columns)):
            if index == 0:
                right_cut = int(text.startswith(" ", end))
            else:
                left_cut = int(start > 0 and text[start - 1] == " ")
        changed = text[: start - left_cut] + new + text[end + right_cut :]
        return (*self.columns[:column], changed, *self.columns[column + 1 :]), start - left_cut, inner

    def window(self, index: int, size: float) -> str:
        """The text from the first to the last of ``size`` words around word ``index``; ``math.inf`` takes all words.

        Punctuation outside the first and the last word is cut off. Near an end the window moves inwards instead of shrinking.
        """
        first, last = _ends(len(self.words), index, size)
        if self.rules.searches_windows(self.columns):
            starts = self.rules.starts(self.joined, self.words[: last + 1])
            return self.joined[starts[first] : starts[last] + len(self.words[last])]
        return _between(self.columns, self.spans[first], self.spans[last])

    def window_with(self, index: int, new: str, around: int, size: float) -> str:
        """``replace(index, new).window(around, size)``, at a cost that does not grow with the number of words."""
        columns, begin, inner = self._cut(index, new)
        if not self.local(new) or self.rules.searches_windows(columns):
            return self.replace(index, new).window(around, size)
        column = self.spans[index][0]
        shift = len(columns[column]) - len(self.columns[column])

        def span(place: int) -> tuple[int, int, int]:
            if place < index:
                return self.spans[place]
            if place < index + len(inner):
                start, end = inner[place - index]
                return column, begin + start, begin + end
            c, start, end = self.spans[place - len(inner) + 1]
            return (c, start + shift, end + shift) if c == column else (c, start, end)

        first, last = _ends(len(self) + len(inner) - 1, around, size)
        return _between(columns, span(first), span(last))


def _ends(count: int, index: int, size: float) -> tuple[int, int]:
    """The first and the last of ``size`` words around word ``index`` of ``count``."""
    half = (size - 1) / 2
    if index - half < 0:
        return 0, int(min(size - 1, count - 1))
    if index + half >= count:
        return int(max(0, count - size)), count - 1
    return index - math.ceil(half), index + math.floor(half)


def _between(columns: Sequence[str], first: tuple[int, int, int], last: tuple[int, int, int]) -> str:
    """From the beginning of one span to the end of another, columns read as one text."""
    (c, start, _), (d, _, end) = first, last
    if c == d:
        return columns[c][start:end]
    return BETWEEN_COLUMNS.join((columns[c][start:], *columns[c + 1 : d], columns[d][:end]))


def words_changed(original: Text, other: Text) -> int:
    """At how many word positions the two differ, up to the shorter one (TextAttack's count)."""
    return sum(a != b for a, b in zip(original.words, other.words, strict=False))


def marks(original: Text, other: Text) -> list[dict[str, object]]:
    """What a reader should see marked: every original word that was replaced, by what, and where that stands in ``other``."""
    if len(other.columns) != len(original.columns):  # a profile's swap broke the columns: nothing stands where it stood
        return [{"column": 0, "old": original.joined, "new": other.joined, "start": 0, "end": len(other.joined)}]
    spans: dict[int, tuple[int, int]] = {}  # of an original word: where what stands for it begins and ends
    for (_, start, end), source in zip(other.spans, other.sources, strict=True):
        spans[source] = spans.get(source, (start, end))[0], end
    changed: list[dict[str, object]] = []
    at = [0] * len(original.columns)  # where the text continues after the last word seen, per column
    for source, old in enumerate(original.words):
        column = original.spans[source][0]
        start, end = spans.get(source, (at[column], at[column]))
        new = other.columns[column][start:end]
        if new != old:
            changed.append({"column": column, "old": old, "new": new, "start": start, "end": end})
        at[column] = end
    return changed
