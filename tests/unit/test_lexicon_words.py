"""The word rule, the stop words, and lists of near words."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from refusing import refused
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.resources.kinds import resolve
from robust_tickets.resources.vectors import Vectors, WordLists, load_words
from robust_tickets.resources.words import HOMOGLYPHS, NLTK, TEXTFOOLER, is_one_word, word_list, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\n ", []),
        ("don't, it's well-made!", ["don't", "it's", "well-made"]),
        ("U.S. films", ["U", "S", "films"]),
        ("'fine' -- (\"quoted\")", ["fine", "quoted"]),
        ("--- *** ''", []),
        ("a_b _c_ @user user@home", ["a_b", "c", "user", "user@home"]),
        ("Case IS kept", ["Case", "IS", "kept"]),
        ("col one\ncol two", ["col", "one", "col", "two"]),
        ("naïve Žižek 42nd", ["naïve", "Žižek", "42nd"]),
        ("3×4 a`b", ["3×4", "a`b"]),
        ("电影很好 good", ["电影很好", "good"]),
        ("great 😀 film", ["great", "film"]),
    ],
)
def test_examples(text: str, expected: list[str]) -> None:
    assert word_list(text) == expected


def test_homoglyphs_are_as_many_as_textattack_lists() -> None:
    assert len(HOMOGLYPHS) == 38


def test_spans_cut_the_text() -> None:
    text = "  'Tis well-made, don't you think?  "
    assert [text[a:b] for a, b in words(text)] == ["Tis", "well-made", "don't", "you", "think"]


@pytest.mark.parametrize(
    ("text", "one"),
    [("film", True), ("U.S.", False), ("film.", True), ("", False), ("a/c", False), ("well-to-do", True)],
)
def test_is_one_word(text: str, one: bool) -> None:
    assert is_one_word(text) is one


def test_stop_words_are_the_lists_of_the_papers() -> None:
    assert len(TEXTFOOLER) == 266
    assert len(NLTK) == 179
    for stop in (TEXTFOOLER, NLTK):
        assert all(word == word.lower() for word in stop)
        assert {"the", "a", "and", "aren"} <= stop
    assert "afterwards" in TEXTFOOLER - NLTK
    assert "mightn't" in NLTK
    assert "Copyright (c) 2019 QData" in (files("robust_tickets.resources") / "files" / "TEXTATTACK-NOTICE").read_text()


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
    assert set(words.table(["good", "unknown", "film"], 3)) == {"good", "film"}
    assert [word in words for word in ("good", "fine")] == [True, False]
    assert len(words) == 2


def test_a_file_of_lists_is_found_as_vectors_by_its_content(lists: Path) -> None:
    first = resolve("vectors", lists)
    assert (first.path, first.name, first.substitute) == (lists, "near", True)
    lists.write_text(json.dumps({"good": ["fine"]}))
    assert resolve("vectors", lists).digest != first.digest
    note = lists.with_name("resource.json")
    note.write_text(json.dumps({"name": "counter-fitted lists", "substitute": False}))
    assert resolve("vectors", lists).record() | {"digest": ""} == {
        "kind": "vectors", "name": "counter-fitted lists", "origin": "given path", "digest": "", "substitute": False,
    }  # fmt: skip
    with refused("resource.missing"):
        resolve("vectors", note)


@pytest.mark.parametrize("text", ["[]", '{"good": "fine"}', '{"good": [1]}'])
def test_what_is_no_table_of_lists_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "near.json"
    path.write_text(text)
    with refused("words.lists"):
        load_words(path)


def test_textfooler_says_that_its_words_are_of_lists(lists: Path) -> None:
    told = TextFooler(vectors=str(lists), tagger="none", encoder="none").prepare("cpu").describe()
    assert any("first words of its list" in line for line in told)
    assert any("no cosine is known" in line for line in told)
    assert not any("at least 0.5" in line for line in told)


def test_vectors_are_still_vectors(tmp_path: Path) -> None:
    file = tmp_path / "some.vec"
    file.write_text("good 1 0\nfine 1 0.1\n")
    assert isinstance(load_words(file), Vectors)
