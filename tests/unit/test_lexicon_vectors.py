"""Nearest neighbours: against a slow reference, on tiny made-up vectors and on real ones; files good and bad."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from refusing import refused
from robust_tickets.cache import cache_folder
from robust_tickets.resources import vectors as module
from robust_tickets.resources import vectors as vector_files
from robust_tickets.resources.vectors import Vectors
from robust_tickets.seeds import numpy_generator


def slow(words: list[str], matrix: np.ndarray, word: str, n: int) -> list[tuple[str, float]]:
    """Every cosine, in float64, sorted by cosine and then by place."""
    m = matrix.astype(np.float64)
    i = words.index(word)
    norms = [float(np.sqrt((row**2).sum())) or np.inf for row in m]
    scored = [(-float((m[i] * m[j]).sum() / (norms[i] * norms[j])), j) for j in range(len(words)) if j != i]
    return [(words[j], -minus) for minus, j in sorted(scored)[:n]]


def made_up(rows: int = 60, width: int = 5, dtype: type = np.float32) -> tuple[list[str], np.ndarray]:
    matrix = numpy_generator(3, "vectors").normal(size=(rows, width)).astype(dtype)
    matrix[7] = matrix[3]  # a tie
    matrix[11] = 0
    return [f"w{i}" for i in range(rows)], matrix


def same(found: list[tuple[str, float]], expected: list[tuple[str, float]]) -> None:
    assert [word for word, _ in found] == [word for word, _ in expected]
    assert np.allclose([c for _, c in found], [c for _, c in expected], atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("n", [1, 5, 59, 100])
def test_neighbours_equal_the_slow_reference(dtype: type, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 7)  # many blocks, and a short last one
    words, matrix = made_up(dtype=dtype)
    vectors = Vectors(words, matrix)
    for word in words:
        same(vectors.neighbours(word, n), slow(words, matrix, word, n))


@pytest.mark.parametrize(("rows", "scores"), [(1, 1), (7, 130), (1000, 10**6)])
def test_table_equals_single_look_ups_bit_for_bit(
    rows: int, scores: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words, matrix = made_up()
    single = {word: Vectors(words, matrix).neighbours(word, 9) for word in words}
    monkeypatch.setattr(module, "ROWS", rows)
    monkeypatch.setattr(module, "SCORES", scores)
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path))
    assert Vectors(words, matrix).table([*words, "unknown"], 9) == single


def test_table_is_read_from_disk_and_rebuilt_when_damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path))
    words, matrix = made_up()
    first = Vectors(words, matrix).table(words[:20], 4)
    (stored,) = cache_folder("neighbours").iterdir()

    def refuse(*_: object) -> None:
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(Vectors, "_search", refuse)
        assert Vectors(words, matrix).table(words[:20], 4) == first
        with pytest.raises(AssertionError, match="computed again"):
            Vectors(words, matrix * 2).table(words[:20], 4)  # other vectors, another key
    stored.write_bytes(stored.read_bytes()[:50])
    assert Vectors(words, matrix).table(words[:20], 4) == first


def test_cosine_is_symmetric_and_none_for_unknown() -> None:
    words, matrix = made_up()
    vectors = Vectors(words, matrix)
    assert vectors.cosine("w1", "w2") == vectors.cosine("w2", "w1")
    assert vectors.cosine("w1", "w2") == dict(vectors.neighbours("w1", 59))["w2"]
    assert vectors.cosine("w3", "w7") == pytest.approx(1)
    assert vectors.cosine("w0", "w11") == 0
    assert vectors.cosine("w0", "nothing") is None
    assert vectors.neighbours("nothing", 5) == []
    assert "w1" in vectors
    assert "W1" not in vectors


def test_a_word_listed_twice_keeps_its_first_vector() -> None:
    vectors = Vectors(["a", "b", "a", "c"], np.array([[1, 0], [0, 1], [0, 1], [0.1, 1]], dtype=np.float32))
    assert [word for word, _ in vectors.neighbours("b", 9)] == ["c", "a"]


def test_folder_and_text_file(tmp_path: Path) -> None:
    words, matrix = made_up()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "words.txt").write_text("\n".join(words) + "\n")
    np.save(folder / "vectors.fp16.npy", matrix.astype(np.float16))
    text = tmp_path / "some-vectors.txt"
    lines = [" ".join([word, *(repr(float(v)) for v in row)]) for word, row in zip(words, matrix, strict=True)]
    text.write_text("\n".join(lines) + "\n")
    assert isinstance(Vectors.load(folder).matrix, np.memmap)
    same(Vectors.load(text).neighbours("w1", 5), slow(words, matrix, "w1", 5))
    assert Vectors.load(text).digest == Vectors(words, matrix).digest
    text.write_text("60 5\n" + "\n".join(lines) + "\n")  # word2vec's header
    assert len(Vectors.load(text)) == 60


@pytest.mark.parametrize("broken", ["a 1 2\nb 1\n", "a 1 2\nb x y\n", "\n", ""])
def test_bad_text_files_say_where(broken: str, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(broken)
    with refused("vectors.damaged"):
        Vectors.load(tmp_path / "v.txt")


def test_bad_arrays(tmp_path: Path) -> None:
    with refused("vectors.damaged"):
        Vectors(["a", "b"], np.zeros((3, 2), dtype=np.float32))
    with refused("vectors.damaged"):
        Vectors(["a", "b"], np.array([[1, 2], [np.nan, 1]], dtype=np.float32))
    with refused("vectors.missing"):
        Vectors.load(tmp_path)
    (tmp_path / "words.txt").write_text("a\n")
    np.save(tmp_path / "vectors.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with refused("vectors.damaged"):
        Vectors.load(tmp_path)


def test_unreadable_files_are_said(tmp_path: Path) -> None:
    (tmp_path / "latin.vec").write_bytes("caf\xe9 1 2\n".encode("latin-1"))
    with refused("vectors.damaged"):
        Vectors.load(tmp_path / "latin.vec")
    (tmp_path / "words.txt").write_bytes(b"\xff\n")
    (tmp_path / "vectors.npy").write_bytes(b"")
    with refused("vectors.damaged"):
        Vectors.load(tmp_path)
    (tmp_path / "words.txt").write_text("a\n")
    np.save(tmp_path / "vectors.npy", np.ones((1, 2), dtype=np.float32))
    whole = (tmp_path / "vectors.npy").read_bytes()
    for damaged in (
        b"",
        whole[:60],
        whole.replace(b"}", b"{"),
        whole.replace(b"'descr'", b"'descr "),
        whole.replace(b"(1, 2)", b"(1, 2 "),
    ):
        (tmp_path / "vectors.npy").write_bytes(damaged)
        with refused("vectors.damaged"):
            Vectors.load(tmp_path)
    (tmp_path / "vectors.npy").unlink()
    (tmp_path / "vectors.npy").mkdir()
    with refused("file.unreadable"):
        Vectors.load(tmp_path)


def test_a_text_file_is_converted_line_by_line(tmp_path: Path) -> None:
    import tracemalloc

    rows, width = 3000, 100
    line = " ".join(["0.125"] * width)
    (tmp_path / "v.vec").write_text("".join(f"w{i} {line}\n" for i in range(rows)))
    tracemalloc.start()
    found = vector_files.convert(tmp_path / "v.vec")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.load(found[1]).shape == (rows, width)
    assert peak < rows * width * 4  # less than the numbers alone


@pytest.mark.shared
def test_real_vectors(shared: Path) -> None:
    folder = shared / "resources" / "counterfit-substitute"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    vectors = Vectors.load(folder)
    some = ["good", "film", "terrible", "quickly"]
    table = vectors.table(some, 50)
    assert table == {word: Vectors.load(folder).neighbours(word, 50) for word in some}
    assert all(len(found) == 50 and word not in dict(found) for word, found in table.items())
    assert table["terrible"][0][1] > 0.7
    same(table["good"], slow(list(vectors.words), vectors.matrix, "good", 50))
