"""Constraints: which words may change at all, and which candidates pass. Each is registered by the name at the end of the file.

Attacks name their own; further ones are given by the setting ``constraints`` (see ``attack.components`` for what one may do).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from robust_tickets.attack.components import Candidate, Constraint, WordConstraint
from robust_tickets.attack.example import Encode, ExampleState, Steps
from robust_tickets.attack.services import Encoder
from robust_tickets.attack.text import Text, words_changed
from robust_tickets.config import resource, setting
from robust_tickets.errors import TicketsError
from robust_tickets.resources.vectors import Vectors, WordLists
from robust_tickets.resources.words import STOPWORDS

# --- words that may change; how a set is made decides its order, and that decides ties of the ranking, as in TextAttack


@dataclass(frozen=True)
class NoRepeat(WordConstraint):
    """Each word changes at most once."""

    def allowed(self, example: ExampleState, text: Text) -> set[int]:
        return set(range(len(text))) - text.modified

    def describe(self) -> str:
        return "each word is changed at most once"


@dataclass(frozen=True)
class NoStopwords(WordConstraint):
    """``words``: which list. The test is case-sensitive, as TextAttack's is: "The" may change, "the" may not."""

    words: Literal["nltk-179", "nltk-198", "textfooler"] = "nltk-179"

    def allowed(self, example: ExampleState, text: Text) -> set[int]:
        stop, found = STOPWORDS[self.words], set[int]()
        for index, word in enumerate(text.words):
            if word not in stop:
                found.add(index)
        return found

    def may_change(self, word: str) -> bool:
        return word not in STOPWORDS[self.words]

    def describe(self) -> str:
        name = "TextFooler's list" if self.words == "textfooler" else "NLTK's English list"
        return f"stop words stay: {name} ({len(STOPWORDS[self.words])})"


@dataclass(frozen=True)
class KeepColumn(WordConstraint):
    """Where the columns are called exactly ``columns``, the one called ``kept`` stays; under any other names all may change."""

    columns: tuple[str, ...]
    kept: str

    def allowed(self, example: ExampleState, text: Text) -> set[int]:
        if example.column_names[: len(text.columns)] != self.columns:  # a profile's swap may have broken the columns
            return set(range(len(text)))
        found: set[int] = set()
        first = 0
        for name, count in zip(self.columns, text.per_column(), strict=True):
            if name != self.kept:
                found |= set(range(first, first + count))
            first += count
        return found

    def describe(self) -> str:
        return f"with columns {' and '.join(self.columns)}, {self.kept} stays"


@dataclass(frozen=True)
class ShareModified(WordConstraint):
    """At most ``share`` of the words change (rounded up), but ``least`` in any case."""

    share: float = setting(0.1, at_least=0, at_most=1)
    least: int = setting(4, at_least=1)

    def allowed(self, example: ExampleState, text: Text) -> set[int]:
        most = max(math.ceil(len(text) * self.share), self.least)
        return set() if len(text.modified) >= most else set(range(len(text)))

    def describe(self) -> str:
        return f"at most {self.share:.0%} of the words change (rounded up), or {self.least} where that is more"


# --- candidates that pass


@dataclass(frozen=True)
class ShareChanged(Constraint):
    """Words that differ from the original, one by one up to the shorter text's end, are at most ``share`` of them, rounded up."""

    share: float = setting(0.4, above=0, at_most=1)

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> list[Candidate]:
        original, before, kept = example.original, words_changed(example.original, current), []
        for candidate in candidates:
            placed, index = candidate.placed(), candidate.index
            if len(placed) == 1 and index < len(original) and candidate.local:
                word = original.words[index]
                changed = before - (candidate.base.words[index] != word) + (placed[0][1] != word)
            else:  # words behind it move, or have no counterpart
                changed = words_changed(original, candidate.text)
            if changed <= math.ceil(min(candidate.count(), len(original)) * self.share):
                kept.append(candidate)
        return kept

    def describe(self) -> str:
        return f"at most {self.share:.0%} of the words differ from the original (rounded up)"


@dataclass(frozen=True)
class WordCosine(Constraint):
    """Cosine of the words' vectors at least ``least``, against the original text; a pair with an unknown word passes, and all of lists do.

    A replacement without any word is refused: there is nothing to compare.
    """

    vectors: Vectors | WordLists = resource()
    least: float = setting(0.5, at_least=-1, at_most=1)

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> list[Candidate]:
        return [candidate for candidate in candidates if self._passes(example.original.words, candidate.placed())]

    def _passes(self, original: tuple[str, ...], placed: list[tuple[int, str]]) -> bool:
        for index, word in placed:
            if index >= len(original):
                return False
            cosine = self.vectors.cosine(original[index].lower(), word.lower())
            if cosine is not None and cosine < self.least:
                return False
        return bool(placed)

    def describe(self) -> str:
        if isinstance(self.vectors, WordLists):
            return "word vectors: no cosine is known of lists of words, so that every listed word is near enough"
        return f"word vectors: cosine with the original word at least {self.least}"


BEFORE, AFTER = 4, 3  # words of context the tagger sees
SWAPPABLE = {"NOUN", "VERB"}


@dataclass(frozen=True)
class SamePartOfSpeech(Constraint):
    """Equal universal tags in the context of the original text, or (``swap``) a noun for a verb and the other way round.

    A word's tag is the one at its *first* occurrence in the context, as TextAttack has it.
    """

    tagger: Callable[[list[str]], Sequence[str]] = resource()
    swap: bool = True

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> list[Candidate]:
        words = example.original.words
        known: dict[int, str] = {}  # the original words' tags: all candidates of a word share one
        return [each for each in candidates if all(self._passes(words, known, *pair) for pair in each.placed())]

    def _passes(self, original: tuple[str, ...], known: dict[int, str], index: int, word: str) -> bool:
        if index >= len(original):
            return False
        if index not in known:
            known[index] = self._tag(original, index, original[index])
        old, new = known[index], self._tag(original, index, word)
        return old == new or (self.swap and {old, new} == SWAPPABLE)

    def _tag(self, original: tuple[str, ...], index: int, word: str) -> str:
        context = [*original[max(0, index - BEFORE) : index], word, *original[index + 1 : index + 1 + AFTER]]
        place = context.index(word)
        at = getattr(self.tagger, "at", None)  # a tagger of ours need not tag what follows
        tag: str = self.tagger(context)[place] if at is None else at(context, place)
        return tag

    def describe(self) -> str:
        return "part of speech: as in the original text" + (", or noun for verb and verb for noun" if self.swap else "")


@dataclass(frozen=True)
class EditDistance(Constraint):
    """At most ``most`` edits (Levenshtein's) between the candidate and the original text; columns count as one text with line breaks.

    The whole distance is rarely computed: a candidate differs from the current text in one word, so the current text's distance plus
    that word's is an upper bound, and mostly far enough below the limit.
    """

    most: int = setting(30, at_least=0, hint="DeepWordBug's paper has 30")

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> list[Candidate]:
        original = example.original.joined
        before = example.kept_of(self, current, lambda: distance(original, current.joined, self.most))
        return [candidate for candidate in candidates if self._passes(original, candidate, before)]

    def _passes(self, original: str, candidate: Candidate, before: int | None) -> bool:
        if before is not None and candidate.local:
            room = self.most - before - (not candidate.placed())  # a word that goes may take a space with it
            if room >= 0 and distance(candidate.base.words[candidate.index], candidate.new, room) is not None:
                return True
        return distance(original, candidate.key, self.most) is not None

    def describe(self) -> str:
        return f"at most {self.most} character edits (Levenshtein) from the original text"


STRIDE = 64  # characters compared at once
NOWHERE = -(2**40)  # a diagonal that is out of reach so far


def distance(a: str, b: str, most: int) -> int | None:
    """Levenshtein's distance, none where it is above ``most``: two swapped neighbours cost 2.

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
    end, shift = min(len(a), i + len(b) - j), j - i
    while i + STRIDE <= end and a[i : i + STRIDE] == b[i + shift : i + shift + STRIDE]:
        i += STRIDE
    while i < end and a[i] == b[i + shift]:
        i += 1
    return i


# --- the meaning, by a sentence encoder


Pair = tuple[Candidate, tuple[str, str]]  # and the two windows to compare
Known = dict[str, tuple[np.ndarray, bool]]  # by text: the encoder's vector, and whether it was encoded alone


@dataclass(frozen=True)
class SentenceSimilarity(Constraint):
    """Similarity of two windows around the changed word at least ``least``: the candidate's, and the original or the current text's.

    The metric is the cosine, or the angular similarity 1 - angle/π. Without a ``window`` (in words) it is the whole text from its first
    to its last word. With ``skip_short`` a candidate of fewer words than the window passes with similarity 1 and is not encoded. A
    candidate whose replacement holds no word is refused: there is no changed word to look around.

    The similarity is computed in the encoder's own precision and by the operations TextAttack uses, because its rounding shows: where
    the rules do not clamp a cosine, rounding beyond 1 leaves no angle, and the candidate is refused. As with scores (see ``example``), a
    cosine too near to a limit for a batch to decide is measured again with every window encoded alone.
    """

    least: float = setting(
        0.8,
        at_least=-1,
        at_most=1,
        hint="TextAttack has 0.8 on whole texts for TextBugger, 0.840845057 in 15 words for TextFooler (both angular)",
    )
    window: int | None = setting(None, at_least=1)
    metric: Literal["angular", "cosine"] = "angular"
    reference: Literal["original", "current"] = "original"
    skip_short: bool = False
    encoder: Callable[[list[str]], Any] = resource()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric == "angular" and self.least < 0:
            message = f"an angular similarity is from 0 to 1, got {self.least}"
            raise TicketsError(message, hint="raise least, or set the metric to cosine", code="settings.limit")

    def services(self) -> Mapping[str, Encoder]:
        return {"encoder": Encoder(self.encoder)}

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> Steps:
        against = example.original if self.reference == "original" else current
        size = math.inf if self.window is None else self.window
        known: Known = example.kept(self, dict)
        whole = self.window is None and self.reference == "original" and len(example.original) > 0
        wanted = example.original.window(0, math.inf) if whole else ""  # every time; the others are around another word
        for text in known.keys() - {wanted}:
            del known[text]
        worded, pairs = [], list[Pair]()
        for candidate in candidates:
            if placed := candidate.placed():
                worded.append(candidate)
                candidate.cosine, candidate.likeness, candidate.sharpen = 1.0, 1.0, None
                if not (self.skip_short and candidate.count() < size):
                    # TextAttack takes whichever of the new words its set yields first, which need not be the leftmost
                    around = next(iter({index for index, _ in placed}))
                    pairs.append((candidate, (against.window(around, size), candidate.window(around, size))))
        yield from self._measure(example, pairs)
        for candidate, pair in pairs:
            candidate.sharpen = partial(self._measure, example, [(candidate, pair)], alone=True)
            if self._close(example, candidate):
                yield from candidate.sharpen()
        return [each for each in worded if each.likeness is not None and each.likeness >= self.least]  # NaN: no

    def _measure(self, example: ExampleState, pairs: Sequence[Pair], *, alone: bool = False) -> Steps:
        """In the precision of the vectors, operation by operation as TextAttack does it. No pair depends on the others."""
        if not pairs:
            return
        import torch

        known: Known = example.kept(self, dict)
        texts = dict.fromkeys(text for _, pair in pairs for text in pair)
        wanted = [text for text in texts if text not in known or (alone and not known[text][1])]
        if wanted:
            for text, row in zip(wanted, (yield Encode(wanted, alone)), strict=True):
                known[text] = row if row.dtype == np.float64 else row.astype(np.float32), alone
        ours, theirs = (torch.from_numpy(np.stack([known[pair[side]][0] for _, pair in pairs])) for side in (0, 1))
        cosines = torch.nn.functional.cosine_similarity(ours, theirs, dim=1)
        alike = example.rules.angular(cosines) if self.metric == "angular" else cosines
        for (candidate, _), cosine, value in zip(pairs, cosines.tolist(), alike.tolist(), strict=True):
            candidate.cosine, candidate.likeness = min(1.0, max(-1.0, cosine)), value

    def _close(self, example: ExampleState, candidate: Candidate) -> bool:
        """Whether a batch may have moved the cosine across a limit."""
        limits = example.rules.angular_limits(self.least) if self.metric == "angular" else [self.least]
        cosine, noise = candidate.cosine, example.vector_noise
        return cosine is not None and any(abs(cosine - limit) <= noise for limit in limits)

    def describe(self) -> str:
        where = "over the whole text" if self.window is None else f"in a window of {self.window} words"
        short = ", shorter texts pass" if self.skip_short and self.window is not None else ""
        return f"sentence encoder: {self.metric} similarity with the {self.reference} text at least {self.least} {where}{short}"


REGISTERED = {
    "edit_distance": EditDistance,
    "keep_column": KeepColumn,
    "no_repeat": NoRepeat,
    "no_stopwords": NoStopwords,
    "part_of_speech": SamePartOfSpeech,
    "sentence_similarity": SentenceSimilarity,
    "share_changed": ShareChanged,
    "share_modified": ShareModified,
    "word_cosine": WordCosine,
}
