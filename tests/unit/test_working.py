"""Gated matrices by hand: whatever the coefficients are, and however large, the gradients are autograd's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from robust_tickets.prune.gates import spread
from robust_tickets.prune.working import Passed, Scaled, column_sums, fused

coefficients = st.floats(2**-20, 3.0, width=32).flatmap(lambda c: st.sampled_from((c, -c)))


@settings(max_examples=40, deadline=None)
@given(st.lists(coefficients, min_size=1, max_size=4), st.integers(1, 3), st.booleans(), st.integers(0, 1000))
def test_scaled_columns(found: list[float], each: int, wanted: bool, seed: int) -> None:
    """``wanted``: whether the layer's input has a gradient already."""
    torch.manual_seed(seed)
    module, c = nn.Linear(len(found) * each, 3, bias=False), nn.Parameter(torch.tensor(found))
    x, gradient = torch.randn(5, len(found) * each), torch.randn(5, 3)
    weight = module.weight * spread(c, module.weight)
    expected = torch.autograd.grad((x @ weight.t() * gradient).sum(), (c, module.weight))
    scaled = Scaled(module, c)
    passed = Passed(x, gradient, gradient @ scaled.weight(torch.float32)[0].detach() if wanted else None)
    with torch.no_grad():
        parts = list(scaled.parts(passed, None))
        assert [part[0] for part in parts] == [c, module.weight]
        for (parameter, write, add), value in zip(parts, expected, strict=True):
            total = torch.full_like(parameter, 7.0)  # what a sum held before is written over
            write(total)
            torch.testing.assert_close(total, value, rtol=1e-3, atol=1e-4)
            add(total)
            torch.testing.assert_close(total, 2 * value, rtol=1e-3, atol=2e-4)


@torch.no_grad()
def test_a_coefficient_of_zero_has_no_gradient_and_spoils_no_other() -> None:
    module, c = nn.Linear(2, 3, bias=False), nn.Parameter(torch.tensor([0.0, 1.0]))
    (_, write, _), _ = Scaled(module, c).parts(Passed(torch.ones(4, 2), torch.ones(4, 3), None), None)
    total = torch.empty(2)
    write(total)
    assert total[0] == 0
    assert total[1] == pytest.approx(4 * float(module.weight[:, 1].sum()), rel=1e-5)


def test_sums_of_bf16_are_float32() -> None:
    ones = torch.ones((1000, 2), dtype=torch.bfloat16)
    assert torch.equal(column_sums(ones), torch.full((2,), 1000.0))


def test_without_worth_it_is_the_function_itself() -> None:
    assert fused(torch.add, False) is torch.add


def test_a_compiler_that_fails_is_said_once(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def broken(function: Any, **_: Any) -> Any:
        def run(*_: Any) -> Any:
            raise RuntimeError("no compiler\nhere")

        return run

    def twice(x: int) -> int:
        return 2 * x

    monkeypatch.setattr(torch, "compile", broken)
    assert [fused(twice, True)(n) for n in (1, 2, 3)] == [2, 4, 6]
    assert capsys.readouterr().err.count("(no compiler)") == 1


def test_the_functions_own_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: int) -> int:
        raise ValueError("its own")

    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    with pytest.raises(ValueError, match="its own"):
        fused(wrong, True)(1)


def test_too_little_memory_is_not_taken_for_a_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(function: Any, **_: Any) -> Any:
        def run(*_: Any) -> Any:
            raise torch.OutOfMemoryError("full")

        return run

    monkeypatch.setattr(torch, "compile", full)
    with pytest.raises(torch.OutOfMemoryError):
        fused(lambda x: x, True)(1)
