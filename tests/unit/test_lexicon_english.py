"""The guess whether texts are English, and the stop-word lists it leans on."""

from __future__ import annotations

from importlib.resources import files

import pytest

from robust_tickets.lexicon import stopwords
from robust_tickets.lexicon.english import CHARACTERS, mostly_english

ENGLISH = [
    "A gripping film with superb performances; I wouldn't have missed it for the world.",
    "Wall St. Bears Claw Back Into the Black (Reuters) - Short-sellers, Wall Street's dwindling band, are seeing green again.",
    "worst. movie. ever!!! 0/10 😀",
]
OTHERS = {
    "German": [
        "Der Film ist von Anfang an langweilig und die Schauspieler sind nicht gut.",
        "Am Ende hat mir nur die Musik gefallen.",
    ],
    "French": [
        "Le film est très ennuyeux et les acteurs ne sont pas bons.",
        "La fin était tellement prévisible que tout le monde savait.",
    ],
    "Dutch": [
        "De film is vanaf het begin saai en de acteurs zijn niet goed. Ik heb de kaarten op het internet gekocht."
    ],
    "Chinese": ["这部电影很好看，我非常喜欢", "剧情无聊"],
    "Arabic": ["هذا الفيلم جميل جدا"],
    "Russian": ["Фильм очень скучный"],
    "emoji": ["😀😀 🎬", "👍"],
}


def test_english() -> None:
    assert mostly_english(ENGLISH)
    assert all(mostly_english([text]) for text in ENGLISH)


@pytest.mark.parametrize("language", OTHERS)
def test_not_english(language: str) -> None:
    assert not mostly_english(OTHERS[language])
    if language != "emoji":  # which hold no letters to outweigh others
        assert not mostly_english(OTHERS[language] * 3 + ENGLISH[2:])  # "mostly": one English text does not change it


def test_a_foreign_text_among_many_english_ones() -> None:
    assert mostly_english(ENGLISH * 5 + OTHERS["Chinese"])


def test_nothing_to_judge_by() -> None:
    assert mostly_english([])
    assert mostly_english(["", "  \n"])


def test_a_text_of_megabytes_is_judged_by_its_beginning() -> None:
    assert mostly_english([" ".join(ENGLISH * 40)[:CHARACTERS] + OTHERS["Chinese"][0] * 10_000])
    assert not mostly_english(["x" * 2_000_000])  # at once


def test_takes_an_endless_stream() -> None:
    def stream() -> object:
        while True:
            yield from ENGLISH

    assert mostly_english(stream())  # type: ignore[arg-type]


def test_stop_words_are_the_lists_of_the_papers() -> None:
    assert len(stopwords.TEXTFOOLER) == 266
    assert len(stopwords.NLTK) == 179
    for words in (stopwords.TEXTFOOLER, stopwords.NLTK):
        assert all(word == word.lower() for word in words)
        assert {"the", "a", "and", "aren"} <= words
    assert "afterwards" in stopwords.TEXTFOOLER - stopwords.NLTK
    assert "mightn't" in stopwords.NLTK
    assert "Copyright (c) 2019 QData" in (files("robust_tickets.lexicon") / "TEXTATTACK-NOTICE").read_text()
