"""A function that cannot be compiled runs as it is, and says so once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from robust_tickets.prune.working import fused


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
    said = capsys.readouterr().err
    assert said.count("twice could not be compiled (no compiler)") == 1


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
