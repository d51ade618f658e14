"""bf16 working weights beside fp32 masters, and weight gradients that are fp32 from the start.

Autocast casts every weight in every forward pass and hands its gradient back in bf16. Here a weight is cast once an update: while a step
runs, each module finds a bf16 copy under its parameter's name, and the parameter itself, the master, is left to the optimiser. A linear
layer adds its weights' gradient to the master's in float32 straight out of the matrix product, so that the passes of an adversary and the
micro-batches of an update add up without a rounding and without a copy. On a GPU these products run beside the rest of the backward pass,
in a stream of their own: nothing waits for them before the update does.

The embeddings stay in float32, and so does what an adversary adds to them: a perturbation of norm 0.05 is 3e-4 a number, embeddings are
0.04, and bf16 has 8 bits. What leaves the embeddings' module is bf16. Gates multiply the master (see ``prune.gates``), never the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from robust_tickets.layout import Layout, encoder_of
from robust_tickets.masks import BUFFER

KIND = torch.bfloat16


@dataclass(eq=False)
class Copy:
    """A parameter as one module sees it: ``work`` is found there instead of ``master``."""

    module: nn.Module
    name: str
    master: nn.Parameter
    work: Tensor

    @property
    def mask(self) -> Tensor | None:
        """Of an unstructured ticket: what lies outside has no gradient."""
        return getattr(self.module, BUFFER, None) if self.name == "weight" else None


class Half:
    """``with half:`` the model computes in bf16; outside it is what it was. ``beside``: weight gradients in a stream of their own."""

    def __init__(self, model: nn.Module, layout: Layout) -> None:
        self.embeddings = encoder_of(model).get_submodule(layout.word_embeddings.partition(".")[0])
        wide = {id(module) for module in self.embeddings.modules()}
        works: dict[int, Tensor] = {}  # a parameter that two modules share has one copy
        self.copies = []
        for module in model.modules():
            for name, master in module._parameters.items():
                if id(module) in wide or master is None or not master.is_floating_point():
                    continue
                work = works.setdefault(id(master), master.detach().to(KIND).requires_grad_(master.requires_grad))
                self.copies.append(Copy(module, name, master, work))
        self.linear = [module for module in model.modules() if type(module) is nn.Linear and id(module) not in wide]
        self.own = {id(copy.work): copy for copy in self.copies}
        self.sums: dict[int, Tensor] = {}  # of gradients, float32, by the master's id; made when first needed
        self.written: set[int] = set()  # sums that hold something of this update
        self.tied: set[int] = set()  # masters that have a gradient by autograd as well
        self.collecting: Literal["no", "yes", "dropped"] = "no"
        self.stream: Any = None
        self._held: list[Tensor] = []  # what the second stream still reads

    def beside(self, device: torch.device) -> None:
        """From now on weight gradients are computed in a second stream."""
        self.stream = torch.cuda.Stream(device)

    def __enter__(self) -> Half:
        for copy in self.copies:
            copy.module.__dict__[copy.name] = copy.work  # found before the parameter of that name, which stays registered and untouched
        for module in self.linear:
            module.__dict__["forward"] = partial(self._linear, module)
        self._hook = self.embeddings.register_forward_hook(lambda _module, _args, output: output.to(KIND))
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.remove()
        for module in self.linear:
            module.__dict__.pop("forward", None)
        for copy in self.copies:
            copy.module.__dict__.pop(copy.name, None)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Around the backward pass of a loss: what it brings the weights is added up. Other gradients, of an ascent say, are not."""
        self.collecting = "yes"
        try:
            yield
        finally:
            self.collecting = "no"
        self._join()
        self._gather()

    @contextmanager
    def dropped(self) -> Iterator[None]:
        """Weight gradients are computed, and thrown away: what a wasteful ascent costs."""
        self.collecting = "dropped"
        try:
            yield
        finally:
            self.collecting = "no"
        self._join()

    def clear(self) -> None:
        """A new update begins."""
        self.written.clear()
        for copy in self.copies:
            copy.work.grad = None

    def settle(self) -> None:
        """Hand the sums to the masters as their gradients."""
        for copy in self.copies:
            if id(copy.master) not in self.written:
                continue
            total, other = self.sums[id(copy.master)], copy.master.grad
            if other is not None and other is not total:  # embeddings that are the decoder's weights too have one from each
                total.add_(other)
                self.tied.add(id(copy.master))
            if copy.mask is not None:
                total.mul_(copy.mask)
            copy.master.grad = total

    def owns(self, parameter: nn.Parameter) -> bool:
        """Whether the parameter's gradient is one of the sums, and no part of it comes from autograd."""
        return id(parameter) in self.written and id(parameter) not in self.tied

    @torch.no_grad()
    def refresh(self) -> None:
        """The masters have moved: so do the copies."""
        torch._foreach_copy_([copy.work for copy in self.own.values()], [copy.master for copy in self.own.values()])

    def _linear(self, module: Any, x: Tensor) -> Tensor:
        weight, bias = module.weight, module.bias
        copy = self.own.get(id(weight))
        if copy is None or not copy.master.requires_grad or not torch.is_grad_enabled():  # gated, or frozen
            return F.linear(x, weight, bias)
        return _Linear.apply(x, weight, bias, partial(self.take, copy, self.own.get(id(bias))))

    def _add(self, copy: Copy, make: Any, more: Any) -> None:
        """Add to a master's sum: ``make(out=…)`` writes the first addend, ``more(sum)`` adds one."""
        key = id(copy.master)
        if key not in self.sums:
            self.sums[key] = torch.empty_like(copy.master, dtype=torch.float32)
        if key in self.written:
            more(self.sums[key])
        else:
            make(self.sums[key])
            self.written.add(key)

    def take(self, weight: Copy, bias: Copy | None, x: Tensor, gradient: Tensor) -> None:
        """The gradients of a linear layer's weight and bias, from its input and its output's gradient."""
        if self.collecting == "no":
            return
        x, gradient = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
        with self._aside(x, gradient):
            if self.collecting == "dropped":
                _product(gradient, x)
                return
            self._add(
                weight,
                lambda total: _product(gradient, x, out=total),
                lambda total: _product(gradient, x, out=total, add=True),
            )
            if bias is not None and bias.master.requires_grad:
                self._add(
                    bias,
                    lambda total: torch.sum(gradient, 0, dtype=torch.float32, out=total),
                    lambda total: total.add_(gradient.sum(0, dtype=torch.float32)),
                )

    def _aside(self, *tensors: Tensor) -> Any:
        if self.stream is None:
            return nullcontext()
        self._held += tensors  # their memory must not be given away before the second stream is through
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        return torch.cuda.stream(self.stream)

    def _join(self) -> None:
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)
        self._held.clear()

    @torch.no_grad()
    def _gather(self) -> None:
        """Small gradients (norms, biases of gated layers) came in bf16 to the copies: to the sums with them."""
        came = [copy for copy in self.own.values() if copy.work.grad is not None]
        fresh = [copy for copy in came if id(copy.master) not in self.written]
        for copy in fresh:
            self._add(copy, lambda _: None, None)
        if fresh:
            torch._foreach_copy_([self.sums[id(c.master)] for c in fresh], [_gradient(c) for c in fresh])
        again = [copy for copy in came if copy not in fresh]
        if again:
            wide = [torch.empty_like(copy.work, dtype=torch.float32) for copy in again]
            torch._foreach_copy_(wide, [_gradient(c) for c in again])
            torch._foreach_add_([self.sums[id(c.master)] for c in again], wide)
        for copy in came:
            copy.work.grad = None


def _gradient(copy: Copy) -> Tensor:
    assert copy.work.grad is not None
    return copy.work.grad


def _product(gradient: Tensor, x: Tensor, *, out: Tensor | None = None, add: bool = False) -> None:
    """gradient^T x in float32: written to ``out``, or added to it."""
    if not x.is_cuda:  # no such product: the slow way, exact all the same
        found = gradient.float().t() @ x.float()
        if out is not None:
            out.add_(found) if add else out.copy_(found)
    elif out is None:
        torch.mm(gradient.t(), x, out_dtype=torch.float32)
    elif add:
        torch.addmm(out, gradient.t(), x, out_dtype=torch.float32, out=out)
    else:
        torch.mm(gradient.t(), x, out_dtype=torch.float32, out=out)


class _Linear(torch.autograd.Function):
    """A linear layer whose weights' gradient goes to its master's sum, not through autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, take: Callable[[Tensor, Tensor], None]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.take = take
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None, None]:
        x, weight = ctx.saved_tensors
        inward = gradient @ weight if ctx.needs_input_grad[0] else None
        ctx.take(x, gradient)
        return inward, None, None, None
