"""Transformations: what may stand in a word's place. Each is registered by the name at the end of the file."""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from robust_tickets.attack.components import Transformation
from robust_tickets.attack.example import ExampleState, Fill, Steps
from robust_tickets.attack.services import MASKED_NOISE, Filled, Masked
from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import BETWEEN_COLUMNS, OWN, Rules, chinese
from robust_tickets.classifier.encode import clean
from robust_tickets.config import resource, setting
from robust_tickets.errors import TicketsError
from robust_tickets.resources import wordnet
from robust_tickets.resources.masked_lm import CONTINUES, MaskedModel
from robust_tickets.resources.vectors import Vectors, WordLists
from robust_tickets.resources.words import INSIDE, LOOKALIKE, like, stands_in_words

LONGEST = (
    2_000  # characters of a word that gets look-alikes: as many candidates of as many characters, 4 MB at the most
)


@dataclass(frozen=True)
class CharacterEdit(Transformation):
    """A character inserted, deleted or substituted, or two neighbouring ones swapped; ``letters`` are those that may be put in.

    A word of one letter is left alone. ``inner`` keeps an edit away from the first and the last character. Each draws first the place,
    then, where it needs one, the letter, as TextAttack does; a word too short for the edit draws nothing. Places are TextAttack's too:
    an insertion is always before a character, and with ``inner`` never before the last one.
    """

    edit: Literal["insert", "delete", "swap", "substitute"]
    inner: bool = False
    letters: str = string.ascii_letters  # lower case first; the order decides what a draw gives

    def replacements(self, example: ExampleState, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        end = len(word) - (self.edit == "swap")
        first, last = (1, end - 1) if self.inner else (0, end)
        if len(word) < 2 or first >= last:
            return []
        at = example.dice.place(first, last)
        if self.edit == "swap":
            return [word[:at] + word[at + 1] + word[at] + word[at + 2 :]]
        new = "" if self.edit == "delete" else example.dice.letter(self.letters)
        return [word[:at] + new + word[at + (self.edit != "insert") :]]

    def describe(self) -> str:
        what = {
            "insert": f"{'a space' if self.letters == ' ' else 'a random letter'} inserted",
            "delete": "a random character deleted",
            "swap": "two neighbouring characters swapped",
            "substitute": "a random character replaced by a random letter",
        }
        return f"candidates: {what[self.edit]}{' inside the word' if self.inner else ''}"


@dataclass(frozen=True)
class Homoglyphs(Transformation):
    """A character replaced by one that looks like it."""

    def replacements(self, example: ExampleState, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        if len(word) > LONGEST:
            raise TicketsError(
                f"word {index + 1} has {len(word):,} characters, and a candidate for each of them is too many; the most is {LONGEST:,}",
                hint="cut such words from the data, or use an attack without look-alikes",
                code="attack.long_word",
            )
        return [word[:at] + LOOKALIKE[found] + word[at + 1 :] for at, found in enumerate(word) if found in LOOKALIKE]

    def describe(self) -> str:
        return f"candidates: any one character replaced by its look-alike (of {len(LOOKALIKE)})"


@dataclass(frozen=True)
class NearestWords(Transformation):
    """The ``count`` nearest words by their vectors, in the case of the word."""

    vectors: Vectors | WordLists = resource()
    count: int = setting(50, at_least=1)

    def replacements(self, example: ExampleState, text: Text, index: int) -> Sequence[str]:
        word = text.words[index]
        return [like(word, near) for near, _ in self.vectors.neighbours(word.lower(), self.count)]

    def warm(self, words: Iterable[str]) -> None:
        self.vectors.look_up((word.lower() for word in words), self.count)

    def describe(self) -> str:
        where = "first words of its list" if isinstance(self.vectors, WordLists) else "nearest words in the vectors"
        return f"candidates: the {self.count} {where}, in the case of the word"


@dataclass(frozen=True)
class Synonyms(Transformation):
    """WordNet's synonyms of the word."""

    def replacements(self, example: ExampleState, text: Text, index: int) -> Sequence[str]:
        return wordnet.synonyms(text.words[index])

    def describe(self) -> str:
        return "candidates: all WordNet synonyms of the word, any part of speech, single words, not re-cased"


# --- words of a masked language model


@dataclass(frozen=True)
class MaskedWord(Transformation):
    """BAE: the word is masked, and the model offers the ``count`` best whole words; pieces count as the word they spell.

    What has no letter from a to z is left out afterwards, so that fewer may remain. TextAttack before 0.3.5 leaves nothing out, but shows
    the model the text from its first to its last word only, which cuts the brackets off a mask at either end: no candidates there.
    """

    masked: MaskedModel = resource()
    count: int = setting(20, at_least=1)

    def services(self) -> Mapping[str, Masked]:
        return {"masked": Masked(self.masked, self.count, self.masked.whole_words)}

    def replacements(self, example: ExampleState, text: Text, index: int) -> Steps:
        language, whole = self.masked, example.rules.shows_ends
        masked = _masked(language, text, index) if whole else text.replace(index, language.mask).window(index, math.inf)
        place = language.place(clean(masked))
        if place is None:
            return []
        filled: Filled = yield Fill(masked, at=place)
        if not filled.exact and filled.gaps[0, -1] <= 2 * MASKED_NOISE:
            filled = yield Fill(masked, at=place, alone=True)
        tokens: Sequence[str] = [language.tokens[i].replace(CONTINUES, "") for i in filled.ids[0]]
        return [token for token in tokens if not whole or any("a" <= letter <= "z" for letter in token.lower())]

    def describe(self) -> str:
        return f"candidates: the {self.count} best words of a masked language model for the masked word"


def _masked(language: MaskedModel, text: Text, index: int) -> str:
    return BETWEEN_COLUMNS.join(text.swapped(index, language.mask))


@dataclass(slots=True)
class _Known:
    """What is remembered of the current text: one answer serves all its words."""

    beyond: int  # words from here on lie behind the model's last token
    filled: Filled | None = None


@dataclass(frozen=True)
class UnmaskedWords(Transformation):
    """BERT-Attack: the model reads the text as it is, and offers ``count`` tokens at each of the word's own.

    A word of one token may become any of its tokens that is one word and no piece. For a word of several pieces, tokens are joined in
    the order of the Cartesian product, the last piece changing fastest, until ``count`` of them are one word. The word's place is where
    a mask put in its stead is found, and its pieces are those it has alone: where it is read otherwise in its text (an emoji attached,
    say), the positions are off by as much, and may lie in the padding. Nothing is re-cased, and what comes twice stays twice.
    """

    masked: MaskedModel = resource()
    count: int = setting(48, at_least=1)

    def services(self) -> Mapping[str, Masked]:
        return {"masked": Masked(self.masked, self.count)}

    def replacements(self, example: ExampleState, text: Text, index: int) -> Steps:
        language, known = self.masked, example.kept_of(self, text, lambda: _Known(len(text)))
        first = language.place(clean(_masked(language, text, index))) if index < known.beyond else None
        if first is None:
            known.beyond = min(known.beyond, index)
            return []
        tokens = list(range(first, min(first + language.pieces(clean(text.words[index])), language.longest)))
        if not tokens:
            return []
        filled = known.filled
        if filled is None or len(filled.ids) <= tokens[-1]:
            filled = known.filled = yield Fill(text.joined, rows=tokens[-1] + 1)
        found, tried = self.words(filled.ids[tokens], example.rules)
        if not filled.exact and doubtful(filled.gaps[tokens], tried):
            filled = known.filled = yield Fill(text.joined, rows=len(filled.ids), alone=True)
            found, _ = self.words(filled.ids[tokens], example.rules)
        return found

    def words(self, ids: np.ndarray, rules: Rules = OWN) -> tuple[list[str], int]:
        """The words to try for the best ids at each piece of a word, (pieces, ids), and how many combinations it took to find them."""
        tokens = [[self.masked.tokens[i] for i in row] for row in ids]
        if len(tokens) == 1:
            return [token for token in tokens[0] if CONTINUES not in token and rules.one_word(token)], len(tokens[0])
        found: list[str] = []
        for place, word in joined(tokens, rules):
            found.append(word)
            if len(found) == self.count:
                return found, place + 1
        return found, math.prod(map(len, tokens))

    def describe(self) -> str:
        return f"candidates: {self.count} words of a masked language model that reads the text unmasked, pieces of words joined"


def doubtful(gaps: np.ndarray, tried: int) -> bool:
    """Whether a batch's rounding could change which words the first ``tried`` combinations of ids are made of.

    Candidates are sorted later, so that only the choice matters: at each piece, the ids used with all that follows, the one in use when
    enough was found, and the rest must differ clearly; and those on the list from the others, where all of it was used.
    """
    pieces, count = gaps.shape
    for piece, row in enumerate(gaps):
        inner = count ** (pieces - 1 - piece)  # combinations for each id of this piece
        rounds, last = divmod((tried - 1) // inner, count)
        ends = {last, count - 1} if rounds else {last}
        ends |= {last - 1} if inner > 1 and last else set()
        if min(row[end] for end in ends) <= 2 * MASKED_NOISE:
            return True
    return False


# Pieces are joined in the order of the Cartesian product, without trying what cannot become one word. BERT-Attack joins one of K tokens
# at each of a word's n pieces and wants the first K combinations that are one word. Nearly always these are among the first hundred. But
# where the best token at an early piece is a comma, the next K^(n-2) combinations are two words each, and TextAttack tries them all: for
# "mother-in-law" at K=48 that is years. Here a branch is entered only if one word can still come of it, which a table knows beforehand:
# what follows depends on the joined characters only by how many words they hold and how they end.

# of a word; before: after characters such as "-", which only count as part of a word that follows
OUTSIDE, BEFORE, WITHIN = range(3)


class Read(NamedTuple):
    """What has been read so far, as far as it matters for what comes."""

    words: int = 0  # 2 stands for more than one
    where: int = OUTSIDE
    hashes: bool = False  # ends in a "#" that goes away if another follows: "##" is taken out of the joined text
    unclear: bool = False  # holds Chinese, which a profile's TextAttack cuts by a dictionary


def joined(tokens: Sequence[Sequence[str]], rules: Rules) -> Iterator[tuple[int, str]]:
    """The combinations that are exactly one word, in order: its number in the product, from 0, and what it spells."""
    hopeful = _hopeful(tokens, rules.segments)
    # read so far, number among those of its length, tokens
    open_ends: list[tuple[Read, int, tuple[str, ...]]] = [(Read(), 0, ())]
    while open_ends:
        read, place, parts = open_ends.pop()
        at = len(parts)
        if at == len(tokens):
            word = "".join(parts).replace(CONTINUES, "")
            if rules.one_word(word):
                yield place, word
            continue
        for number in reversed(range(len(tokens[at]))):  # the last one put down is the first taken up
            after = _after(read, tokens[at][number], rules.segments)
            if after in hopeful[at + 1]:
                open_ends.append((after, place * len(tokens[at]) + number, (*parts, tokens[at][number])))


def _hopeful(tokens: Sequence[Sequence[str]], cut: bool) -> list[set[Read]]:
    """For every number of tokens read, the states of which one word may still come."""
    states = [{Read()}]
    for row in tokens:
        states.append({_after(read, token, cut) for read in states[-1] for token in set(row)})
    found = [{read for read in states[-1] if read.words == 1 or read.unclear}]
    for row, reached in zip(reversed(tokens), reversed(states[:-1]), strict=True):
        found.insert(0, {read for read in reached if any(_after(read, token, cut) in found[0] for token in set(row))})
    return found


@lru_cache(maxsize=1 << 17)
def _after(read: Read, token: str, cut: bool) -> Read:
    words, where, hashes, unclear = read
    unclear = unclear or (cut and chinese(token))
    for character in token:
        if character == "#":
            hashes = not hashes
            continue
        if hashes:  # a single one stays, and parts words
            where, hashes = OUTSIDE, False
        if character in INSIDE:
            where = max(where, BEFORE)
        elif not stands_in_words(character):
            where = OUTSIDE
        elif where != WITHIN:
            where, words = WITHIN, min(2, words + 1)
    return Read(words, where, hashes, unclear)


REGISTERED = {
    "characters": CharacterEdit,
    "homoglyphs": Homoglyphs,
    "masked_word": MaskedWord,
    "nearest_words": NearestWords,
    "synonyms": Synonyms,
    "unmasked_words": UnmaskedWords,
}
