"""Properties of the word rule: spans are ordered, apart, maximal in the slow rule's sense, and a word is one word."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

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
