"""Gated matrices in half precision: the gated working weight, and the gates' gradients from a backward pass.

Hooks multiply gates into a weight under autograd, in every pass, and autograd then handles gradients of the weight's
size one after the other. Where weight gradients are computed explicitly (``train.bf16``), so are those of the gates,
and the hooks are off.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from robust_tickets import progress
from robust_tickets.prune.gates import Gates, spread, weight_of
from robust_tickets.prune.hardconcrete import BETA, GAMMA, LOWEST, ZETA, Covered, HardConcrete, stretched

# whose gradient; writes it to a sum; adds it to one
Part = tuple[nn.Parameter, Callable[[Tensor], Any], Callable[[Tensor], Any]]


class Working(Protocol):
    """One gated matrix."""

    master: nn.Parameter  # the matrix itself
    gate: nn.Parameter
    constant: bool  # between two updates: then the weight is computed once an update, not once a pass

    def weight(self, kind: torch.dtype) -> tuple[Tensor, Any]:
        """The gated weight, and what ``parts`` needs to know of it."""
        ...

    def parts(self, passed: Passed, known: Any) -> Iterator[Part]:
        """Gradients of gate and matrix, from what went through the layer."""
        ...


@dataclass(frozen=True)
class Passed:
    """The input of a linear layer, its output's gradient and its input's, as matrices of (tokens, width)."""

    x: Tensor
    gradient: Tensor
    inward: Tensor | None  # None: the input wants no gradient


def working_of(gates: Gates | HardConcrete) -> dict[nn.Module, Working]:
    """How each gated matrix is computed with in half precision; of hard-concrete gates, those with a gate per weight."""
    if isinstance(gates, Gates):
        return {module: Scaled(module, coefficients[i]) for module, coefficients, i in gates.entries()}
    by_hand = gates.granularity == "weight" and gates.freeze
    return {entry.module: Drawn(gates, entry) for entry in gates.covered} if by_hand else {}


class Scaled:
    """A projection whose columns are scaled: W diag(c)."""

    constant = True

    def __init__(self, module: nn.Module, coefficients: nn.Parameter) -> None:
        self.master, self.gate = weight_of(module), coefficients

    def weight(self, kind: torch.dtype) -> tuple[Tensor, None]:
        return (self.master * spread(self.gate, self.master)).to(kind), None

    def parts(self, passed: Passed, known: None) -> Iterator[Part]:
        """The gradients of y = W diag(c) x: dc = sum(x dx) / c, which needs no product of W's size.

        A coefficient of exactly 0 gets no gradient from the loss here; in a search they stay within some percent of 1.
        """
        inward = passed.inward if passed.inward is not None else passed.gradient @ self.weight(passed.x.dtype)[0]
        sums = column_sums(passed.x * inward).view(len(self.gate), -1).sum(1)
        c = self.gate.detach()
        of_gate = sums / torch.where(c == 0, 1.0, c)
        yield found(self.gate, of_gate)
        yield made(self.master, passed.gradient, passed.x * spread(c, self.master).to(passed.x.dtype))


class Drawn:
    """A matrix with a gate on every weight, gated explicitly."""

    constant = False

    def __init__(self, gates: HardConcrete, entry: Covered) -> None:
        self.gates, self.entry = gates, entry
        self.master, self.gate = entry.module._parameters["weight"], gates.log_alpha[entry.gate]

    def weight(self, kind: torch.dtype) -> tuple[Tensor, Tensor]:
        """A matrix under this pass's gates, without autograd, and the gates' s."""
        explicit, at = self.gates.explicit, self.entry.gate
        if at not in explicit:
            log_alpha, weight = self.gate.detach(), self.master.detach()
            generator = self.gates.generator
            u = torch.rand(log_alpha.shape, generator=generator, device=log_alpha.device, dtype=log_alpha.dtype)
            gated = torch.empty_like(weight, dtype=kind)
            fused(open_gates, u.is_cuda)(u.view(-1), log_alpha.view(-1), weight.view(-1), gated.view(-1))  # u becomes s
            explicit[at] = gated, u
        return explicit[at]

    def parts(self, passed: Passed, known: Tensor) -> Iterator[Part]:
        gradient = torch.empty_like(self.master, dtype=torch.float32)
        product(passed.gradient, passed.x, gradient)
        flat = known.view(-1), self.master.detach().view(-1), gradient.view(-1)

        def write(total: Tensor, more: bool = False) -> None:
            fused(slope, total.is_cuda)(total.view(-1), *flat, more)

        yield self.gate, write, partial(write, more=True)


def open_gates(u: Tensor, log_alpha: Tensor, weight: Tensor, gated: Tensor) -> None:
    """Uniform noise ``u`` becomes the gates' s, in place; ``gated`` receives the weight under them."""
    s = torch.sigmoid((torch.logit(u.clamp(LOWEST, 1 - LOWEST)) + log_alpha) / BETA)
    gated.copy_(stretched(s) * weight)
    u.copy_(s)


def slope(total: Tensor, s: Tensor, weight: Tensor, gradient: Tensor, more: bool) -> None:
    """The gradient of log alpha from the gated weight's: written to ``total``, or added."""
    wide = s * (ZETA - GAMMA) + GAMMA
    inside = wide == wide.clamp(0.0, 1.0)  # a clipped gate has no slope
    found = (1 - s) * s * ((ZETA - GAMMA) / BETA) * inside * weight * gradient
    total.copy_(total + found if more else found)


def product(gradient: Tensor, x: Tensor, out: Tensor | None = None, *, add: bool = False) -> None:
    """gradient^T x in float32: written to ``out``, or added to it."""
    if not x.is_cuda:  # no such product there: rounded once, as under autocast, then added up in float32
        whole = gradient.t() @ x
        if out is not None:
            out.add_(whole) if add else out.copy_(whole)
    elif out is None:
        torch.mm(gradient.t(), x, out_dtype=torch.float32)
    elif add:
        torch.addmm(out, gradient.t(), x, out_dtype=torch.float32, out=out)
    else:
        torch.mm(gradient.t(), x, out_dtype=torch.float32, out=out)


def found(parameter: nn.Parameter, gradient: Tensor) -> Part:
    """A gradient that is there already."""
    return parameter, lambda total: total.copy_(gradient), lambda total: total.add_(gradient)


def made(parameter: nn.Parameter, gradient: Tensor, x: Tensor) -> Part:
    """A weight's gradient, straight out of the product."""
    return parameter, partial(product, gradient, x), partial(product, gradient, x, add=True)


def column_sums(values: Tensor) -> Tensor:
    """Sums over the rows, in float32. On a GPU as a product with ones, which takes half the time of a sum."""
    if not values.is_cuda or values.dtype != torch.bfloat16:
        return values.sum(0, dtype=torch.float32)
    return torch.mm(_ones(len(values), values.device), values, out_dtype=torch.float32)[0]


@cache
def _ones(count: int, device: torch.device) -> Tensor:
    return torch.ones((8, count), dtype=torch.bfloat16, device=device)  # matrix kernels like eight rows


_COMPILED: dict[Callable[..., Any], Callable[..., Any]] = {}


def fused(function: Callable[..., Any], worth: bool) -> Callable[..., Any]:
    """``function`` compiled, where that is ``worth`` it; itself where the compiler fails, reported once."""
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
                    self.compiled = torch.compile(self.function, dynamic=True)
                return self.compiled(*args)
        except Exception as problem:  # whatever a missing compiler, linker or driver raises through torch
            if self.compiled is self.function or "OutOfMemory" in type(problem).__name__:
                raise
            first = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
            progress.say(f"{self.function.__name__} could not be compiled ({first}): it runs as separate operations")
            self.compiled = self.function
            return self.function(*args)
