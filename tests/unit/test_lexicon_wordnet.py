"""The synonym table: equal to NLTK's answers, reproducible from WordNet's files, small, quick and light."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest

from robust_tickets.resources import wordnet
from robust_tickets.resources.wordnet import base_forms, digest, synonyms
from robust_tickets.seeds import numpy_generator

ROOT = Path(__file__).resolve().parents[2]
WORDNET = Path("/usr/share/wordnet")
CONTENT = "8bd5caaba4fb7cb272d0186c8923ac45769cefb5b0f57154cac13c0d0c5875b5"

needs_wordnet = pytest.mark.skipif(
    not (WORDNET / "data.noun").is_file(), reason=f"no WordNet in {WORDNET} (Debian: wordnet-base)"
)


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
    some += [
        *"aeiosx",
        "",
        "Paris",
        "paris",
        "U.S.",
        "men",
        "MEN",
        "better",
        "geese",
        "axes",
        "hot_dog",
        "hot dog",
        "İstanbul",
        "ﬁne",
        "was",
    ]
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


def test_base_forms_come_in_order() -> None:
    assert base_forms("axes", "noun") == ["ax", "axis"]
    assert base_forms("dog", "verb") == ["dog"]
    assert base_forms("dog", "adv") == []


def test_no_candidate_is_the_word_or_a_phrase() -> None:
    for word in ("film", "Movies", "lives", "hot_dog", "best"):
        found = synonyms(word)
        assert list(found) == sorted(set(found))
        assert word not in found
        assert not any("_" in name or " " in name for name in found)


def test_no_form_is_longer_than_what_is_looked_up() -> None:
    parts = wordnet._table().parts.values()
    assert max(len(form) for part in parts for form in (*part.naming, *part.irregular)) < wordnet.LONGEST
    before = wordnet._synonyms.cache_info().currsize
    assert wordnet.synonyms("dogs" * 1000) == ()
    assert wordnet._synonyms.cache_info().currsize == before  # a word of megabytes is not remembered
