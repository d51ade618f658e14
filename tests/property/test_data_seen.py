"""Splits of a task whatever its rows: with ``drop_seen`` none shares a text with train, with ``validation="none"`` nothing is carved."""

from __future__ import annotations

import csv
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.data.load import load_task
from robust_tickets.errors import TicketsError

TEXTS = st.lists(st.sampled_from("abcdefgh"), min_size=3, max_size=12)


def write(folder: Path, **splits: list[str]) -> Path:
    for name, texts in splits.items():
        with open(folder / f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *((f"text {text}", i % 2) for i, text in enumerate(texts))])
    return folder


def texts(split: object) -> list[str]:
    return [example.texts[0].removeprefix("text ") for example in split]  # type: ignore[attr-defined]


@settings(max_examples=15)
@given(train=TEXTS, test=TEXTS)
def test_seen_rows_leave_and_the_others_stay(train: list[str], test: list[str]) -> None:
    with TemporaryDirectory() as name:
        folder = write(Path(name), train=train, test=test)
        if set(test) <= set(train):
            with pytest.raises(TicketsError, match=f"all {len(test)} rows of test"):
                load_task(folder, validation="none", drop_seen=True, labels=("0", "1"))
            return
        task = load_task(folder, validation="none", drop_seen=True, labels=("0", "1"))
        assert texts(task.train) == train
        assert texts(task.test) == [text for text in test if text not in train]
        assert len(task.validation) == 0
        dropped = sum(text in train for text in test)
        assert any(note.startswith(f"test: {dropped} rows") for note in task.notes) == bool(dropped)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path, train=list("abcdefgh") * 3, validation=list("ijk"), test=list("lmna"))


def test_without_either_nothing_changes(folder: Path) -> None:
    task = load_task(folder)
    assert (texts(task.validation), texts(task.test)) == (list("ijk"), list("lmna"))
    assert any("also in train" in warning for warning in task.warnings)


def test_nothing_selects_though_a_split_is_called_validation(folder: Path) -> None:
    task = load_task(folder, validation="none")
    assert len(task.validation) == 0
    assert texts(task.split("validation")) == list("ijk")
    assert len(task.train) == 24


def test_nothing_selects_and_a_split_selects_is_refused(folder: Path) -> None:
    with refused("data.roles"):
        load_task(folder, validation="none", splits={"validation": "validation"})
    with refused("data.roles"):
        load_task(folder / "train.csv", validation="none")
