"""Half precision: gradients taken by hand are autograd's, whatever is trained, and the model is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch

from engines import KINDS, batches, gradients, loop_on, run
from robust_tickets.backbone.layout import layout_of
from robust_tickets.prune.hardconcrete import Granularity, HardConcrete
from robust_tickets.registry import BACKBONES
from robust_tickets.seeds import torch_generator
from robust_tickets.train import bf16
from robust_tickets.train.bf16 import Half
from tiny import tiny_classifier


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half precision that is not half: by-hand gradients can be compared digit by digit."""
    monkeypatch.setattr(bf16, "KIND", torch.float32)


def agree(kind: str, family: str = "bert", accumulate: int = 1, **settings: Any) -> None:
    got, expected = (
        gradients(loop_on(kind, family, precision=p, dropout=0.0, **settings), accumulate=accumulate)
        for p in ("bf16", "fp32")
    )
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.allclose(got[name], value, rtol=1e-4, atol=1e-6), (
            kind,
            name,
            float((got[name] - value).abs().max()),
        )
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
        for kind in ("plain", "search") if family == "bert" else ("plain",):
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
        assert (
            clf.model(**{name: batches()[0][name] for name in ("input_ids", "attention_mask")}).logits.isfinite().all()
        )


def test_query_key_and_value_are_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, calls = loop_on("plain"), []
    whole = bf16.LinearTogether.apply
    monkeypatch.setattr(bf16.LinearTogether, "apply", lambda *args: (calls.append(1), whole(*args))[1])
    run(loop, 1)
    assert len(calls) == 3  # one a layer


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


def test_weights_outside_a_mask_stay_zero_in_bf16() -> None:
    from robust_tickets.backbone.weight_masks import check_zeros

    loop = loop_on("masks")
    run(loop, 4)
    check_zeros(loop.parts["model"])
