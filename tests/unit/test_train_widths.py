"""A ticket of odd widths is slow in bf16 on a GPU: said in one line, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robust_tickets.backbone.layout import layout_of
from robust_tickets.prune.compact import compact
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train import cuda as engines
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
