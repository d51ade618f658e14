"""Evaluations one after the other: texts are encoded once, and nothing else differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from robust_tickets.classifier import ModelClassifier
from robust_tickets.train import evaluate as module
from robust_tickets.train.evaluate import Evaluator, evaluate
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import QUICK, toy_task


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts each call encodes."""
    sizes: list[int] = []
    original = ModelClassifier.encode

    def counted(self: ModelClassifier, texts: Sequence[Any]) -> Any:
        sizes.append(len(texts))
        return original(self, texts)

    monkeypatch.setattr(ModelClassifier, "encode", counted)
    monkeypatch.setattr(module, "CHUNK", 5)
    return sizes


@pytest.mark.parametrize(("kept", "anew"), [(1000, []), (10, [2]), (5, [5, 2]), (0, [5, 5, 2])])
def test_asking_again_follows_the_model_and_encodes_nothing(
    encoded: list[int], monkeypatch: pytest.MonkeyPatch, kept: int, anew: list[int]
) -> None:
    monkeypatch.setattr(module, "KEPT", kept)
    clf, split = tiny_classifier(), toy_task().test
    again = Evaluator(clf, split)
    first = again()
    assert encoded == [5, 5, 2]
    assert first == evaluate(clf, split)
    with torch.no_grad():
        for parameter in clf.model.parameters():
            parameter.mul_(-0.5)
    encoded.clear()
    second = again()
    assert encoded == anew
    assert second == evaluate(clf, split) != first


def test_a_training_encodes_its_validation_rows_once(encoded: list[int]) -> None:
    task = toy_task()
    FineTune(**{**QUICK, "epochs": 3, "evaluate": "epoch"})(tiny_classifier(), task)
    assert sum(encoded) == len(task.validation)
