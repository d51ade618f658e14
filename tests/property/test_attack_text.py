"""Text surgery by spans equals a full scan of the result; windows are as the specification words them."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from attacking import literal_replace
from robust_tickets.attack.text import Text, marks, words_changed
from robust_tickets.attack.textattack_compat import OWN, PROFILES, Rules
from robust_tickets.errors import TicketsError
from robust_tickets.resources.words import word_list

ODD = ["é", "😀", "中文", "×", "`", "l", "\u202e", "[UNK]", "(", "\n"]
PIECES = st.sampled_from(
    ["a", "Film", "don't", "x-y", "-", "'", "_", "*", "@", ".", ", ", " ", "  ", "\t", "U.S.", *ODD]
)
TEXTS = st.lists(PIECES, max_size=14).map("".join)
COLUMNS = st.lists(TEXTS, min_size=1, max_size=2).map(tuple)
NEWS = st.lists(PIECES, max_size=4).map("".join)
RULES = [OWN, *PROFILES.values()]


@settings(max_examples=400, deadline=None)
@given(COLUMNS, st.lists(st.tuples(st.integers(0, 20), NEWS), max_size=4))
def test_replacing_equals_a_scan_of_the_result(columns: tuple[str, ...], edits: list[tuple[int, str]]) -> None:
    text = Text.of(columns)
    for place, new in edits:
        if not len(text):
            break
        index = place % len(text)
        before, count = text, len(word_list(new))
        text = text.replace(index, new)
        assert text.columns == before.swapped(index, new) == literal_replace(before.columns, index, new)
        scanned = Text.of(text.columns)
        assert (text.words, text.spans) == (scanned.words, scanned.spans)
        moved = {m if m < index else m + count - 1 for m in before.modified if m != index}
        assert text.modified == moved | set(range(index, index + count))
        assert len(text.sources) == len(text)


@settings(max_examples=200, deadline=None)
@given(COLUMNS, st.lists(st.tuples(st.integers(0, 20), NEWS), max_size=4))
def test_marks_point_at_what_replaced_each_word(columns: tuple[str, ...], edits: list[tuple[int, str]]) -> None:
    original = text = Text.of(columns)
    for place, new in edits:
        if len(text):
            text = text.replace(place % len(text), new)
    for mark in marks(original, text):
        assert text.columns[mark["column"]][mark["start"] : mark["end"]] == mark["new"] != mark["old"]
    if not edits:
        assert marks(original, text) == []
        assert words_changed(original, text) == 0


@settings(max_examples=300, deadline=None)
@given(COLUMNS, st.integers(0, 30), st.one_of(st.integers(1, 20), st.just(math.inf)))
def test_windows(columns: tuple[str, ...], place: int, size: float) -> None:
    text = Text.of(columns)
    if not len(text):
        return
    index, n = place % len(text), len(text)
    half = (size - 1) / 2
    if index - half < 0:
        wanted = range(int(min(size, n)))
    elif index + half >= n:
        wanted = range(int(max(0, n - size)), n)
    else:
        wanted = range(index - math.ceil(half), index + math.floor(half) + 1)
    window = text.window(index, size)
    assert word_list(window) == [text.words[i] for i in wanted]
    assert window in text.joined
    assert window == window.strip()


@settings(max_examples=400, deadline=None)
@given(
    COLUMNS,
    st.integers(0, 30),
    NEWS,
    st.integers(0, 30),
    st.one_of(st.integers(1, 20), st.just(math.inf)),
    st.sampled_from(RULES),
)
def test_a_candidates_window_needs_no_new_text(
    columns: tuple[str, ...], place: int, new: str, around: int, size: float, rules: Rules
) -> None:
    text = Text.of(columns, rules)
    if not len(text):
        return
    index = place % len(text)
    try:
        changed = text.replace(index, new)
    except TicketsError:
        return  # the profile itself fails
    if len(changed):
        assert text.window_with(index, new, around % len(changed), size) == changed.window(around % len(changed), size)


def test_deletion_takes_one_space() -> None:
    for before, index, after in [
        ("foo bar", 1, "foo "),  # nothing remains to the right: no space goes
        ("foo bar", 0, "bar"),
        ("a foo b", 1, "a b"),
        ("a  foo b", 1, "a  b"),
        ("(foo bar)", 0, "(bar)"),
        ("very, good", 1, "very, "),
        ("very, good!", 1, "very,!"),
    ]:
        assert Text.of(before).swapped(index, "") == (after,)
    assert Text.of(("a foo", "b")).swapped(1, "") == ("a", "b")  # the second column is text to the right
    assert Text.of(("a", "b c")).swapped(1, "") == ("a", " c")  # left of it is a column's end, no space


def test_modified_marks_move_with_a_longer_replacement() -> None:
    text = Text.of("one two three").replace(2, "drei").replace(0, "an other")
    assert text.columns == ("an other two drei",)
    assert (text.modified, text.sources) == ({0, 1, 3}, (0, 0, 1, 2))
