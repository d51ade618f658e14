"""Importance pruning: the measure against a literal one, the rule step by step, and resuming by iteration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from refusing import refused
from robust_tickets.backbone.layout import layout_of
from robust_tickets.data.batching import Batches
from robust_tickets.prune.compact import compact
from robust_tickets.prune.gates import Gates
from robust_tickets.search import prasanna
from robust_tickets.search.prasanna import Importance, Masks, Prasanna, importance, normalised
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.evaluate import evaluate
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task

TUNE = FineTune(epochs=4, batch_size=8, lr=1e-3, evaluate="never")
SMALL: dict[str, Any] = {"tuning": TUNE, "batch_size": 8, "head_step": 0.2}


def batches(clf: Any, split: Any, size: int) -> Any:
    return Batches(
        split=split,
        tokenizer=clf.tokenizer,
        batch_size=size,
        max_length=32,
        order="longest",
        token_types=clf.token_types,
    ).epoch()


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_importance_is_the_sum_of_every_examples_gradient(family: str) -> None:
    """Example by example, with coefficients on the projections' weights, at masks that are not all one."""
    clf, task = tiny_classifier(family), toy_task(8)
    layout = layout_of(clf.model)
    with Gates(clf.model, layout) as gates:
        with torch.no_grad():
            gates.heads[1][2] = 0.0
            gates.neurons[0][3] = 0.0
        got = importance(clf.model, layout, batches(clf, task.validation, 5))
        heads = [np.zeros(4) for _ in range(3)]
        neurons, mlps = [np.zeros(24) for _ in range(3)], np.zeros(3)
        for batch in batches(clf, task.validation, 1):
            gates.zero_grad()
            F.cross_entropy(clf.model(**batch.inputs).logits, batch.labels).backward()
            for i in range(3):
                heads[i] += gates.heads[i].grad.abs().numpy()
                neurons[i] += gates.neurons[i].grad.abs().numpy()
                mlps[i] += abs(float((gates.neurons[i].grad * gates.neurons[i].detach()).sum()))
    kept = [(h, gates.heads[i].detach().numpy() > 0) for i, h in enumerate(heads)]
    for (expected, mask), measured in zip(kept, got.heads, strict=True):
        assert np.allclose(measured[mask], expected[mask], rtol=1e-4, atol=1e-6)
    for i in range(3):
        mask = gates.neurons[i].detach().numpy() > 0
        assert np.allclose(got.neurons[i][mask], neurons[i][mask], rtol=1e-4, atol=1e-6)
    assert np.allclose(got.mlps, mlps, rtol=1e-4, atol=1e-6)
    assert not clf.model.training
    assert all(p.requires_grad for p in clf.model.parameters())
    assert not any(m._forward_pre_hooks for m in clf.model.modules())


def test_normalisation() -> None:
    got = normalised([np.array([3.0, 4.0]), np.array([0.0, 2.0])])
    assert np.allclose(got[0], [0.6, 0.8])
    assert np.allclose(got[1], [0.0, 1.0])
    assert all(np.isfinite(layer).all() for layer in normalised([np.zeros(2), np.zeros(3)]))


def test_what_goes_next() -> None:
    masks = Masks([4, 4, 2], [5, 5, 5])
    told = Importance(
        heads=[np.array([1.0, 9, 9, 9]), np.array([5.0, 1, 2, 9]), np.array([0.0, 0.0])],
        neurons=[np.array([1.0, 3, 2, 0, 0])] * 3,
        mlps=np.array([2.0, 1.0, 3.0]),
    )
    method = Prasanna(head_step=0.3)
    first = method._choose(told, masks, "both")
    assert first == {"heads": [[2, 0], [0, 0], [1, 1]], "mlps": [[1, 1]]}  # the third layer's last head stays
    masks.do(first)
    assert [m.tolist() for m in masks.neurons][1] == [False, True, False, False, False]
    assert method._choose(told, masks, "heads")["heads"] == [[1, 2]]  # half as many where heads go alone
    second = method._choose(told, masks, "mlps")
    assert second == {"heads": [], "mlps": [[0, 1]]}
    masks.do(second)
    masks.undo(second)
    assert masks.neurons[0].all()
    assert masks.left() == {"heads_left": 7, "mlps_left": 2}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("prasanna")
    clf, task = tiny_classifier(), toy_task(60)
    tuned = FineTune(epochs=12, batch_size=8, lr=1e-3, evaluate="never")(clf.copy(), task)
    before = clf.digest, tuned.digest
    return clf, task, tuned, before, Prasanna(**SMALL)(clf, task, folder=folder, tuned=tuned), folder


def test_the_rule(ran: Any) -> None:
    clf, task, tuned, before, found, folder = ran
    lines = list(found.trace)
    assert [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()] == lines
    assert lines[0]["accuracy"] == evaluate(tuned, task.validation).accuracy
    phases = [line["phase"] for line in lines[1:]]
    assert {(line["phase"], len(line["heads"])) for line in lines[1:] if line["heads"]} <= {
        ("both", 2),
        ("heads", 1),
    }  # of 12
    assert phases == sorted(phases, key=("both", "heads", "mlps").index)
    assert [line["phase"] for line in lines if not line["kept"]] == [
        "both",
        "heads",
        "mlps",
    ]  # each ends with a step that is undone
    for line in lines[1:]:
        if line["heads"] or line["mlps"]:
            assert line["kept"] == (line["accuracy"] >= 0.9 * lines[0]["accuracy"])
    assert any(line["kept"] for line in lines[1:])
    assert (clf.digest, tuned.digest) == before
    assert not any(m._forward_pre_hooks for m in tuned.model.modules())


def test_the_ticket_is_what_was_measured(ran: Any) -> None:
    _, task, tuned, _, found, folder = ran
    assert Ticket.load(folder) == found.ticket
    assert all(mask.sum() >= 1 for mask in found.ticket.masks["heads"])
    assert all(mask.sum() in (1, len(mask)) for mask in found.ticket.masks["neurons"])
    last = [line for line in found.trace if line["kept"]][-1]
    assert evaluate(compact(tuned, found.ticket), task.validation).accuracy == pytest.approx(last["accuracy"])
    with refused("ticket.no_scores"):
        found.ticket.draw(heads=0.5)


@pytest.mark.parametrize("at", [0, 2])
def test_a_killed_search_goes_on(ran: Any, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clf, task, tuned, _, found, _ = ran
    calls: list[int] = []

    def dying(*arguments: Any) -> Importance:
        calls.append(1)
        if len(calls) > at:
            raise KeyboardInterrupt
        return importance(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(prasanna, "importance", dying)
        with pytest.raises(KeyboardInterrupt):
            Prasanna(**SMALL)(clf, task, folder=tmp_path, tuned=tuned)
    again = Prasanna(**SMALL)(clf, task, folder=tmp_path, tuned=tuned)
    assert list(again.trace) == list(found.trace)
    assert again.ticket == found.ticket
    for left in (tmp_path / "checkpoint" / "iterations").glob("step-*/state.json"):
        left.write_bytes(bytes(80))
    assert list(Prasanna(**SMALL)(clf, task, folder=tmp_path, tuned=tuned).trace) == list(found.trace), (
        "damaged iterations are as none"
    )
    with refused("stage.other_work"):
        Prasanna(**SMALL, floor=0.5)(clf, task, folder=tmp_path, tuned=tuned)


def test_it_fine_tunes_a_copy_of_its_own(tmp_path: Path) -> None:
    clf, task = tiny_classifier(), toy_task(24)
    before = clf.digest
    found = Prasanna(**SMALL, on="train", rows=10, floor=1.0)(clf, task, folder=tmp_path)
    again = Prasanna(**SMALL, on="train", rows=10, floor=1.0)(clf, task, tuned=TUNE(clf.copy(), task))
    assert found.ticket == again.ticket
    assert clf.digest == before
    assert (tmp_path / "tuned" / "checkpoint").is_dir()
