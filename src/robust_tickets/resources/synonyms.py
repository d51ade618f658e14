"""A synonym table over a tokenizer's vocabulary: which tokens may stand in whose place, in id space, for training on word swaps.

Only words that are one token are swapped, by words that are one token, so that a swap changes one id and moves nothing. Longer words are
left as they are; ``coverage`` counts what that costs. A token is a word of its own if it starts one and the token after it does not
continue it: WordPiece marks what continues ("##ing"), byte-level BPE and SentencePiece mark what follows a space ("Ġgood", "▁good"), and
there an unmarked token continues the one before it where letters or digits meet ("un" "good", but not "(" "good").

Sources, and how many candidates a token keeps at most (``candidates``, the word itself not counted):

- "wordnet": what PWWS swaps in, the synonyms over all parts of speech, as they are written. They come sorted by name, so where there are
  too many, every n-th is kept: the first ones would all begin with "a" and "b".
- "vectors", or the folder or file of word vectors: what TextFooler swaps in, the nearest words at a cosine of at least 0.5, nearest first.
- a JSON file {word: [word, …]}, its words in lower case: in its order; candidates take on the case of the word they stand for.

Stop words stay, as under those attacks (NLTK's list with WordNet, TextFooler's with the others): they carry grammar, and tokenizers cut
contractions into pieces ("don", "won", "t") that the lists name and WordNet would take for words.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robust_tickets.cache import cached
from robust_tickets.errors import TicketsError, tokenising
from robust_tickets.resources import wordnet
from robust_tickets.resources.kinds import Resource, resolve
from robust_tickets.resources.vectors import Vectors, load_words, read_arrays, read_lists, word_files, write_arrays
from robust_tickets.resources.words import NLTK, TEXTFOOLER, like, words

NEIGHBOURS = 50  # of a word in the vectors, and
NEAR = 0.5  # their cosine: TextFooler's
HOW = (
    'give "wordnet" (needs nothing), "vectors" (`tickets doctor` says how to get them), or the path of word vectors or of a JSON file of '
    "word lists, such as the counterfitted_neighbors.json of Jia et al. (2019): source=… in Python, --set source=… on the command line"
)
MADE = 2  # of the rules below: another number rebuilds every cached table
MARKS = ("##", "Ġ", "▁")  # WordPiece: continues; byte-level BPE and SentencePiece: after a space
ARRAYS = ("candidates", "counts", "joined", "open")


def source_of(source: str) -> Resource:
    """What ``source`` names, with the digest of its content; refuses what is not there."""
    if source == "wordnet":
        return Resource(path=Path(), **wordnet.about())
    if source == "vectors":
        return resolve("vectors", setting="source")
    path = Path(source).expanduser()
    if not word_files(path):
        raise TicketsError(f"no word vectors or lists at {path.absolute()}", hint=HOW, code="synonyms.source")
    if path.suffix == ".json":  # a run asks for the digest before its search, which may take hours
        try:
            read_lists(path)
        except TicketsError as problem:
            raise TicketsError(problem.message, hint=HOW, code="synonyms.lists") from None
    return resolve("vectors", path, setting="source")


def stop_words(source: Resource) -> frozenset[str]:
    """Those that the attack with the same source leaves alone."""
    return NLTK if source.kind == "synonyms" else TEXTFOOLER


@dataclass(frozen=True, kw_only=True)
class SynonymTable:
    """Rows are token ids. ``candidates[i, 0]`` is i itself; what is left of a row after its count is filled with i too."""

    candidates: np.ndarray  # (vocabulary, 1 + candidates), int32
    counts: np.ndarray  # (vocabulary,), int32; 1 where nothing can be swapped
    joined: np.ndarray  # (vocabulary,), bool: continues a word, if the token before it is open
    open: np.ndarray  # (vocabulary,), bool: may be continued
    source: Resource

    def _continues(self, ids: np.ndarray) -> np.ndarray:
        """Which tokens continue the one before; one more for what follows the last."""
        return np.concatenate([[False], self.joined[ids[1:]] & self.open[ids[:-1]], [False]])

    def swappable(self, ids: np.ndarray) -> np.ndarray:
        """Which positions of a sequence of ids hold a word that has candidates."""
        continues = self._continues(ids)
        return (self.counts[ids] > 1) & ~continues[:-1] & ~continues[1:]

    @tokenising()
    def coverage(self, tokenizer: Any, texts: Iterable[str]) -> dict[str, float]:
        """How many words ``texts`` hold and which shares of them are one token, are stop words, and can be swapped."""
        stop, special = stop_words(self.source), tokenizer.all_special_ids
        counts = np.zeros(4, dtype=int)
        for text in texts:
            ids = np.array(tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int64)
            if len(ids):
                tokens = [token.lstrip("Ġ▁") for token in tokenizer.convert_ids_to_tokens(ids.tolist())]
                continues = self._continues(ids)
                starts = ~continues[:-1] & ~np.isin(ids, special) & [any(map(str.isalnum, each)) for each in tokens]
                alone = starts & ~continues[1:]
                stopped = alone & [each.lower() in stop for each in tokens]
                counts += [each.sum() for each in (starts, alone, stopped, starts & self.swappable(ids))]
        total, *parts = counts.tolist()
        shares = [part / max(total, 1) for part in parts]
        return {"words": total, **dict(zip(("one_token", "stop_words", "swappable"), shares, strict=True))}


def synonym_table(tokenizer: Any, *, source: str = "wordnet", candidates: int = 50, rows: int = 0) -> SynonymTable:
    """The table of ``tokenizer``'s vocabulary (of ``rows`` ids, if the model has more or fewer), built once and then kept in the cache."""
    found, tokens = source_of(source), _tokens(tokenizer, rows)
    rows = rows or max((token.number for token in tokens), default=-1) + 1
    # a tokenizer without capitals has WordNet's "Paris" as "paris"
    cased = not any("a" in token for token in tokenizer.tokenize("A") if token not in tokenizer.all_special_tokens)
    stop = stop_words(found)
    key = json.dumps([MADE, tokens, cased, rows, candidates, found.kind, found.digest, sorted(stop)])
    name = f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.npz"
    arrays, place = cached(lambda there: read_arrays(there, *ARRAYS) or None, "synonyms", name)
    if arrays is None:
        numbers = {(token.spaced, token.word): token.number for token in tokens if token.word}
        asked = [(spaced, word) for spaced, word in numbers if word.lower() not in stop]
        lists = {}
        for (spaced, word), forms in zip(asked, look_up(found, [word for _, word in asked]), strict=True):
            own, known = (
                numbers[spaced, word],
                (numbers.get((spaced, form if cased else form.lower())) for form in forms),
            )
            others = [number for number in dict.fromkeys(known) if number not in (None, own)]
            lists[own] = at_most(others, candidates, spread=found.kind == "synonyms")
        arrays = _arrays(tokens, lists, rows)
        write_arrays(place, **dict(zip(ARRAYS, arrays, strict=True)))
    return SynonymTable(source=found, **dict(zip(ARRAYS, arrays, strict=True)))


def look_up(source: Resource, asked: Sequence[str]) -> Sequence[Sequence[str]]:
    """Each word's candidates, best first; in the case of the word, but for WordNet's, which PWWS takes as they are written."""
    if source.kind == "synonyms":
        return [wordnet.synonyms(word) for word in asked]
    known = load_words(source.path, source.digest)
    most = NEIGHBOURS if isinstance(known, Vectors) else sys.maxsize
    lower = [word.lower() for word in asked]
    known.look_up(lower, most)
    near = (
        [near for near, cosine in known.neighbours(word, most) if not cosine < NEAR] for word in lower
    )  # of lists NaN
    return [[like(word, new) for new in found] for word, found in zip(asked, near, strict=True)]


def at_most(numbers: list[Any], most: int, *, spread: bool) -> list[int]:
    """The first ``most``, or so many spread evenly over a list whose order says nothing."""
    if spread and len(numbers) > most:
        return [numbers[place * len(numbers) // most] for place in range(most)]
    return numbers[:most]


def _arrays(tokens: Sequence[_Token], lists: dict[int, list[int]], rows: int) -> list[np.ndarray]:
    counts, joined, opened = np.ones(rows, dtype=np.int32), np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    for token in tokens:
        joined[token.number], opened[token.number] = token.joined, token.open
    table = np.repeat(np.arange(rows, dtype=np.int32)[:, None], 1 + max(map(len, lists.values()), default=0), axis=1)
    for number, near in lists.items():
        table[number, 1 : 1 + len(near)] = near
        counts[number] = 1 + len(near)
    return [table, counts, joined, opened]


class _Token(NamedTuple):
    number: int
    joined: bool  # continues a word, if the token before it is open
    open: bool  # may be continued
    spaced: bool  # follows a space, by its mark
    word: str  # what it reads, if that is a word; else empty


def _tokens(tokenizer: Any, rows: int) -> list[_Token]:
    names = sorted((number, token) for token, number in tokenizer.get_vocab().items() if number < (rows or number + 1))
    counts = {mark: sum(token.startswith(mark) and token != mark for _, token in names) for mark in MARKS}
    mark = max(counts, key=lambda each: counts[each])
    mark = mark if counts[mark] else ""  # none where every token is a word
    pieces = mark == "##"
    special, unseen = set(tokenizer.all_special_ids), (tokenizer.unk_token_id, tokenizer.mask_token_id)
    found = []
    for number, token in names:
        if number in special:  # what a masked or unknown token was may well be continued
            found.append(_Token(number, False, number in unseen, False, ""))
            continue
        marked = mark != "" and token.startswith(mark) and token != "##"
        spaced = not marked if pieces or not mark else marked
        text = token.removeprefix(mark) if marked else token
        if mark == "Ġ" and not text.isascii():  # bytes written as letters
            text = tokenizer.convert_tokens_to_string([token]).strip()
        joined = not spaced and (pieces or text[:1].isalnum())
        word = text if words(text) == [(0, len(text))] and not (pieces and joined) else ""
        found.append(_Token(number, joined, pieces or text[-1:].isalnum(), spaced, word))
    return found
