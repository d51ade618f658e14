"""A toy task that a tiny model learns in seconds: sentences of a few words, one of which decides the label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from robust_tickets.data.task import Split, Task
from robust_tickets.seeds import numpy_generator

SAID = (("bad", "awful", "poor"), ("good", "great", "fine"))
QUICK = {"epochs": 3, "batch_size": 8, "lr": 1e-3}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
FILLER = ("the", "a", "film", "movie", "story", "plot", "very", "is", "was")


def toy_task(rows: int = 40, *, pairs: bool = False, seed: int = 0) -> Task:
    """``rows`` training rows, and 12 each to validate and to test; labelled as ``tiny_classifier`` is: a for bad, b for good."""
    columns = ("first", "second") if pairs else ("text",)
    splits = {}
    for name, count in (("train", rows), ("validation", 12), ("test", 12)):
        generator = numpy_generator(seed, "toy", name)
        texts, labels = [], []
        for i in range(count):
            words = [*generator.choice(FILLER, generator.integers(1, 7)), generator.choice(SAID[i % 2]), str(i)]
            texts.append((" ".join(words), str(generator.choice(FILLER)))[: len(columns)])
            labels.append(i % 2)
        splits[name] = Split.of(texts, labels, name=name, columns=columns)
    return Task(name="toy", labels=("a", "b"), columns=columns, splits=splits)


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a training's metrics.jsonl, but for the time."""
    read = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert all(line.pop("seconds", 0.0) >= 0 for line in read)
    return read


def rates(folder: Path) -> list[float]:
    """The learning rates that a training noted."""
    return [line["lr"] for line in metrics(folder) if "lr" in line]
