"""Text surgery by spans, joined pieces and edit distance against slow references."""

from __future__ import annotations

import math
from itertools import islice, product

from hypothesis import example, given, settings
from hypothesis import strategies as st

from attacking import levenshtein, literal_replace
from robust_tickets.attack.components import Candidate
from robust_tickets.attack.constraints import STRIDE, EditDistance, distance
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.text import Text, marks, words_changed
from robust_tickets.attack.textattack_compat import OWN, PROFILES, Rules
from robust_tickets.attack.transforms import joined
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


SPELT = "a ##b cd , . ' - # ## ##- [UNK] x- é × _ 1 a,b ##, #a"
TOKENS = [" ", *SPELT.split()]
ROWS = st.lists(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=4), min_size=2, max_size=5)


@given(ROWS, st.sampled_from([OWN, *PROFILES.values()]))
@example([["a"], ["#"], ["#"], ["cd"]], OWN)
@example([[","], [",", "."], [","]], OWN)
def test_it_is_the_product_without_what_is_not_one_word(rows: list[list[str]], rules: object) -> None:
    spelt = ("".join(parts).replace("##", "") for parts in product(*rows))
    assert list(joined(rows, rules)) == [(place, word) for place, word in enumerate(spelt) if rules.one_word(word)]  # type: ignore[arg-type]


def test_what_textattack_would_need_years_for_takes_no_time() -> None:
    words = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwx"]
    never = [["a"], [","], *[words] * 12]  # 24^12 combinations, all of two words
    assert list(joined(never, OWN)) == []
    late = [["a"], [",", "b"], *[words] * 12]
    assert [word[:2] for _, word in islice(joined(late, OWN), 48)] == ["ab"] * 48
    ends = [["a", "b"], *[words] * 12, [","], ["c"]]  # only the last token makes it two words
    assert list(joined(ends, OWN)) == []
    long = [["a"], *[words] * 500]
    assert len(list(islice(joined(long, OWN), 48))) == 48


short = st.text(alphabet="ab c", max_size=14)


@given(short, short, st.integers(0, 16))
@settings(max_examples=600, deadline=None)
def test_equals_the_table(a: str, b: str, most: int) -> None:
    whole = levenshtein(a, b)
    assert distance(a, b, most) == (whole if whole <= most else None)


@given(
    st.text(alphabet="ab", min_size=60, max_size=200),
    st.lists(st.tuples(st.integers(0, 220), st.sampled_from(["", "b", "ab"])), max_size=6),
)
@settings(max_examples=80, deadline=None)
def test_equals_the_table_on_texts_longer_than_a_stride(a: str, changes: list[tuple[int, str]]) -> None:
    b = a
    for place, new in changes:
        b = b[:place] + new + b[place + 1 :]
    assert distance(a, b, 30) == levenshtein(a, b)


def test_ends_and_strides() -> None:
    for size in (0, 1, STRIDE - 1, STRIDE, STRIDE + 1, 2 * STRIDE):
        text = "x" * size
        assert distance(text, text, 0) == 0
        assert distance(text, text + "y", 0) is None
        assert distance(text + "y", text, 1) == 1
        assert distance("y" + text, text + "z", 9) == min(2, size + 1)
    assert distance("", "abc", 3) == 3
    assert distance("ab", "ba", 5) == 2  # a swap is two edits


@given(st.lists(st.sampled_from(["abc", "bca", "a-b", "cab", "b"]), min_size=1, max_size=6), st.data())
@settings(max_examples=150, deadline=None)
def test_the_constraint_measures_from_the_original(words: list[str], data: st.DataObject) -> None:
    original = current = Text.of((" ".join(words), "b cab"))
    game = ExampleState(original=original, goal=Untargeted(0), column_names=("a", "b"), noise=0.0)
    most = data.draw(st.integers(0, 6))
    check = EditDistance(most)
    for _ in range(4):
        index = data.draw(st.integers(0, len(current) - 1))
        news = data.draw(
            st.lists(st.sampled_from(["ab", "bac", "a bc", "abcab", "c", "abc", "", "--"]), min_size=1, max_size=4)
        )
        candidates = [Candidate(current, index, new) for new in news]
        kept = check.keep(game, candidates, current)
        assert kept == [c for c in candidates if levenshtein(original.joined, "\n".join(c.columns)) <= most]
        if kept and len(kept[0].text):
            current = kept[0].text
