"""The quick count of edits is Levenshtein's, and the constraint's short cuts never change its verdict."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from attacking import levenshtein
from robust_tickets.attack.components import Candidate
from robust_tickets.attack.constraints.edit_distance import STRIDE, EditDistance, distance
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.text import Text

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
    for _ in range(4):
        index = data.draw(st.integers(0, len(current) - 1))
        news = data.draw(
            st.lists(st.sampled_from(["ab", "bac", "a bc", "abcab", "c", "abc", "", "--"]), min_size=1, max_size=4)
        )
        candidates = [Candidate(current, index, new) for new in news]
        kept = EditDistance(most).keep(game, candidates, current)
        assert kept == [c for c in candidates if levenshtein(original.joined, "\n".join(c.columns)) <= most]
        if kept and len(kept[0].text):
            current = kept[0].text
