"""Hard-concrete gates: closed forms, gradients against autograd, what each granularity covers, precision, and leaving the model alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from transformers import PreTrainedModel

from refusing import refused
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.objective import Objective
from robust_tickets.backbone.layout import layout_of
from robust_tickets.prune import hardconcrete as hc
from robust_tickets.prune.hardconcrete import HardConcrete
from robust_tickets.seeds import torch_generator
from tiny import tiny_classifier, tiny_model
from toy import STILL

TEXTS = [("the film is great", "a plot"), ("bad", "story was very very poor"), ("not a fine movie at all", "the")]
GRANULARITIES = ("weight", "neuron", "head", "matrix", "layer")


def gates_on(model: Any, **settings: Any) -> HardConcrete:
    return HardConcrete(model, generator=torch_generator(5, "gates"), **settings)


def batch_of(clf: Any) -> dict[str, torch.Tensor]:
    return {**clf.batch(clf.encode(TEXTS)), "labels": torch.tensor([0, 1, 1])}


def test_the_distribution_at_the_start() -> None:
    """P(m = 0) = .039, P(m = 1) = .503, R = .961: the closed forms, and a million samples."""

    def below(s: float) -> float:  # P(s <= x) = sigmoid(beta logit x - log alpha)
        return 1 / (1 + math.exp(-(hc.BETA * math.log(s / (1 - s)) - hc.START)))

    zero, one = below(0.1 / 1.2), 1 - below(1.1 / 1.2)
    assert zero == pytest.approx(0.039, abs=5e-4)
    assert one == pytest.approx(0.503, abs=5e-4)
    m = hc.sampled(torch.full((1_000_000,), hc.START), torch_generator(0, "samples"))
    assert float((m == 0).float().mean()) == pytest.approx(zero, abs=1e-3)
    assert float((m == 1).float().mean()) == pytest.approx(one, abs=2e-3)
    gates = gates_on(tiny_model())
    assert float(gates.regulariser().detach()) == pytest.approx(1 - zero, abs=1e-6)
    assert float(hc.evaluated(torch.tensor(hc.START))) == pytest.approx(0.9)


@settings(max_examples=30, deadline=None)
@given(st.floats(-15, 15), st.integers(0, 2**20))
def test_gates_stay_within_bounds_and_grow_with_log_alpha(at: float, seed: int) -> None:
    low, high = (hc.sampled(torch.full((50,), a), torch_generator(seed, "same noise")) for a in (at, at + 0.5))
    assert float(low.min()) >= 0
    assert float(high.max()) <= 1
    assert bool((low <= high).all())


def spread_out(gates: HardConcrete, seed: int = 1) -> None:
    generator = torch_generator(seed, "log alpha")
    with torch.no_grad():
        for p in gates.log_alpha:
            p.copy_(4 * torch.randn(p.shape, generator=generator, dtype=p.dtype))


@pytest.mark.parametrize("normalisation", ["per_matrix", "global"])
def test_the_regularisers_gradient_is_the_closed_form(normalisation: Any) -> None:
    gates = gates_on(tiny_model().double())
    spread_out(gates)
    gates.regulariser(normalisation).backward()
    total = sum(p.numel() for p in gates.log_alpha)
    for p in gates.log_alpha:
        x = p.detach().numpy() + hc.BETA * math.log(11)  # - ln(-gamma / zeta) = ln 11
        sigma = 1 / (1 + np.exp(-x))
        share = 1 / total if normalisation == "global" else 1 / (len(gates.log_alpha) * p.numel())
        assert p.grad is not None
        assert np.allclose(p.grad.numpy(), share * sigma * (1 - sigma), rtol=1e-12, atol=0)


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_statistics_count_gates(granularity: Any) -> None:
    gates = gates_on(tiny_model(), granularity=granularity)
    spread_out(gates)
    values = np.concatenate([p.ravel() for p in gates.snapshot()])
    per_matrix, whole, exact, below = gates.statistics().tolist()
    assert exact == pytest.approx(float((np.abs(values) > math.log(11)).mean()), abs=1e-6)
    assert below == pytest.approx(float((values < 0).mean()), abs=1e-6)
    opened = [1 / (1 + np.exp(-(s.astype(np.float64) + hc.BETA * math.log(11)))) for s in gates.scores()]
    assert per_matrix == pytest.approx(float(np.mean([o.mean() for o in opened])), abs=1e-6)
    assert whole == pytest.approx(float(np.concatenate([o.ravel() for o in opened]).mean()), abs=1e-6)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_granularities(family: str, granularity: Any) -> None:
    model = tiny_model(family)
    layout = layout_of(model)
    gates = gates_on(model, granularity=granularity)
    matrices = layout.matrices_of(model)
    count = {
        "weight": sum(m.weight.numel() for m in matrices.values()),
        "matrix": len(matrices),
        "layer": 3 + bool(layout.pooler),
        "head": 12,
        "neuron": 72,
    }
    assert sum(p.numel() for p in gates.log_alpha) == count[granularity]
    assert [s.shape for s in gates.scores()] == [tuple(matrices[name].weight.shape) for name in gates.names]
    if granularity in ("weight", "matrix", "layer"):
        assert gates.names == list(matrices)


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet", "modernbert"])
@pytest.mark.parametrize("granularity", ["head", "neuron"])
def test_a_closed_unit_equals_its_removal(family: str, granularity: Any) -> None:
    """Closed gates of heads and neurons give the logits of the model without them."""
    from robust_tickets.prune.compact import compact
    from robust_tickets.ticket.ticket import Ticket

    clf = tiny_classifier(family)
    layout = layout_of(clf.model)
    kept = {"head": [[0, 2], [1], [0, 1, 2, 3]], "neuron": [[1, 5, 23], list(range(24)), [0]]}[granularity]
    gates = gates_on(clf.model, granularity=granularity).eval()
    with torch.no_grad():
        for p, indices in zip(gates.log_alpha, kept, strict=True):
            p.fill_(-20.0)
            p[indices] = 20.0
    whole = {
        "heads": [list(range(n)) for n in layout.heads_of(clf.model)],
        "neurons": [list(range(n)) for n in layout.neurons_of(clf.model)],
    }
    ticket = Ticket.from_kept(clf, **{**whole, f"{granularity}s": kept})
    texts = ["the film is great", "bad"]
    dense = clf.logits(texts)
    with gates:
        gated = clf.logits(texts)
    assert np.allclose(gated, compact(clf, ticket).logits(texts), atol=1e-5)
    assert not np.allclose(gated, dense, atol=1e-3)
    assert np.array_equal(clf.logits(texts), dense)


@pytest.mark.parametrize("granularity", ["head", "layer"])
def test_one_sample_serves_all_matrices_of_a_pass(granularity: Any) -> None:
    clf = tiny_classifier()
    gates = gates_on(clf.model, granularity=granularity).train()
    ratios: dict[str, list[float]] = {"query": [], "value": []}
    for name, seen in ratios.items():
        module = clf.model.get_submodule(f"bert.encoder.layer.0.attention.self.{name}")
        module.register_forward_hook(
            lambda m, a, o, seen=seen: seen.append(float((m.weight / m._parameters["weight"])[0, 0].detach()))
        )
    with gates:  # its hooks come after ours, so that ours still see the gated weight
        for _ in range(4):
            clf.model(**clf.batch(clf.encode(TEXTS)))
    assert ratios["query"] == pytest.approx(ratios["value"])
    assert len(set(ratios["query"])) > 1  # and every pass has another


def test_a_gate_per_weight_is_sampled_anew_in_every_forward_and_fixed_when_evaluated() -> None:
    clf = tiny_classifier()
    batch = clf.batch(clf.encode(TEXTS))
    with gates_on(clf.model) as gates, torch.no_grad():
        gates.train()
        first, second = (clf.model(**batch).logits for _ in range(2))
        gates.eval()
        fixed, again = (clf.model(**batch).logits for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(fixed, again)


def test_a_matrix_that_runs_twice_in_a_pass_has_one_sample() -> None:
    clf = tiny_classifier("deberta_v2")  # its query projects the words, then the relative positions
    module = clf.model.deberta.encoder.layer[0].attention.self.query_proj
    seen: list[torch.Tensor] = []
    module.register_forward_hook(lambda m, a, o: seen.append(m.weight.detach().clone()))
    with gates_on(clf.model).train(), torch.no_grad():
        for _ in range(2):
            clf.model(**clf.batch(clf.encode(TEXTS)))
    assert len(seen) == 4
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(seen[2], seen[3])
    assert not torch.equal(seen[0], seen[2])


def test_the_fused_gate_has_autograds_gradients() -> None:
    log_alpha = (3 * torch.randn(40, 30, dtype=torch.float64, generator=torch_generator(1, "a"))).requires_grad_()
    weight = torch.randn(40, 30, dtype=torch.float64, generator=torch_generator(2, "w")).requires_grad_()
    pull = torch.randn(40, 30, dtype=torch.float64, generator=torch_generator(3, "g"))
    fused = hc._Sampled.apply(log_alpha, weight, torch_generator(4, "u"), torch.float64)
    got = torch.autograd.grad((fused * pull).sum(), (log_alpha, weight))
    plain = hc.sampled(log_alpha, torch_generator(4, "u")) * weight
    expected = torch.autograd.grad((plain * pull).sum(), (log_alpha, weight))
    assert torch.equal(fused, plain)
    assert ((fused == 0) & (got[0] == 0)).any()  # a clipped gate has no slope
    for one, other in zip(got, expected, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-14)


def reference_step(
    clf: Any, batch: dict[str, torch.Tensor], log_alpha: list[torch.Tensor], adversary: FreeLB
) -> list[torch.Tensor]:
    """Literal: masks by the published formula, the gated model by functional_call on ``inputs_embeds``, FreeLB by its box."""
    model, uniform = clf.model, torch_generator(5, "gates")
    names = [f"bert.{name}" for name in layout_of(model).matrices_of(model)]
    fixed = {name: p.detach() for name, p in model.named_parameters()}
    words = fixed["bert.embeddings.word_embeddings.weight"]
    rows, tokens = batch["input_ids"].shape
    delta = torch.zeros((rows, tokens, words.shape[1]), dtype=words.dtype)
    noise = torch.rand(delta.shape, generator=torch_generator(3, "freelb"), dtype=words.dtype) * 2 - 1
    for i in range(rows):
        n = int(batch["attention_mask"][i].sum())
        delta[i, :n] = noise[i, :n] * adversary.init / (n * words.shape[1]) ** 0.5
    total = [torch.zeros_like(a) for a in log_alpha]
    for k in range(adversary.steps):
        delta = delta.detach().requires_grad_()
        gated = dict(fixed)
        for name, a in zip(names, log_alpha, strict=True):
            u = torch.rand(a.shape, generator=uniform, dtype=a.dtype).clamp(1e-4, 1 - 1e-4)
            s = 1 / (1 + torch.exp(-(torch.log(u) - torch.log(1 - u) + a) / (2 / 3)))
            gated[name] = fixed[name] * torch.clamp(s * 1.2 - 0.1, 0, 1)
        inputs = {"inputs_embeds": words[batch["input_ids"]] + delta} | {
            k: batch[k] for k in ("attention_mask", "token_type_ids")
        }
        logits = torch.func.functional_call(model, gated, (), inputs).logits
        *grads, g = torch.autograd.grad(F.cross_entropy(logits, batch["labels"]) / adversary.steps, [*log_alpha, delta])
        total = [t + grad for t, grad in zip(total, grads, strict=True)]
        if k < adversary.steps - 1:
            moved = [delta[i].detach() + adversary.step_size * g[i] / g[i].norm().clamp_min(1e-8) for i in range(rows)]
            delta = torch.stack(moved) * batch["attention_mask"].unsqueeze(-1)
    return total


def test_a_step_equals_the_literal_reference() -> None:
    clf = tiny_classifier(**STILL, columns=("first", "second"))
    clf.model.double().train()
    batch, adversary = batch_of(clf), FreeLB(steps=3, step_size=0.03, init=0.05)
    with gates_on(clf.model) as gates:
        spread_out(gates)
        start = [p.detach().clone().requires_grad_() for p in gates.log_alpha]
        objective = Objective(
            model=clf.model,
            layout=layout_of(clf.model),
            inputs={name: value for name, value in batch.items() if name != "labels"},
            labels=batch["labels"],
            backward=lambda loss: loss.backward(),
            generator=torch_generator(3, "freelb"),
        )
        adversary(objective)
        got = [p.grad for p in gates.log_alpha]
    expected = reference_step(clf, batch, start, adversary)
    assert max(float(e.abs().max()) for e in expected) > 1e-5
    for one, other in zip(got, expected, strict=True):
        assert one is not None
        assert torch.allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gates_refuse_half_precision(dtype: torch.dtype) -> None:
    gates = gates_on(tiny_model().to(torch.bfloat16))
    assert all(p.dtype == torch.float32 for p in gates.parameters())
    with refused("gates.precision"):
        gates.to(dtype)
    assert all(p.dtype == torch.float32 for p in gates.parameters())
    assert gates.double().regulariser().dtype == torch.float64


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("autocast", [True, False])
def test_gates_and_gradients_are_float32_under_bf16(granularity: Any, autocast: bool) -> None:
    clf = tiny_classifier()
    if not autocast:
        clf.model.to(torch.bfloat16)
    clf.model.train()
    with gates_on(clf.model, granularity=granularity) as gates, torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        for _ in range(5):  # one pass may clip all four gates of the layers
            clf.model(**clf.batch(clf.encode(TEXTS))).logits.float().sum().backward()
    grads = [p.grad for p in gates.log_alpha]
    assert all(g is not None and g.dtype == torch.float32 for g in grads)
    assert any(float(g.abs().max()) > 0 for g in grads if g is not None)


def test_weights_are_frozen_while_gated_and_as_they_were_after() -> None:
    clf = tiny_classifier()
    before = clf.digest
    clf.model.classifier.bias.requires_grad_(False)
    required = {name: p.requires_grad for name, p in clf.model.named_parameters()}
    with gates_on(clf.model) as gates:
        assert not any(p.requires_grad for p in clf.model.parameters())
        clf.model(**clf.batch(clf.encode(TEXTS))).logits.sum().backward()
        assert all(p.grad is not None for p in gates.parameters())
    assert all(p.grad is None for p in clf.model.parameters())
    assert {name: p.requires_grad for name, p in clf.model.named_parameters()} == required
    assert not any(m._forward_pre_hooks or m._forward_hooks or "weight" in m.__dict__ for m in clf.model.modules())
    assert clf.digest == before


def test_an_error_in_a_pass_leaves_no_gated_weight_behind() -> None:
    clf = tiny_classifier()
    with gates_on(clf.model, granularity="layer") as gates:
        with pytest.raises(IndexError):
            clf.model(input_ids=torch.tensor([[10_000]]))
        assert not gates._drawn
        assert not any("weight" in m.__dict__ for m in clf.model.modules())


def test_gradient_checkpointing_is_refused_by_whichever_name_transformers_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("settings.choice"):
        gates_on(tiny_model(), granularity="weights")
    model = tiny_model()
    gates = gates_on(model)
    with gates:
        pass
    now = "activation" if hasattr(model, "is_activation_checkpointing") else "gradient"  # transformers 5.23 renamed it
    getattr(model, f"{now}_checkpointing_enable")()
    with refused("gates.checkpointing"):
        gates.attach()
    monkeypatch.delattr(PreTrainedModel, "is_gradient_checkpointing", raising=False)
    monkeypatch.setattr(PreTrainedModel, "is_activation_checkpointing", True, raising=False)
    with refused("gates.checkpointing"):
        gates.attach()
    monkeypatch.delattr(PreTrainedModel, "is_activation_checkpointing")
    with pytest.raises(AttributeError):  # never taken for "no"
        gates.attach()
