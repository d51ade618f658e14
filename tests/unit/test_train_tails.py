"""The fused end of a half-layer: its gradients are autograd's, dropout included, and only modules that compute just this are taken."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from robust_tickets.registry import BACKBONES
from robust_tickets.train import tails
from tiny import tiny_classifier


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 0.6), st.integers(1, 5), st.integers(2, 9))
def test_gradients_by_hand_are_autograds(seed: int, p: float, rows: int, width: int) -> None:
    torch.manual_seed(seed)
    x, residual = (torch.randn(2, rows, width, dtype=torch.float32, requires_grad=True) for _ in range(2))
    weight, bias, pull = torch.randn(width), torch.randn(width), torch.randn(2, rows, width)
    torch.manual_seed(seed)
    expected = torch.autograd.grad((tails.forwards(x, residual, weight, bias, p, 1e-5)[0] * pull).sum(), (x, residual))
    taken: list[Any] = []
    torch.manual_seed(seed)
    answer = tails.Tail.apply(
        x, residual, weight, bias, torch.zeros((), requires_grad=True), p, 1e-5, lambda weights, *_: taken.extend(weights())
    )
    got = torch.autograd.grad((answer * pull).sum(), (x, residual))
    for one, other in zip(got, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-3)
    assert [tuple(found.shape) for found in taken] == [(width,), (width,)]


def test_forwards_is_dropout_residual_and_norm() -> None:
    torch.manual_seed(0)
    x, residual, weight, bias = torch.randn(3, 400), torch.randn(3, 400), torch.randn(400), torch.randn(400)
    plain = nn.functional.layer_norm(x + residual, (400,), weight, bias, 1e-5)
    assert torch.allclose(tails.forwards(x, residual, weight, bias, 0.0, 1e-5)[0], plain, atol=1e-5)
    answer, total, _, _, kept = tails.forwards(x, residual, weight, bias, 0.25, 1e-5)
    assert torch.allclose(total, torch.where(kept, x / 0.75, 0.0) + residual, atol=1e-6)
    assert float(kept.float().mean()) == pytest.approx(0.75, abs=0.05)
    assert torch.allclose(answer, nn.functional.layer_norm(total, (400,), weight, bias, 1e-5), atol=1e-5)


@pytest.mark.parametrize("family", BACKBONES.names())
def test_what_counts_as_a_tail(family: str) -> None:
    model = tiny_classifier(family).model.train()
    found = [name for name, module in model.named_modules() if tails.is_tail(module)]
    most = {"distilbert": 0, "modernbert": 0, "mpnet": 3}  # layers of three: two a layer, or one, or none
    assert len(found) == most.get(family, 6), found
    assert all(module.training for module in model.modules())


def test_another_arithmetic_is_no_tail() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense, self.dropout, self.LayerNorm = nn.Linear(4, 4), nn.Dropout(0.1), nn.LayerNorm(4)

        def forward(self, hidden_states: torch.Tensor, input_tensor: torch.Tensor) -> torch.Tensor:
            return self.LayerNorm(self.dense(hidden_states) + 2 * input_tensor)

    assert not tails.is_tail(Twice())


def test_compiling_is_for_runs_that_win_it_back() -> None:
    gpu = torch.device("cuda")
    assert not tails.worth(torch.device("cpu"), 1e9, 10_000)
    assert not tails.worth(gpu, 1000, 4096)
    assert tails.worth(gpu, 200_000, 1024)
    assert tails.worth(gpu, 30_000, 4096)
