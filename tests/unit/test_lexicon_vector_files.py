"""Vectors in the forms they are passed around in, TextAttack's own among them, and the table of neighbours that grows."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusing import refused
from robust_tickets.cache import cache_folder
from robust_tickets.resources.kinds import resolve
from robust_tickets.resources.vectors import Vectors, lacks, vector_files
from robust_tickets.seeds import numpy_generator

WORDS = ["good", "fine", "bad", "poor", "naïve"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))


def matrix() -> np.ndarray:
    return numpy_generator(5, "vectors").normal(size=(len(WORDS), 3)).astype(np.float32)


def textattack(folder: Path, nearest: Any = None) -> Path:
    folder.mkdir(parents=True)
    np.save(folder / "paragram.npy", matrix())
    (folder / "wordlist.pickle").write_bytes(pickle.dumps({word: row for row, word in enumerate(WORDS)}))
    if nearest is not None:
        np.save(folder / "nn.npy", nearest)
    return folder


def test_textattacks_folder_without_opening_its_pickle(tmp_path: Path) -> None:
    folder = textattack(tmp_path / "paragramcf")
    (folder / "wordlist.pickle").write_bytes(
        b"cbuiltins\nexec\n(Vraise SystemExit('opened')\ntR."
    )  # would end the process
    assert vector_files(folder) is None
    with refused("resource.missing"):
        resolve("vectors", folder)


@pytest.mark.parametrize("name", ["wordlist.txt", "wordlist.json"])
def test_a_list_of_words_beside_it(tmp_path: Path, name: str) -> None:
    folder = textattack(tmp_path / "paragramcf")
    (folder / name).write_text(json.dumps(WORDS) if name.endswith("json") else "\n".join(WORDS) + "\n")
    assert Vectors.load(folder).words == tuple(WORDS)
    assert resolve("vectors", folder).substitute  # nothing tells that they are the papers' own
    for wrong in ('{"good": 0, "bad": 0}', '{"good": 5}', "[1]", '"good"', '{"a": "b"}'):
        if name.endswith("json"):
            (folder / name).write_text(wrong)
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
    plain = resolve("vectors", folder).digest
    vectors = Vectors.load(folder)
    assert [word for word, _ in vectors.neighbours("fine", 2)] == ["poor", "bad"]
    assert vectors.table(WORDS, 2)["fine"] == vectors.neighbours("fine", 2)
    assert all(
        cosine == Vectors(WORDS, matrix()).cosine("fine", word) for word, cosine in vectors.neighbours("fine", 2)
    )
    with refused("vectors.neighbours"):
        vectors.neighbours("fine", 3)
    np.save(folder / "nn.npy", nearest[:, ::-1])
    assert resolve("vectors", folder).digest != plain
    for wrong in (nearest[:3], nearest + 1, nearest.astype(np.float32), nearest[0]):
        np.save(folder / "nn.npy", wrong)
        with refused("vectors.damaged"):
            Vectors.load(folder)


def written(rows: list[str], place: Path, header: str = "") -> Path:
    lines = [" ".join([word, *(repr(float(v)) for v in row)]) for word, row in zip(rows, matrix(), strict=True)]
    place.write_text(header + "\n".join(lines) + "\n")
    return place


def test_text_files_by_many_names(tmp_path: Path) -> None:
    spaced = [
        ". . .",
        "at name@domain.com",
        "\u2028",
        "\u00a0",
        "x",
    ]  # as in GloVe's largest file; line ends of other kinds are words
    for name, rows, header in (
        ("glove.6B.3d.txt", WORDS, ""),
        ("counter-fitted-vectors.txt", WORDS, ""),
        ("wiki.vec", WORDS, "5 3\n"),
        ("word2vec.txt", spaced, "5 3\n"),
        ("glove.txt", spaced[::-1], ""),
    ):
        folder = tmp_path / name
        folder.mkdir()
        written(rows, folder / name, header)
        vectors = Vectors.load(folder)
        assert vectors.words == tuple(rows)
        assert np.array_equal(vectors.matrix, matrix())
        assert Vectors.load(folder / name).digest == vectors.digest
    (folder / name).write_text("x 1 2 3\ny 1 2 3 4\n")  # a value too many is no word with a space
    with refused("vectors.damaged"):
        Vectors.load(folder)


def test_folders_without_vectors_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "words.txt").write_text("a\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "GoogleNews.bin").write_bytes(b"")
    for name in ("w", "b"):
        with refused("resource.missing"):
            resolve("vectors", tmp_path / name)
    assert lacks(tmp_path) == lacks(tmp_path / "absent") == ""


def test_datasets_share_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    real = Vectors._search

    def counted(self: Vectors, rows: list[int], n: int) -> Any:
        searched.extend(rows)
        return real(self, rows, n)

    monkeypatch.setattr(Vectors, "_search", counted)
    expected = {word: Vectors(WORDS, matrix()).neighbours(word, 2) for word in WORDS}
    searched.clear()
    assert dict(Vectors(WORDS, matrix()).table(WORDS[:3], 2)) == {word: expected[word] for word in WORDS[:3]}
    assert dict(Vectors(WORDS, matrix()).table(WORDS[1:4], 2)) == {word: expected[word] for word in WORDS[1:4]}
    assert sorted(searched) == [0, 1, 2, 3]  # each once, in two processes as it were
    assert len(list(cache_folder("neighbours").iterdir())) == 1
    vectors = Vectors(WORDS, matrix())
    assert dict(vectors.table(WORDS, 2)) == expected
    assert sorted(searched) == [0, 1, 2, 3, 4]
    assert "unknown" not in vectors.table([*WORDS, "unknown"], 2)
