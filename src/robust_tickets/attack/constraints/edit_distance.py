"""A candidate may be only so many character edits away from the original text.

The distance is Levenshtein's: insertions, deletions and substitutions of one character, so that two swapped neighbours cost 2. Columns
count as one text with a line break between them. The whole distance is rarely computed: a candidate differs from the current text in one
word, so the current text's distance plus that word's is an upper bound, and mostly far enough below the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.attack.components import Candidate, Constraint
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.text import Text
from robust_tickets.config import setting

STRIDE = 64  # characters compared at once
NOWHERE = -(2**40)  # a diagonal that is out of reach so far


@dataclass(frozen=True)
class EditDistance(Constraint):
    """At most ``most`` edits between the candidate and the original text."""

    most: int = setting(30, at_least=0, hint="DeepWordBug's paper has 30")

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> list[Candidate]:
        last = example.kept(self, _Edits)
        if last.text is not current:
            found = distance(example.original.joined, current.joined, self.most)
            last.text, last.count = current, self.most + 1 if found is None else found
        return [candidate for candidate in candidates if self._passes(example, candidate, last.count)]

    def _passes(self, example: ExampleState, candidate: Candidate, before: int) -> bool:
        room = self.most - before - (not candidate.placed())  # a word that goes may take a space with it
        if (
            room >= 0
            and candidate.local
            and distance(candidate.base.words[candidate.index], candidate.new, room) is not None
        ):
            return True
        return distance(example.original.joined, candidate.key, self.most) is not None

    def describe(self) -> str:
        return f"at most {self.most} character edits (Levenshtein) from the original text"


@dataclass(slots=True)
class _Edits:
    """The last text whose edits from the original were counted, and how many they are."""

    text: Text | None = None
    count: int = 0


def distance(a: str, b: str, most: int) -> int | None:
    """Levenshtein's distance, none where it is above ``most``.

    Ukkonen (1985): with every further edit, how far along each diagonal can the two be matched? A diagonal is how many more characters of
    ``b`` than of ``a`` are used up. Takes most² steps, however long the texts.
    """
    ends = len(b) - len(a)  # the diagonal of the answer
    if abs(ends) > most:
        return None
    middle, size = most + 1, len(a)
    reached = [NOWHERE] * (2 * most + 3)  # characters of a used up; diagonal 0 is in the middle
    reached[middle] = _along(a, 0, b, 0)
    for edits in range(most + 1):
        if reached[middle + ends] == size:
            return edits
        left = most - edits - 1  # edits after the next one
        after = [NOWHERE] * len(reached)
        for diagonal in range(max(-edits - 1, ends - left), min(edits + 1, ends + left) + 1):
            at = middle + diagonal
            start = reached[at] if reached[at] > reached[at + 1] else reached[at + 1]
            start = start + 1 if start >= reached[at - 1] else reached[at - 1]  # substitution or deletion; insertion
            if start >= size or start + diagonal >= len(b):
                after[at] = min(size, len(b) - diagonal)
            elif start >= 0 and start + diagonal >= 0:
                after[at] = start if a[start] != b[start + diagonal] else _along(a, start, b, start + diagonal)
        reached = after
    return None


def _along(a: str, i: int, b: str, j: int) -> int:
    """How far ``a`` from ``i`` on equals ``b`` from ``j`` on: the first place in ``a`` that does not, or its end."""
    end = min(len(a), i + len(b) - j)
    shift = j - i
    while i + STRIDE <= end and a[i : i + STRIDE] == b[i + shift : i + shift + STRIDE]:
        i += STRIDE
    while i < end and a[i] == b[i + shift]:
        i += 1
    return i


REGISTERED = EditDistance
