"""What a training reads: a table where the run is long enough, the same batches either way, in memory that does not grow with the file."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from robust_tickets.data.batching import Batches, batches_of, steps, widths_of
from robust_tickets.data.task import Split, Task
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tokens"


@pytest.fixture(scope="module")
def clf() -> Any:
    return tiny_classifier(layers=1)


@pytest.fixture(scope="module")
def task() -> Task:
    texts = [f"a {'very ' * (i % 23)}good film" for i in range(60)]
    train, rest = (
        Split.of(texts[a:b], [i % 2 for i in range(a, b)], name=name)
        for name, a, b in (("train", 0, 50), ("test", 50, 60))
    )
    return Task("toy", ("a", "b"), ("text",), {"train": train, "validation": rest, "test": rest})


def same(one: Any, other: Any) -> bool:
    return all(
        a.tensors().keys() == b.tensors().keys()
        and all(torch.equal(a.tensors()[k], b.tensors()[k]) for k in a.tensors())
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("file_order", [False, True])
@pytest.mark.parametrize("widths", [False, True])
def test_a_long_run_has_a_table_and_reads_the_same(
    clf: Any, task: Task, cache: Path, file_order: bool, widths: bool
) -> None:
    short = batches_of(clf, task, 4, 0, file_order=file_order, reads=5, widths=widths)
    assert short.tokens is None
    assert not cache.exists()
    assert short.widths == (steps(clf.max_length) if widths else ())
    long = batches_of(clf, task, 4, 0, file_order=file_order, reads=13, widths=widths)
    assert long.tokens is not None
    assert long.order == ("file" if file_order else "shuffled")
    assert long.widths == (widths_of(long.tokens.lengths, long.rows(0), clf.max_length) if widths else ())
    if not widths:
        assert same(short.epoch(1), long.epoch(1))
    shapes = {batch.inputs["input_ids"].shape[1] for batch in long.epoch(1)}
    assert not widths or shapes <= set(long.widths)


def test_what_a_short_run_reads_does_not_depend_on_the_cache(clf: Any, task: Task) -> None:
    before = batches_of(clf, task, 4, 0, reads=5, widths=True)
    batches_of(clf, task, 4, 0, reads=13)  # somebody else fills it
    after = batches_of(clf, task, 4, 0, reads=5, widths=True)
    assert (before.tokens, after.tokens is None) == (None, False)
    assert before.reading == after.reading
    assert same(before.epoch(1), after.epoch(1))


@pytest.mark.parametrize("settings", [{"epochs": 2}, {"epochs": 2, "max_steps": 1}, {"epochs": 1, "accumulate": 3}])
def test_training_asks_for_what_it_reads(task: Task, cache: Path, settings: dict[str, int]) -> None:
    FineTune(batch_size=8, evaluate="never", **settings)(tiny_classifier(layers=1), task)  # type: ignore[arg-type]
    assert cache.exists() == ("max_steps" not in settings)


def test_training_is_the_same_without_a_cache(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trained() -> Any:
        return FineTune(batch_size=8, epochs=1, lr=1e-2, evaluate="never")(
            tiny_classifier(layers=1), task
        ).model.state_dict()

    kept = trained()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: str(tmp_path / "file" / "none"))  # nor a temporary one
    assert all(torch.equal(value, kept[name]) for name, value in trained().items())


def test_the_longest_come_first_where_that_is_asked(clf: Any) -> None:
    split = Split.of(["good " * (i * 7 % 31 + 1) for i in range(50)], list(range(50)))
    batches = Batches(split=split, tokenizer=clf.tokenizer, batch_size=7, max_length=32, order="longest")
    index = torch.cat([batch.index for batch in batches.epoch()])
    assert sorted(index.tolist()) == list(range(50))
    assert (np.diff(split.lengths[index.numpy()]) <= 0).all()


def test_pools_save_padding(clf: Any) -> None:
    sizes = np.random.default_rng(0).integers(1, 12, size=2000)
    split = Split.of([" ".join(["good"] * size) for size in sizes], [0] * 2000)
    batches = list(Batches(split=split, tokenizer=clf.tokenizer, batch_size=16, max_length=32).epoch(0))
    filled = sum(int(b.inputs["attention_mask"].sum()) for b in batches) / sum(
        b.inputs["attention_mask"].numel() for b in batches
    )
    assert filled > 0.95  # one random order fills about 0.65


def test_a_large_file_does_not_load_into_memory(tmp_path: Path) -> None:
    """150,000 rows of 200 characters (30 MB): neither reading nor batching may hold the texts."""
    path = tmp_path / "large.csv"
    filler = "lorem ipsum dolor sit amet " * 7
    with open(path, "w") as out:
        out.write("text,label\n")
        for i in range(150_000):
            out.write(f"{i} {filler},{i % 3}\n")
    small = tmp_path / "small.csv"
    small.write_text("text,label\n" + "".join(f"{i},{i % 3}\n" for i in range(100)))
    code = f"""
import threading, time, numpy
from robust_tickets.data.load import load_task
load_task({str(small)!r})  # imports what it needs

def anonymous():  # kB of memory that is not a mapped file
    return int(next(line for line in open("/proc/self/status") if line.startswith("RssAnon")).split()[1])

before, peak, running = anonymous(), 0, True
def watch():
    global peak
    while running:
        peak = max(peak, anonymous())
        time.sleep(0.02)
watcher = threading.Thread(target=watch)
watcher.start()
task = load_task({str(path)!r})
order = numpy.random.default_rng(0).permutation(len(task.train))[:10000]
for start in range(0, len(order), 32):
    task.train.take(order[start:start + 32])
running = False
watcher.join()
print((peak - before) / 1000)
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("reads /proc")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 25, f"{done.stdout} MB"
