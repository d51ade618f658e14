"""Elementwise functions as one GPU kernel each, written by torch.compile; the function itself where there is no GPU or no compiler.

A gate on each of 85 million weights is some twenty elementwise operations a pass. One after the other they read and write memory twenty
times; as one kernel, once. Compiling takes seconds, once a function: sizes are left open.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from robust_tickets import progress

_COMPILED: dict[Callable[..., Any], Callable[..., Any]] = {}


def fused(function: Callable[..., Any], worth: bool) -> Callable[..., Any]:
    """``function`` compiled, where that is ``worth`` it; a compiler that fails is said once, and the function itself is used."""
    if not worth:
        return function
    if function not in _COMPILED:
        _COMPILED[function] = _Trial(function)
    return _COMPILED[function]


class _Trial:
    """The compiled function until it fails for the first time."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's compiler uses parts of torch that torch deprecates
                if self.compiled is None:
                    import torch

                    self.compiled = torch.compile(self.function, dynamic=True)
                return self.compiled(*args)
        except Exception as problem:  # whatever a missing compiler, linker or driver raises through torch
            if self.compiled is self.function or "OutOfMemory" in type(problem).__name__:
                raise
            first = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
            progress.say(f"{self.function.__name__} could not be compiled ({first}): it runs as separate operations")
            self.compiled = self.function
            return self.function(*args)
