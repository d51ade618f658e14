"""What is said of the attacked examples: as even as the rows allow, all of them, or fewer than were asked for."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robust_tickets.attack.examples import by_class, how, rows_of, short_of
from robust_tickets.attack.options import AttackOptions
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split

NAMES = ("Bad", "Good")
CLF = Classifier.wrap(
    lambda texts: [[0.3, 0.7] if "good" in text else [0.7, 0.3] for text in texts], labels=list(NAMES)
)


def split(*counts: int) -> Split:
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    return Split.of([f"a {'good' if label else 'bad'} film {i}" for i, label in enumerate(labels)], labels)


@given(st.lists(st.integers(0, 8), min_size=2, max_size=4).filter(any), st.integers(0, 20), st.integers(0, 3))
def test_what_is_called_balanced_is_even_and_what_is_called_all_is_all(sizes: list[int], n: int, seed: int) -> None:
    rows = split(*sizes)
    chosen = rows_of(rows, AttackOptions(n=n, seed=seed), len(sizes))
    counts = by_class(rows.labels[chosen], len(sizes))
    said = how("balanced", seed, [f"c{i}" for i in range(len(sizes))], counts, len(rows))
    assert ("balanced over" in said) == (len(chosen) < len(rows) and 0 < min(counts) >= max(counts) - 1)
    assert said.startswith(f"all {len(rows)} rows") == (len(chosen) == len(rows))
    assert all(f"c{i} {count}" in said for i, count in enumerate(counts))
    assert bool(short_of(n, len(chosen))) == (n > len(rows))


def test_labels_that_are_no_class_are_not_counted() -> None:
    assert by_class(np.array([-1, 0, 1, 1, 7]), 2) == [1, 2]


def test_the_result_counts_them() -> None:
    told = PWWS()(CLF, split(7, 3), n=50).task
    assert (told["rows"], told["asked"], told["by_class"]) == (10, 50, [7, 3])
    assert PWWS()(CLF, split(7, 3), ids=[1, 8]).task["asked"] is None
