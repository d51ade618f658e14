"""Properties of vectors and their neighbours."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from robust_tickets.resources import vectors as module
from robust_tickets.resources.vectors import Vectors, read_vectors

WORD = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters=" \n\r"), min_size=1, max_size=6)
VALUE = st.floats(-100, 100, width=32)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(WORD, st.lists(VALUE, min_size=2, max_size=2)), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_a_text_file_gives_back_its_words_and_numbers(
    rows: list[tuple[str, list[float]]], header: bool, spaces: bool
) -> None:
    lines = [f"{word} {' '.join(map(repr, values))}{' ' * spaces}" for word, values in rows]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "v.vec"
        file.write_bytes(("\n".join([*(["9 2"] if header else []), *lines]) + "\n").encode())
        words, matrix, nearest = read_vectors([file])
        assert words == [word for word, _ in rows]
        assert np.array_equal(matrix, np.array([values for _, values in rows], dtype=np.float32))
        assert nearest is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=3, max_size=3), min_size=2, max_size=9), st.integers(1, 6), st.data()
)
def test_a_table_changes_nothing(rows: list[list[int]], n: int, data: st.DataObject) -> None:
    """Lists and cosines are the same bits whether they were looked up at once, one by one, or in parts."""
    words, matrix = [f"w{number}" for number in range(len(rows))], np.array(rows, dtype=np.float32)
    assume(len(words) > 1)
    plain, tabled = Vectors(words, matrix), Vectors(words, matrix)
    for some in data.draw(st.lists(st.sets(st.sampled_from(words)), max_size=3)):
        tabled.look_up(some, n)
    for word in words:
        assert tabled.neighbours(word, n) == plain.neighbours(word, n)
        assert [tabled.cosine(word, other) for other in words] == [
            Vectors(words, matrix).cosine(word, other) for other in words
        ]


ROWS = st.lists(
    st.lists(st.integers(-2, 2), min_size=3, max_size=3), min_size=1, max_size=12
)  # small integers: many ties


@settings(max_examples=150, deadline=None)
@given(ROWS, st.integers(0, 13), st.integers(1, 13), st.sampled_from([np.float16, np.float32]))
def test_neighbours_are_the_best_there_are(rows: list[list[int]], n: int, block: int, dtype: type) -> None:
    words = [f"w{number}" for number in range(len(rows))]
    matrix = np.array(rows, dtype=dtype)
    vectors = Vectors(words, matrix)
    kept = module.ROWS
    module.ROWS = block
    try:
        blocked = {word: Vectors(words, matrix).neighbours(word, n) for word in words}
    finally:
        module.ROWS = kept
    for word in words:
        found = vectors.neighbours(word, n)
        assert found == blocked[word]
        every = [(-(vectors.cosine(word, other) or 0.0), place) for place, other in enumerate(words) if other != word]
        assert found == [(words[place], -minus) for minus, place in sorted(every)[:n]]
        assert word not in dict(found)
