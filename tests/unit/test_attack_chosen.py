"""What is said of the attacked examples: as even as the rows allow, all of them, or fewer than were asked for."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from robust_tickets.attack.examples import by_class, how, rows_of, short_of
from robust_tickets.attack.options import AttackOptions
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split, Task
from robust_tickets.experiment.recipe import AttackPlan
from robust_tickets.experiment.runner import chosen
from robust_tickets.files import read_json, write_json
from robust_tickets.report.html import write_report
from robust_tickets.report.terminal import attack_table

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


@pytest.mark.parametrize(
    ("subset", "counts", "rows", "words"),
    [
        ("balanced", [10, 10], 100, "drawn at random, balanced over the classes, seed 3 (Bad 10, Good 10)"),
        (
            "balanced",
            [10, 4],
            100,
            "drawn at random, as even over the classes as the rows allow, seed 3 (Bad 10, Good 4)",
        ),
        ("balanced", [54, 46], 100, "all 100 rows (Bad 54, Good 46)"),
        (
            "balanced",
            [54, 46],
            None,
            "drawn at random, as even over the classes as the rows allow, seed 3 (Bad 54, Good 46)",
        ),
        ("balanced", [1, 0], 100, "drawn at random, seed 3 (Bad 1, Good 0)"),
        ("random", [12, 8], 100, "drawn at random, seed 3 (Bad 12, Good 8)"),
        ("first", [12, 8], 100, "the first of the split (Bad 12, Good 8)"),
        ("ids", [12, 8], 20, "named one by one (Bad 12, Good 8)"),
        (
            "balanced",
            [3] * 6 + [2],
            100,
            "drawn at random, balanced over the classes, seed 3 (2 to 3 of each of 7 classes)",
        ),
        ("", [1, 1], 2, "all 2 rows (Bad 1, Good 1)"),
        ("", [1, 1], 9, ""),
    ],
)
def test_the_words(subset: str, counts: list[int], rows: int | None, words: str) -> None:
    assert how(subset, 3, NAMES, counts, rows) == words


def test_labels_that_are_no_class_are_not_counted() -> None:
    assert by_class(np.array([-1, 0, 1, 1, 7]), 2) == [1, 2]


def shown(result: Any) -> str:
    console = Console(file=io.StringIO(), width=300)
    console.print(attack_table(result.to_json()))
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_the_result_the_terminal_and_the_page_say_it(tmp_path: Path) -> None:
    result = PWWS()(CLF, split(7, 3), n=50, folder=tmp_path / "a")
    told = {key: result.task[key] for key in ("rows", "asked", "by_class")}
    assert told == {"rows": 10, "asked": 50, "by_class": [7, 3]}
    assert "all 10 rows (Bad 7, Good 3); 10 of the 50 asked for: there are no more" in shown(result)
    page = write_report(tmp_path / "a.html", tmp_path / "a").read_text("utf-8")
    assert "texts: all 10 rows (Bad 7, Good 3); 10 of the 50 asked for: there are no more" in page
    assert "asked for" not in shown(PWWS()(CLF, split(7, 3), n=0))
    assert PWWS()(CLF, split(7, 3), ids=[1, 8]).task["asked"] is None


def test_examples_that_failed_are_among_those_counted_by_class() -> None:
    """The terminal said 9 examples and then counted 10 of them."""
    given = split(7, 3)
    odd = given[0].texts[0]

    def picky(texts: Any) -> Any:
        if odd in texts:
            raise ValueError("odd")
        return [[0.6, 0.4]] * len(texts)

    said = shown(PWWS()(Classifier.wrap(picky, labels=NAMES), given, n=0))
    assert "10 examples, 6 of them attacked, 1 failed, all 10 rows (Bad 7, Good 3)" in said


def test_a_result_that_does_not_count_them_has_its_examples(tmp_path: Path) -> None:
    PWWS()(CLF, split(7, 3), n=8, folder=tmp_path / "a")
    about = read_json(tmp_path / "a/result.json")
    for name in ("rows", "asked", "by_class"):
        del about["task"][name]
    write_json(tmp_path / "a/result.json", about)
    page = write_report(tmp_path / "a.html", tmp_path / "a").read_text("utf-8")
    assert "texts: drawn at random, as even over the classes as the rows allow, seed 0 (Bad 5, Good 3)" in page


def test_a_plan_says_what_the_rows_allow() -> None:
    task = Task("t", NAMES, ("text",), {"test": split(31, 27)})
    assert chosen(AttackPlan(attack=PWWS(), n=200), task.test, NAMES) == (
        "58 examples, all 58 rows (Bad 31, Good 27); 58 of the 200 asked for: there are no more"
    )
    assert chosen(AttackPlan(attack=PWWS(), n=20, seed=4), task.test, NAMES) == (
        "20 examples, drawn at random, balanced over the classes, seed 4 (Bad 10, Good 10)"
    )
