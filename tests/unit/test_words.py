"""The word rule, stop words, WordNet's synonyms (against NLTK's answers) and the tagger (against NLTK's own)."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest

from refusing import refused
from robust_tickets.resources import wordnet
from robust_tickets.resources.tagger import MODEL, Tagger
from robust_tickets.resources.wordnet import digest, synonyms
from robust_tickets.resources.words import HOMOGLYPHS, NLTK, TEXTFOOLER, is_one_word, word_list
from robust_tickets.seeds import numpy_generator

ROOT = Path(__file__).resolve().parents[2]
WORDNET = Path("/usr/share/wordnet")
CONTENT = "8bd5caaba4fb7cb272d0186c8923ac45769cefb5b0f57154cac13c0d0c5875b5"
needs_wordnet = pytest.mark.skipif(
    not (WORDNET / "data.noun").is_file(), reason=f"no WordNet in {WORDNET} (Debian: wordnet-base)"
)


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


@pytest.mark.parametrize(
    ("text", "one"),
    [("film", True), ("U.S.", False), ("film.", True), ("", False), ("a/c", False), ("well-to-do", True)],
)
def test_is_one_word(text: str, one: bool) -> None:
    assert is_one_word(text) is one


def test_stop_words_are_the_lists_of_the_papers() -> None:
    assert len(TEXTFOOLER) == 266
    assert len(NLTK) == 179
    assert len(HOMOGLYPHS) == 38
    for stop in (TEXTFOOLER, NLTK):
        assert all(word == word.lower() for word in stop)
        assert {"the", "a", "and", "aren"} <= stop
    assert "afterwards" in TEXTFOOLER - NLTK
    assert "mightn't" in NLTK
    assert "Copyright (c) 2019 QData" in (files("robust_tickets.resources") / "files" / "TEXTATTACK-NOTICE").read_text()


# --- WordNet


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_golden_answers_of_nltk() -> None:
    golden = json.loads((ROOT / "tests" / "golden" / "wordnet.json").read_text(encoding="utf-8"))
    assert len(golden) == 300
    assert sum(map(bool, golden.values())) == 220
    assert {word: list(synonyms(word)) for word in golden} == golden


@needs_wordnet
def test_equals_nltk_on_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nltk_data = pytest.importorskip("nltk.data", reason="compares with nltk")
    monkeypatch.setattr(nltk_data, "path", list(nltk_data.path))
    check = script("check_wordnet")
    theirs = check.reader(WORDNET, tmp_path)
    words = check.sample(WORDNET, inflections=20_000, seed=7)
    some = [words[number] for number in numpy_generator(7, "sample").permutation(len(words))[:4_000]]
    odd = "Paris paris U.S. men MEN better geese axes hot_dog İstanbul ﬁne was"
    some += [*"aeiosx", "", "hot dog", *odd.split()]
    assert sum(bool(synonyms(word)) for word in some) > 1_000
    different = {word: theirs_ for word in some if (theirs_ := check.answer(theirs, word)) != list(synonyms(word))}
    assert not different


@needs_wordnet
def test_script_rebuilds_the_shipped_table() -> None:
    build = script("build_wordnet")
    data = build.table(WORDNET)
    assert hashlib.sha256(data).hexdigest() == digest()
    assert build.compress(data) == build.compress(data)


def test_table_is_the_recorded_one_and_small() -> None:
    table = files("robust_tickets.resources") / "files" / "wordnet.txt.gz"
    assert digest() == CONTENT
    assert len(table.read_bytes()) < 2_000_000
    licence = (files("robust_tickets.resources") / "files" / "WORDNET-LICENSE").read_text()
    assert "WordNet 3.0 Copyright 2006 by Princeton University.  All rights reserved." in licence


def test_case_and_form_of_the_word() -> None:
    assert "dog" in synonyms("Dog")  # the word is excluded as it is written, so another case of it is a candidate
    assert "dog" not in synonyms("dog")
    assert "goose" in synonyms("geese")  # an irregular form
    assert "run" in synonyms("running")  # a rule
    assert "well" in synonyms("BETTER")
    assert synonyms("Paris") == ()  # its other names are phrases
    assert "US" in synonyms("U.S.")
    assert "U.S." not in synonyms("us")  # two words by the word rule
    assert synonyms("") == synonyms("qwrtz") == synonyms("电影") == ()


def test_no_form_is_longer_than_what_is_looked_up() -> None:
    parts = wordnet._table()[0].values()
    assert max(len(form) for part in parts for form in (*part.naming, *part.irregular)) < wordnet.LONGEST
    before = wordnet._synonyms.cache_info().currsize
    assert wordnet.synonyms("dogs" * 1000) == ()
    assert wordnet._synonyms.cache_info().currsize == before  # a word of megabytes is not remembered


# --- the tagger


def tiny_tagger(root: Path) -> Path:
    """Two tags, decided by the last letters of a word; "the" has a fixed one."""
    folder = root / "taggers" / MODEL
    folder.mkdir(parents=True)
    weights = {"i suffix ing": {"VBG": 2.0}, "bias": {"NN": 1.0}, "i word odd": {"??": 5.0}}
    for part, value in (("weights", weights), ("tagdict", {"the": "DT"}), ("classes", ["??", "DT", "NN", "VBG"])):
        (folder / f"{MODEL}.{part}.json").write_text(json.dumps(value))
    (root / "taggers" / "universal_tagset").mkdir()
    (root / "taggers" / "universal_tagset" / "en-ptb.map").write_text("DT\tDET\nNN\tNOUN\nVBG\tVERB\n")
    return root


def test_tags_of_a_tiny_tagger(tmp_path: Path) -> None:
    tagger = Tagger.load(tiny_tagger(tmp_path))
    assert tagger.tags(["the", "odd", "walking", "film"]) == ["DET", "X", "VERB", "NOUN"]
    assert tagger.tags([]) == []


def test_damaged_taggers_say_so(tmp_path: Path) -> None:
    with refused("tagger.missing"):
        Tagger.load(tmp_path)
    root = tiny_tagger(tmp_path / "a")
    (root / "taggers" / "universal_tagset" / "en-ptb.map").write_text("DT\n")
    with refused("tagger.damaged"):
        Tagger.load(root)
    root = tiny_tagger(tmp_path / "b")
    (root / "taggers" / MODEL / f"{MODEL}.weights.json").write_text("[]")
    with refused("tagger.damaged"):
        Tagger.load(root)
