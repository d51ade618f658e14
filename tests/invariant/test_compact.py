"""compact ≡ gated ≡ dense-with-zeros, on every registered backbone, for random masks: the property the project stands on."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packaging.version import Version

import robust_tickets as rt
from refusing import refused
from robust_tickets.backbone.layout import encoder_of, layout_of
from robust_tickets.prune.compact import zero_outside
from robust_tickets.prune.gates import Gates
from robust_tickets.prune.modeling import cuts, from_text, to_text
from robust_tickets.registry import BACKBONES
from tiny import VARIANTS, tiny_classifier, tiny_model

LAYERS, HEADS, NEURONS = 3, 4, 24
FAMILIES = pytest.mark.parametrize("family", [*BACKBONES.names(), *VARIANTS])
AUTO = pytest.mark.parametrize("auto", ["AutoModel", "AutoModelForSequenceClassification", "AutoModelForMaskedLM"])
TEXTS = [
    "good film",
    "a very long story was not bad at all , it was great",
    ("the plot is poor", "an awful movie"),
    "",
    "zebra 42 !",
]
BARE = ([[2], [0], [3]], [[7], [0], [23]])  # every layer reduced to one head and one neuron
MIXED = ([[1], [0, 3], [0, 1, 2, 3]], [[5], list(range(24)), [1, 2, 23]])
KEPT = st.tuples(
    st.lists(st.sets(st.integers(0, HEADS - 1), min_size=1).map(sorted), min_size=LAYERS, max_size=LAYERS),
    st.lists(st.sets(st.integers(0, NEURONS - 1), min_size=1).map(sorted), min_size=LAYERS, max_size=LAYERS),
)


@cache
def dense(family: str) -> rt.Classifier:
    return tiny_classifier(family, labels=("a", "b", "c"), layers=LAYERS, heads=HEADS, neurons=NEURONS)


def ticket_for(model: Any, kept: Any) -> rt.Ticket:
    return rt.Ticket.from_kept(model, heads=kept[0], neurons=kept[1])


def batch_for(family: str) -> dict[str, torch.Tensor]:
    """Padding, and token types where the family has them."""
    return dense(family).batch(dense(family).encode(TEXTS))


def outputs(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        out = model(**batch)
    return (
        out.logits
        if "logits" in out
        else torch.cat(
            [
                out.last_hidden_state.flatten(),
                *([] if out.get("pooler_output") is None else [out.pooler_output.flatten()]),
            ]
        )
    )


@FAMILIES
@settings(max_examples=12, deadline=None)
@example(kept=BARE)
@example(kept=MIXED)
@given(kept=KEPT)
def test_three_forms_agree(family: str, kept: Any) -> None:
    clf = dense(family)
    ticket = ticket_for(clf, kept)
    before = clf.digest
    small = rt.compact(clf, ticket)
    with Gates(clf.model) as gates:
        gates.set_masks(ticket.masks)
        gated = clf.logits(TEXTS)
    np.testing.assert_allclose(small.logits(TEXTS), gated, atol=1e-5)
    np.testing.assert_allclose(small.logits(TEXTS), zero_outside(clf, ticket).logits(TEXTS), atol=1e-5)
    np.testing.assert_allclose(small.logits(TEXTS), rt.expand(small).logits(TEXTS), atol=1e-5)
    layout = layout_of(small.model)
    assert layout.heads_of(small.model) == [len(k) for k in kept[0]]
    assert layout.neurons_of(small.model) == [len(k) for k in kept[1]]
    assert clf.digest == before, "the original was touched"


@FAMILIES
@AUTO
def test_bare_models_too(family: str, auto: str) -> None:
    model = tiny_model(family, auto, layers=LAYERS, heads=HEADS, neurons=NEURONS)
    batch, ticket = batch_for(family), ticket_for(model, MIXED)
    state = torch.get_rng_state()
    small = rt.compact(model, ticket)
    back = rt.expand(small)
    assert torch.equal(torch.get_rng_state(), state), "compacting drew random numbers"
    with Gates(model) as gates:
        gates.set_masks(ticket.masks)
        gated = outputs(model, batch)
    torch.testing.assert_close(outputs(small, batch), gated, atol=1e-5, rtol=0)
    assert not torch.allclose(gated, outputs(model, batch), atol=1e-2), (
        "the ticket cut nothing that matters: the test shows nothing"
    )
    assert isinstance(small, type(model))
    assert type(small).__name__ == f"Ticket{type(model).__name__}"
    assert type(back) is type(model)
    zeroed = zero_outside(model, ticket)
    assert back.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(tensor, zeroed.state_dict()[name]) for name, tensor in back.state_dict().items())
    assert back.config.to_dict() == model.config.to_dict() | {"architectures": back.config.architectures}
    if auto == "AutoModelForMaskedLM":
        assert small.get_output_embeddings().weight is small.get_input_embeddings().weight, "the tie was cut"


@FAMILIES
def test_nothing_is_shared_with_the_original(family: str) -> None:
    model = dense(family).model
    everything = ([list(range(HEADS))] * LAYERS, [list(range(NEURONS))] * LAYERS)
    small = rt.compact(model, ticket_for(model, everything))
    mine = {t.data_ptr() for t in [*model.parameters(), *model.buffers()]}
    assert not mine & {t.data_ptr() for t in [*small.parameters(), *small.buffers()]}
    torch.testing.assert_close(outputs(small, batch_for(family)), outputs(model, batch_for(family)), atol=0, rtol=0)


@FAMILIES
def test_compacting_twice_composes(family: str) -> None:
    clf = dense(family)
    once = rt.compact(clf, ticket_for(clf, ([[1, 3], [0, 2, 3], [0]], [[2, 4, 6, 8], [0, 23], [5, 7, 9]])))
    twice = rt.compact(once, ticket_for(once, ([[1], [0, 2], [0]], [[1, 3], [1], [0, 2]])))
    straight = rt.compact(clf, ticket_for(clf, ([[3], [0, 3], [0]], [[4, 8], [23], [5, 9]])))
    assert twice.model.config.kept_heads == straight.model.config.kept_heads == [[3], [0, 3], [0]]
    assert twice.model.config.kept_neurons == straight.model.config.kept_neurons
    assert twice.digest == straight.digest
    np.testing.assert_array_equal(twice.logits(TEXTS), straight.logits(TEXTS))
    assert rt.expand(twice).digest == rt.expand(straight).digest


@FAMILIES
def test_bookkeeping_and_copies(family: str) -> None:
    small = rt.compact(dense(family), ticket_for(dense(family), MIXED))
    layout = layout_of(small.model)
    for layer, kept in zip(layout.layers_of(small.model), MIXED[0], strict=True):
        attention = layer.get_submodule(layout.query.rpartition(".")[0])
        width = len(kept) * layout.head_size(small.model)
        assert {getattr(attention, name, len(kept)) for name in layout.head_counts} == {len(kept)}
        assert {getattr(attention, name, width) for name in layout.head_widths} == {width}
        assert layer.get_submodule(layout.query).out_features == width * layout.rows_of(layer)[layout.query][1]
    np.testing.assert_array_equal(small.copy().logits(TEXTS), small.logits(TEXTS))


@FAMILIES
def test_gates_of_ones_change_nothing_and_leave_nothing(family: str) -> None:
    model, batch = dense(family).model, batch_for(family)
    keys, plain = list(model.state_dict()), outputs(model, batch)
    gates = Gates(model)
    with gates:
        torch.testing.assert_close(outputs(model, batch), plain, atol=0, rtol=0)
        assert list(model.state_dict()) == keys
        assert not any(name.startswith("_model") for name in gates.state_dict())
        gates.attach()  # twice is once
        with torch.no_grad():
            gates.heads[0].fill_(2.0)
        assert not torch.allclose(outputs(model, batch), plain)
    torch.testing.assert_close(outputs(model, batch), plain, atol=0, rtol=0)


@FAMILIES
def test_scaling_probabilities_is_scaling_the_context(family: str) -> None:
    """The reference multiplies attention probabilities, as the papers do; ours multiplies the context."""
    model, batch = copy.deepcopy(dense(family).model), batch_for(family)
    layout, scale = layout_of(model), torch.tensor([0.5, -1.0, 2.0, 0.0])
    gates = Gates(model)
    with torch.no_grad():
        for heads in gates.heads:
            heads.copy_(scale)
    with gates:
        ours = outputs(model, batch)
    own = {
        "mpnet": "attention.attn.dropout",
        "deberta_v2": "attention.self.dropout",
    }  # these compute attention by themselves
    if family.partition(":")[0] in own:
        for layer in layout.layers_of(model):
            layer.get_submodule(own[family.partition(":")[0]]).register_forward_hook(
                lambda m, a, out: out * scale[:, None, None]
            )
    else:
        from transformers import AttentionInterface

        def scaled(module: Any, q: Any, k: Any, v: Any, mask: Any, scaling: Any = None, **_: Any) -> Any:
            scores = q @ k.transpose(-1, -2) * (scaling or q.shape[-1] ** -0.5)
            if mask is not None:
                scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
            return ((scores.softmax(-1) * scale[:, None, None]) @ v).transpose(1, 2).contiguous(), None

        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

        AttentionInterface.register("scaled", scaled)
        ALL_MASK_ATTENTION_FUNCTIONS.register("scaled", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
        if family.startswith("modernbert") and Version(transformers.__version__) < Version("5.7"):
            pytest.skip("until 5.7 the attention of transformers' ModernBERT cannot be replaced by the reference")
        model.set_attn_implementation("scaled")
    torch.testing.assert_close(outputs(model, batch), ours, atol=1e-5, rtol=0)


@FAMILIES
def test_one_training_step(family: str) -> None:
    """Gradients of the small model are those of the gated one where weights were kept; a step keeps the shapes."""
    clf = dense(family).copy()
    ticket = ticket_for(clf, MIXED)
    small, batch = rt.compact(clf, ticket).model, {**batch_for(family), "labels": torch.tensor([0, 1, 2, 1, 0])}
    small(**batch).loss.backward()
    with Gates(clf.model) as gates:
        gates.set_masks(ticket.masks)
        clf.model(**batch).loss.backward()
    where = {c.name: c for c in cuts(clf.model, layout_of(clf.model), {g: ticket.kept(g) for g in ticket.masks})}
    big = dict(clf.model.named_parameters())
    for name, parameter in small.named_parameters():
        expected = big[name].grad
        if name in where:
            expected = expected.index_select(where[name].dim, where[name].kept)
        assert (parameter.grad is None) == (expected is None), name
        if expected is not None:
            torch.testing.assert_close(
                parameter.grad, expected, atol=1e-5, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
            )
    shapes = [p.shape for p in small.parameters()]
    torch.optim.AdamW(small.parameters(), lr=0.1).step()
    assert [p.shape for p in small.parameters()] == shapes
    assert torch.isfinite(outputs(small, batch_for(family))).all()


@FAMILIES
def test_mode_frozen_parameters_and_dtype_carry_over(family: str) -> None:
    model = dense(family).copy().model.to(torch.bfloat16)
    layout_of(model).words_of(model).weight.requires_grad_(False)
    model.train()
    small = rt.compact(model, ticket_for(model, MIXED))
    assert small.training
    assert not layout_of(small).words_of(small).weight.requires_grad
    assert sum(not p.requires_grad for p in small.parameters()) == 1
    assert {p.dtype for p in small.parameters()} == {torch.bfloat16}
    gates = Gates(small)
    assert gates.heads[0].dtype == torch.float32
    with gates:
        assert outputs(small.eval(), batch_for(family)).dtype == torch.bfloat16


@FAMILIES
def test_inference_before_training(family: str) -> None:
    """What a first forward pass in inference mode caches must be usable in training."""
    small = rt.compact(dense(family), ticket_for(dense(family), MIXED))
    small.logits(TEXTS)
    small.model(**batch_for(family), labels=torch.zeros(len(TEXTS), dtype=torch.long)).loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in small.model.parameters() if p.grad is not None)


@FAMILIES
@AUTO
def test_save_and_reload_is_bitwise(family: str, auto: str, tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    import transformers

    model = tiny_model(family, auto, layers=LAYERS, heads=HEADS, neurons=NEURONS)
    small = rt.compact(model, ticket_for(model, MIXED))
    small.save_pretrained(tmp_path)
    again, info = getattr(transformers, auto).from_pretrained(tmp_path, output_loading_info=True)
    assert type(again) is type(small)
    assert not any(info.values()), info
    assert not caplog.records
    assert again.config.kept_heads == MIXED[0]
    assert again.config.kept_neurons == MIXED[1]
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["kept_heads"] == ["1", "0,3", "0-3"]  # short: one text a layer, not one line a number
    assert written["kept_neurons"] == ["5", "0-23", "1-2,23"]
    assert "auto_map" not in (tmp_path / "config.json").read_text()
    assert again.state_dict().keys() == small.state_dict().keys()
    assert all(torch.equal(tensor, small.state_dict()[name]) for name, tensor in again.state_dict().items())
    for parameter in again.parameters():
        parameter.data = (
            parameter.data.clone()
        )  # kernels round by the address of the weights, and mapped files lie at odd ones
    assert torch.equal(outputs(again, batch_for(family)), outputs(small, batch_for(family)))
    encoder = transformers.AutoModel.from_pretrained(tmp_path)
    assert type(encoder).__name__ == f"Ticket{type(encoder_of(model)).__name__}"


def test_configs_with_lists_are_read_too(tmp_path: Any) -> None:
    small = rt.compact(dense("bert"), ticket_for(dense("bert"), MIXED))
    small.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"kept_heads": MIXED[0], "kept_neurons": MIXED[1]}))
    assert rt.Classifier.from_pretrained(tmp_path).digest == small.digest
    assert small.model.config.to_dict()["kept_heads"] == ["1", "0,3", "0-3"]


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(0, 40), min_size=1).map(sorted))
def test_kept_indices_survive_their_text(kept: list[int]) -> None:
    assert from_text(to_text(kept), 41) == kept


@FAMILIES
def test_half_precision_does_not_round_coefficients_away(family: str) -> None:
    """Coefficients travel 1 % in a search: 0.9985 must be seen, and have a gradient of its own, where everything else is bf16."""
    clf = dense(family)
    batch = clf.batch(clf.encode(["good film", "a bad story"]))
    with Gates(clf.model) as gates, torch.autocast("cpu", torch.bfloat16):
        ones = clf.model(**batch).logits
        with torch.no_grad():
            for c in gates.parameters():
                c.fill_(0.9985)
        scaled = clf.model(**batch).logits
        scaled.float().logsumexp(-1).mean().backward()
    assert not torch.equal(ones, scaled)
    gradient = torch.cat([c.grad for c in gates.parameters()])
    assert not torch.equal(gradient, gradient.bfloat16().float())
    clf.model.zero_grad()


def test_an_error_in_a_projection_leaves_its_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    clf = tiny_classifier()
    down = clf.model.bert.encoder.layer[0].output.dense
    with Gates(clf.model):
        monkeypatch.setattr(down, "forward", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            clf.logits(["good film"])
    assert isinstance(down.weight, torch.nn.Parameter)


def test_snapshots_do_not_alias() -> None:
    gates = Gates(dense("bert").model)
    before = gates.snapshot()
    with torch.no_grad():
        gates.heads[1].mul_(3)
        gates.neurons[2].mul_(3)
    assert all((array == 1).all() and array.dtype == np.float32 for group in before.values() for array in group)
    assert (gates.snapshot()["heads"][1] == 3).all()


def test_l1_is_a_plain_sum_with_a_gradient() -> None:
    gates = Gates(dense("bert").model)
    with torch.no_grad():
        gates.heads[0][1] = -2.0
    loss = gates.l1(0.5, 0.25)
    loss.backward()
    assert loss.item() == pytest.approx(0.5 * (LAYERS * HEADS + 1) + 0.25 * LAYERS * NEURONS)
    assert gates.heads[0].grad.tolist() == [0.5, -0.5, 0.5, 0.5]
    assert (gates.neurons[1].grad == 0.25).all()


def test_wrong_tickets_are_refused() -> None:
    clf = dense("bert")
    ticket = ticket_for(clf, MIXED)
    small = rt.compact(clf, ticket)
    for model, code in (
        (dense("roberta"), "ticket.family"),
        (small, "ticket.shape"),
        (tiny_classifier("bert", layers=2), "ticket.shape"),
        (rt.Classifier.wrap(lambda texts: [], labels=["a", "b"]), "classifier.no_model"),
        (torch.nn.Linear(2, 2), "model.type"),
    ):
        with refused(code):
            rt.compact(model, ticket)


@pytest.mark.parametrize(
    "changes",
    [
        {"kept_heads": [[0], [0]]},
        {"kept_heads": [[0], [4], [0]]},
        {"kept_heads": [[0], [-1], [0]]},
        {"kept_neurons": [[0], [0], []]},
        {"kept_neurons": [[0], [3, 3], [1]]},
        {"kept_neurons": [[0], [5, 3], [1]]},
        {"kept_neurons": ["0", "5-3", "1"]},
        {"kept_neurons": ["0", "0-999999999999", "1"]},
        {"kept_neurons": ["0", "", "1"]},
        {"kept_neurons": ["0", "1,x", "1"]},
        {"kept_neurons": ["0", "0-9,0-23,0-23", "1"]},
    ],
)
def test_bad_configs_are_refused(changes: dict[str, Any], tmp_path: Any) -> None:
    small = rt.compact(dense("bert"), ticket_for(dense("bert"), MIXED))
    small.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(rt.TicketsError) as caught:
        rt.Classifier.from_pretrained(tmp_path)
    assert caught.value.code in ("config.kept", "model.config")
