"""SMART against a slow, literal reference in fp64, sentence by sentence, and what it does when the noise has no finite gradient."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from adversaries import Gradients, agree, at, equals, generator, gradients, gradients_of, objective_on, recording
from robust_tickets.adversary.objective import Objective
from robust_tickets.adversary.smart import SMART
from robust_tickets.train.update import plain

SWITCHES = [
    SMART(),
    SMART(init=0.01, step_size=3.0, weight=0.3, steps=2),
    SMART(one_sided=True, init=0.1),
    SMART(log_odds=True, step_size=0.5),
    SMART(radius=0.02, init=0.01, step_size=0.01, steps=3),
]


def kl(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Of two rows of logits."""
    one, other = torch.softmax(p, 0), torch.softmax(q, 0)
    return sum(a * (a.log() - b.log()) for a, b in zip(one, other, strict=True))


def stable(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """mt-dnn's own divergence: twice the mean difference of the log odds, which are constants."""
    total = torch.zeros((), dtype=p.dtype)
    for a, b in zip(torch.softmax(p, 0), torch.softmax(q, 0), strict=True):
        here, there = (math.log(1 / (float(share.detach()) + 1e-6) - 1 + 1e-6) for share in (a, b))
        total = total + 2 * a * (there - here)
    return total


def _reference(objective: Objective, adversary: SMART) -> tuple[Gradients, float]:
    batch = objective.inputs
    noise = (
        torch.randn((*batch["input_ids"].shape, objective.words.shape[1]), generator=generator(), dtype=torch.float64)
        * adversary.init
    )
    noise[batch["attention_mask"] == 0] = 0
    clean = at(objective, None)
    for _ in range(adversary.steps):
        noise = noise.detach().requires_grad_()
        noisy = at(objective, noise)
        climb = stable if adversary.log_odds else kl
        g = torch.autograd.grad(sum(climb(noisy[i], clean[i].detach()) for i in range(len(noisy))), noise)[0]
        moved = torch.zeros_like(noise)
        for i, t in batch["attention_mask"].nonzero().tolist():
            if adversary.radius:
                moved[i, t] = noise[i, t].detach() + adversary.step_size * g[i, t] / (float(g[i, t].abs().max()) + 1e-6)
                moved[i, t] = moved[i, t].clamp(-adversary.radius, adversary.radius)
            else:
                moved[i, t] = noise[i, t].detach() + adversary.step_size * g[i, t]
                moved[i, t] /= float(moved[i, t].abs().max()) + 1e-6
        noise = moved
    noisy = at(objective, noise)
    loss = torch.zeros((), dtype=torch.float64)
    for i, label in enumerate(objective.labels.tolist()):
        left, right = (clean[i].detach(), noisy[i].detach()) if adversary.one_sided else (clean[i], noisy[i])
        smooth = kl(left, noisy[i]) + kl(right, clean[i])
        loss = loss + (-torch.log_softmax(clean[i], 0)[label] + adversary.weight * smooth) / len(noisy)
    return gradients_of(loss, objective), float(loss.detach())


@pytest.mark.parametrize("adversary", SWITCHES, ids=str)
def test_equals_the_published_equations(adversary: SMART) -> None:
    got = equals(adversary, _reference, objective_on())
    bare, _ = gradients(objective_on(), plain)
    assert not torch.allclose(bare["classifier.weight"], got["classifier.weight"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("steps", [1, 2])
def test_a_gradient_that_is_not_finite_leaves_the_plain_step(broken: float, steps: int) -> None:
    """Even if only the first of two ascents is broken, and although dropout alone makes both predictions differ."""
    asked: list[int] = []

    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, value: torch.Tensor) -> torch.Tensor:
            return value.clone()

        @staticmethod
        def backward(_ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * broken

    class Breaking(Objective):
        """The first noise that asks for a gradient gets a broken one; the parameters' gradients are sound."""

        def logits(self, delta: torch.Tensor | None = None, **rest: Any) -> torch.Tensor:
            if delta is not None and delta.requires_grad:
                asked.append(1)
                delta = Broken.apply(delta) if len(asked) == 1 else delta
            return super().logits(delta, **rest)

    objective = objective_on(dropout=0.3)
    breaking = Breaking(**{f: getattr(objective, f) for f in objective.__dataclass_fields__})
    torch.manual_seed(4)
    got, loss = gradients(breaking, SMART(steps=steps))
    torch.manual_seed(4)  # the clean pass comes first, so it drops the same units
    expected, bare = gradients(objective, plain)
    assert len(asked) == steps
    assert torch.allclose(loss, bare, rtol=0, atol=1e-12)
    agree(got, expected, 1e-12)


def test_tokens_of_a_masked_language_model_that_are_not_asked_for_do_not_count() -> None:
    objective = objective_on(mlm=True)
    clean = objective.logits()
    step = recording(objective)
    _, loss = gradients(step, SMART(weight=2.0))
    noisy = objective.logits(step.seen[-1])
    asked = (objective.labels != -100).nonzero().tolist()
    smooth = [kl(clean[i, t], noisy[i, t]) + kl(noisy[i, t], clean[i, t]) for i, t in asked]
    expected = objective.loss_fn(clean, objective.labels) + 2 * sum(smooth) / len(smooth)
    assert torch.allclose(loss, expected.detach(), rtol=0, atol=1e-9)


def test_shared_dropout_leaves_only_the_noise() -> None:
    def smooth(dropout: Any) -> float:
        torch.manual_seed(1)
        objective = objective_on(dropout=0.3)
        torch.manual_seed(1)
        _, loss = gradients(objective, SMART(radius=1e-9, init=1e-9, dropout=dropout))
        torch.manual_seed(1)
        return float(loss - objective.loss().detach())

    assert abs(smooth("shared")) < 1e-9
    assert smooth("fresh") > 1e-3


def test_a_token_moves_by_one_or_by_the_radius() -> None:
    for adversary, size in ((SMART(init=0.1), 1.0), (SMART(radius=0.02, step_size=1.0), 0.02)):
        objective = recording(objective_on())
        gradients(objective, adversary)
        largest = objective.seen[-1].abs().amax(-1)[objective.inputs["attention_mask"].bool()]
        assert torch.allclose(largest, torch.tensor(size, dtype=torch.float64), rtol=1e-3)
