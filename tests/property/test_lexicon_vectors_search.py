"""Properties of the neighbour search: the best cosines there are, never the word itself, the same bits for any block size."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_tickets.resources import vectors as module
from robust_tickets.resources.vectors import Vectors

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
