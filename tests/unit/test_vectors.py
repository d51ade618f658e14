"""Word vectors: nearest neighbours against a slow reference, the table of them that grows, and the forms files come in."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusing import refused
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.cache import cache_folder
from robust_tickets.resources import vectors as module
from robust_tickets.resources.kinds import resolve
from robust_tickets.resources.vectors import Vectors, WordLists, load_words, read_vectors, vector_files
from robust_tickets.seeds import numpy_generator

WORDS = ["good", "fine", "bad", "poor", "naïve"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))


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


def table(vectors: Vectors, words: list[str], n: int) -> dict[str, list[tuple[str, float]]]:
    vectors.look_up(words, n)
    return {word: vectors.neighbours(word, n) for word in words}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("n", [1, 5, 59, 100])
def test_neighbours_equal_the_slow_reference(dtype: type, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 7)  # many blocks, and a short last one
    words, matrix = made_up(dtype=dtype)
    vectors = Vectors(words, matrix)
    for word in words:
        same(vectors.neighbours(word, n), slow(words, matrix, word, n))


def test_a_table_is_read_from_disk_grows_and_is_built_again_when_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    real = Vectors._search

    def counted(self: Vectors, rows: list[int], n: int) -> Any:
        searched.extend(rows)
        return real(self, rows, n)

    words, matrix = made_up()
    expected = {word: Vectors(words, matrix).neighbours(word, 4) for word in words}
    monkeypatch.setattr(Vectors, "_search", counted)
    for some in (words[:20], words[10:30], words):  # in three processes as it were, each word once
        assert table(Vectors(words, matrix), some, 4) == {word: expected[word] for word in some}
    assert sorted(searched) == list(range(60))
    (stored,) = cache_folder("neighbours").iterdir()
    table(Vectors(words, matrix * 2), words[:1], 4)  # other vectors, another table
    assert len(list(cache_folder("neighbours").iterdir())) == 2
    stored.write_bytes(stored.read_bytes()[:50])
    assert table(Vectors(words, matrix), words, 4) == expected


def test_cosine_is_symmetric_and_none_for_unknown() -> None:
    words, matrix = made_up()
    vectors = Vectors(words, matrix)
    assert vectors.cosine("w1", "w2") == vectors.cosine("w2", "w1")
    assert vectors.cosine("w1", "w2") == dict(vectors.neighbours("w1", 59))["w2"]
    assert vectors.cosine("w3", "w7") == pytest.approx(1)
    assert vectors.cosine("w0", "w11") == 0
    assert vectors.cosine("w0", "W1") is None
    assert vectors.neighbours("W1", 5) == []


def test_a_word_listed_twice_keeps_its_first_vector() -> None:
    vectors = Vectors(["a", "b", "a", "c"], np.array([[1, 0], [0, 1], [0, 1], [0.1, 1]], dtype=np.float32))
    assert [word for word, _ in vectors.neighbours("b", 9)] == ["c", "a"]


@pytest.mark.shared
def test_real_vectors(shared: Path) -> None:
    folder = shared / "resources" / "counterfit-substitute"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    vectors = Vectors.load(folder)
    some = ["good", "film", "terrible", "quickly"]
    found = table(vectors, some, 50)
    assert found == {word: Vectors.load(folder).neighbours(word, 50) for word in some}
    assert all(len(near) == 50 and word not in dict(near) for word, near in found.items())
    assert found["terrible"][0][1] > 0.7
    same(found["good"], slow(list(vectors.words), vectors.matrix, "good", 50))


# --- files


def small() -> np.ndarray:
    return numpy_generator(5, "vectors").normal(size=(len(WORDS), 3)).astype(np.float32)


def written(rows: list[str], place: Path, header: str = "") -> Path:
    place.parent.mkdir(exist_ok=True)
    lines = [" ".join([word, *(repr(float(v)) for v in row)]) for word, row in zip(rows, small(), strict=True)]
    place.write_text(header + "\n".join(lines) + "\n")
    return place


def test_folders_and_text_files_by_many_names(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n")
    np.save(tmp_path / "vectors.fp16.npy", small().astype(np.float16))
    assert isinstance(Vectors.load(tmp_path).matrix, np.memmap)
    # as in GloVe's largest file; line ends of other kinds are words
    spaced = [". . .", "at name@domain.com", "\u2028", "\u00a0", "x"]
    for name, rows, header in (
        ("glove.6B.3d.txt", WORDS, ""),
        ("counter-fitted-vectors.txt", WORDS, ""),
        ("wiki.vec", WORDS, "5 3\n"),
        ("word2vec.txt", spaced, "5 3\n"),
        ("glove.txt", spaced[::-1], ""),
    ):
        file = written(rows, tmp_path / f"in-{name}" / name, header)
        vectors = Vectors.load(file.parent)
        assert vectors.words == tuple(rows)
        assert np.array_equal(vectors.matrix, small())
        assert Vectors.load(file).digest == vectors.digest == Vectors(rows, small()).digest


@pytest.mark.parametrize(
    "broken", ["a 1 2\nb 1\n", "a 1 2\nb x y\n", "x 1 2 3\ny 1 2 3 4\n", "\n", "", "caf\xe9 1 2\n"]
)
def test_bad_text_files(broken: str, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(broken.encode("latin-1"))
    with refused("vectors.damaged"):
        Vectors.load(tmp_path / "v.txt")


def test_bad_arrays(tmp_path: Path) -> None:
    with refused("vectors.missing"):
        Vectors.load(tmp_path)
    for wrong in (np.zeros((3, 2)), np.array([[1, 2], [np.nan, 1]])):
        with refused("vectors.damaged"):
            Vectors(["a", "b"], wrong.astype(np.float32))
    place = tmp_path / "vectors.npy"
    np.save(place, np.ones((1, 2), dtype=np.float32))
    whole = place.read_bytes()
    np.save(place, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    pickled = place.read_bytes()
    harmed = [whole.replace(*pair) for pair in ((b"}", b"{"), (b"'descr'", b"'descr "), (b"(1, 2)", b"(1, 2 "))]
    for data, words in [*((each, b"a\n") for each in (b"", whole[:60], pickled, *harmed)), (whole, b"\xff\n")]:
        place.write_bytes(data)
        (tmp_path / "words.txt").write_bytes(words)
        with refused("vectors.damaged"):
            Vectors.load(tmp_path)
    place.unlink()
    place.mkdir()
    with refused("file.unreadable"):
        Vectors.load(tmp_path)


def test_a_text_file_is_converted_line_by_line(tmp_path: Path) -> None:
    rows, width = 3000, 100
    line = " ".join(["0.125"] * width)
    (tmp_path / "v.vec").write_text("".join(f"w{i} {line}\n" for i in range(rows)))
    tracemalloc.start()
    _, matrix, _ = read_vectors([tmp_path / "v.vec"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert matrix.shape == (rows, width)
    assert peak < rows * width * 4  # less than the numbers alone


def textattack(folder: Path, nearest: Any = None) -> Path:
    folder.mkdir(parents=True)
    np.save(folder / "paragram.npy", small())
    # opening it would end the process
    (folder / "wordlist.pickle").write_bytes(b"cbuiltins\nexec\n(Vraise SystemExit('opened')\ntR.")
    if nearest is not None:
        np.save(folder / "nn.npy", nearest)
    return folder


def test_textattacks_folder_needs_a_list_of_words_for_its_pickle(tmp_path: Path) -> None:
    folder = textattack(tmp_path / "paragramcf")
    assert vector_files(folder) is None
    with refused("resource.missing"):
        resolve("vectors", folder)
    (folder / "wordlist.txt").write_text("\n".join(WORDS) + "\n")
    assert Vectors.load(folder).words == tuple(WORDS)
    (folder / "wordlist.txt").unlink()
    for listed in (WORDS, {word: row for row, word in enumerate(WORDS)}):
        (folder / "wordlist.json").write_text(json.dumps(listed))
        assert Vectors.load(folder).words == tuple(WORDS)
    assert resolve("vectors", folder).substitute  # nothing tells that they are the papers' own
    for wrong in ('{"good": 0, "bad": 0}', '{"good": 5}', "[1]", '"good"', '{"a": "b"}'):
        (folder / "wordlist.json").write_text(wrong)
        with refused("vectors.damaged"):
            Vectors.load(folder)


def test_textattacks_cache_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TA_CACHE_DIR", str(tmp_path / "ta"))
    folder = textattack(tmp_path / "ta" / "word_embeddings" / "paragramcf")
    with refused("resource.missing"):
        resolve("vectors")
    (folder / "wordlist.json").write_text(json.dumps(WORDS))
    assert (resolve("vectors").path, resolve("vectors").origin) == (folder, "installed folder")
    assert resolve("vectors").substitute  # somebody's own: the published ones have another shape
    np.lib.format.open_memmap(folder / "paragram.npy", mode="w+", dtype=np.float16, shape=(65_713, 300)).flush()
    assert not resolve("vectors").substitute


def test_its_table_of_neighbours_is_taken_as_it_is(tmp_path: Path) -> None:
    nearest = np.array([[row, (row + 2) % 5, (row + 1) % 5] for row in range(5)])  # not the nearest at all
    folder = textattack(tmp_path / "paragramcf", nearest)
    (folder / "wordlist.json").write_text(json.dumps(WORDS))
    plain, vectors, bare = resolve("vectors", folder).digest, Vectors.load(folder), Vectors(WORDS, small())
    vectors.look_up(WORDS, 2)
    assert vectors.neighbours("fine", 2) == [(word, bare.cosine("fine", word)) for word in ("poor", "bad")]
    with refused("vectors.neighbours"):
        vectors.neighbours("fine", 3)
    np.save(folder / "nn.npy", nearest[:, ::-1])
    assert resolve("vectors", folder).digest != plain
    for wrong in (nearest[:3], nearest + 1, nearest.astype(np.float32), nearest[0]):
        np.save(folder / "nn.npy", wrong)
        with refused("vectors.damaged"):
            Vectors.load(folder)


# --- lists of near words


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    path = tmp_path / "near.json"
    path.write_text(json.dumps({"good": ["fine", "decent", "nice"], "film": []}))
    return path


def test_a_word_has_its_list_in_order_and_no_cosine(lists: Path) -> None:
    words = load_words(lists)
    assert isinstance(words, WordLists)
    assert [near for near, _ in words.neighbours("good", 2)] == ["fine", "decent"]
    assert words.neighbours("film", 5) == words.neighbours("unknown", 5) == []
    assert words.cosine("good", "fine") is None
    told = TextFooler(vectors=str(lists), tagger="none", encoder="none").prepare("cpu").describe()
    assert any("first words of its list" in line for line in told)
    assert not any("at least 0.5" in line for line in told)


def test_a_file_of_lists_is_found_as_vectors_by_its_content(lists: Path) -> None:
    first = resolve("vectors", lists)
    assert (first.path, first.name, first.substitute) == (lists, "near", True)
    lists.write_text(json.dumps({"good": ["fine"]}))
    assert resolve("vectors", lists).digest != first.digest
    note = lists.with_name("resource.json")
    note.write_text(json.dumps({"name": "counter-fitted lists", "substitute": False}))
    named = resolve("vectors", lists)
    assert (named.name, named.substitute) == ("counter-fitted lists", False)
    with refused("resource.missing"):
        resolve("vectors", note)
    for wrong in ("[]", '{"good": "fine"}', '{"good": [1]}'):
        lists.write_text(wrong)
        with refused("words.lists"):
            load_words(lists)
