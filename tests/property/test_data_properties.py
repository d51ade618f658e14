"""Properties of reading, dividing, batching and sampling."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import tempfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.attack.examples import attack_set, classes_of
from robust_tickets.data import splits as divide
from robust_tickets.data.arrow_tables import normalised
from robust_tickets.data.batching import Batches
from robust_tickets.data.diagnostics import two_labels
from robust_tickets.data.load import load_task
from robust_tickets.data.schema import order
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from tiny import tiny_config, tiny_tokenizer

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    lambda t: t.strip()
)
ROWS = st.lists(st.tuples(TEXT, st.sampled_from(["x", "y,z", 'q"'])), min_size=2, max_size=30).filter(
    lambda r: len({y for _, y in r}) > 1
)


def same(path: Path, rows: list[tuple[str, str]]) -> None:
    task = load_task(path, text="text", label="label", splits={"test": "all"})
    assert [(e.texts[0], task.labels[e.label]) for e in task.test] == rows
    assert not task.skipped


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, terminator=st.sampled_from(["\n", "\r\n"]), bom=st.booleans())
def test_csv_round_trip(rows: list[tuple[str, str]], terminator: str, bom: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with open(path, "w", encoding="utf-8-sig" if bom else "utf-8", newline="") as out:
            torn = any("\r" in text for text, _ in rows)  # a bare carriage return ends a line unless it is quoted
            writer = csv.writer(out, lineterminator=terminator, quoting=csv.QUOTE_ALL if torn else csv.QUOTE_MINIMAL)
            writer.writerow(("text", "label"))
            writer.writerows(rows)
        same(path, rows)


@settings(max_examples=30, deadline=None)
@given(rows=ROWS, ascii_only=st.booleans())
def test_jsonl_round_trip(rows: list[tuple[str, str]], ascii_only: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text(
            "".join(json.dumps({"text": t, "label": y}, ensure_ascii=ascii_only) + "\n" for t, y in rows),
            encoding="utf-8",
        )
        same(path, rows)


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=300), kind=st.sampled_from(["csv", "tsv", "jsonl", "parquet"]))
def test_any_bytes_give_a_task_or_a_clear_error(data: bytes, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{kind}"
        path.write_bytes((b"text,label\n" if kind == "csv" else b"text\tlabel\n" if kind == "tsv" else b"") + data)
        with contextlib.suppress(TicketsError):
            load_task(path)


@given(text=TEXT)
def test_normalised_text_ignores_case_and_space(text: str) -> None:
    assert normalised(f"  {text}\t\n") == normalised(text)
    assert normalised(normalised(text)) == normalised(text)
    if text.isascii():
        assert normalised(text.upper()) == normalised(text)


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(st.text("ab ", min_size=1, max_size=6).filter(str.strip), max_size=60), seed=st.integers(0, 5))
def test_no_duplicate_crosses_a_division(texts: list[str], seed: int) -> None:
    keys = Split.of(texts, [0] * len(texts)).keys if texts else np.zeros(0, np.uint64)
    if len({normalised(text) for text in texts}) < 3:
        with refused("data.too_few_rows"):
            divide.lone(keys)
        return
    parts = divide.lone(keys)
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(len(texts)))
    where: dict[str, str] = {}
    for name, rows in parts.items():
        for row in rows:
            assert where.setdefault(normalised(texts[row]), name) == name
    carved = divide.carve(keys, seed, "validation")
    assert (
        len(
            {normalised(texts[i]) for i in np.flatnonzero(carved)}
            & {normalised(texts[i]) for i in np.flatnonzero(~carved)}
        )
        == 0
    )


def test_the_parts_of_a_lone_file_are_near_80_10_10() -> None:
    keys = Split.of([f"text {i}" for i in range(5000)], [0] * 5000).keys
    sizes = {name: len(rows) / 5000 for name, rows in divide.lone(keys).items()}
    assert abs(sizes["train"] - 0.8) < 0.02
    assert abs(sizes["test"] - 0.1) < 0.02
    carved = [divide.carve(keys, seed, "validation") for seed in (0, 1)]
    assert [c.sum() for c in carved] == [500, 500]
    assert 20 < (carved[0] & carved[1]).sum() < 90  # independent of one another: about 50


@given(values=st.lists(st.sampled_from(["a", "b", "10", "9", "-1", "0.5"]), min_size=1), seed=st.randoms())
def test_label_order_is_a_function_of_the_set(values: list[str], seed: object) -> None:
    shuffled = list(values)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    assert order(values) == order(shuffled)
    assert sorted(order(values)) == sorted(set(values))


@cache
def _tokenizer() -> Any:
    return tiny_tokenizer(tiny_config())


LENGTHS = st.lists(st.integers(1, 40), min_size=0, max_size=300)


@settings(max_examples=60, deadline=None)
@given(
    lengths=LENGTHS,
    batch_size=st.integers(1, 9),
    seed=st.integers(0, 3),
    epoch=st.integers(0, 3),
    order=st.sampled_from(["shuffled", "longest", "file"]),
    start=st.integers(0, 40),
)
def test_batches_hold_every_row_once_and_resume_exactly(
    lengths: list[int], batch_size: int, seed: int, epoch: int, order: Any, start: int
) -> None:
    split = Split.of(["x" * n for n in lengths], [0] * len(lengths))

    def batches() -> Batches:
        return Batches(
            split=split, tokenizer=_tokenizer(), batch_size=batch_size, max_length=64, seed=seed, order=order
        )

    rows = [r.tolist() for r in batches().rows(epoch)]
    assert len(rows) == len(batches())
    assert sorted(n for r in rows for n in r) == list(range(len(lengths)))
    assert all(0 < len(r) <= batch_size for r in rows)
    assert sum(len(r) < batch_size for r in rows) <= 1
    whole, rest = list(batches().epoch(epoch)), list(batches().epoch(epoch, start))
    assert len(rest) == len(whole[start:])
    for one, other in zip(whole[start:], rest, strict=True):
        assert (one.index == other.index).all()
        assert one.tensors().keys() == other.tensors().keys()
        assert all((value == other.tensors()[name]).all() for name, value in one.tensors().items())


def test_epochs_and_seeds_have_their_own_order() -> None:
    split = Split.of(["x" * (i % 30 + 1) for i in range(400)], [0] * 400)
    orders = [
        np.concatenate(
            list(Batches(split=split, tokenizer=None, batch_size=8, max_length=8, seed=seed).rows(epoch))
        ).tolist()
        for seed, epoch in [(0, 0), (0, 1), (1, 0)]
    ]
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]
    # known once and for all: a resumed run on another machine must see the same order
    assert orders[0][:8] == [285, 165, 315, 375, 135, 255, 225, 195]


@settings(max_examples=100, deadline=None)
@given(
    labels=st.lists(st.integers(0, 3), min_size=1, max_size=80),
    n=st.integers(0, 100),
    seed=st.integers(0, 5),
    first=st.booleans(),
)
def test_attack_sets_are_balanced_seeded_subsets(labels: list[int], n: int, seed: int, first: bool) -> None:
    split = Split.of(["t"] * len(labels), labels)
    rows = attack_set(split, n, seed, 4, first=first)
    assert (rows == attack_set(split, n, seed, 4, first=first)).all()
    assert (np.diff(rows) > 0).all()
    assert set(rows.tolist()) <= set(range(len(labels)))
    if n == 0 or n >= len(labels):
        assert len(rows) == len(labels)
        return
    assert len(rows) == n
    sizes, taken = np.bincount(labels, minlength=4), np.bincount(split.labels[rows], minlength=4)
    most = taken.max()
    assert all(taken[c] == sizes[c] or taken[c] >= most - 1 for c in range(4))  # a class lags only when it is used up
    assert set(attack_set(split, n - 1, seed, 4, first=first).tolist()) <= set(rows.tolist()) or n == 1
    if first:
        assert all(set(np.flatnonzero(split.labels == c)[: taken[c]]) <= set(rows) for c in range(4))


def test_attack_sets_differ_by_seed() -> None:
    split = Split.of(["t"] * 500, [i % 2 for i in range(500)])
    sets = [attack_set(split, 100, seed, 2) for seed in (0, 1)]
    assert sets[0].tolist() != sets[1].tolist()
    assert [np.bincount(split.labels[s]).tolist() for s in sets] == [[50, 50], [50, 50]]
    assert len(attack_set(Split.of(["t"] * 9, [1] * 9), 4, 0, 2)) == 4


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


rows = st.lists(
    st.tuples(st.sampled_from(["a", "A", " a ", "b", "c", "d"]), st.integers(0, 2)), min_size=1, max_size=12
)


@given(rows, rows)
def test_as_many_as_a_slow_twin_finds(train: list[tuple[str, int]], test: list[tuple[str, int]]) -> None:
    splits = [
        Split.of([t for t, _ in given], [n for _, n in given], name=name)
        for name, given in (("train", train), ("test", test))
    ]
    under: dict[str, set[int]] = {}
    for text, label in (*train, *test):
        under.setdefault(text.strip().lower(), set()).add(label)
    count = sum(len(under[text.strip().lower()]) > 1 for text, _ in (*train, *test))
    found = two_labels(splits, ("x", "y", "z"))
    assert [int(re.search(r"(\d+) rows", warning)[1]) for warning in found] == ([count] if count else [])  # type: ignore[index]


def test_the_first_is_named_by_line_and_label(tmp_path: Path) -> None:
    lines = [f"film number {i},{'good' if i % 2 else 'bad'}" for i in range(300)]
    lines[40] = "Film  number 7,bad"  # of line 9, in other letters
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\n" + "\n".join(lines) + "\n")
    for task in (load_task(path), load_task(path, max_rows=1)):
        (found,) = (warning for warning in task.warnings if "more than one label" in warning)
        assert re.search(r"2 rows, .*line 9 of \w+ \(good\), line 42 of \w+ \(bad\)", found)


# Labels of data and model: by name whatever the order, by map whatever the names, never by position.
NAMES = st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=2, max_size=6, unique=True)


@given(names=NAMES, data=st.data())
def test_any_order_and_case_gives_the_class_of_that_name(names: list[str], data: st.DataObject) -> None:
    task = data.draw(st.permutations(names))
    said = [name.upper() if data.draw(st.booleans()) else name for name in task]
    found = classes_of(said, tuple(names))
    assert [names[i] for i in found] == list(task)


@given(names=NAMES, data=st.data())
def test_a_map_says_it_by_number_or_by_name(names: list[str], data: st.DataObject) -> None:
    targets = data.draw(st.lists(st.integers(0, len(names) - 1), min_size=2, max_size=6))
    task = [f"label {i}" for i in range(len(targets))]
    mapping: dict[str, int | str] = {
        label: data.draw(st.sampled_from([t, names[t]])) for label, t in zip(task, targets, strict=True)
    }
    assert classes_of(task, tuple(names), mapping) == tuple(targets)


@given(names=NAMES)
def test_numbers_are_classes_only_where_nobody_named_them(names: list[str]) -> None:
    numbers = [str(i) for i in range(len(names))]
    assert classes_of(numbers, tuple(f"LABEL_{i}" for i in numbers)) == tuple(range(len(names)))
    with pytest.raises(TicketsError) as caught:
        classes_of(numbers, tuple(names))
    assert f"--label-map {','.join(f'{i}={name}' for i, name in enumerate(names))}" in caught.value.hint
    turned = tuple(f"LABEL_{i}" for i in reversed(range(len(names))))
    with pytest.raises(TicketsError):
        classes_of(numbers, turned)  # somebody did name these
