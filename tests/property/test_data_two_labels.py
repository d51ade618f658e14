"""Texts under more than one label: counted as a slow twin counts them, and told with their place."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from robust_tickets.data.diagnostics import two_labels
from robust_tickets.data.load import load_task
from robust_tickets.data.task import Split

rows = st.lists(
    st.tuples(st.sampled_from(["a", "A", " a ", "b", "c", "d"]), st.integers(0, 2)), min_size=1, max_size=12
)


@given(rows, rows)
def test_as_many_as_a_slow_twin_finds(train: list[tuple[str, int]], test: list[tuple[str, int]]) -> None:
    splits = [
        Split.of([t for t, _ in told], [n for _, n in told], name=name)
        for name, told in (("train", train), ("test", test))
    ]
    said = two_labels(splits, ("x", "y", "z"))
    under: dict[str, set[int]] = {}
    for text, label in (*train, *test):
        under.setdefault(text.strip().lower(), set()).add(label)
    odd = [text for text, labels in under.items() if len(labels) > 1]
    count = sum(text.strip().lower() in odd for text, _ in (*train, *test))
    stand = "stand" if len(odd) > 1 else "stands"
    assert said.partition(" under")[0] == (
        f"{len(odd)} text{'s' * (len(odd) > 1)} of {count} rows {stand}" if odd else ""
    )


def test_the_first_is_told_by_line_and_label(tmp_path: Path) -> None:
    lines = [f"film number {i},{'good' if i % 2 else 'bad'}" for i in range(300)]
    lines[40] = "Film  number 7,bad"  # of line 9, in other letters
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\n" + "\n".join(lines) + "\n")
    (said,) = (words for words in load_task(path).warnings if "more than one label" in words)
    assert said == (
        "1 text of 2 rows stands under more than one label, so that no model can be right on all of them; "
        "the first in line 9 (good) and line 42 (bad)"
    )
    assert said in load_task(path, max_rows=1).warnings
    path.write_text("text,label\n" + "\n".join([*lines[:40], *lines[41:]]) + "\n")
    other = tmp_path / "test.csv"
    other.write_text("text,label\nFilm number 3,bad\nanother,good\n")
    told = " ".join(load_task(path, test=other).warnings)
    assert re.search(r"line 5 of (train|validation) \(good\) and line 2 of test \(bad\)", told)
