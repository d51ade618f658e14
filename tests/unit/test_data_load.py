"""Files and folders to tasks: columns, labels, bad rows, splits, caches."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refusing import refused
from robust_tickets.data.load import load_task
from robust_tickets.data.task import Split
from tables import ROWS, everything, write_csv


@pytest.mark.parametrize("kind", ["csv", "csv-crlf-bom", "csv-semicolon", "tsv", "jsonl", "parquet"])
def test_every_format_gives_the_same_task(tmp_path: Path, kind: str) -> None:
    plain = load_task(write_csv(tmp_path / "plain.csv", ROWS))
    path = tmp_path / f"other.{kind.partition('-')[0]}"
    if kind == "csv":
        write_csv(path, ROWS, quoting=csv.QUOTE_ALL)
    elif kind == "csv-crlf-bom":
        path.write_bytes(b"\xef\xbb\xbf" + "".join(f"{t},{y}\r\n" for t, y in [("text", "label"), *ROWS]).encode())
    elif kind == "csv-semicolon":
        write_csv(path, ROWS, delimiter=";")
    elif kind == "tsv":
        path.write_text("".join(f"{t}\t{y}\n" for t, y in [("text", "label"), *ROWS]))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in ROWS))
    else:
        pq.write_table(pa.table({"text": [t for t, _ in ROWS], "label": [y for _, y in ROWS]}), path)
    task = load_task(path)
    assert task.digest == plain.digest
    assert task.labels == ("bad", "good")
    assert everything(task) == sorted(((t,), y) for t, y in ROWS)
    assert not task.skipped
    assert any("inferred" in note for note in task.notes)
    assert {s.name for s in task.splits.values()} == {"train", "validation", "test"}


def test_ids_are_records_of_the_source_and_survive_select(tmp_path: Path) -> None:
    task = load_task(write_csv(tmp_path / "a.csv", ROWS))
    for split in task.splits.values():
        for example in split:
            name, record = example.id.split(":")
            assert name == split.name
            assert ROWS[int(record)][0] == example.texts[0]
    part = task.train.select([5, 3])
    assert [e.id for e in part] == [task.train[5].id, task.train[3].id]
    assert part.digest != task.train.select([3, 5]).digest


def test_digest_ignores_paths_and_sees_texts_and_labels(tmp_path: Path) -> None:
    one = load_task(write_csv(tmp_path / "one.csv", ROWS))
    (tmp_path / "deep").mkdir()
    assert load_task(write_csv(tmp_path / "deep" / "two.csv", ROWS)).digest == one.digest
    flipped = [*ROWS[:-1], (ROWS[-1][0], "bad")]
    assert load_task(write_csv(tmp_path / "three.csv", flipped)).digest != one.digest
    other = [*ROWS[:-1], (ROWS[-1][0] + " .", ROWS[-1][1])]
    assert load_task(write_csv(tmp_path / "four.csv", other)).digest != one.digest
    # a known value: the digest must not change from machine to machine or release to release unnoticed
    assert Split.of(["a", "b"], [0, 1]).digest == "8d6aba169524474f9e6b92857efd552acc3a661abad7dd44840e8af87cf39096"


def test_pairs_and_three_classes(tmp_path: Path) -> None:
    rows = [(f"premise {i}", f"hypothesis {i}", ("yes", "no", "maybe")[i % 3]) for i in range(150)]
    task = load_task(write_csv(tmp_path / "nli.csv", rows, ("premise", "hypothesis", "label")))
    assert task.columns == ("premise", "hypothesis")
    assert task.labels == ("maybe", "no", "yes")
    assert everything(task) == sorted(((p, h), y) for p, h, y in rows)
    assert (task.train.lengths == [sum(map(len, e.texts)) for e in task.train]).all()
    swapped = load_task(tmp_path / "nli.csv", text=("hypothesis", "premise"), label="label")
    assert swapped.train[0].texts == tuple(reversed(task.train[0].texts)) or swapped.train.digest != task.train.digest


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["0", "1"], ("0", "1")),
        (["5", "1", "10", "2"], ("1", "2", "5", "10")),
        (["-1", "1"], ("-1", "1")),
        (["1.5", "0.5"], ("0.5", "1.5")),
        (["pos", "neg", "Neg"], ("Neg", "neg", "pos")),
        (["1", "one"], ("1", "one")),
    ],
)
def test_label_order_does_not_depend_on_rows(tmp_path: Path, values: list[str], names: tuple[str, ...]) -> None:
    rows = [(f"text {i}", values[i % len(values)]) for i in range(100)]
    assert load_task(write_csv(tmp_path / "a.csv", rows)).labels == names
    assert load_task(write_csv(tmp_path / "b.csv", rows[::-1])).labels == names


def test_given_labels_name_ids_or_fix_the_order(tmp_path: Path) -> None:
    ids = load_task(write_csv(tmp_path / "ids.csv", [(f"t {i}", i % 2) for i in range(60)]), labels=("no", "yes"))
    assert ids.labels == ("no", "yes")
    assert all(e.label == int(e.id.split(":")[1]) % 2 for e in ids.train)
    named = load_task(write_csv(tmp_path / "named.csv", ROWS), labels=("good", "bad"))
    assert all(e.label == (0 if ROWS[int(e.id.split(":")[1])][1] == "good" else 1) for e in named.train)
    with refused("labels.unknown"):
        load_task(tmp_path / "named.csv", labels=("up", "down"))
    with refused("labels.twice"):
        load_task(tmp_path / "named.csv", labels=("bad", "bad"))


def test_typed_labels_of_parquet_and_jsonl(tmp_path: Path) -> None:
    texts = [f"t {i}" for i in range(100)]
    pq.write_table(pa.table({"text": texts, "label": [float(i % 2) for i in range(100)]}), tmp_path / "f.parquet")
    assert load_task(tmp_path / "f.parquet").labels == ("0", "1")
    pq.write_table(
        pa.table({"text": texts, "label": pa.array(["b", "a"] * 50).dictionary_encode()}), tmp_path / "d.parquet"
    )
    assert load_task(tmp_path / "d.parquet").labels == ("a", "b")
    (tmp_path / "b.jsonl").write_text(
        "".join(json.dumps({"text": t, "label": i % 2 == 0}) + "\n" for i, t in enumerate(texts))
    )
    assert load_task(tmp_path / "b.jsonl").labels == ("false", "true")


def test_folder_with_shards_and_dev(tmp_path: Path) -> None:
    write_csv(tmp_path / "train-00000-of-00002.csv", ROWS[:120])
    write_csv(tmp_path / "train-00001-of-00002.csv", ROWS[120:])
    write_csv(tmp_path / "dev.csv", [(f"dev {t}", y) for t, y in ROWS[:30]])
    write_csv(tmp_path / "test.csv", [(f"test {t}", y) for t, y in ROWS[:40]])
    (tmp_path / "notes.txt").write_text("not data")
    task = load_task(tmp_path)
    assert {n: len(s) for n, s in task.splits.items()} == {"train": 200, "validation": 30, "test": 40}
    assert [e.id for e in task.train] == [f"train:{i}" for i in range(200)]
    assert [e.texts[0] for e in task.train] == [t for t, _ in ROWS]
    (tmp_path / "train-00001-of-00002.csv").unlink()
    with refused("data.shards"):
        load_task(tmp_path)
    write_csv(tmp_path / "train.csv", ROWS)
    with refused("data.shards"):
        load_task(tmp_path)


def test_validation_and_test_are_carved_by_seed_without_crossing(tmp_path: Path) -> None:
    doubled = [*ROWS, *[(t.upper().replace(" ", "  "), y) for t, y in ROWS]]
    write_csv(tmp_path / "train.csv", doubled)
    write_csv(tmp_path / "test.csv", [(f"test {t}", y) for t, y in ROWS[:40]])
    task = load_task(tmp_path, seed=1)
    assert task.validation_split == "validation"
    assert len(task.validation) == 40
    assert len(task.train) + len(task.validation) == 400
    assert not set(task.train.keys) & set(task.validation.keys)
    assert any("carved from train" in note for note in task.notes)
    assert load_task(tmp_path, seed=1).digest == task.digest
    assert load_task(tmp_path, seed=2).validation.digest != task.validation.digest
    (tmp_path / "test.csv").unlink()
    only = load_task(tmp_path)
    parts = [set(s.keys.tolist()) for s in (only.train, only.validation, only.test)]
    assert sum(map(len, parts)) == 200
    assert len(set.union(*parts)) == 200


def test_max_rows_is_a_seeded_subset_of_train(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ROWS)
    whole, part = load_task(path), load_task(path, max_rows=50)
    assert len(part.train) == 50
    assert {e.id for e in part.train} < {e.id for e in whole.train}
    assert part.test.digest == whole.test.digest
    assert load_task(path, max_rows=50).digest == part.digest
    assert load_task(path, max_rows=50, seed=1).train.digest != part.train.digest
    assert any("seeded subset of 50" in note for note in part.notes)


def test_max_test_rows_are_seeded_subsets_of_what_is_only_evaluated(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ROWS)
    whole, part = load_task(path), load_task(path, max_test_rows=5)
    assert len(part.test) == len(part.validation) == 5
    assert {e.id for e in part.test} < {e.id for e in whole.test}
    assert part.train.digest == whole.train.digest
    assert load_task(path, max_test_rows=5).digest == part.digest
    assert load_task(path, max_test_rows=10**6).digest == whole.digest
    with refused("settings.limit"):
        load_task(path, max_test_rows=0)


def test_roles(tmp_path: Path) -> None:
    for name in ("train", "validation", "test"):
        write_csv(tmp_path / f"{name}.csv", [(f"{name} {t}", y) for t, y in ROWS])
    task = load_task(tmp_path, splits={"test": "validation"})
    assert task.test.name == "validation"
    assert task.validation.name == "selection"
    assert len(task.validation) == 20
    assert len(task.split("test")) == 200
    with refused("data.roles"):
        load_task(tmp_path, splits={"test": "validation", "validation": "validation"})
    with refused("data.no_split"):
        load_task(tmp_path, splits={"test": "dev"})
    with refused("data.roles"):
        load_task(tmp_path, splits={"attack": "test"})
    whole = load_task(tmp_path / "test.csv", splits={"test": "all"})
    assert len(whole.test) == 200
    with refused("data.no_split"):
        _ = whole.train


def test_split_of_texts_in_memory() -> None:
    split = Split.of([("a", "b"), ("c", "d")], [1, 0], name="mine")
    assert [e.texts for e in split] == [("a", "b"), ("c", "d")]
    assert [e.label for e in split.take([1, 0])] == [0, 1]
    assert split[-1].id == "mine:1"
    with pytest.raises(IndexError):
        split[2]
    with pytest.raises(ValueError):
        split.labels[0] = 1
