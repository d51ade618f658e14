"""InfoBERT against a literal reference with loops over tokens, in fp64, and its properties."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import infobert_loops as loops
from adversaries import (
    Gradients,
    agree,
    first_delta,
    generator,
    gradients,
    gradients_of,
    next_delta,
    objective_on,
    outputs_at,
    parameters_of,
)
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.infobert import InfoBERT, most_anchored
from robust_tickets.adversary.objective import Ground, Objective
from robust_tickets.backbone.layout import layout_of
from robust_tickets.search.robustt import RobustT
from robust_tickets.train.update import Engine
from tiny import tiny_classifier
from toy import toy_task

STRONG: dict[str, Any] = {"alpha": 0.7, "beta": 0.3}  # so that no error hides behind a small weight
SWITCHES = [
    InfoBERT(**STRONG),
    InfoBERT(alpha=0.0, beta=0.3),
    InfoBERT(alpha=0.7, beta=0.0),
    InfoBERT(**STRONG, steps=2, chunk=2, low=0.2, high=1.0),
    InfoBERT(**STRONG, chunk=100),
    InfoBERT(**STRONG, max_norm=0.05),
    InfoBERT(**STRONG, norm="linf", init=0.02, step_size=0.03, max_norm=0.03),
    InfoBERT(),
]


def _reference(objective: Objective, adversary: InfoBERT) -> tuple[Gradients, float]:
    """The docstring's algorithm on BERT's ``inputs_embeds``, sentence by sentence and token by token, with two separate gradients."""
    mask, draw = objective.inputs["attention_mask"], generator()
    (rows, tokens), (_, width) = mask.shape, objective.words.shape
    ball = {"norm": adversary.norm, "max_norm": adversary.max_norm}
    delta = first_delta(objective, init=adversary.init, norm=adversary.norm)
    torch.rand((rows, tokens, width), generator=draw, dtype=delta.dtype)  # the draws of the first delta
    total = {name: torch.zeros_like(p) for name, p in parameters_of(objective).items()}
    losses = []
    for _ in range(adversary.steps):
        delta = delta.detach().requires_grad_()
        out = outputs_at(objective, delta, output_hidden_states=True)
        task = F.cross_entropy(out.logits, objective.labels)
        losses.append(float(task.detach()))
        embedded, last = out.hidden_states[0], out.hidden_states[-1]
        loss = task / adversary.steps
        if adversary.beta:
            draws = torch.rand(rows * tokens, generator=draw, dtype=torch.float64)
            loss = loss + adversary.beta * loops.upper_bound(embedded, mask, draws) / adversary.steps
        (g,) = torch.autograd.grad(loss, delta, retain_graph=True)
        found = [gradients_of(loss, objective)]
        if adversary.alpha:
            slots = most_anchored(tokens, adversary.low, adversary.high)
            draws = torch.rand(rows * slots, generator=draw, dtype=torch.float64)
            local, size = loops.anchored(g, mask, adversary.low, adversary.high), adversary.chunk or rows
            bound = loops.lower_bound(objective.memory, embedded, last[:, 0], local, draws, slots, size)
            found.append(gradients_of(-adversary.alpha * bound / adversary.steps, objective))
        total = {name: sum((one[name] for one in found), value) for name, value in total.items()}
        delta = next_delta(delta, g, step=adversary.step_size, **ball)
    return total, sum(losses) / adversary.steps


@pytest.mark.parametrize("adversary", SWITCHES, ids=str)
def test_equals_the_loops(adversary: InfoBERT) -> None:
    objective = objective_on(adversary=adversary)
    expected, loss = _reference(objective, adversary)
    got, mean = gradients(objective, adversary)
    assert abs(float(mean) - loss) < 1e-9
    agree(got, expected)
    critic = [gradient.abs().max() for name, gradient in expected.items() if name.startswith("memory.")]
    assert all(float(size) > 0 for size in critic) == bool(adversary.alpha)


@pytest.mark.parametrize("dropout", ["fresh", "shared"])
@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_without_bounds_it_is_freelb(family: str, dropout: Any) -> None:
    settings: dict[str, Any] = {"steps": 3, "step_size": 0.04, "init": 0.08, "dropout": dropout}
    found = []
    for adversary in (FreeLB(**settings), InfoBERT(alpha=0.0, beta=0.0, **settings)):
        torch.manual_seed(5)
        found.append(gradients(objective_on(family, dropout=0.2, double=False), adversary))
    (expected, loss), (got, mean) = found
    assert torch.equal(loss, mean)
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], expected[name]) for name in expected)


def test_a_search_for_gates_leaves_the_critic_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the gates' learning rate its gradient was exactly zero after some twenty updates, and the lower bound with it."""
    sizes: list[float] = []
    descend = Engine._descend

    def watched(self: Engine) -> None:
        critic = [
            p.grad.norm() for name, p in self.parameters.items() if name.startswith("adversary.") and p.grad is not None
        ]
        sizes.append(float(torch.stack(critic).norm()))
        descend(self)

    monkeypatch.setattr(Engine, "_descend", watched)
    RobustT(epochs=3, batch_size=8, adversary=InfoBERT(steps=2), evaluate="never")(
        tiny_classifier(seed=1), toy_task(80), tuned=tiny_classifier(seed=1)
    )
    assert len(sizes) == 30
    assert min(sizes) > 0.1 * sizes[0] > 0


def test_the_critic_is_drawn_by_the_seed_alone() -> None:
    adversary, model = InfoBERT(), tiny_classifier().model

    def ground(seed: int) -> Ground:
        return Ground(model=model, layout=layout_of(model), tokenizer=None, seed=seed)

    before = torch.get_rng_state()
    one, same, other = (adversary.begin(ground(seed)).token.weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert float(one.detach().abs().max()) <= (2 * 32) ** -0.5
