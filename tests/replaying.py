"""Replays TextAttack's results on the made-up corpus: the same examples, resources and seeds through this package's engine."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from robust_tickets.attack.attack import Loaded
from robust_tickets.attack.result import ExampleOutcome
from robust_tickets.attack.text import Text
from robust_tickets.classifier import Classifier, ModelClassifier
from robust_tickets.data.task import Split
from robust_tickets.resources.masked_lm import MaskedModel
from robust_tickets.resources.vectors import Vectors

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden" / "textattack"
SCRIPTS = ROOT / "scripts" / "textattack_parity"

sys.path.insert(0, str(SCRIPTS))
made = importlib.import_module("made")
texts = importlib.import_module("made_texts")
models = importlib.import_module("made_models")
sys.path.remove(str(SCRIPTS))


def golden_names() -> list[tuple[str, str]]:
    """(recipe, version) of every golden file."""
    found = [file.name.removesuffix(".jsonl.gz").rpartition("-") for file in sorted(GOLDEN.glob("*.jsonl.gz"))]
    return [(recipe, version) for recipe, _, version in found]


def read(recipe: str, version: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The header of a golden file, and its examples by id."""
    lines = gzip.decompress((GOLDEN / f"{recipe}-{version}.jsonl.gz").read_bytes()).decode().splitlines()
    header, *examples = map(json.loads, lines)
    return header, {example["id"]: example for example in examples}


def victim(recipe: str, classes: int, columns: tuple[str, ...]) -> Classifier:
    """The made-up victim; its logits reach the attack as they are, not by way of probabilities. For A2T a tiny BERT."""
    labels = [f"c{i}" for i in range(classes)]
    if recipe == "a2t":
        return ModelClassifier(
            model=tiny(classes),
            tokenizer=models.tokenizer(),
            labels=labels,
            max_length=models.LONGEST,
            identity="tiny",
            columns=columns,
        )

    def probabilities(given: list[Any]) -> np.ndarray:
        rows = [(text,) if isinstance(text, str) else tuple(text) for text in given]
        return torch.softmax(torch.from_numpy(made.logits(rows, classes)), dim=1).numpy()

    def logits_of(rows: Any) -> torch.Tensor:
        return torch.from_numpy(made.logits([tuple(row.columns) for row in rows], classes))

    clf = Classifier.wrap(probabilities, labels=labels, columns=columns)
    clf.forward = logits_of  # type: ignore[method-assign]
    return clf


@cache
def tiny(classes: int) -> Any:
    return models.victim(classes)


@cache
def digests() -> tuple[str, str, str]:
    """Of the corpus, of the made-up resources' answers and of the tiny models, as the files of results hold them."""
    return texts.digest(), made.digest(), models.digest()


@cache
def groups() -> dict[str, list[Any]]:
    """The corpus in groups of the same columns and classes."""
    return texts.groups()  # type: ignore[no-any-return]


def samples() -> dict[str, Any]:
    """The corpus by id."""
    return {f"{group}:{row}": sample for group, each in groups().items() for row, sample in enumerate(each)}


@cache
def vectors() -> Vectors:
    return Vectors(*made.vectors())


@cache
def language() -> MaskedModel:
    return MaskedModel(models.masked_model(), models.tokenizer())


def resources(recipe: str) -> dict[str, Any]:
    """The made-up parts the recipe is assembled from."""
    every: dict[str, Callable[[], Any]] = {
        "vectors": vectors,
        "tagger": lambda: made.tags,
        "encoder": lambda: made.encode,
        "masked": language,
    }
    wanted = {
        "textfooler": ("vectors", "tagger", "encoder"),
        "textbugger": ("vectors", "encoder"),
        "bertattack": ("masked", "encoder"),
        "bertattack_papers": ("vectors", "tagger", "encoder"),
        "a2t": ("vectors", "tagger", "encoder"),
    }
    return {name: every[name]() for name in wanted.get(recipe, ())}


def chinese(sample: Any) -> bool:
    return any("\u4e00" <= character <= "\u9fff" for text in sample.texts for character in text)


def replay(
    recipe: str,
    compat: str | None,
    wanted: dict[str, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    live: int,
    only: Collection[str],
    given: dict[str, Any] | None = None,
) -> Iterator[tuple[str, ExampleOutcome, Text]]:
    """(id, outcome, final text) of the examples ``only`` names."""
    kind = importlib.import_module(f"robust_tickets.attack.recipes.{recipe}").REGISTERED
    attack = kind(compat=compat, **(given or {}))
    parts = resources(recipe)
    if parts:
        monkeypatch.setattr(kind, "resources", lambda self: {})
        monkeypatch.setattr(kind, "prepare", lambda self, device: self.assemble(Loaded(**parts)))
    finals: dict[tuple[str, ...], Text] = {}
    engine = importlib.import_module("robust_tickets.attack.engine")
    plain = engine.marks

    def marks(original: Text, final: Text, *rest: Any) -> Any:
        finals[original.columns] = final
        return plain(original, final, *rest)

    monkeypatch.setattr(engine, "marks", marks)
    for group, each in groups().items():
        names = [f"{group}:{row}" for row in range(len(each)) if f"{group}:{row}" in only]
        if not names:
            continue
        columns, classes = texts.COLUMNS[each[0].kind], each[0].classes
        labels = [wanted[f"{group}:{row}"]["label"] for row in range(len(each))]
        split = Split.of([sample.texts for sample in each], labels, name=group, columns=columns)
        clf = victim(recipe, classes, columns)
        for outcome in attack(clf, split, ids=names, seed=0, live=live).examples():
            yield outcome.id, outcome, finals.get(outcome.original, Text.of(outcome.original))


def difference(wanted: dict[str, Any], outcome: ExampleOutcome, final: Text) -> str | None:
    """How an outcome differs from TextAttack's, if it does: status, queries, final text, and both of TextAttack's sets of changed words."""
    if (outcome.status, outcome.queries) != (wanted["status"], wanted["queries"]):
        return f"{outcome.status} after {outcome.queries} queries, TextAttack: {wanted['status']} after {wanted['queries']}"
    if outcome.status == "skipped":
        return None
    if list(outcome.perturbed or ()) != wanted["final"]:
        return f"{outcome.perturbed}, TextAttack: {wanted['final']}"
    if sorted(final.modified) != wanted["modified"]:
        return f"changed words {sorted(final.modified)}, TextAttack: {wanted['modified']}"
    if outcome.words_changed != len(wanted["differ"]):
        return f"{outcome.words_changed} words differ, TextAttack: {wanted['differ']}"
    return None
