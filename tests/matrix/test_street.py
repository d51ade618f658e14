"""Every method on every backbone: search, draw, compact, reload, one training step, expand. New files join by being there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split, Task
from robust_tickets.prune.compact import compact, expand
from robust_tickets.registry import BACKBONES, METHODS
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier

TEXTS = [f"the film {i} was {word} and not {other}" for i in range(8) for word, other in (("good", "bad"), ("awful", "fine"))]


def small_task() -> Task:
    labels = [i % 2 for i in range(len(TEXTS))]
    splits = {name: Split.of(TEXTS, labels, name=name) for name in ("train", "validation", "test")}
    return Task(name="small", labels=("a", "b"), columns=("text",), splits=splits)


@pytest.mark.parametrize("family", BACKBONES.names())
@pytest.mark.parametrize("method", METHODS.names())
def test_a_ticket_walks_the_street(method: str, family: str, tmp_path: Path) -> None:
    task, start = small_task(), tiny_classifier(family)
    before = start.digest
    found = METHODS.get(method)(seed=3)(start, task)
    assert start.digest == before, "a search leaves the classifier as it was"
    ticket = found.ticket.draw(heads=1 / 4, neurons=1 / 3)
    assert ticket.removed == pytest.approx({"heads": 1 / 4, "neurons": 1 / 3})

    small = compact(start, ticket)
    small.save_pretrained(tmp_path / "model")
    again = Classifier.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(small.logits(TEXTS), again.logits(TEXTS))

    FineTune(epochs=1, max_steps=1, batch_size=4, lr=1e-3)(again, task)
    assert not np.array_equal(again.logits(TEXTS), small.logits(TEXTS))
    dense = expand(again)
    assert type(dense.model).__name__.startswith("Ticket") is False
    assert sum(p.numel() for p in again.model.parameters()) < sum(p.numel() for p in dense.model.parameters())
    torch.testing.assert_close(torch.tensor(dense.logits(TEXTS)), torch.tensor(again.logits(TEXTS)), atol=1e-5, rtol=0)
