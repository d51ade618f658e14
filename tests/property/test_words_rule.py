"""The word rule and the tagger against slow references."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_tickets.resources.tagger import Perceptron, Tagger
from robust_tickets.resources.words import HOMOGLYPHS, INSIDE, is_one_word, word_list, words

TEXTS = st.one_of(st.text(max_size=40), st.text(alphabet="ab.' -_*@\n×`l\u00e9\u4e2d", max_size=40))


def slow_words(text: str) -> list[str]:
    """The rule as described: tokens by white space, ends stripped, runs found, ends stripped again, empties dropped."""
    found: list[str] = []
    for token in text.split():
        runs = re.findall(f"[\\w{HOMOGLYPHS}'\\-_*@]+", token.strip(INSIDE))
        found += [run.strip(INSIDE) for run in runs]
    return [word for word in found if word]


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_equals_the_slow_rule(text: str) -> None:
    assert word_list(text) == slow_words(text)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_spans_are_ordered_and_each_word_stands_alone(text: str) -> None:
    last = 0
    for start, end in words(text):
        assert last <= start < end <= len(text)
        last = end
        word = text[start:end]
        assert is_one_word(word)
        assert word_list(word) == [word]
        assert word[0] not in INSIDE
        assert word[-1] not in INSIDE


nltk_tagger = pytest.importorskip("nltk.tag.perceptron")
SPELT = "good Good film films well-made -x - 1994 12 3rd a odd the naïve 🎬 ing"
WORDS = ["", *SPELT.split()]
TAGS = ["DT", "JJ", "NN", "NNS", "VB", "."]
NAMES = ["i suffix", "i pref1", "i word", "i-1 word", "i-1 suffix", "i-2 word", "i+1 word", "i+1 suffix", "i+2 word"]


def both(weights: dict[str, dict[str, float]], certain: dict[str, str], classes: list[str]) -> tuple[Perceptron, Any]:
    theirs = nltk_tagger.PerceptronTagger(load=False)
    theirs.model.weights, theirs.tagdict = weights, certain
    theirs.classes = theirs.model.classes = set(classes)
    return Perceptron(weights, certain, classes), theirs


def made_up(seed: int) -> tuple[dict[str, dict[str, float]], dict[str, str], list[str]]:
    """Weights from a coarse grid, so that classes tie often."""
    dice = random.Random(seed)
    marks = ["!HYPHEN", "!YEAR", "!DIGITS", "-START-", "-END-"]
    values = [*WORDS, *(word[-3:] for word in WORDS), *(word[:1] for word in WORDS), *marks]
    features = ["bias", *(f"{name} {value}" for name in NAMES for value in values)]
    features += [f"{name} {tag}" for name in ("i-1 tag", "i-2 tag") for tag in TAGS]
    features += [f"i tag+i-2 tag {a} {b}" for a in TAGS for b in TAGS] + [
        f"i-1 tag+i word {t} {w}" for t in TAGS for w in WORDS
    ]
    kept = [feature for feature in features if dice.random() < 0.6]
    weights = {
        feature: {tag: dice.choice([-1.0, -0.1, 0.1, 0.3, 1.0]) for tag in TAGS if dice.random() < 0.5}
        for feature in kept
    }
    return weights, {"the": "DT"}, TAGS


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 5), st.lists(st.sampled_from([*WORDS, "unseen", "x-ray"]), max_size=9))
def test_equals_nltk_on_made_up_weights(seed: int, words: list[str]) -> None:
    own, theirs = both(*made_up(seed))
    expected = [tag for _, tag in theirs.tag(words)]
    assert own.tag(words) == expected
    assert [
        own.tag(words, place)[place] for place in range(len(words))
    ] == expected  # the words after one are seen, not tagged


@pytest.mark.shared
def test_equals_nltk_on_the_real_model(shared: Path) -> None:
    folder = shared / "resources" / "nltk_data"
    words = shared / "resources" / "counterfit-substitute" / "words.txt"
    if not folder.is_dir() or not words.is_file():
        pytest.skip(f"no {folder}")
    tagger = Tagger.load(folder)
    theirs = both(tagger._model._weights, tagger._model.certain, tagger._model.classes)[1]
    dice, many = random.Random(0), words.read_text().split("\n")
    for _ in range(400):
        context = (
            dice.choices(many[:3000], k=4)
            + [dice.choice(many), "1994", "well-made"][: dice.randint(1, 3)]
            + dice.choices(many, k=3)
        )
        expected = [tagger._universal.get(tag, "X") for _, tag in theirs.tag(context)]
        assert tagger.tags(context) == tagger(context) == expected
        assert [tagger.at(context, place) for place in range(len(context))] == expected
