"""Word vectors on disk, in the forms they are passed around in.

- a folder with ``words.txt`` (one word a line) and one ``vectors*.npy`` (float16, float32 or float64, read by memory map);
- a text file of lines "word v1 v2 …" (counter-fitted vectors, GloVe, word2vec's and fastText's ``.vec`` with their header), or a folder
  with one; it is turned into such a folder in the cache once;
- TextAttack's cache, ``paragramcf``: ``paragram.npy`` with ``wordlist.txt`` or ``wordlist.json`` beside it, and ``nn.npy``, its own table
  of neighbours. Its ``wordlist.pickle`` is never opened: a pickle can run anything. ``CONVERT`` is the command that its owner may run.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from robust_tickets.cache import cached, read_report, write_report
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json, write_bytes, write_chunks
from robust_tickets.locate import file_digest

TEXTATTACK, PICKLE, NEAREST = "paragram.npy", "wordlist.pickle", "nn.npy"
LISTS = ("wordlist.txt", "wordlist.json", "words.txt")
CONVERT = "python -c \"import json, pickle; json.dump(pickle.load(open('wordlist.pickle', 'rb')), open('wordlist.json', 'w'))\" in that folder"


def vector_files(path: Path) -> list[Path] | None:
    """What holds vectors at ``path``: [words, matrix], these and a table of neighbours, or [text file]; none if there are none."""
    if path.is_file():
        return [path] if path.suffix in (".txt", ".vec") and path.name not in LISTS else None
    words, matrices = path / "words.txt", sorted(path.glob("vectors*.npy"))
    if words.is_file() and len(matrices) == 1:
        return [words, matrices[0]]
    lists = [path / name for name in LISTS if (path / name).is_file()]
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
        raise TicketsError(f"{matrix_file} holds {matrix.dtype}, not floats", hint="save float16 or float32")
    nearest = _plain(tables[0]) if tables else None
    if nearest is not None:
        fits = nearest.ndim == 2 and len(nearest) == len(words) and np.issubdtype(nearest.dtype, np.integer)
        if not fits or (nearest.size and not 0 <= nearest.min() <= nearest.max() < len(words)):
            raise TicketsError(
                f"{tables[0]} is not a table of {len(words)} words' neighbours", hint="get it again, or remove it"
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
            f"{file} is neither a list of words nor a table of each word's row", hint="every row needs one word"
        )
    return raw


def _plain(file: Path) -> Any:
    with _readable(file):
        try:
            return np.load(file, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, SyntaxError, TokenError) as problem:  # the header is Python's text of a dict
            raise TicketsError(f"{file} is not a plain array: {problem}", hint="save it with numpy.save") from None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as problem:
        raise TicketsError(
            f"{path} is not UTF-8 text: {problem.reason} at byte {problem.start}", hint="save it as UTF-8"
        ) from None
    except OSError as problem:
        raise TicketsError(
            f"could not read {path}: {problem.strerror or problem}", hint="check the path and its rights"
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
                    )
                words.append(word)
            if not words:
                raise TicketsError(f"{text} holds no vectors", hint="expected lines of 'word v1 v2 …'")
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
                f"{text}, line {number}: not 'word v1 v2 …'", hint="the file is damaged or of another kind"
            ) from None
