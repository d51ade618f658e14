"""The benchmark of an epoch's overhead runs, counts every part, and puts the loop back as it was."""

from __future__ import annotations

import csv
import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from robust_tickets.train.cuda import late, writer
from robust_tickets.train.cuda.late import Late
from robust_tickets.train.loop import TrainingRun
from tiny import tiny_classifier
from toy import toy_task

BENCHMARKS = Path(__file__).parent


def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("epoch_overhead")


@pytest.mark.parametrize("gpu", [False, True])
def test_an_epoch_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: bool) -> None:
    """Also where checkpoints are written by a thread and lines of metrics read late."""
    script = benchmark(monkeypatch)
    for name, split in toy_task(20).splits.items():
        with open(tmp_path / f"{name}.csv", "w", newline="") as out:
            csv.writer(out).writerows(
                [("text", "label"), *((e.texts[0], e.label) for e in split.take(range(len(split))))]
            )
    monkeypatch.setattr(
        script, "load_classifier", lambda *_, task, device: tiny_classifier(labels=task.labels).to(device)
    )
    if gpu:
        event = SimpleNamespace(record=lambda _: None, synchronize=lambda: None)
        monkeypatch.setattr(writer, "AT_ONCE", ())
        monkeypatch.setattr(late, "lags", lambda _: True)
        monkeypatch.setattr(torch.cuda, "Event", lambda **_: event)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["somewhere/epoch_overhead.py", "--data", "/secret", "--batch", "4"])
    original = TrainingRun._after, TrainingRun._log, Late._wait
    script.main(["--data", str(tmp_path), "--batch", "4", "--rows", "0", "--out", str(tmp_path)])
    assert (TrainingRun._after, TrainingRun._log, Late._wait) == original
    told = json.loads((tmp_path / "epoch_overhead.json").read_text())
    assert told["command"] == "python benchmarks/epoch_overhead.py --data FOLDER --batch 4"
    answer = told["answer"]
    assert answer["updates an epoch"] == 5
    assert [(epoch["evaluation"], epoch["metrics"], epoch["data"]) for epoch in answer["times an epoch"]] == [
        (1, 1, 5)
    ] * 2
    assert answer["once"]["first checkpoint, buffers made"] > 0
    share = answer["wall"]["share of the epoch"]
    whole = share["everything but the updates, by difference"]
    assert sum(share[kind] for kind in ("data", "metrics", "checkpoint", "evaluation", "loop")) == pytest.approx(whole)


def test_waiting_for_a_line_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    script, now = benchmark(monkeypatch), [0.0]
    monkeypatch.setattr(script, "clocks", lambda: (now[0], now[0] / 2))

    def passes(seconds: float) -> None:
        now[0] += seconds

    watch = script.Watch(torch.device("cpu"))
    wait = watch.waiting(lambda _: passes(100))

    def log() -> None:
        passes(2)
        wait(None)
        passes(1)

    watch.timed("metrics", log)()
    watch.timed("metrics", log)()
    assert watch.spent["metrics"] == [6, 3]
    assert watch.waited == [200, 100]
