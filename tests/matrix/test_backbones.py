"""Every backbone, beyond the equivalence of its tickets: what adversaries do and see in it, what it costs, how it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import robust_tickets as rt
from adversaries import make
from refusing import refused
from robust_tickets.adversary.objective import Objective
from robust_tickets.backbone.cost import flops
from robust_tickets.backbone.layout import encoder_of, layout_of
from robust_tickets.data.task import Split, Task
from robust_tickets.prune.gates import Gates
from robust_tickets.registry import ADVERSARIES, BACKBONES
from robust_tickets.train.settings import Optim
from robust_tickets.train.update import adamw
from tiny import VARIANTS, tiny_classifier, tiny_model, tiny_tokenizer

ALL = [*BACKBONES.names(), *VARIANTS]
FAMILIES = pytest.mark.parametrize("family", ALL)
HEADS = [[2], [0, 1, 3], [0, 1, 2, 3]]
NEURONS = [[5], list(range(0, 24, 3)), list(range(24))]
TEXTS = ["good film", ("the plot is poor and the story was not very good", "an awful movie"), "a"]
TYPED = {
    "bert",
    "roberta",
    "electra",
    "deberta_v2:separate",
}  # as tiny models have it; roberta-base has one type, which is none

SPLIT = Split.of([f"the film {i} was {word}" for i in range(4) for word in ("good", "bad")], [0, 1] * 4, name="train")
TASK = Task(
    name="small", labels=("a", "b"), columns=("text",), splits=dict.fromkeys(("train", "validation", "test"), SPLIT)
)

V3_BASE = {  # deberta-v3-base
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "relative_attention": True,
    "position_buckets": 256,
    "pos_att_type": "p2c|c2p",
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "position_biased_input": False,
}


def small(family: str) -> rt.Classifier:
    clf = tiny_classifier(family)
    return rt.compact(clf, rt.Ticket.from_kept(clf, heads=HEADS, neurons=NEURONS))


def objective(model: Any, batch: dict[str, torch.Tensor]) -> Objective:
    return Objective(
        model=model,
        layout=layout_of(model),
        inputs=batch,
        labels=torch.zeros(len(batch["input_ids"]), dtype=torch.long),
        backward=lambda loss: loss.backward(),
        generator=torch.Generator(),
    )


@FAMILIES
def test_perturbations_enter_at_the_words_and_seeing_sees_the_layers(family: str) -> None:
    clf = small(family)
    batch = clf.batch(clf.encode(TEXTS))
    goal = objective(clf.model, batch)
    delta = torch.zeros(goal.embedding_shape(), requires_grad=True)
    assert delta.shape == (*batch["input_ids"].shape, 20 if family == "electra" else 32)
    with goal.seeing() as seen:
        moved = goal.logits(delta)
    with torch.no_grad():
        torch.testing.assert_close(moved, goal.logits(), atol=0, rtol=0)
        expected = encoder_of(clf.model)(**batch, output_hidden_states=True)
    goal.backward(goal.loss_fn(moved, goal.labels))
    assert delta.grad is not None
    reached = delta.grad.abs().sum(-1) > 0
    assert reached[batch["attention_mask"].bool()].all(), "a word whose perturbation does nothing"
    with torch.no_grad():
        assert not torch.allclose(goal.logits(goal.uniform(-1, 1)), moved, atol=1e-3)
    torch.testing.assert_close(seen.embedded, expected.hidden_states[0])
    torch.testing.assert_close(seen.last, expected.last_hidden_state)
    assert seen.first.shape == seen.last.shape == seen.embedded.shape == (*batch["input_ids"].shape, 32)
    if family != "deberta_v2:separate":  # its convolution comes after the first layer
        torch.testing.assert_close(seen.first, expected.hidden_states[1])


@FAMILIES
def test_padding_is_never_seen(family: str) -> None:
    """What stands at padded positions, and how many there are, changes nothing."""
    clf = small(family)
    rows = clf.encode(TEXTS)
    alone = torch.cat([clf.forward([row]) for row in rows])
    torch.testing.assert_close(clf.forward(rows), alone, atol=2e-5, rtol=0)


@FAMILIES
def test_token_types_where_the_family_has_them(family: str) -> None:
    clf = tiny_classifier(family)
    assert clf.token_types == (family in TYPED)
    assert bool(clf.encode(TEXTS)[1].types) == clf.token_types
    if clf.token_types:
        batch = clf.batch(clf.encode(TEXTS))
        plain = {**batch, "token_type_ids": torch.zeros_like(batch["token_type_ids"])}
        with torch.no_grad():
            assert not torch.allclose(clf.model(**batch).logits, clf.model(**plain).logits, atol=1e-3)


@FAMILIES
@pytest.mark.parametrize("tokens", [1, 9, 32])
def test_flops_are_what_torch_counts(family: str, tokens: int) -> None:
    for clf in (tiny_classifier(family), small(family)):
        clf.model.set_attn_implementation("eager")
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            clf.model(
                input_ids=torch.ones(1, tokens, dtype=torch.long),
                attention_mask=torch.ones(1, tokens, dtype=torch.long),
            )
        assert flops(clf.model, tokens) == counter.get_total_flops()


@FAMILIES
def test_unit_weights_are_what_a_cut_takes_away(family: str) -> None:
    """Counted in the shapes: a model without one head, or one neuron, has that many matrix weights fewer in its layers."""
    clf = tiny_classifier(family)
    layout = layout_of(clf.model)

    def matrices(model: Any) -> int:
        return sum(m.weight.numel() for m in layout.matrices_of(model).values())

    everything: dict[str, list[list[int]]] = {"heads": [list(range(4))] * 3, "neurons": [list(range(24))] * 3}
    for group in everything:
        kept = {**everything, group: [everything[group][0][1:], *everything[group][1:]]}
        less = rt.compact(clf, rt.Ticket.from_kept(clf, heads=kept["heads"], neurons=kept["neurons"]))
        assert matrices(clf.model) - matrices(less.model) == layout.unit_weights(clf.model)[group]
    found = layout.matrices_of(clf.model)
    assert not layout.pooler or encoder_of(tiny_model(family, "AutoModel")).get_submodule(layout.pooler), (
        "a pooler that is not there"
    )
    assert all(name in encoder_of(clf.model).state_dict() for name in found)
    assert len({id(m) for m in found.values()}) == len(found)
    inside = {id(m) for layer in layout.layers_of(clf.model) for m in layer.modules() if hasattr(m, "in_features")}
    assert inside <= {id(m) for m in found.values()}, "a linear layer of the encoder that no mask reaches"


@FAMILIES
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_forms_agree_under_each_attention(family: str, attention: str) -> None:
    clf = tiny_classifier(family)
    if attention == "sdpa" and not clf.model._supports_sdpa:
        pytest.skip(f"transformers has no sdpa attention for {family}")
    clf.model.set_attn_implementation(attention)
    ticket = rt.Ticket.from_kept(clf, heads=HEADS, neurons=NEURONS)
    less = rt.compact(clf, ticket)
    assert less.model.config._attn_implementation == attention
    with Gates(clf.model) as gates:
        gates.set_masks(ticket.masks)
        gated = clf.logits(TEXTS)
    np.testing.assert_allclose(less.logits(TEXTS), gated, atol=1e-5)
    np.testing.assert_allclose(rt.expand(less).logits(TEXTS), gated, atol=1e-5)
    other = {"eager": "sdpa", "sdpa": "eager"}[attention]
    if less.model._supports_sdpa:
        less.model.set_attn_implementation(other)
        np.testing.assert_allclose(less.logits(TEXTS), gated, atol=1e-5)


@FAMILIES
def test_new_heads_on_a_checkpoint_of_the_masked_language_model(family: str, tmp_path: Path) -> None:
    """The checkpoints that people start from: the encoder comes along, the classifier is drawn, nothing else is lost."""
    model = tiny_model(family, "AutoModelForMaskedLM")
    model.save_pretrained(tmp_path)
    tiny_tokenizer(model.config).save_pretrained(tmp_path)
    clf = rt.load_classifier(tmp_path, labels=("x", "y", "z"), seed=4)
    loaded = clf.model.state_dict()
    pooler = layout_of(model).pooler
    for name, tensor in encoder_of(model).state_dict().items():
        assert torch.equal(loaded[f"{model.base_model_prefix}.{name}"], tensor), name
    new = {n for n in loaded if not n.startswith(f"{model.base_model_prefix}.") or (pooler and f".{pooler}." in n)}
    again = rt.load_classifier(tmp_path, labels=("x", "y", "z"), seed=5).model.state_dict()
    drawn = {n for n in new if not torch.equal(loaded[n], again[n])}
    assert any(n.startswith("classifier") for n in drawn)
    if family.startswith("modernbert"):
        assert torch.equal(loaded["head.dense.weight"], model.state_dict()["head.dense.weight"]), (
            "the pretrained head was thrown away"
        )
    turned = rt.load_classifier(clf.save_pretrained(tmp_path / "saved"), labels=("z", "x", "y"))
    np.testing.assert_allclose(turned.logits(["good film"]), clf.logits(["good film"])[:, [2, 0, 1]], atol=1e-6)


def test_local_attention_is_exercised() -> None:
    """Tiny ModernBERTs have both kinds of attention, and windows shorter than their texts."""
    model = tiny_model("modernbert")
    assert {layer.attention_type for layer in layout_of(model).layers_of(model)} == {
        "full_attention",
        "sliding_attention",
    }
    assert model.config.sliding_window < 16


def test_albert_is_refused_with_the_reason(tmp_path: Path) -> None:
    from transformers import AlbertConfig, AlbertForSequenceClassification

    sizes = {"vocab_size": 40, "hidden_size": 16, "embedding_size": 8, "num_attention_heads": 2}
    model = AlbertForSequenceClassification(AlbertConfig(**sizes, intermediate_size=16, num_hidden_layers=2))
    model.save_pretrained(tmp_path)
    assert "albert" not in rt.backbones()
    for act in (lambda: Gates(model), lambda: rt.load_classifier(tmp_path, labels=("a", "b"))):
        with refused("backbone.refused"):
            act()
    with refused("backbone.unknown"):
        layout_of(type("C", (), {"model_type": "gpt2"})())


@pytest.mark.parametrize("family", BACKBONES.names())
@pytest.mark.parametrize("adversary", ADVERSARIES.names())
def test_every_adversary_trains_every_backbone(adversary: str, family: str) -> None:
    """On a pruned model; a step moves the weights and leaves no hook behind."""
    clf = small(family)
    before, hooks = clf.digest, hooks_of(clf.model)
    rt.FineTune(epochs=1, max_steps=1, batch_size=8, lr=1e-3, adversary=make(adversary))(clf, TASK)
    assert clf.digest != before
    assert np.isfinite(clf.logits(TEXTS)).all()
    assert hooks_of(clf.model) == hooks


def hooks_of(model: Any) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@FAMILIES
def test_biases_and_norms_are_not_decayed(family: str) -> None:
    """By what the modules are, whatever a family calls them."""
    model = tiny_model(family)
    decay = {
        id(p): group["weight_decay"]
        for group in adamw({"m": model}, Optim(weight_decay=0.01)).param_groups
        for p in group["params"]
    }
    flat = [name for name, parameter in model.named_parameters() if parameter.ndim == 1]
    assert any("norm" in name.lower() for name in flat)
    assert {decay[id(model.get_parameter(name))] for name in flat} == {0.0}
    assert {decay[id(m.weight)] for m in layout_of(model).matrices_of(model).values()} == {0.01}


@pytest.mark.parametrize(
    ("family", "settings", "millions", "matrices", "heads", "neurons"),
    [
        ("distilbert", {}, 66, 36, 4 * 768 * 64, 2 * 768),
        ("electra", {}, 14, 72, 4 * 256 * 64, 2 * 256),  # small
        ("modernbert", {}, 149, 88, 4 * 768 * 64, 3 * 768),  # base
        ("deberta-v2", V3_BASE, 184, 72, 4 * 768 * 64, 2 * 768),
    ],
)
def test_published_sizes(
    family: str, settings: dict[str, Any], millions: int, matrices: int, heads: int, neurons: int
) -> None:
    """Real shapes, without weights: as many parameters as the authors tell, and every matrix of the layers found."""
    from transformers import AutoConfig, AutoModel

    with torch.device("meta"):
        model = AutoModel.from_config(AutoConfig.for_model(family, **settings))
    layout = layout_of(model)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(
        millions, abs=0.6
    )  # some are told with a head
    assert len(layout.matrices_of(model)) == matrices
    assert layout.unit_weights(model) == {"heads": heads, "neurons": neurons}
    sizes = layout.sizes(model.config)
    assert (layout.heads_of(model)[0], layout.neurons_of(model)[0]) == (sizes["heads"], sizes["neurons"])
