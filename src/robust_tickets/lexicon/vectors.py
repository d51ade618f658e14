"""Word vectors and their nearest neighbours by cosine, with bounded memory (the original TextFooler built a matrix of 12 to 30 GB).

On disk: a folder with ``words.txt`` (one word a line) and one ``vectors*.npy`` (float16 or float32, read by memory map), or a text file
of lines "word v1 v2 …", which is turned into such a folder in the cache once.
Neighbours are found blockwise in float32 and those near the cut are scored again in float64, pair by pair, so that a word's list depends
neither on the block size nor on the words asked for beside it. Ties go to the word that comes first in the file.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from robust_tickets.errors import TicketsError
from robust_tickets.files import cache_folder, sha256_file, write_bytes, write_chunks
from robust_tickets.progress import track

ROWS = 16_384  # rows of the matrix taken at a time
SCORES = 8_388_608  # float32 scores held at a time (32 MiB)
SLACK = 1e-4  # float32 scores this close to the cut are scored again
Neighbours = list[tuple[str, float]]


class Vectors:
    """``words[i]`` has the vector ``matrix[i]``. Words are taken as they are written; a word listed twice keeps its first vector."""

    def __init__(self, words: Sequence[str], matrix: Any, *, digest: str | None = None) -> None:
        if matrix.ndim != 2 or len(words) != matrix.shape[0] or not matrix.shape[1]:
            raise TicketsError(
                f"{len(words)} words do not go with a matrix of shape {tuple(matrix.shape)}", hint="one row a word, at least one column"
            )
        self.words = tuple(words)
        self.matrix = matrix
        self.index = {word: row for row, word in reversed(list(enumerate(words)))}
        self._digest = digest
        self._norms = np.concatenate([np.linalg.norm(block.astype(np.float64), axis=1) for _, block in self._blocks()] or [np.ones(0)])
        if not np.isfinite(self._norms).all():
            row = int(np.flatnonzero(~np.isfinite(self._norms))[0])
            raise TicketsError(f"the vector of {words[row]!r} (row {row}) is not finite", hint="the file is damaged: get it again")
        self._norms[self._norms == 0] = np.inf  # a zero vector is like nothing: cosine 0
        self._found: dict[tuple[str, int], Neighbours] = {}

    @classmethod
    def load(cls, path: Path | str, *, digest: str | None = None) -> Vectors:
        """Read a folder or a text file (see the module); ``digest`` if it is already known."""
        files = vector_files(Path(path))
        if files is None:
            raise TicketsError(
                f"no word vectors in {path}", hint="expected words.txt with one vectors*.npy, or a text file of 'word v1 v2 …'"
            )
        if len(files) == 1:
            files = _convert(files[0])
        with _readable(files[0]):
            words = files[0].read_text(encoding="utf-8").removesuffix("\n").split("\n")
        with _readable(files[1]):
            try:
                matrix = np.load(files[1], mmap_mode="r", allow_pickle=False)
            except (ValueError, EOFError) as problem:
                raise TicketsError(f"{files[1]} is not a plain array: {problem}", hint="save it with numpy.save") from None
        if matrix.dtype not in (np.float16, np.float32, np.float64):
            raise TicketsError(f"{files[1]} holds {matrix.dtype}, not floats", hint="save float16 or float32")
        return cls(words, matrix, digest=digest)

    @property
    def digest(self) -> str:
        """SHA-256 over the words and their vectors."""
        if self._digest is None:
            total = hashlib.sha256("\n".join(self.words).encode())
            for _, block in self._blocks():
                total.update(np.ascontiguousarray(block).tobytes())
            self._digest = total.hexdigest()
        return self._digest

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.index

    def cosine(self, a: str, b: str) -> float | None:
        """Cosine of the two words' vectors; none where one is unknown."""
        if a not in self.index or b not in self.index:
            return None
        row, other = sorted((self.index[a], self.index[b]))
        return float(self._exact(row, np.array([other]))[0])

    def neighbours(self, word: str, n: int) -> Neighbours:
        """The ``n`` nearest other words with their cosines, nearest first; none for an unknown word."""
        if word not in self.index:
            return []
        if (word, n) not in self._found:
            self._found[word, n] = self._search([self.index[word]], n)[0]
        return self._found[word, n]

    def table(self, words: Iterable[str], n: int) -> dict[str, Neighbours]:
        """``neighbours`` of every known word at once; kept on disk under the digest of what went in."""
        wanted = sorted({word for word in words if word in self.index})
        if any((word, n) not in self._found for word in wanted):
            key = hashlib.sha256("\n".join([self.digest, str(n), *wanted]).encode("utf-8", "surrogatepass")).hexdigest()
            place = cache_folder("neighbours") / f"{key[:32]}.npz"
            stored = _read_table(place, len(wanted))
            if stored is None:
                stored = self._build(wanted, n)
                stream = io.BytesIO()
                np.savez_compressed(stream, counts=stored["counts"], rows=stored["rows"], cosines=stored["cosines"])
                write_bytes(place, stream.getvalue())
            ends = np.cumsum(stored["counts"])
            for word, end, count in zip(wanted, ends, stored["counts"], strict=True):
                cut = slice(end - count, end)
                pairs = zip(stored["rows"][cut].tolist(), stored["cosines"][cut].tolist(), strict=True)
                self._found[word, n] = [(self.words[row], cosine) for row, cosine in pairs]
        return {word: self._found[word, n] for word in wanted}

    def _build(self, words: list[str], n: int) -> dict[str, np.ndarray]:
        step = max(1, SCORES // max(1, len(self)))
        found: list[Neighbours] = []
        with track("neighbours", len(words)) as bar:
            for start in range(0, len(words), step):
                some = words[start : start + step]
                found += self._search([self.index[word] for word in some], n)
                bar.advance(len(some))
        rows = [self.index[word] for neighbours in found for word, _ in neighbours]
        cosines = [cosine for neighbours in found for _, cosine in neighbours]
        return {"counts": np.array([len(each) for each in found]), "rows": np.array(rows, dtype=np.int64), "cosines": np.array(cosines)}

    def _search(self, rows: list[int], n: int) -> list[Neighbours]:
        """The nearest of each of ``rows``; holds len(rows) × len(self) float32 scores."""
        queries = self.matrix[rows].astype(np.float32) / self._norms[rows, None].astype(np.float32)
        scores = np.empty((len(rows), len(self)), dtype=np.float32)
        for start, block in self._blocks():
            scores[:, start : start + len(block)] = queries @ block.astype(np.float32).T
        scores /= self._norms.astype(np.float32)
        scores[np.arange(len(rows)), rows] = -np.inf  # not itself
        if len(self.index) < len(self):
            scores[:, [row for row, word in enumerate(self.words) if self.index[word] != row]] = -np.inf  # a second listing of a word
        n = min(n, len(self.index) - 1)
        return [self._nearest(row, line, n) for row, line in zip(rows, scores, strict=True)]

    def _nearest(self, row: int, scores: np.ndarray, n: int) -> Neighbours:
        if n <= 0:
            return []
        cut = np.partition(scores, len(scores) - n)[len(scores) - n]
        near = np.flatnonzero(scores >= cut - SLACK)
        near = near[np.isfinite(scores[near])]
        exact = self._exact(row, near)
        order = np.lexsort((near, -exact))[:n]
        return [(self.words[near[place]], float(exact[place])) for place in order]

    def _exact(self, row: int, others: np.ndarray) -> np.ndarray:
        """Float64 cosines, each summed by itself: the same bits whatever else is in ``others``."""
        products = self.matrix[others].astype(np.float64) * self.matrix[row].astype(np.float64)
        return products.sum(axis=1) / (self._norms[others] * self._norms[row])

    def _blocks(self) -> Iterable[tuple[int, Any]]:
        return ((start, self.matrix[start : start + ROWS]) for start in range(0, self.matrix.shape[0], ROWS))


def vector_files(path: Path) -> list[Path] | None:
    """The files that hold vectors at ``path``: [words.txt, matrix], or [text file]; none if there is no such thing."""
    if path.is_file():
        return [path] if path.suffix in (".txt", ".vec") and path.name != "words.txt" else None
    words, matrices = path / "words.txt", sorted(path.glob("vectors*.npy"))
    if words.is_file() and len(matrices) == 1:
        return [words, matrices[0]]
    texts = [file for file in sorted(path.glob("*.txt")) if "vector" in file.name.lower()]
    return texts if len(texts) == 1 else None


def lacks(path: Path) -> str:
    """What is wrong with a folder that nearly holds vectors; empty otherwise."""
    return ""


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as problem:
        raise TicketsError(f"{path} is not UTF-8 text: {problem.reason} at byte {problem.start}", hint="save it as UTF-8") from None
    except OSError as problem:
        raise TicketsError(f"could not read {path}: {problem.strerror or problem}", hint="check the path and its rights") from None


def _convert(text: Path) -> list[Path]:
    """A text file as words.txt and vectors.npy in the cache; read twice, so that the numbers are never held together."""
    with _readable(text):
        folder = cache_folder("vectors", sha256_file(text)[:32])
        words_file, matrix_file = folder / "words.txt", folder / "vectors.npy"
        if not words_file.is_file():  # written last
            words, width = [], 0
            for number, word, values in _lines(text):
                width = width or len(values)
                if len(values) != width or not word or not width:
                    raise TicketsError(f"{text}, line {number}: {len(values)} values where {width} were expected", hint="check the file")
                words.append(word)
            if not words:
                raise TicketsError(f"{text} holds no vectors", hint="expected lines of 'word v1 v2 …'")
            write_chunks(matrix_file, _array(text, (len(words), width)))
            write_bytes(words_file, ("\n".join(words) + "\n").encode())
    return [words_file, matrix_file]


def _lines(text: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Line number, word and values of every line but a word2vec header (number of words, width)."""
    with open(text, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            word, *values = line.rstrip("\n").rstrip(" ").split(" ")
            if not (number == 1 and len(values) == 1 and word.isdigit()):
                yield number, word, values


def _array(text: Path, shape: tuple[int, int]) -> Iterator[bytes]:
    """The values of a text file as the bytes of a .npy file."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    yield header.getvalue()
    for number, _, values in _lines(text):
        try:
            yield np.array(values, dtype="<f4").tobytes()
        except ValueError:
            raise TicketsError(f"{text}, line {number}: not 'word v1 v2 …'", hint="the file is damaged or of another kind") from None


def _read_table(place: Path, words: int) -> dict[str, np.ndarray] | None:
    """A stored table; none if there is none or it is damaged (it is then built again)."""
    try:
        with open(place, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
            table = {name: stored[name] for name in ("counts", "rows", "cosines")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    fits = len(table["counts"]) == words and table["counts"].sum() == len(table["rows"]) == len(table["cosines"])
    return table if fits else None
