"""What one training reports: odd widths, evaluations, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from robust_tickets.backbone.layout import layout_of
from robust_tickets.classifier import ModelClassifier
from robust_tickets.prune.compact import compact
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train import cuda as engines
from robust_tickets.train import evaluate as module
from robust_tickets.train.evaluate import Evaluator, evaluate
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import QUICK, toy_task


def ticket(clf: Any, kept: int) -> Ticket:
    layout = layout_of(clf.model)
    scores = {"heads": layout.heads_of(clf.model), "neurons": layout.neurons_of(clf.model)}
    removed = 1 - kept / scores["neurons"][0]
    return Ticket.from_scores(
        family=layout.family,
        scores={group: [np.arange(n, dtype=np.float32) for n in sizes] for group, sizes in scores.items()},
        unit_weights=layout.unit_weights(clf.model),
        heads=0.0,
        neurons=removed,
        neuron_scope="layer",
    )


@pytest.mark.parametrize(
    ("family", "kept", "precision", "cuda", "told"),
    [
        ("modernbert", 13, "bf16", True, True),
        ("modernbert", 16, "bf16", True, False),
        ("modernbert", 13, "fp32", True, False),
        ("modernbert", 13, "bf16", False, False),
        ("bert", 16, "bf16", True, False),
    ],
)
def test_odd_widths_are_told_once(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, family: str, kept: int, precision: Any, cuda: bool, told: bool
) -> None:
    clf = tiny_classifier(family)
    monkeypatch.setattr(engines, "capturable", lambda _: cuda)
    trainer = FineTune(**QUICK, max_steps=1, precision=precision, engine="eager")
    trainer(compact(clf, ticket(clf, kept)), toy_task())
    said = capsys.readouterr().err
    assert said.count("round_to=8") == int(told)
    assert ("(like 13)" in said) == told


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
