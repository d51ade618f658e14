"""Engines: recorded updates are the eager ones, whatever the step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engines import KINDS, Graph, batches, graphs_on_cpu, loop_on, run  # noqa: F401
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.train.cuda.graphs import Captured, release
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task

UPDATES = 12  # of three shapes: two eager ones each, then two replays


def same(got: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], within: float) -> None:
    for name, value in expected.items():
        assert torch.allclose(got[name], value, rtol=0, atol=within), (name, float((got[name] - value).abs().max()))


FULL = (
    "plain",
    "freelb",
    "freeat",
    "infobert",
    "tavat",
    "search",
    "gates",
    "mlm",
)  # the others differ from these in bf16 only


@pytest.mark.parametrize(("kind", "precision"), [(kind, "bf16") for kind in KINDS] + [(kind, "fp32") for kind in FULL])
def test_a_replayed_update_is_the_eager_one(kind: str, precision: str, graphs_on_cpu: type[Graph]) -> None:
    """Dropout, perturbations and gate noise are on: replays that repeated a draw, a rate or a penalty would part from the eager run."""
    eager, graph = loop_on(kind, precision=precision), loop_on(kind, precision=precision, engine="graph")
    torch.manual_seed(0)
    expected, weights = run(eager, UPDATES)
    torch.manual_seed(0)
    losses, got = run(graph, UPDATES)
    assert isinstance(graph.engine, Captured)
    assert not graph.engine.refused
    assert len(graph.engine.graphs) == 3
    assert graphs_on_cpu.replays == UPDATES - 6
    assert losses == expected
    same(got, weights, 0.0)
    assert len(set(losses)) == UPDATES


@pytest.mark.parametrize("kind", ["search", "mlm", "masks"])  # FreeLB in all of them
def test_recorded_micro_batches(kind: str, graphs_on_cpu: type[Graph]) -> None:
    eager, graph = loop_on(kind), loop_on(kind, engine="graph")
    torch.manual_seed(0)
    expected, weights = run(eager, UPDATES, accumulate=2)
    torch.manual_seed(0)
    losses, got = run(graph, UPDATES, accumulate=2)
    assert graphs_on_cpu.replays > UPDATES
    assert losses == expected
    same(got, weights, 0.0)


def test_what_cannot_be_recorded_runs_eagerly(
    graphs_on_cpu: type[Graph], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def refuse(graph: Any, **_: Any) -> Any:
        raise RuntimeError("this step waits\nfor the GPU")

    monkeypatch.setattr(torch.cuda, "graph", refuse)
    shared = FreeLB(steps=2, dropout="shared")
    graph, eager = loop_on("freelb", engine="graph", adversary=shared), loop_on("freelb", adversary=shared)
    torch.manual_seed(0)
    expected, _ = run(eager, UPDATES)
    torch.manual_seed(0)
    losses, _ = run(graph, UPDATES)
    assert losses == expected
    assert graphs_on_cpu.replays == 0
    assert "this step waits" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "clip"), [("freeat", 0.1), ("search", 1e3), ("search", 0.0), ("gates", 0.1)])
def test_numbers_on_the_device_are_those_of_python(kind: str, clip: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Learning rates, one a replay and one a part, the penalty's weight and the factor of clipping."""
    _, expected = run(loop_on(kind, precision="fp32", dropout=0.0, clip=clip), 4)
    monkeypatch.setattr("robust_tickets.train.update.on_device", lambda device: True)
    monkeypatch.setattr("robust_tickets.train.cuda.capturable", lambda device: False)
    loop = loop_on(kind, precision="fp32", dropout=0.0, clip=clip)
    _, got = run(loop, 4)
    assert loop.engine.on_device
    same(
        got, {name: value for name, value in expected.items() if "key.bias" not in name}, 2e-4
    )  # their gradient is rounding alone


@pytest.mark.parametrize(("kind", "part"), [("freeat", "update"), ("mlm", "descend"), ("search", "gradients")])
def test_a_recording_that_breaks_leaves_the_update_whole(kind: str, part: str, graphs_on_cpu: type[Graph]) -> None:
    """What broke it had begun already: some of a batch's updates, the descent, or the second micro-batch's gradients."""
    accumulate = 1 if part == "update" else 2
    eager, graph = loop_on(kind), loop_on(kind, engine="graph")
    engine = graph.engine
    assert isinstance(engine, Captured)
    name = {"update": "_midway", "descend": "_clip", "gradients": "_backward"}[part]
    whole, recording, breaks = getattr(engine, name), engine._record, []

    def breaking(*args: Any) -> Any:
        if breaks and (part != "update" or engine.replay == 1):
            raise RuntimeError("out of memory")
        return whole(*args)

    def record(key: Any, *args: Any) -> None:
        breaks.extend([key] if key[0] == part else [])
        recording(key, *args)
        breaks.clear()

    setattr(engine, name, breaking)
    engine._record = record  # type: ignore[method-assign]
    torch.manual_seed(0)
    expected, weights = run(eager, 8, accumulate=accumulate)
    torch.manual_seed(0)
    losses, got = run(graph, 8, accumulate=accumulate)
    assert engine.refused == "out of memory"
    assert losses == expected
    same(got, weights, 0.0)


@pytest.mark.parametrize("ended", [True, False])
def test_a_broken_recording_gives_its_memory_back_once(ended: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    def end(index: int, pool: Any) -> None:
        called.append(("end", index, pool))
        if ended:
            raise RuntimeError("not currently recording")

    monkeypatch.setattr(torch.cuda.memory, "_cuda_endAllocateToPool", end)
    monkeypatch.setattr(
        torch.cuda.memory, "_cuda_releasePool", lambda index, pool: called.append(("give", index, pool))
    )
    release(torch.device("cuda", 1), (0, 7))
    assert called == [("end", 1, (0, 7))] + ([] if ended else [("give", 1, (0, 7))])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_interrupted_run_goes_on(tmp_path: Path, precision: Any, graphs_on_cpu: type[Graph]) -> None:
    """It goes on with eager updates and records anew; the working weights are made of what was saved."""
    adversary = FreeLB(steps=2, step_size=0.1)
    train = FineTune(
        epochs=3, batch_size=4, lr=1e-2, evaluate="never", precision=precision, engine="graph", adversary=adversary
    )
    whole, first, rest = (tiny_classifier() for _ in range(3))
    task = toy_task(20)
    train(whole, task)
    before = graphs_on_cpu.replays
    assert before
    train(first, task, folder=tmp_path, stop_after=8)
    train(rest, task, folder=tmp_path)
    assert graphs_on_cpu.replays > before
    same(dict(rest.model.named_parameters()), dict(whole.model.named_parameters()), 0.0)


def test_graphs_elsewhere_are_said_to_be_eager(capsys: Any) -> None:
    loop = loop_on("plain", engine="graph")
    assert loop.engine.name == "eager"
    assert "graphs need a CUDA device" in capsys.readouterr().err


def test_the_learning_rate_and_the_penalty_follow_their_schedules(graphs_on_cpu: type[Graph]) -> None:
    loop = loop_on("gates", engine="graph")
    made = batches()[:1]
    for done in range(8):
        loop.engine.update(made, done)
        assert float(loop.engine.rates[0]) == pytest.approx(loop.optim.lr_at(done, loop.total))
        assert float(loop.engine.weight) == pytest.approx(0.1 * done)
        assert float(loop.optimiser.param_groups[0]["lr"]) == pytest.approx(
            3 * loop.optim.lr_at(done, loop.total)
        )  # the gates' pace
