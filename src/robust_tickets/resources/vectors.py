"""Word vectors and lists of near words: cosines, and nearest neighbours from a table that grows on disk.

The table is one for all datasets, kept under the hash of what went in. A word's list does not depend on the words asked beside it, so that
lists made for one dataset serve the next, and only new words are searched for. The whole vocabulary at once would share as much, but makes
the first attack wait: 65 s on one core for 71,680 words of width 100, where the words of an attack take a second or two.

Lists in a JSON file, ``{"good": ["fine", "decent"], …}``, best first, take the place of vectors. Published ones (those of counter-fitted
neighbours by Jia et al., 2019) come without cosines: a listed word counts as near enough, and no cosine is known of any pair.

Neighbours are found blockwise in float32, with bounded memory (the original TextFooler built a matrix of 12 to 30 GB), and those near the
cut are scored again in float64, pair by pair, so that a word's list depends neither on the block size nor on the words asked for beside
it. Ties go to the word that comes first in the file. Where TextAttack's own table of neighbours came with the vectors, it is taken as it
is, since published numbers come from it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
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
LIST_FILES = ("wordlist.txt", "wordlist.json", "words.txt")
CONVERT = "python -c \"import json, pickle; json.dump(pickle.load(open('wordlist.pickle', 'rb')), open('wordlist.json', 'w'))\" in that folder"


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
    texts = [
        file
        for file in sorted(path.glob("*.txt"))
        if any(part in file.name.lower() for part in ("vector", "glove", "word2vec"))
    ]
    texts += sorted(path.glob("*.vec"))
    return texts if len(texts) == 1 else None


def shape_in(folder: Path) -> tuple[int, ...] | None:
    """The shape of TextAttack's matrix in ``folder``; none where there is none to read."""
    try:
        return tuple(np.load(folder / TEXTATTACK, mmap_mode="r", allow_pickle=False).shape)
    except (OSError, ValueError, EOFError):
        return None


def lacks(path: Path) -> str:
    """What is wrong with a folder that nearly holds vectors; empty otherwise."""
    if not path.is_dir() or vector_files(path):
        return ""
    if (path / TEXTATTACK).is_file():
        what = (
            f"its {PICKLE} is not opened, because a pickle can run anything"
            if (path / PICKLE).is_file()
            else "it has no list of words"
        )
        return f"{TEXTATTACK} is there, but {what}; if you trust it, run {CONVERT}"
    if (path / "words.txt").is_file():
        return f"words.txt is there, with {len(list(path.glob('vectors*.npy')))} files vectors*.npy instead of one"
    binary = sorted([*path.glob("*.bin"), *path.glob("*.bin.gz")])
    return f"{binary[0].name} is word2vec's binary form; save it as text" if binary else ""


def read_vectors(files: list[Path]) -> tuple[list[str], Any, Any]:
    """Words, their matrix, and the table of neighbours if there is one, of what ``vector_files`` found."""
    words_file, matrix_file, *tables = convert(files[0]) if len(files) == 1 else files
    words, matrix = _words(words_file), _plain(matrix_file)
    if matrix.dtype not in (np.float16, np.float32, np.float64):
        raise TicketsError(
            f"{matrix_file} holds {matrix.dtype}, not floats", hint="save float16 or float32", code="vectors.damaged"
        )
    nearest = _plain(tables[0]) if tables else None
    if nearest is not None:
        fits = nearest.ndim == 2 and len(nearest) == len(words) and np.issubdtype(nearest.dtype, np.integer)
        if not fits or (nearest.size and not 0 <= nearest.min() <= nearest.max() < len(words)):
            raise TicketsError(
                f"{tables[0]} is not a table of {len(words)} words' neighbours",
                hint="get it again, or remove it",
                code="vectors.damaged",
            )
    return words, matrix, nearest


def _words(file: Path) -> list[str]:
    if file.suffix != ".json":
        with _readable(file):
            return file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    raw = read_json(file)
    if isinstance(raw, dict):  # word -> row
        rows = {row: word for word, row in raw.items() if isinstance(row, int)}
        raw = [rows.get(row) for row in range(len(raw))]
    if not isinstance(raw, list) or not all(isinstance(word, str) for word in raw):
        raise TicketsError(
            f"{file} is neither a list of words nor a table of each word's row",
            hint="every row needs one word",
            code="vectors.damaged",
        )
    return raw


def _plain(file: Path) -> Any:
    with _readable(file):
        try:
            return np.load(file, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, SyntaxError, TokenError) as problem:  # the header is Python's text of a dict
            raise TicketsError(
                f"{file} is not a plain array: {problem}", hint="save it with numpy.save", code="vectors.damaged"
            ) from None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as problem:
        raise TicketsError(
            f"{path} is not UTF-8 text: {problem.reason} at byte {problem.start}",
            hint="save it as UTF-8",
            code="vectors.damaged",
        ) from None
    except OSError as problem:
        raise TicketsError(
            f"could not read {path}: {problem.strerror or problem}",
            hint="check the path and its rights",
            code="file.unreadable",
        ) from None


def convert(text: Path) -> list[Path]:
    """A text file as words.json and vectors.npy in the cache; read twice, so that the numbers are never held together."""
    report, place = cached(read_report, "vectors", file_digest(text)[:32], "report.json")
    words_file, matrix_file = place.with_name("words.json"), place.with_name("vectors.npy")
    if report is None:
        with _readable(text):
            words, width = [], 0
            for number, word, values in _lines(text):
                width = width or len(values)
                if len(values) != width or not word or not width:
                    raise TicketsError(
                        f"{text}, line {number}: {len(values)} values where {width} were expected",
                        hint="check the file",
                        code="vectors.damaged",
                    )
                words.append(word)
            if not words:
                raise TicketsError(
                    f"{text} holds no vectors", hint="expected lines of 'word v1 v2 …'", code="vectors.damaged"
                )
            write_chunks(matrix_file, _array(text, (len(words), width)))
            write_bytes(words_file, json.dumps(words).encode())  # JSON, because a word may hold any character
            write_report(place, {}, words_file, matrix_file)
    return [words_file, matrix_file]


def _lines(text: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Line number, word and values of every line but a word2vec header (number of words, width).

    A word of GloVe's largest file may hold spaces: the last ``width`` parts are the values, unless what stands before them is a number.
    """
    width = 0
    with open(text, encoding="utf-8", newline="\n") as lines:  # other line ends may be words
        for number, line in enumerate(lines, start=1):
            word, *values = line.rstrip("\r\n").rstrip(" ").split(" ")
            if number == 1 and len(values) == 1 and word.isdigit():
                width = int(values[0]) if values[0].isdigit() else 0
                continue
            width = width or len(values)
            extra = len(values) - width
            if extra > 0 and not _number(values[extra - 1]):
                word, values = " ".join([word, *values[:extra]]), values[extra:]
            yield number, word, values


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _array(text: Path, shape: tuple[int, int]) -> Iterator[bytes]:
    """The values of a text file as the bytes of a .npy file."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    yield header.getvalue()
    for number, _, values in _lines(text):
        try:
            yield np.array(values, dtype="<f4").tobytes()
        except ValueError:
            raise TicketsError(
                f"{text}, line {number}: not 'word v1 v2 …'",
                hint="the file is damaged or of another kind",
                code="vectors.damaged",
            ) from None


@dataclass(frozen=True)
class Table:
    """Row ``rows[i]`` (ascending) has the neighbours ``near[i]``, nearest first, with these cosines. All lists have one length."""

    rows: np.ndarray  # (m,) int64
    near: np.ndarray  # (m, k) int32
    cosines: np.ndarray  # (m, k) float64

    @classmethod
    def empty(cls, length: int) -> Table:
        return cls(np.empty(0, np.int64), np.empty((0, length), np.int32), np.empty((0, length)))

    def place(self, row: int) -> int | None:
        """Where a word's list is; none without one."""
        found = int(np.searchsorted(self.rows, row))
        return found if found < len(self.rows) and self.rows[found] == row else None

    def without(self, rows: np.ndarray) -> np.ndarray:
        """Those of ``rows`` that it does not have."""
        return rows[~np.isin(rows, self.rows)]

    def joined(self, other: Table) -> Table:
        """Both; where both have a list they have the same."""
        rows, first = np.unique(np.concatenate([self.rows, other.rows]), return_index=True)
        near, cosines = np.concatenate([self.near, other.near]), np.concatenate([self.cosines, other.cosines])
        return Table(rows, near[first], cosines[first])

    def write(self, place: Path) -> None:
        stream = io.BytesIO()
        np.savez(stream, rows=self.rows, near=self.near, cosines=self.cosines)
        write_bytes(place, stream.getvalue())

    @classmethod
    def read(cls, place: Path, words: int, length: int) -> Table:
        """What is stored there; empty if nothing is or it is damaged (it is then built again)."""
        try:
            with open(place, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
                found = cls(stored["rows"], stored["near"], stored["cosines"])
        except (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile):
            return cls.empty(length)
        shape = (len(found.rows), length)
        fits = (
            found.near.shape == found.cosines.shape == shape
            and found.rows.dtype == np.int64
            and found.near.dtype == np.int32
        )
        inside = (
            fits
            and bool((np.diff(found.rows) > 0).all())
            and all(not part.size or 0 <= part.min() <= part.max() < words for part in (found.rows, found.near))
        )
        return found if inside else cls.empty(length)


ROWS = 16_384  # rows of the matrix taken at a time
SCORES = 8_388_608  # float32 scores held at a time (32 MiB)
SLACK = 1e-4  # float32 scores this close to the cut are scored again
READY = 1 << 13  # words whose lists are held ready, about 7 kB each at 50 neighbours
PAIRS = 1 << 17  # cosines of other pairs that are remembered
Neighbours = list[tuple[str, float]]


class Vectors:
    """``words[i]`` has the vector ``matrix[i]``. Words are taken as they are written; a word listed twice keeps its first vector.

    ``nearest`` is a ready table: row i holds the rows of word i itself and of its neighbours, nearest first.
    """

    def __init__(self, words: Sequence[str], matrix: Any, *, nearest: Any = None, digest: str | None = None) -> None:
        if matrix.ndim != 2 or len(words) != matrix.shape[0] or not matrix.shape[1]:
            raise TicketsError(
                f"{len(words)} words do not go with a matrix of shape {tuple(matrix.shape)}",
                hint="one row a word, at least one column",
                code="vectors.damaged",
            )
        self.words = tuple(words)
        self.matrix, self.nearest = matrix, nearest
        self.index = {word: row for row, word in reversed(list(enumerate(words)))}
        self._digest = digest
        self._norms = np.concatenate(
            [np.linalg.norm(block.astype(np.float64), axis=1) for _, block in self._blocks()] or [np.ones(0)]
        )
        if not np.isfinite(self._norms).all():
            row = int(np.flatnonzero(~np.isfinite(self._norms))[0])
            raise TicketsError(
                f"the vector of {words[row]!r} (row {row}) is not finite",
                hint="the file is damaged: get it again",
                code="vectors.damaged",
            )
        self._norms[self._norms == 0] = np.inf  # a zero vector is like nothing: cosine 0
        self._tables: dict[int, Table] = {}
        self._ready: dict[tuple[str, int], Neighbours] = {}
        # the same lists by word: an attack asks for the cosines of its candidates
        self._near: dict[str, dict[str, float]] = {}
        self._measured = lru_cache(maxsize=PAIRS)(self._measure)

    @classmethod
    def load(cls, path: Path | str, *, digest: str | None = None) -> Vectors:
        """Read a folder or a text file (see ``resources.vectors``); ``digest`` if it is already known."""
        files = vector_files(Path(path))
        if files is None:
            raise TicketsError(
                f"no word vectors in {path}",
                hint="expected words.txt with one vectors*.npy, or a text file of 'word v1 v2 …'",
                code="vectors.missing",
            )
        words, matrix, nearest = read_vectors(files)
        return cls(words, matrix, nearest=nearest, digest=digest)

    @property
    def digest(self) -> str:
        """SHA-256 over the words, their vectors and a ready table."""
        if self._digest is None:
            total = hashlib.sha256("\n".join(self.words).encode("utf-8", "surrogatepass"))
            for _, block in self._blocks():
                total.update(np.ascontiguousarray(block).tobytes())
            if self.nearest is not None:
                total.update(np.ascontiguousarray(self.nearest).tobytes())
            self._digest = total.hexdigest()
        return self._digest

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.index

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
            found = self._ready[word, n] = self._list(self.index[word], n)
            self._near[word] = dict(found)
        return found

    def table(self, words: Iterable[str], n: int) -> Mapping[str, Neighbours]:
        """``neighbours`` of every known word, looked up at once; kept on disk (see ``resources.vectors``)."""
        wanted = {word: self.index[word] for word in sorted(set(words)) if word in self.index}
        if self.nearest is None and n > 0:
            self._learn(np.array(sorted(wanted.values()), dtype=np.int64), n)
        return _Lists(self, wanted, n)

    def _learn(self, rows: np.ndarray, n: int) -> None:
        length = min(n, len(self.index) - 1)
        table = self._tables.get(n) or Table.empty(length)
        if len(table.without(rows)):
            name = f"{hashlib.sha256(f'{self.digest} {n}'.encode()).hexdigest()[:32]}.npz"
            table = table.joined(Table.read(cache_place("neighbours", name), len(self), length))
            if len(table.without(rows)):
                place = cache_folder("neighbours") / name
                table = table.joined(Table.read(place, len(self), length))  # a temporary folder may have it
                if len(new := table.without(rows)):
                    table = table.joined(self._build(new, length))
                    # another process may have added its own meanwhile
                    table.joined(Table.read(place, len(self), length)).write(place)
        self._tables[n] = table

    def _build(self, rows: np.ndarray, length: int) -> Table:
        step = max(1, SCORES // max(1, len(self)))
        near, cosines = np.empty((len(rows), length), np.int32), np.empty((len(rows), length))
        with track("neighbours", len(rows)) as bar:
            for start in range(0, len(rows), step):
                some = slice(start, start + step)
                near[some], cosines[some] = self._search(rows[some].tolist(), length)
                bar.advance(len(rows[some]))
        return Table(rows, near, cosines)

    def _list(self, row: int, n: int) -> Neighbours:
        if self.nearest is not None:
            near, cosines = self._given(row, n)
        elif (table := self._tables.get(n)) is not None and (place := table.place(row)) is not None:
            near, cosines = table.near[place], table.cosines[place]
        else:
            near, cosines = (part[0] for part in self._search([row], min(n, len(self.index) - 1)))
        return [(self.words[other], cosine) for other, cosine in zip(near.tolist(), cosines.tolist(), strict=True)]

    def _given(self, row: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        wide = self.nearest.shape[1] - 1
        if n > wide:
            raise TicketsError(
                f"the table of neighbours that came with the vectors holds {wide} a word, {n} are asked for",
                hint="remove nn.npy, and neighbours are searched for",
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
        if len(self.index) < len(self):
            # a second listing of a word
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
        return ((start, self.matrix[start : start + ROWS]) for start in range(0, self.matrix.shape[0], ROWS))


class _Lists(Mapping[str, Neighbours]):
    """Lists of some words, made when they are asked for: all of them as Python objects would be hundreds of megabytes."""

    def __init__(self, vectors: Vectors, words: Mapping[str, int], n: int) -> None:
        self._vectors, self._words, self._n = vectors, words, n

    def __getitem__(self, word: str) -> Neighbours:
        if word not in self._words:
            raise KeyError(word)
        return self._vectors.neighbours(word, self._n)

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)


class WordLists:
    """What an attack asks of :class:`Vectors`, from lists."""

    def __init__(self, lists: Mapping[str, list[str]]) -> None:
        self.lists = lists

    def __len__(self) -> int:
        return len(self.lists)

    def __contains__(self, word: str) -> bool:
        return word in self.lists

    def cosine(self, a: str, b: str) -> float | None:
        """Not known, of any pair."""
        return None

    def neighbours(self, word: str, n: int) -> Neighbours:
        """At most ``n`` words of the list, in its order; none for an unknown word."""
        return [(near, math.nan) for near in self.lists.get(word, ())[:n]]

    def table(self, words: Iterable[str], n: int) -> Mapping[str, Neighbours]:
        """``neighbours`` of every known word."""
        return {word: self.neighbours(word, n) for word in sorted(set(words)) if word in self.lists}


def read_lists(path: Path) -> dict[str, list[str]]:
    """The lists of a file; refuses what is no table of lists of words."""
    lists = read_json(path)
    if not isinstance(lists, dict) or not all(
        isinstance(near, list) and all(isinstance(n, str) for n in near) for near in lists.values()
    ):
        raise TicketsError(
            f"{path} is not a table of word lists",
            hint='expected JSON: {"good": ["fine", "decent"], …}',
            code="words.lists",
        )
    return lists


def word_files(path: Path) -> list[Path] | None:
    """The files of word vectors (``resources.vectors``) or of lists at ``path``; none if there are none."""
    if path.suffix == ".json" and path.is_file():
        return None if path.name in (*LIST_FILES, "resource.json") else [path]
    return vector_files(path)


def load_words(path: Path, digest: str | None = None) -> Vectors | WordLists:
    """Whichever of the two lies at ``path``."""
    return WordLists(read_lists(path)) if path.suffix == ".json" else Vectors.load(path, digest=digest)
