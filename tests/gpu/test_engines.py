"""On a GPU: recorded updates are the eager ones for every kind of step; runs of them resume, and draw anew in every replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engines import KINDS, loop_on, run
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.registry import BACKBONES
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.search.robustt import RobustT
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.update import Engine
from tiny import tiny_classifier
from toy import toy_task

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")]
TEXTS = [f"the film {i} was {'good' if i % 2 else 'awful'}" for i in range(9)]
UPDATES = 12
UNRECORDED = ("deberta_v2", "mpnet")  # their code makes position tables on the CPU in every pass


def both(kind: str, count: int = UPDATES, accumulate: int = 1, **settings: Any) -> tuple[Any, Any, Any, Any, Any]:
    eager, graph = (loop_on(kind, engine=engine, device="cuda", **settings) for engine in ("eager", "graph"))
    torch.manual_seed(0)
    expected, weights = run(eager, count, accumulate=accumulate, device="cuda")
    torch.manual_seed(0)
    losses, got = run(graph, count, accumulate=accumulate, device="cuda")
    return graph, expected, weights, losses, got


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_replayed_update_is_the_eager_one(kind: str, precision: str) -> None:
    graph, expected, weights, losses, got = both(kind, precision=precision)
    assert not graph.engine.refused
    assert len(graph.engine.graphs) == 3  # one is the partial batch's
    assert losses == pytest.approx(expected, abs=1e-5)
    assert len(set(losses)) == UPDATES
    assert np.mean([torch.allclose(got[name], weights[name], atol=1e-4) for name in weights]) > 0.95


@pytest.mark.parametrize("kind", ["plain", "freelb", "search", "gates", "mlm", "masks"])
def test_recorded_micro_batches(kind: str) -> None:
    graph, expected, _, losses, _ = both(kind, accumulate=2)
    assert not graph.engine.refused
    assert losses == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("family", BACKBONES.names())
def test_every_family(family: str) -> None:
    graph, expected, _, losses, _ = both("freelb", family=family)
    # what gathers without an order (DeBERTa's positions) differs between two eager runs as well
    assert losses == pytest.approx(expected, abs=0.05 if family in UNRECORDED else 1e-4)
    assert bool(graph.engine.refused) == (family in UNRECORDED), graph.engine.refused


@pytest.mark.parametrize("kind", ["plain", "freelb", "search", "gates", "mlm"])
def test_bf16_is_near_fp32(kind: str) -> None:
    (half, _), (full, _) = (
        run(loop_on(kind, device="cuda", precision=p, dropout=0.0), 4, device="cuda") for p in ("bf16", "fp32")
    )
    assert half == pytest.approx(full, rel=0.05)


def test_what_cannot_be_recorded_runs_on_eagerly() -> None:
    graph, expected, _, losses, _ = both("freelb", adversary=FreeLB(steps=2, dropout="shared"))
    assert "rewinds" in graph.engine.refused
    assert losses == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_interrupted_run_goes_on(tmp_path: Path, precision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    task = toy_task(40)
    train = FineTune(
        epochs=3,
        batch_size=4,
        lr=1e-3,
        evaluate="never",
        precision=precision,
        engine="graph",
        adversary=FreeLB(steps=2),
    )
    whole, first, rest = (tiny_classifier().to("cuda") for _ in range(3))
    train(whole, task, folder=tmp_path / "whole")
    train(first, task, folder=tmp_path / "cut", stop_after=17)
    train(rest, task, folder=tmp_path / "cut")
    np.testing.assert_allclose(rest.logits(TEXTS), whole.logits(TEXTS), atol=1e-5)
    monkeypatch.setattr(Engine, "continues", True)  # else the eager engine draws otherwise
    eager = replace(train, engine="eager")(tiny_classifier().to("cuda"), task)
    np.testing.assert_allclose(eager.logits(TEXTS), whole.logits(TEXTS), atol=1e-3)


def test_searches_find_the_eager_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "continues", True)  # else the eager engine draws otherwise
    task = toy_task(60)
    gates = RobustT(epochs=2, batch_size=4, tuning=FineTune(epochs=1), precision="bf16")
    for method in (EarlyRobust(batch_size=4, precision="bf16", stop="early_bird"), gates):
        found = [
            replace(method, engine=engine)(tiny_classifier().to("cuda"), task).ticket for engine in ("eager", "graph")
        ]
        assert all(apart <= 0.02 for apart in found[0].distance(found[1]).values())
