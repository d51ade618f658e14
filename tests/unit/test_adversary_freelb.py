"""FreeLB against a slow, literal reference of its algorithm box in fp64, and its properties."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from adversaries import (
    Gradients,
    Recording,
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
from robust_tickets.train.update import plain

SWITCHES = [
    FreeLB(steps=3),
    FreeLB(steps=3, norm="linf", init=0.02, step_size=0.03),
    FreeLB(steps=4, max_norm=0.04),
    FreeLB(steps=4, norm="linf", max_norm=0.015, step_size=0.01, init=0.01),
    FreeLB(steps=2, extra_pass=True, step_size=0.2),
]


def _reference(objective: Objective, adversary: FreeLB) -> tuple[Gradients, float]:
    """Algorithm box, example by example, on BERT's ``inputs_embeds``: per-pass gradients by autograd.grad, summed at weight 1/passes."""
    ball = {"norm": adversary.norm, "max_norm": adversary.max_norm}
    passes = adversary.steps + (1 if adversary.extra_pass else 0)
    delta = first_delta(objective, init=adversary.init, norm=adversary.norm)
    total = {name: torch.zeros_like(p) for name, p in objective.model.named_parameters()}
    losses = []
    for _ in range(passes):
        delta = delta.detach().requires_grad_()
        loss = loss_at(objective, delta)
        for name, gradient in gradients_of(loss / passes, objective).items():
            total[name] += gradient
        losses.append(float(loss.detach()))
        delta = next_delta(delta, torch.autograd.grad(loss / passes, delta)[0], step=adversary.step_size, **ball)
    return total, sum(losses) / passes


@pytest.mark.parametrize("adversary", SWITCHES, ids=str)
def test_equals_the_algorithm_box(adversary: FreeLB) -> None:
    equals(adversary, _reference, objective_on())


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet"])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_one_pass_from_zero_is_a_plain_step(family: str, dropout: float) -> None:
    one, other = (objective_on(family, dropout=dropout, double=False) for _ in range(2))
    torch.manual_seed(5)
    expected, loss = gradients(one, plain)
    torch.manual_seed(5)
    got, mean = gradients(other, FreeLB(steps=1, init=0.0))
    assert torch.equal(loss, mean)
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], expected[name]) for name in expected)


def _recorded(adversary: FreeLB, **settings: Any) -> Recording:
    recorded = recording(objective_on(**settings))
    gradients(recorded, adversary)
    return recorded


@pytest.mark.parametrize("adversary", SWITCHES, ids=str)
def test_perturbations_stay_within_bounds_and_off_the_padding(adversary: FreeLB) -> None:
    recorded = _recorded(adversary)
    assert len(recorded.seen) == adversary.passes
    padding = recorded.inputs["attention_mask"] == 0
    assert padding.any()
    for k, delta in enumerate(recorded.seen):
        assert (delta[padding] == 0).all()
        sizes = adversary.size(delta)
        assert (sizes <= adversary.init + k * adversary.step_size + 1e-12).all()
        if k and adversary.max_norm:
            assert (sizes <= adversary.max_norm + 1e-12).all()
    assert (recorded.seen[0] != 0).any()
    assert (recorded.seen[-1] != recorded.seen[0]).any()


def test_padding_stays_zero_even_where_it_has_a_gradient() -> None:
    class Leaky(Recording):
        def loss(self, delta: torch.Tensor | None = None, **rest: Any) -> torch.Tensor:
            assert delta is not None
            return super().loss(delta) + 0.1 * delta.sum()

    objective = objective_on()
    leaky = Leaky(**{f: getattr(objective, f) for f in objective.__dataclass_fields__})
    gradients(leaky, FreeLB(steps=3))
    assert all((delta[leaky.inputs["attention_mask"] == 0] == 0).all() for delta in leaky.seen)


def test_shared_dropout_drops_the_same_units_in_all_passes() -> None:
    def losses(dropout: Any) -> list[float]:
        adversary = FreeLB(
            steps=3, init=0.0, step_size=0.0, dropout=dropout
        )  # delta stays 0, so only dropout can differ
        objective = objective_on(dropout=0.3)
        seen: list[float] = []
        objective.loss_fn = lambda logits, labels: (
            seen.append(float(logits.detach().sum())),
            F.cross_entropy(logits, labels),
        )[1]
        gradients(objective, adversary)
        return seen

    torch.manual_seed(0)
    assert len(set(losses("shared"))) == 1
    assert len(set(losses("fresh"))) == 3
    torch.manual_seed(0)
    first = losses("shared")
    assert losses("shared") != first  # the next step drops others


def test_token_types_can_be_lost_as_in_released_code() -> None:
    objective = objective_on()
    expected = gradients_of(
        loss_at(objective, None, token_type_ids=torch.zeros_like(objective.inputs["token_type_ids"])), objective
    )
    got, _ = gradients(objective, FreeLB(steps=1, init=0.0, token_types=False))
    agree(got, expected)
    assert "token_type_ids" in objective.inputs  # the caller's batch is whole
    whole, _ = gradients(objective, FreeLB(steps=1, init=0.0))
    assert not torch.equal(got["classifier.weight"], whole["classifier.weight"])


def test_the_hook_is_gone_after_a_step_and_after_an_error() -> None:
    objective = objective_on()
    words = objective.layout.words_of(objective.model)
    gradients(objective, FreeLB(steps=2))
    objective.inputs = {**objective.inputs, "input_ids": objective.inputs["input_ids"] + 10_000}
    with pytest.raises(IndexError):
        objective.loss(torch.zeros(1))
    assert not words._forward_hooks


def test_the_first_delta_of_half_precision_is_finite() -> None:
    """512 tokens of width 768 hold more numbers than float16 can count."""
    from types import SimpleNamespace

    mask = torch.ones(1, 512, 1, dtype=torch.float16)
    objective = SimpleNamespace(
        mask=mask, embedding_shape=lambda: (1, 512, 768), uniform=lambda low, high: torch.ones(1, 512, 768).half()
    )
    delta = FreeLB(init=5.0).start(objective)  # type: ignore[arg-type]
    assert delta.dtype == torch.float16
    assert delta.float().norm() == pytest.approx(5.0, rel=0.01)
