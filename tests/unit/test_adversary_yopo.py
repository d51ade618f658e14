"""YOPO against a slow, literal reference in fp64; with one ascent it is FreeLB, on every backbone."""

from __future__ import annotations

import pytest
import torch

from adversaries import (
    Gradients,
    agree,
    equals,
    first_delta,
    gradients,
    gradients_of,
    loss_at,
    next_delta,
    objective_on,
    recording,
)
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.objective import Objective
from robust_tickets.adversary.yopo import YOPO
from robust_tickets.registry import BACKBONES

SWITCHES = [
    YOPO(),
    YOPO(steps=2, ascents=2, step_size=0.2, divide_step=True),
    YOPO(steps=2, extra_pass=True, max_norm=0.05),
    YOPO(norm="linf", init=0.02, step_size=0.01, max_norm=0.03),
]


def _reference(objective: Objective, adversary: YOPO) -> tuple[Gradients, float]:
    """Full passes by hand, layer by layer; between two of them n ascents on <p, layer 0>, p the gradient at layer 0's output."""
    model, batch = objective.model, objective.inputs
    bert = model.bert
    shut = (1 - batch["attention_mask"])[:, None, None, :].to(torch.float64) * torch.finfo(torch.float64).min

    def layer_0(delta: torch.Tensor) -> torch.Tensor:
        embedded = bert.embeddings.word_embeddings.weight[batch["input_ids"]] + delta
        output = bert.encoder.layer[0](
            bert.embeddings(inputs_embeds=embedded, token_type_ids=batch["token_type_ids"]), shut
        )
        return output[0] if isinstance(output, tuple) else output

    def rest(hidden: torch.Tensor) -> torch.Tensor:
        for layer in bert.encoder.layer[1:]:
            output = layer(hidden, shut)
            hidden = output[0] if isinstance(output, tuple) else output
        return torch.nn.functional.cross_entropy(model.classifier(bert.pooler(hidden)), objective.labels)

    passes = adversary.steps + (1 if adversary.extra_pass else 0)
    step = adversary.step_size / adversary.ascents if adversary.divide_step else adversary.step_size
    delta = first_delta(objective, init=adversary.init, norm=adversary.norm)
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    losses = []
    for _ in range(passes):
        loss = loss_at(objective, delta)
        for name, gradient in gradients_of(loss / passes, objective).items():
            total[name] += gradient
        losses.append(float(loss.detach()))
        hidden = layer_0(delta).detach().requires_grad_()
        assert abs(float(rest(hidden).detach()) - losses[-1]) < 1e-12  # the hand-made pass is the model's
        p = torch.autograd.grad(rest(hidden) / passes, hidden)[0]
        for _ in range(adversary.ascents):
            delta = delta.detach().requires_grad_()
            gradient = torch.autograd.grad((p * layer_0(delta)).sum(), delta)[0]
            delta = next_delta(delta, gradient, step=step, norm=adversary.norm, max_norm=adversary.max_norm)
    return total, sum(losses) / passes


@pytest.mark.parametrize("adversary", SWITCHES, ids=str)
def test_equals_the_published_equations(adversary: YOPO) -> None:
    equals(adversary, _reference, objective_on())


@pytest.mark.parametrize("family", BACKBONES.names())
@pytest.mark.parametrize("dropout", ["fresh", "shared"])
def test_one_ascent_is_freelbs(family: str, dropout: str) -> None:
    """To first order the Hamiltonian is the loss, so the first ascent's gradient is the full one: if it drops the same units."""
    settings = {"steps": 3, "step_size": 0.2, "dropout": dropout}
    found = []
    for adversary in (FreeLB(**settings), YOPO(ascents=1, **settings)):
        torch.manual_seed(5)
        found.append(gradients(objective_on(family, dropout=0.3), adversary))
    (expected, loss), (got, mean) = found
    assert abs(float(mean - loss)) < 1e-9
    agree(got, expected)


def test_ascents_stop_after_the_first_layer_and_leave_nothing_behind() -> None:
    objective = objective_on(dropout=0.3)
    calls: list[str] = []
    layers = objective.layout.layers_of(objective.model)
    for i, layer in enumerate(layers):
        layer.register_forward_pre_hook(lambda _module, _args, i=i: calls.append(str(i)))
    gradients(objective, YOPO(steps=2, ascents=3))
    assert "".join(calls) == "012" + "000" + "012"
    assert not any(module._forward_hooks for module in objective.model.modules())


def test_ascents_draw_nothing_from_the_stream_of_dropout() -> None:
    states = []
    for adversary in (FreeLB(steps=2), YOPO(steps=2, ascents=4)):
        torch.manual_seed(5)
        gradients(objective_on(dropout=0.3), adversary)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_works_where_the_first_layer_is_frozen() -> None:
    objective = recording(objective_on())
    for name, parameter in objective.model.named_parameters():
        parameter.requires_grad_("classifier" in name)
    gradients(objective, YOPO(steps=2, ascents=1))
    assert not torch.equal(objective.seen[0], objective.seen[-1])
