"""The word rule on examples, and the stop words."""

from __future__ import annotations

from importlib.resources import files

import pytest

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
