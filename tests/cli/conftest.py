"""Small files and a tiny model on disk, so that verbs run as a user would run them."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest

from tiny import tiny_classifier

GOOD, BAD, FLAT = ("great good fine lovely", "awful bad poor dull", "plain table chair wall")


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny classifier with the labels bad, good, flat."""
    folder = tmp_path_factory.mktemp("model")
    tiny_classifier(labels=("bad", "flat", "good")).save_pretrained(folder)
    return folder


@pytest.fixture
def three_classes(tmp_path: Path) -> Path:
    """A csv of one text column and three string labels."""
    rng = random.Random(0)
    path = tmp_path / "reviews.csv"
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["review", "sentiment"])
        for i in range(300):
            label, words = rng.choice([("good", GOOD), ("bad", BAD), ("flat", FLAT)])
            chosen = " ".join(rng.choice(words.split()) for _ in range(4))
            writer.writerow([f"the film {i} was {chosen}, really", label])
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A csv of premise, hypothesis and two string labels."""
    rng = random.Random(1)
    path = tmp_path / "pairs.csv"
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["premise", "hypothesis", "label"])
        for i in range(240):
            same = rng.random() < 0.5
            words = rng.sample((GOOD + " " + BAD).split(), 3)
            other = words if same else rng.sample(FLAT.split(), 3)
            writer.writerow([f"a film {i} {' '.join(words)}", f"it is {' '.join(other)}", "same" if same else "other"])
    return path
