"""PGD against a slow, literal reference in fp64; its ascents leave the parameters' gradients alone, whatever they cost."""

from __future__ import annotations

from typing import Any

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
)
from robust_tickets.adversary.objective import Objective
from robust_tickets.adversary.pgd import PGD

SWITCHES = [
    PGD(),
    PGD(steps=1, step_size=0.2),
    PGD(steps=4, max_norm=0.06),
    PGD(norm="linf", init=0.02, step_size=0.01, max_norm=0.025),
    PGD(steps=2, naive=True),
]


def _reference(objective: Objective, adversary: PGD) -> tuple[Gradients, float]:
    """K ascents on the loss, whole; then the gradients of the loss at the last delta."""
    delta = first_delta(objective, init=adversary.init, norm=adversary.norm)
    for _ in range(adversary.steps):
        delta.requires_grad_()
        gradient = torch.autograd.grad(loss_at(objective, delta), delta)[0]
        delta = next_delta(delta, gradient, step=adversary.step_size, norm=adversary.norm, max_norm=adversary.max_norm)
    loss = loss_at(objective, delta)
    return gradients_of(loss, objective), float(loss.detach())


@pytest.mark.parametrize("adversary", SWITCHES, ids=str)
def test_equals_the_published_equations(adversary: PGD) -> None:
    equals(adversary, _reference, objective_on())


@pytest.mark.parametrize("dropout", ["fresh", "shared"])
@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_the_naive_cost_buys_nothing(family: str, dropout: Any) -> None:
    found = []
    for naive in (False, True):
        torch.manual_seed(7)
        found.append(gradients(objective_on(family, dropout=0.2, double=False), PGD(naive=naive, dropout=dropout)))
    (lean, loss), (naive_gradients, other) = found
    assert torch.equal(loss, other)
    assert lean.keys() == naive_gradients.keys()
    assert all(torch.equal(lean[name], naive_gradients[name]) for name in lean)


@pytest.mark.parametrize("naive", [False, True])
def test_gradients_of_an_earlier_micro_batch_survive(naive: bool) -> None:
    adversary = PGD(naive=naive)
    alone, _ = gradients(objective_on(), adversary)
    objective = objective_on()
    for parameter in objective.model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    scaled: list[float] = []

    def backward(loss: torch.Tensor) -> None:
        untouched = all((p.grad == 0.5).all() for p in objective.model.parameters() if p.grad is not None)
        assert untouched, "an ascent left a gradient behind"
        scaled.append(float(loss.detach()))
        loss.backward()

    objective.backward = backward
    adversary(objective)
    assert len(scaled) == 1  # the loop's share is applied once, to the descent
    got = {name: p.grad - 0.5 for name, p in objective.model.named_parameters() if p.grad is not None}
    agree(got, alone, 1e-12)


def test_a_gradient_of_zero_moves_nothing() -> None:
    """The fairseq code divides by the bare norm there, and trains on NaN."""
    objective = objective_on()
    with torch.no_grad():
        objective.model.classifier.weight.zero_()
    got, loss = gradients(objective, PGD(steps=2))
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in got.values())
