"""The benchmark of an epoch's overhead runs, counts every part, and puts the loop back as it was."""

from __future__ import annotations

import csv
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from robust_tickets.train import writer
from robust_tickets.train.loop import Loop
from tiny import tiny_classifier
from toy import toy_task

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("at_once", [("cpu",), ()])
def test_an_epoch_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: tuple[str, ...]) -> None:
    if not BENCHMARKS.is_dir():
        pytest.skip("without the repository's benchmarks")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script: Any = importlib.import_module("epoch_overhead")
    for name, split in toy_task(20).splits.items():
        with open(tmp_path / f"{name}.csv", "w", newline="") as out:
            csv.writer(out).writerows([("text", "label"), *((e.texts[0], e.label) for e in split.take(range(len(split))))])
    monkeypatch.setattr(script, "load_classifier", lambda *_, task, device: tiny_classifier(labels=task.labels).to(device))
    monkeypatch.setattr(writer, "AT_ONCE", at_once)
    original = Loop._after, Loop._log
    script.main(["--data", str(tmp_path), "--batch", "4", "--rows", "0", "--out", str(tmp_path)])
    assert (Loop._after, Loop._log) == original
    answer = json.loads((tmp_path / "epoch_overhead.json").read_text())["answer"]
    assert answer["updates an epoch"] == 5
    assert [(epoch["evaluation"], epoch["metrics"], epoch["data"]) for epoch in answer["times an epoch"]] == [(1, 1, 5)] * 2
    assert answer["once"]["first checkpoint, buffers made"] > 0
    share = answer["wall"]["share of the epoch"]
    whole = share["everything but the updates, by difference"]
    assert sum(share[kind] for kind in ("data", "metrics", "checkpoint", "evaluation", "loop")) == pytest.approx(whole)
