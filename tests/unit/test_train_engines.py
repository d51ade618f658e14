"""Engines: recorded updates are the eager ones, whatever the step; and the half-precision engine's gradients by hand are autograd's."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from engines import KINDS, Graph, batches, gradients, graphs_on_cpu, loop_on, run  # noqa: F401
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.layout import layout_of
from robust_tickets.prune.hardconcrete import Granularity, HardConcrete
from robust_tickets.registry import BACKBONES
from robust_tickets.seeds import torch_generator
from robust_tickets.train import half
from robust_tickets.train.captured import Captured, reason, release
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.half import Half
from robust_tickets.train.together import Together
from tiny import tiny_classifier
from toy import toy_task

UPDATES = 12  # of three shapes: two eager ones each, then two replays


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half precision that is not half: by-hand gradients can be compared digit by digit."""
    monkeypatch.setattr(half, "KIND", torch.float32)


def same(got: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], within: float) -> None:
    for name, value in expected.items():
        assert torch.allclose(got[name], value, rtol=0, atol=within), (name, float((got[name] - value).abs().max()))


def agree(kind: str, family: str = "bert", accumulate: int = 1, **settings: Any) -> None:
    got, expected = (
        gradients(loop_on(kind, family, precision=p, dropout=0.0, **settings), accumulate=accumulate) for p in ("bf16", "fp32")
    )
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.allclose(got[name], value, rtol=1e-4, atol=1e-6), (kind, name, float((got[name] - value).abs().max()))
    assert sum(float(value.abs().sum()) for value in expected.values()) > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("exact")
def test_gradients_by_hand_are_autograds(kind: str) -> None:
    agree(kind)


@pytest.mark.parametrize("family", BACKBONES.names())
@pytest.mark.usefixtures("exact")
def test_on_every_family(family: str) -> None:
    for kind in ("freelb", "search", "gates", "ticket"):
        agree(kind, family)


@pytest.mark.parametrize("kind", ["plain", "search", "gates", "mlm"])
@pytest.mark.usefixtures("exact")
def test_an_update_begins_with_nothing(kind: str) -> None:
    """What the last update summed up is gone. The learning rate of the first one is 0: the weights stay."""
    loops = [loop_on(kind, precision=precision, dropout=0.0) for precision in ("bf16", "fp32")]
    for _ in range(2):
        got, expected = (gradients(loop) for loop in loops)
    for name, value in expected.items():
        assert torch.allclose(got[name], value, rtol=1e-4, atol=1e-6), name


@pytest.mark.parametrize("family", BACKBONES.names())
@pytest.mark.usefixtures("exact")
def test_frozen_parameters(family: str) -> None:
    """What is trained among frozen ones: biases, norms, all but the embeddings (a norm's input then wants no gradient), the last layer."""
    choices: dict[str, Callable[[str], bool]] = {
        "biases": lambda name: "bias" in name or "classifier" in name,
        "norms": lambda name: "norm" in name.lower() or "classifier" in name,
        "no embeddings": lambda name: "embed" not in name,
        "no biases": lambda name: not name.endswith("bias"),
        "the last layer": lambda name: "layer.2" in name or "layers.2" in name or "classifier" in name,
    }
    for trained in choices.values():
        for kind in ("plain", "search", "tails") if family == "bert" else ("plain",):
            agree(kind, family, trained=trained)


def test_an_odd_width_gets_room_and_keeps_it_to_itself() -> None:
    loop = loop_on("ticket")
    model, inside = loop.parts["model"], loop.engine.half
    assert inside is not None
    widths = [layer.output.dense.in_features for layer in model.bert.encoder.layer]
    assert any(width % 8 for width in widths)
    run(loop, 3)
    for copy in inside.copies:
        assert copy.inner.shape == copy.master.shape
        assert float(copy.work.abs().sum()) == pytest.approx(float(copy.inner.abs().sum()))  # the room stays empty
    assert all(-(-width // 8) * 8 in {copy.work.shape[-1] for copy in inside.copies} for width in widths)
    assert all(p.grad is None or p.grad.shape == p.shape for p in loop.parameters.values())


@pytest.mark.parametrize("granularity", get_args(Granularity))
def test_gates_on_odd_widths(granularity: Granularity) -> None:
    clf = tiny_classifier(intermediate_size=37)
    gates = HardConcrete(clf.model, generator=torch_generator(0, "gates"), granularity=granularity)
    with gates, Half(clf.model, layout_of(clf.model), gates), torch.no_grad():
        assert clf.model(**{name: batches()[0][name] for name in ("input_ids", "attention_mask")}).logits.isfinite().all()


def test_query_key_and_value_are_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, calls = loop_on("plain"), []
    whole = half.LinearTogether.apply
    monkeypatch.setattr(half.LinearTogether, "apply", lambda *args: (calls.append(1), whole(*args))[1])
    run(loop, 1)
    assert len(calls) == 3  # one a layer


def test_another_input_is_projected_by_itself() -> None:
    group = Together([torch.nn.Linear(4, 4) for _ in range(3)], torch.float32)
    x, other = torch.randn(2, 4), torch.randn(2, 4)
    made = []

    def compute(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made.append(x)
        return x, x + 1, x + 2

    query, key, value = group.modules
    assert group.ask(key, x, compute) is None  # nothing was computed yet
    assert group.ask(query, x, compute) is x
    assert group.ask(key, other, compute) is None
    assert torch.equal(group.ask(key, x, compute), x + 1)  # type: ignore[arg-type]
    assert group.ask(key, x, compute) is None  # handed out once
    assert torch.equal(group.ask(value, x, compute), x + 2)  # type: ignore[arg-type]
    assert len(made) == 1


@pytest.mark.parametrize("accumulate", [2, 3])
@pytest.mark.usefixtures("exact")
def test_micro_batches_add_up(accumulate: int) -> None:
    for kind in ("freelb", "mlm", "search", "masks"):
        agree(kind, accumulate=accumulate)


def test_bf16_is_near_fp32_and_leaves_the_model_alone() -> None:
    loop = loop_on("freelb", dropout=0.0)
    model = loop.parts["model"]
    names = set(model.state_dict())
    losses, weights = run(loop, 6)
    expected, _ = run(loop_on("freelb", precision="fp32", dropout=0.0), 6)
    assert losses == pytest.approx(expected, abs=0.05)
    assert losses != expected
    assert set(model.state_dict()) == names
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert not any("weight" in module.__dict__ or "forward" in module.__dict__ for module in model.modules())
    assert all(torch.isfinite(value).all() for value in weights.values())


def test_working_weights_go_with_their_loop() -> None:
    """Searches run one loop after another: the first one's weights and sums must not wait for the collector."""
    loop = loop_on("search")
    run(loop, 1)
    gone = weakref.ref(loop.engine.half)
    gc.disable()
    try:
        del loop
        assert gone() is None
    finally:
        gc.enable()


def test_weights_outside_a_mask_stay_zero_in_bf16() -> None:
    from robust_tickets.masks import check_zeros

    loop = loop_on("masks")
    run(loop, 4)
    check_zeros(loop.parts["model"])


FULL = ("plain", "freelb", "freeat", "infobert", "tavat", "search", "gates", "mlm")  # the others differ from these in bf16 only


@pytest.mark.parametrize(("kind", "precision"), [(kind, "bf16") for kind in KINDS] + [(kind, "fp32") for kind in FULL])
def test_a_replayed_update_is_the_eager_one(kind: str, precision: str, graphs_on_cpu: type[Graph]) -> None:  # noqa: F811
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
def test_recorded_micro_batches(kind: str, graphs_on_cpu: type[Graph]) -> None:  # noqa: F811
    eager, graph = loop_on(kind), loop_on(kind, engine="graph")
    torch.manual_seed(0)
    expected, weights = run(eager, UPDATES, accumulate=2)
    torch.manual_seed(0)
    losses, got = run(graph, UPDATES, accumulate=2)
    assert graphs_on_cpu.replays > UPDATES
    assert losses == expected
    same(got, weights, 0.0)


def test_what_cannot_be_recorded_runs_eagerly(graphs_on_cpu: type[Graph], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:  # noqa: F811
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
    monkeypatch.setattr("robust_tickets.train.engine.on_device", lambda device: True)
    monkeypatch.setattr("robust_tickets.train.engines.capturable", lambda device: False)
    loop = loop_on(kind, precision="fp32", dropout=0.0, clip=clip)
    _, got = run(loop, 4)
    assert loop.engine.on_device
    same(got, {name: value for name, value in expected.items() if "key.bias" not in name}, 2e-4)  # their gradient is rounding alone


@pytest.mark.parametrize(("kind", "part"), [("freeat", "update"), ("mlm", "descend"), ("search", "gradients")])
def test_a_recording_that_breaks_leaves_the_update_whole(kind: str, part: str, graphs_on_cpu: type[Graph]) -> None:  # noqa: F811
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
    monkeypatch.setattr(torch.cuda.memory, "_cuda_releasePool", lambda index, pool: called.append(("give", index, pool)))
    release(torch.device("cuda", 1), (0, 7))
    assert called == [("end", 1, (0, 7))] + ([] if ended else [("give", 1, (0, 7))])


def test_the_first_error_is_the_reason() -> None:
    """Leaving a broken recording raises as well; an error that was handled before is none of it."""
    first, last = RuntimeError("waits for the GPU\nmore"), RuntimeError("a previous error")
    first.__context__, last.__context__ = KeyError("handled"), first
    assert reason(last) == "waits for the GPU"
    assert reason(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_interrupted_run_goes_on(tmp_path: Path, precision: Any, graphs_on_cpu: type[Graph]) -> None:  # noqa: F811
    """It goes on with eager updates and records anew; the working weights are made of what was saved."""
    adversary = FreeLB(steps=2, step_size=0.1)
    train = FineTune(epochs=3, batch_size=4, lr=1e-2, evaluate="never", precision=precision, engine="graph", adversary=adversary)
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


def test_the_learning_rate_and_the_penalty_follow_their_schedules(graphs_on_cpu: type[Graph]) -> None:  # noqa: F811
    loop = loop_on("gates", engine="graph")
    made = batches()[:1]
    for done in range(8):
        loop.engine.update(made, done)
        assert float(loop.engine.rates[0]) == pytest.approx(loop.optim.lr_at(done, loop.total))
        assert float(loop.engine.weight) == pytest.approx(0.1 * done)
        assert float(loop.optimiser.param_groups[0]["lr"]) == pytest.approx(loop.optim.lr_at(done, loop.total))
