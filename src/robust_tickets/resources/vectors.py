"""Word vectors and lists of near words: cosines, and nearest neighbours from a table that grows on disk.

The table is one for all datasets, kept under the hash of what went in. A word's list does not depend on the words asked beside it, so that
lists made for one dataset serve the next, and only new words are searched for. The whole vocabulary at once would share as much, but makes
the first attack wait: 65 s on one core for 71,680 words of width 100, where the words of an attack take a second or two.

Neighbours are found blockwise in float32, with bounded memory (the original TextFooler built a matrix of 12 to 30 GB), and those near the
cut are scored again in float64, pair by pair, so that a list does not depend on the block size either. Ties go to the word that comes
first in the file. Where TextAttack's own table of neighbours came with the vectors, it is taken as it is, since published numbers come
from it.

Lists in a JSON file, ``{"good": ["fine", "decent"], …}``, best first, take the place of vectors. Published ones (those of counter-fitted
neighbours by Jia et al., 2019) come without cosines: a listed word counts as near enough, and no cosine is known of any pair.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from robust_tickets.cache import cache_folder, cache_place, cached, read_report, write_report
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json, write_bytes, write_chunks
from robust_tickets.locate import file_digest
from robust_tickets.progress import track

TEXTATTACK, PICKLE, NEAREST = "paragram.npy", "wordlist.pickle", "nn.npy"
COUNTER_FITTED = (65_713, 300)  # words and width of the published vectors
LIST_FILES = ("wordlist.txt", "wordlist.json", "words.txt")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
CONVERT = "python -c \"import json, pickle; json.dump(pickle.load(open('wordlist.pickle', 'rb')), open('wordlist.json', 'w'))\" in that folder"


# --- files


def word_files(path: Path) -> list[Path] | None:
    """The files of word vectors or of lists at ``path``; none if there are none."""
    if path.suffix == ".json" and path.is_file():
        return None if path.name in (*LIST_FILES, "resource.json") else [path]
    return vector_files(path)


def vector_files(path: Path) -> list[Path] | None:
    """What holds vectors at ``path``: [words, matrix], these and a table of neighbours, or [text file]; none if there are none."""
    if path.is_file():
        return [path] if path.suffix in (".txt", ".vec") and path.name not in LIST_FILES else None
    words, matrices = path / "words.txt", sorted(path.glob("vectors*.npy"))
    if words.is_file() and len(matrices) == 1:
        return [words, matrices[0]]
    lists = [path / name for name in LIST_FILES if (path / name).is_file()]
    if (path / TEXTATTACK).is_file() and lists:
        return [lists[0], path / TEXTATTACK, *([path / NEAREST] if (path / NEAREST).is_file() else [])]
    named = ("vector", "glove", "word2vec")
    texts = [file for file in sorted(path.glob("*.txt")) if any(part in file.name.lower() for part in named)]
    texts += sorted(path.glob("*.vec"))
    return texts if len(texts) == 1 else None


def counter_fitted(folder: Path) -> bool:
    """Whether TextAttack's matrix in ``folder`` has the shape of the published one."""
    try:
        shape: tuple[int, ...] = np.load(folder / TEXTATTACK, mmap_mode="r", allow_pickle=False).shape
    except (OSError, ValueError, EOFError):
        return False
    return shape == COUNTER_FITTED


def lacks(path: Path) -> str:
    """What is wrong with a folder that nearly holds vectors; empty otherwise."""
    if not path.is_dir() or vector_files(path):
        return ""
    if (path / TEXTATTACK).is_file():
        pickled = f"its {PICKLE} is not opened, because a pickle can run anything"
        what = pickled if (path / PICKLE).is_file() else "it has no list of words"
        return f"{TEXTATTACK} is there, but {what}; if you trust it, run {CONVERT}"
    if (path / "words.txt").is_file():
        return "words.txt is there, but not one file vectors*.npy"
    binary = sorted(path.glob("*.bin*"))
    return f"{binary[0].name} may be word2vec's binary form; save it as text" if binary else ""


def load_words(path: Path, digest: str | None = None) -> Vectors | WordLists:
    """Vectors or lists, whichever lie at ``path``."""
    return WordLists(read_lists(path)) if path.suffix == ".json" else Vectors.load(path, digest=digest)


def read_lists(path: Path) -> dict[str, list[str]]:
    """The lists of a file; refuses what is no table of lists of words."""
    lists = read_json(path)
    whole = isinstance(lists, dict) and all(isinstance(near, list) for near in lists.values())
    if not whole or not all(isinstance(word, str) for near in lists.values() for word in near):
        hint = 'expected JSON: {"good": ["fine", "decent"], …}'
        raise TicketsError(f"{path} is not a table of word lists", hint=hint, code="words.lists")
    return lists  # type: ignore[no-any-return]


def read_vectors(files: list[Path]) -> tuple[list[str], Any, Any]:
    """Words, their matrix, and the table of neighbours if there is one, of what ``vector_files`` found."""
    if len(files) == 1:
        return *_converted(files[0]), None
    matrix, *tables = (np.load(file, mmap_mode="r", allow_pickle=False) for file in files[1:])
    return _words(files[0]), matrix, tables[0] if tables else None


def _words(file: Path) -> list[str]:
    """One word a row, from lines, a JSON list or a JSON table of each word's row."""
    if file.suffix != ".json":
        return file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    raw = read_json(file)
    if isinstance(raw, dict):
        by_row = {row: word for word, row in raw.items()}
        raw = [by_row[row] for row in range(len(raw))]
    if not isinstance(raw, list) or not all(isinstance(word, str) for word in raw):
        raise ValueError(f"{file.name} is no list of words")
    return raw


def _converted(text: Path) -> tuple[list[str], Any]:
    """Words and matrix of a text file, converted once into the cache; the numbers are never held together."""
    report, place = cached(read_report, "vectors", file_digest(text)[:32], "vectors.json")
    words_file, matrix_file = place.with_name("words.json"), place.with_name("vectors.float32")
    if report is None:
        found: list[str] = []
        write_chunks(matrix_file, _rows(text, found))
        if not found:
            raise ValueError("there is no line of 'word v1 v2 …'")
        write_bytes(words_file, json.dumps(found).encode())  # JSON, because a word may hold any character
        write_report(place, {}, words_file, matrix_file)
    words = read_json(words_file)
    return words, np.memmap(matrix_file, dtype="<f4", mode="r").reshape(len(words), -1)


def _rows(text: Path, words: list[str]) -> Iterator[bytes]:
    """The numbers of every line but a word2vec header (number of words, width); the line's word is added to ``words``.

    A word of GloVe's largest file may hold spaces: the last ``width`` parts are the values, unless what stands before them is a number.
    """
    width = 0
    with open(text, encoding="utf-8", newline="\n") as lines:  # other line ends may be words
        for number, line in enumerate(lines, start=1):
            parts = line.rstrip("\r\n").rstrip(" ").split(" ")
            if number == 1 and len(parts) == 2 and parts[0].isdigit():
                width = int(parts[1]) if parts[1].isdigit() else 0
                continue
            width = width or len(parts) - 1
            word, values = " ".join(parts[:-width]), parts[-width:]
            if not width or not word or (len(parts) > width + 1 and NUMBER.fullmatch(parts[-width - 1])):
                raise ValueError(f"line {number} is not a word and {width} numbers")
            words.append(word)
            yield np.array(values, dtype="<f4").tobytes()


def _damaged(what: str) -> TicketsError:
    hint = "get them again; expected UTF-8 text with one word a row, and float16 or float32 by numpy.save"
    return TicketsError(what, hint=hint, code="vectors.damaged")


# --- tables in the cache


def read_arrays(place: Path, *names: str) -> list[np.ndarray]:
    """Arrays of a file that ``write_arrays`` wrote; none if it is not there or damaged, which its checksums show."""
    try:
        with open(place, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return [stored[name] for name in names]
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return []


def write_arrays(place: Path, **arrays: Any) -> None:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    write_bytes(place, stream.getvalue())


Neighbours = list[tuple[str, float]]
Lists = dict[
    int, tuple[np.ndarray, np.ndarray]
]  # of a row: the rows of its neighbours, nearest first, and their cosines


def _stored(place: Path) -> Lists:
    arrays = read_arrays(place, "rows", "near", "cosines")
    return {row: (near, cosines) for row, near, cosines in zip(*arrays, strict=True)} if arrays else {}


ROWS = 16_384  # rows of the matrix taken at a time
SCORES = 8_388_608  # float32 scores held at a time (32 MiB)
SLACK = 1e-4  # float32 scores this close to the cut are scored again
READY = 1 << 13  # words whose lists are held ready, about 7 kB each at 50 neighbours
PAIRS = 1 << 17  # cosines of other pairs that are remembered
# what reading raises; numpy takes the header of an array for Python
UNREADABLE = (ValueError, TypeError, LookupError, EOFError, SyntaxError, TokenError)


class Vectors:
    """``words[i]`` has the vector ``matrix[i]``. Words are taken as they are written; a word listed twice keeps its first vector.

    ``nearest`` is a ready table: row i holds the rows of word i itself and of its neighbours, nearest first.
    """

    def __init__(self, words: Sequence[str], matrix: Any, *, nearest: Any = None, digest: str | None = None) -> None:
        if matrix.ndim != 2 or len(words) != len(matrix) or not matrix.shape[1]:
            raise _damaged(f"{len(words)} words do not go with a matrix of shape {tuple(matrix.shape)}")
        self.words, self.matrix, self.nearest, self._given_digest = tuple(words), matrix, nearest, digest
        self.index = {word: row for row, word in reversed(list(enumerate(words)))}
        norms = [np.linalg.norm(block.astype(np.float64), axis=1) for _, block in self._blocks()]
        self._norms = np.concatenate(norms or [np.ones(0)])
        if not np.isfinite(self._norms).all():
            raise _damaged(f"the vector of {words[int(np.isfinite(self._norms).argmin())]!r} is not finite")
        self._norms[self._norms == 0] = np.inf  # a zero vector is like nothing: cosine 0
        if nearest is not None:
            rows = nearest.ndim == 2 and len(nearest) == len(words) and nearest.dtype.kind in "iu"
            if not rows or not 0 <= nearest.min(initial=0) <= nearest.max(initial=0) < len(words):
                raise _damaged(f"{NEAREST} is not a table of {len(words)} words' neighbours")
        self._tables: dict[int, Lists] = {}
        self._ready: dict[tuple[str, int], Neighbours] = {}
        # the same lists by word: an attack asks for the cosines of its candidates
        self._near: dict[str, dict[str, float]] = {}
        self._measured = lru_cache(maxsize=PAIRS)(self._measure)

    @classmethod
    def load(cls, path: Path | str, *, digest: str | None = None) -> Vectors:
        """Read a folder or a text file; ``digest`` if it is already known."""
        files = vector_files(Path(path))
        if files is None:
            hint = "expected words.txt with one vectors*.npy, or a text file of 'word v1 v2 …'"
            raise TicketsError(f"no word vectors in {path}", hint=hint, code="vectors.missing")
        try:
            words, matrix, nearest = read_vectors(files)
            return cls(words, matrix, nearest=nearest, digest=digest)
        except OSError as problem:
            message = f"could not read {problem.filename or path}: {problem.strerror or problem}"
            raise TicketsError(message, hint="check the path and its rights", code="file.unreadable") from None
        except UNREADABLE as problem:
            raise _damaged(f"the word vectors in {path} cannot be read: {problem}") from None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the words, their vectors and a ready table."""
        if self._given_digest is not None:
            return self._given_digest
        total = hashlib.sha256("\n".join(self.words).encode("utf-8", "surrogatepass"))
        for _, block in self._blocks():
            total.update(np.ascontiguousarray(block).tobytes())
        if self.nearest is not None:
            total.update(np.ascontiguousarray(self.nearest).tobytes())
        return total.hexdigest()

    def __len__(self) -> int:
        return len(self.words)

    def cosine(self, a: str, b: str) -> float | None:
        """Cosine of the two words' vectors; none where one is unknown."""
        near = self._near.get(a)
        found = None if near is None else near.get(b)
        return self._measured(a, b) if found is None else found

    def _measure(self, a: str, b: str) -> float | None:
        if a not in self.index or b not in self.index:
            return None
        row, other = sorted((self.index[a], self.index[b]))
        return float(self._exact(row, np.array([other]))[0])

    def neighbours(self, word: str, n: int) -> Neighbours:
        """The ``n`` nearest other words with their cosines, nearest first; none for an unknown word."""
        if word not in self.index:
            return []
        found = self._ready.get((word, n))
        if found is None:
            if len(self._ready) >= READY:
                gone = next(iter(self._ready))
                del self._ready[gone]
                self._near.pop(gone[0], None)
            near, cosines = self._list(self.index[word], n)
            others = (self.words[other] for other in near.tolist())
            found = self._ready[word, n] = list(zip(others, cosines.tolist(), strict=True))
            self._near[word] = dict(found)
        return found

    def look_up(self, words: Iterable[str], n: int) -> None:
        """Find the neighbours of all these words at once, and keep them on disk."""
        rows = sorted({self.index[word] for word in words if word in self.index})
        if self.nearest is not None or n < 1:
            return
        table = self._tables.setdefault(n, {})
        name = f"{hashlib.sha256(f'{self.digest} {n}'.encode()).hexdigest()[:32]}.npz"
        if not table.keys() >= set(rows):
            table |= _stored(cache_place("neighbours", name))
        if not table.keys() >= set(rows):
            place = cache_folder("neighbours") / name
            table |= _stored(place)  # a temporary folder may have it
            if new := [row for row in rows if row not in table]:
                self._build(new, min(n, len(self.index) - 1), table)
                whole = dict(sorted((_stored(place) | table).items()))  # another process may have added its own
                near, cosines = zip(*whole.values(), strict=True)
                write_arrays(place, rows=np.array(list(whole)), near=np.stack(near), cosines=np.stack(cosines))

    def _build(self, rows: list[int], length: int, table: Lists) -> None:
        step = max(1, SCORES // max(1, len(self)))
        with track("neighbours", len(rows)) as bar:
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                table.update(zip(some, zip(*self._search(some, length), strict=True), strict=True))
                bar.advance(len(some))

    def _list(self, row: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        if self.nearest is None:
            found = self._tables.get(n, {}).get(row)
            if found is None:
                near, cosines = self._search([row], min(n, len(self.index) - 1))
                found = near[0], cosines[0]
            return found
        wide = self.nearest.shape[1] - 1
        if n > wide:
            raise TicketsError(
                f"the table of neighbours that came with the vectors holds {wide} a word, {n} are asked for",
                hint=f"remove {NEAREST}, and neighbours are searched for",
                code="vectors.neighbours",
            )
        near = np.asarray(self.nearest[row][1 : n + 1])
        return near, self._exact(row, near)

    def _search(self, rows: list[int], n: int) -> tuple[np.ndarray, np.ndarray]:
        """The ``n`` nearest of each of ``rows`` and their cosines; holds len(rows) × len(self) float32 scores."""
        if n <= 0:
            return np.empty((len(rows), 0), np.int32), np.empty((len(rows), 0))
        queries = self.matrix[rows].astype(np.float32) / self._norms[rows, None].astype(np.float32)
        scores = np.empty((len(rows), len(self)), dtype=np.float32)
        for start, block in self._blocks():
            scores[:, start : start + len(block)] = queries @ block.astype(np.float32).T
        scores /= self._norms.astype(np.float32)
        scores[np.arange(len(rows)), rows] = -np.inf  # not itself
        if len(self.index) < len(self):  # nor a second listing of a word
            scores[:, [row for row, word in enumerate(self.words) if self.index[word] != row]] = -np.inf
        found = [self._best(row, line, n) for row, line in zip(rows, scores, strict=True)]
        return np.array([near for near, _ in found], dtype=np.int32), np.array([cosines for _, cosines in found])

    def _best(self, row: int, scores: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        cut = np.partition(scores, len(scores) - n)[len(scores) - n]
        near = np.flatnonzero(scores >= cut - SLACK)
        near = near[np.isfinite(scores[near])]
        exact = self._exact(row, near)
        order = np.lexsort((near, -exact))[:n]
        return near[order], exact[order]

    def _exact(self, row: int, others: np.ndarray) -> np.ndarray:
        """Float64 cosines, each summed by itself: the same bits whatever else is in ``others``."""
        own, sums = self.matrix[row].astype(np.float64), np.empty(len(others))
        for start in range(0, len(others), ROWS):  # near ties may be many
            some = others[start : start + ROWS]
            sums[start : start + ROWS] = (self.matrix[some].astype(np.float64) * own).sum(axis=1)
        return sums / (self._norms[others] * self._norms[row])

    def _blocks(self) -> Iterable[tuple[int, Any]]:
        return ((start, self.matrix[start : start + ROWS]) for start in range(0, len(self.matrix), ROWS))


class WordLists:
    """What an attack asks of :class:`Vectors`, from lists."""

    def __init__(self, lists: Mapping[str, list[str]]) -> None:
        self.lists = lists

    def cosine(self, a: str, b: str) -> float | None:
        """Not known, of any pair."""
        return None

    def neighbours(self, word: str, n: int) -> Neighbours:
        """At most ``n`` words of the list, in its order; none for an unknown word."""
        return [(near, math.nan) for near in self.lists.get(word, ())[:n]]

    def look_up(self, words: Iterable[str], n: int) -> None:
        """Nothing is to be searched for."""
