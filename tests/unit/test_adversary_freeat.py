"""FreeAT against a slow, literal reference in fp64; inside the real loop its updates are counted, and resumed, as updates."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from adversaries import agree, first_delta, gradients, gradients_of, loss_at, next_delta, objective_on
from refusing import refused
from robust_tickets.adversary.freeat import FreeAT
from robust_tickets.adversary.objective import Objective
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import QUICK, rates, toy_task

RATE = 0.05
SWITCHES = [
    FreeAT(),
    FreeAT(replays=2, scaled=False, max_norm=0.05),
    FreeAT(norm="linf", init=0.02, step_size=0.03, max_norm=0.025),
    FreeAT(replays=1),
]


@pytest.mark.parametrize("adversary", SWITCHES, ids=str)
def test_equals_the_published_equations(adversary: FreeAT) -> None:
    """m replays; each descends along its own gradient (plainly, here), and carries delta, moved by the same pass's gradient."""
    objective = objective_on()
    twin = copy.copy(objective)
    twin.model = copy.deepcopy(objective.model)
    scale = 1 / (1 + adversary.replays) if adversary.scaled else 1
    delta = first_delta(twin, init=adversary.init, norm=adversary.norm)
    losses = []
    for replay in range(adversary.replays):
        delta = delta.detach().requires_grad_()
        loss = loss_at(twin, delta) * scale
        expected = gradients_of(loss, twin)
        moved = next_delta(
            delta,
            torch.autograd.grad(loss, delta)[0],
            step=adversary.step_size,
            norm=adversary.norm,
            max_norm=adversary.max_norm,
        )
        losses.append(float(loss.detach()) / scale)
        if replay < adversary.replays - 1:
            with torch.no_grad():
                for name, parameter in twin.model.named_parameters():
                    parameter -= RATE * expected[name]
        delta = moved

    descent = torch.optim.SGD(objective.model.parameters(), lr=RATE)
    objective.update = lambda: (descent.step(), descent.zero_grad(set_to_none=True))[0]
    got, mean = gradients(objective, adversary)
    assert abs(float(mean) - sum(losses) / len(losses)) < 1e-9
    agree(got, expected)
    for name, parameter in objective.model.named_parameters():  # the caller makes the last update
        assert torch.allclose(parameter, dict(twin.model.named_parameters())[name], rtol=0, atol=1e-9), name


def test_the_regulariser_is_in_every_update_at_the_losss_scale() -> None:
    found = []
    for strength in (0.0, 0.7):
        objective = objective_on()
        bias = objective.model.classifier.bias
        seen: list[torch.Tensor] = []
        objective.regulariser = lambda bias=bias, strength=strength: strength * bias.sum()

        def update(
            objective: Objective = objective, bias: torch.Tensor = bias, seen: list[torch.Tensor] = seen
        ) -> None:
            seen.append(bias.grad.clone())
            objective.model.zero_grad()

        objective.update = update
        adversary = FreeAT()
        gradients(objective, adversary)
        found.append([*seen, bias.grad])
    assert len(found[0]) == 3
    for without, with_it in zip(*found, strict=True):
        assert torch.allclose(with_it, without + 0.7 * adversary.scale, rtol=0, atol=1e-12)


def test_needs_a_way_to_update() -> None:
    with refused("adversary.update"):
        FreeAT()(objective_on(update=None))
    FreeAT(replays=1)(objective_on(update=None))


def test_the_loop_counts_its_updates_and_the_rate_falls_over_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    step = torch.optim.AdamW.step
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self, *args: (steps.append(1), step(self, *args))[1])
    trainer = FineTune(**QUICK | {"epochs": 1, "log_every": 1}, adversary=FreeAT(replays=4))
    trainer(tiny_classifier(), toy_task(24), folder=tmp_path)
    assert len(steps) == 3 * 4
    assert rates(tmp_path) == pytest.approx([1e-3 * (1 - (4 * batch + 3) / 12) for batch in range(3)])
