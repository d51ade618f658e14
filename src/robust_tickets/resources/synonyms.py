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
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robust_tickets.cache import cached
from robust_tickets.errors import TicketsError, tokenising
from robust_tickets.files import sha256_file, write_bytes
from robust_tickets.resources import wordnet
from robust_tickets.resources.kinds import Resource, note, resolve
from robust_tickets.resources.vectors import Vectors, lacks, read_lists, word_files
from robust_tickets.resources.words import NLTK, TEXTFOOLER, like, words

NEIGHBOURS = 50  # of a word in the vectors, and
NEAR = 0.5  # their cosine: TextFooler's
PUBLISHED = "counterfitted_neighbors.json"  # lists of counter-fitted neighbours, at most 8 a word
HOW = (
    'give "wordnet" (needs nothing), "vectors" (`tickets doctor` says how to get them), or the path of word vectors or of a JSON file of '
    "word lists: source=… in Python, --set source=… on the command line"
)
LookUp = Callable[[Sequence[str]], Sequence[Sequence[str]]]  # the candidates of each of some words, best first


def source_of(source: str) -> Resource:
    """What ``source`` names, with the digest of its content; refuses what is not there."""
    if source == "wordnet":
        return Resource(
            kind="synonyms",
            name="WordNet 3.0",
            path=Path(),
            origin="this package",
            digest=wordnet.digest(),
            substitute=False,
        )
    path = Path(source).expanduser()
    if path.suffix == ".json" and path.is_file():
        about = note(path)
        return Resource(
            kind="neighbours",
            name=str(about.get("name", path.stem)),
            path=path,
            origin="given path",
            digest=_content(path, path.stat().st_size, path.stat().st_mtime_ns),
            substitute=bool(about.get("substitute", True)),
        )
    if source != "vectors" and not path.exists():
        came = f"{PUBLISHED} came with Jia et al. (2019), Certified Robustness to Adversarial Word Substitutions; "
        where = "" if path.is_absolute() else f" (looked in {Path.cwd()})"
        raise TicketsError(
            f"no such source of synonyms: {source}{where}",
            hint=(came if path.name == PUBLISHED else "") + HOW,
            code="synonyms.source",
        )
    if source != "vectors" and not word_files(path):
        why = f" ({lacks(path)})" if lacks(path) else ""
        raise TicketsError(
            f"{source} is no source of synonyms: it holds neither word vectors nor lists of words{why}",
            hint=HOW,
            code="synonyms.source",
        )
    return resolve("vectors", None if source == "vectors" else source, setting="source")


def look_up_in(source: Resource) -> LookUp:
    """The candidates of words in ``source``; re-cased like the word, but for WordNet's, which PWWS takes as they are written."""
    if source.kind == "synonyms":
        return lambda asked: [wordnet.synonyms(word) for word in asked]
    if source.kind == "neighbours":
        lists = read_lists(source.path)
        return lambda asked: [[like(word, near) for near in lists.get(word.lower(), ())] for word in asked]
    vectors = Vectors.load(source.path, digest=source.digest)

    def nearest(asked: Sequence[str]) -> Sequence[Sequence[str]]:
        found = vectors.table((word.lower() for word in asked), NEIGHBOURS)
        return [[like(word, near) for near, cosine in found.get(word.lower(), ()) if cosine >= NEAR] for word in asked]

    return nearest


def stop_words(source: Resource) -> frozenset[str]:
    """Those that the attack with the same source leaves alone."""
    return NLTK if source.kind == "synonyms" else TEXTFOOLER


@lru_cache(maxsize=64)
def _content(path: Path, _size: int, _time: int) -> str:
    """SHA-256 of a file of word lists; size and time are there to see one that changed within one process.

    The lists are read once to see that they are such: a run asks for the digest before its search, which may take hours.
    """
    try:
        read_lists(path)
    except TicketsError as problem:
        raise TicketsError(problem.message, hint=f"{problem.hint}; or {HOW}", code="synonyms.lists") from None
    return sha256_file(path)


MADE = 1  # of the rules below: another number rebuilds every cached table
MARKS = ("##", "Ġ", "▁")  # WordPiece: continues; byte-level BPE and SentencePiece: after a space


@dataclass(frozen=True, kw_only=True)
class SynonymTable:
    """Rows are token ids. ``candidates[i, 0]`` is i itself; what is left of a row after its count is filled with i too."""

    candidates: np.ndarray  # (vocabulary, 1 + candidates), int32
    counts: np.ndarray  # (vocabulary,), int32; 1 where nothing can be swapped
    joined: np.ndarray  # (vocabulary,), bool: continues a word, if the token before it is open
    open: np.ndarray  # (vocabulary,), bool: may be continued
    source: Resource

    def swappable(self, ids: np.ndarray) -> np.ndarray:
        """Which positions of a sequence of ids hold a word that has candidates."""
        continues = np.zeros(len(ids) + 1, dtype=bool)
        continues[1:-1] = self.joined[ids[1:]] & self.open[ids[:-1]]
        return (self.counts[ids] > 1) & ~continues[:-1] & ~continues[1:]

    @tokenising()
    def coverage(self, tokenizer: Any, texts: Iterable[str]) -> dict[str, float]:
        """How many words ``texts`` hold and which shares of them are one token, are stop words, and can be swapped."""
        stop = stop_words(self.source)
        special = set(tokenizer.all_special_ids)
        total = single = stopped = swapped = 0
        for text in texts:
            ids = np.array(tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int64)
            if not len(ids):
                continue
            tokens = tokenizer.convert_ids_to_tokens(ids.tolist())
            starts = ~np.concatenate([[False], self.joined[ids[1:]] & self.open[ids[:-1]]])
            alone = starts & np.concatenate([starts[1:], [True]])
            swappable = self.swappable(ids)
            for place in np.flatnonzero(starts):
                surface = tokens[place].lstrip("Ġ▁")
                if ids[place] in special or not any(map(str.isalnum, surface)):
                    continue
                total += 1
                single += bool(alone[place])
                stopped += bool(alone[place]) and surface.lower() in stop
                swapped += bool(swappable[place])
        share = max(total, 1)
        return {
            "words": total,
            "one_token": single / share,
            "stop_words": stopped / share,
            "swappable": swapped / share,
        }


def synonym_table(tokenizer: Any, *, source: str = "wordnet", candidates: int = 50, rows: int = 0) -> SynonymTable:
    """The table of ``tokenizer``'s vocabulary (of ``rows`` ids, if the model has more or fewer), built once and then kept in the cache."""
    found = source_of(source)
    tokens = _read(tokenizer, rows)
    rows = rows or max((token.number for token in tokens), default=-1) + 1
    # a tokenizer without capitals has WordNet's "Paris" as "paris"
    special = tokenizer.all_special_tokens
    cased = not any("a" in token for token in tokenizer.tokenize("A") if token not in special)
    stop = stop_words(found)
    key = json.dumps([MADE, tokens, cased, rows, candidates, found.kind, found.digest, sorted(stop)])
    name = f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.npz"
    arrays, place = cached(lambda there: _stored(there, rows), "synonyms", name)
    if arrays is None:
        index = {(token.spaced, token.word): token.number for token in tokens if token.word}
        asked = [key for key in index if key[1].lower() not in stop]
        near = look_up_in(found)([word for _, word in asked])
        spread = found.kind == "synonyms"
        lists = {}
        for (spaced, word), forms in zip(asked, near, strict=True):
            known = [index.get((spaced, form if cased else form.lower())) for form in forms]
            others = [number for number in dict.fromkeys(known) if number not in (None, index[spaced, word])]
            lists[index[spaced, word]] = _at_most(others, candidates, spread)
        arrays = _arrays(tokens, lists, rows)
        stream = io.BytesIO()
        np.savez_compressed(stream, **arrays)
        write_bytes(place, stream.getvalue())
    return SynonymTable(source=found, **arrays)


class _Token(NamedTuple):
    number: int
    joined: bool  # continues a word, if the token before it is open
    open: bool  # may be continued
    spaced: bool  # follows a space, by its mark
    word: str  # what it reads, if that is a word; else empty


def _read(tokenizer: Any, rows: int) -> list[_Token]:
    names = sorted((number, token) for token, number in tokenizer.get_vocab().items() if number < (rows or number + 1))
    style = _style([token for _, token in names])
    special, unseen = set(tokenizer.all_special_ids), (tokenizer.unk_token_id, tokenizer.mask_token_id)
    found = []
    for number, token in names:
        if number in special:  # what a masked or unknown token was may well be continued
            found.append(_Token(number, False, number in unseen, False, ""))
            continue
        spaced, text = _surface(tokenizer, token, style)
        pieces = style == "##"
        joined = not spaced and (pieces or text[:1].isalnum())
        word = text if words(text) == [(0, len(text))] and not (pieces and joined) else ""
        found.append(_Token(number, joined, pieces or text[-1:].isalnum(), spaced, word))
    return found


def _at_most(numbers: list[Any], most: int, spread: bool) -> list[int]:
    """The first ``most``, or so many spread evenly over a list whose order says nothing."""
    if spread and len(numbers) > most:
        return [numbers[place * len(numbers) // most] for place in range(most)]
    return numbers[:most]


def _arrays(tokens: Sequence[_Token], lists: dict[int, list[int]], rows: int) -> dict[str, Any]:
    counts, joined, opened = np.ones(rows, dtype=np.int32), np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    for token in tokens:
        joined[token.number], opened[token.number] = token.joined, token.open
    table = np.repeat(np.arange(rows, dtype=np.int32)[:, None], 1 + max(map(len, lists.values()), default=0), axis=1)
    for number, near in lists.items():
        table[number, 1 : 1 + len(near)] = near
        counts[number] = 1 + len(near)
    return {"candidates": table, "counts": counts, "joined": joined, "open": opened}


def _style(tokens: Sequence[str]) -> str:
    """The mark that most tokens carry; none where every token is a word."""
    counts = {mark: sum(token.startswith(mark) and len(token) > len(mark) for token in tokens) for mark in MARKS}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ""


def _surface(tokenizer: Any, token: str, style: str) -> tuple[bool, str]:
    """Whether ``token`` starts a word by its mark, and what it reads without it."""
    if style in ("##", ""):
        marked = bool(style) and token.startswith(style) and len(token) > len(style)
        return not marked, token.removeprefix(style) if marked else token
    spaced, text = token.startswith(style), token.removeprefix(style)
    if style == "Ġ" and not text.isascii():  # bytes written as letters
        text = tokenizer.convert_tokens_to_string([token]).strip()
    return spaced, text


def _stored(place: Path, rows: int) -> dict[str, Any] | None:
    """A cached table; none if there is none or it is damaged (it is then built again)."""
    try:
        with open(place, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in ("candidates", "counts", "joined", "open")}
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return None
    return arrays if all(len(array) == rows for array in arrays.values()) and arrays["candidates"].ndim == 2 else None
