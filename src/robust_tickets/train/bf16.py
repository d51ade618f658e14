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

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from robust_tickets.backbone.layout import Layout, encoder_of
from robust_tickets.backbone.weight_masks import BUFFER
from robust_tickets.prune.gates import Gates
from robust_tickets.prune.hardconcrete import HardConcrete
from robust_tickets.prune.working import Part, Passed, Working, column_sums, found, made, product, working_of


class Linear(torch.autograd.Function):
    """A linear layer whose weights' gradient is computed here. ``anchor`` wants a gradient: else a layer whose input wants none had no
    backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, anchor: Tensor, take: Callable[..., None]
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.take = take
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None, None, None]:
        x, weight = ctx.saved_tensors
        inward = gradient @ weight if ctx.needs_input_grad[0] else None
        ctx.take(x, gradient, inward)
        return inward, None, None, None, None


class Norm(torch.autograd.Function):
    """A layer normalisation whose weights' gradients are computed here."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        anchor: Tensor,
        shape: tuple[int, ...],
        eps: float,
        take: Callable[..., None],
    ) -> Tensor:
        out, mean, scale = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(x, weight, bias, mean, scale)
        ctx.shape, ctx.take = shape, take
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None, None, None, None, None]:
        x, weight, bias, mean, scale = ctx.saved_tensors
        gradient = gradient.contiguous()

        def wanted(*which: bool) -> tuple[Tensor, ...]:
            found: tuple[Tensor, ...] = torch.ops.aten.native_layer_norm_backward(
                gradient, x, ctx.shape, mean, scale, weight, bias, [*which]
            )
            return found

        ctx.take(lambda: wanted(False, True, bias is not None)[1:], x, gradient, mean, scale)
        inward = wanted(True, False, False)[0] if ctx.needs_input_grad[0] else None
        return inward, None, None, None, None, None, None


def triples(model: nn.Module, layout: Layout) -> Iterator[tuple[Any, ...]]:
    """Query, key and value of every layer, where they are three plain linear layers that read the same width."""
    for layer in layout.layers_of(model):
        paths = (layout.query, layout.key, layout.value)
        found = tuple(layer.get_submodule(path) for path in paths)
        plain = len(set(paths)) == 3 and all(type(module) is nn.Linear for module in found)
        if plain and len({(module.in_features, module.bias is None) for module in found}) == 1:
            yield found


class Together:
    """The working weights of a triple, and what was computed and not yet asked for."""

    def __init__(self, modules: Sequence[Any], kind: torch.dtype) -> None:
        self.modules = tuple(modules)
        self.sizes = [module.out_features for module in modules]
        self.weight = torch.cat([module.weight.detach() for module in modules]).to(kind)
        self.bias = (
            None if modules[0].bias is None else torch.cat([module.bias.detach() for module in modules]).to(kind)
        )
        self._left: tuple[Tensor, dict[nn.Module, Tensor]] | None = None

    def works(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Each parameter with its rows of the working weights."""
        for name, whole in (("weight", self.weight), ("bias", self.bias)):
            if whole is not None:
                yield from zip(
                    (module._parameters[name] for module in self.modules), whole.split(self.sizes), strict=True
                )

    def ask(self, module: nn.Module, x: Tensor, compute: Callable[[Tensor], tuple[Tensor, ...]]) -> Tensor | None:
        """What ``module`` makes of ``x``, where that is computed together with the others' or has been."""
        if module is self.modules[0]:
            found = dict(zip(self.modules, compute(x), strict=True))
            self._left = x, found
        if self._left is None or self._left[0] is not x or module not in self._left[1]:
            return None
        answer = self._left[1].pop(module)
        if not self._left[1]:
            self._left = None
        return answer

    def forget(self) -> None:
        self._left = None


class LinearTogether(torch.autograd.Function):
    """Several linear layers of one input; ``take(place, x, gradient)`` receives what the weights' gradients are made of."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        anchor: Tensor,
        sizes: list[int],
        take: Callable[..., None],
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(x, weight)
        ctx.sizes, ctx.take = sizes, take
        return F.linear(x, weight, bias).split(sizes, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None, None, None, None]:
        x, weight = ctx.saved_tensors
        flat = [gradient.reshape(-1, gradient.shape[-1]) for gradient in gradients]
        inward = None
        if ctx.needs_input_grad[0]:
            for gradient, rows in zip(flat, weight.split(ctx.sizes), strict=True):
                inward = gradient @ rows if inward is None else inward.addmm_(gradient, rows)
            assert inward is not None
            inward = inward.view(x.shape)
        for place, gradient in enumerate(flat):
            ctx.take(place, x, gradient)
        return inward, None, None, None, None, None


MULTIPLE = 8  # 16 bytes of bf16


def roomy(model: nn.Module, layout: Layout, kind: torch.dtype) -> Iterator[tuple[nn.Parameter, Tensor]]:
    """Parameters of feed-forward layers of odd widths, each with zeros of the wider shape."""
    if layout.gate:  # up and gate lie in one matrix: its rows are not one block
        return
    for layer in layout.layers_of(model):
        up, down = layer.get_submodule(layout.up), layer.get_submodule(layout.down)
        neurons = -(-up.out_features // MULTIPLE) * MULTIPLE
        if neurons == up.out_features or type(up) is not nn.Linear or type(down) is not nn.Linear:
            continue
        wide: dict[tuple[nn.Module, str], tuple[int, ...]] = {
            (up, "weight"): (neurons, up.in_features),
            (up, "bias"): (neurons,),
            (down, "weight"): (down.out_features, neurons),
        }
        for (module, name), shape in wide.items():
            parameter = module._parameters[name]
            if parameter is not None:
                yield parameter, torch.zeros(shape, dtype=kind, device=parameter.device)


KIND = torch.bfloat16


@dataclass(eq=False)
class Copy:
    """A parameter as one module sees it: ``work`` is found there instead of ``master``."""

    module: nn.Module
    name: str
    master: nn.Parameter
    work: Tensor

    @property
    def inner(self) -> Tensor:
        """The master's part of ``work``, which may have room around it."""
        return self.work[tuple(slice(size) for size in self.master.shape)]

    @property
    def mask(self) -> Tensor | None:
        """Of an unstructured ticket: what lies outside has no gradient."""
        return getattr(self.module, BUFFER, None) if self.name == "weight" else None


class Half:
    """``with half:`` the model computes in bf16; outside it is what it was. ``gates``: of the model, if it has some."""

    def __init__(self, model: nn.Module, layout: Layout, gates: Gates | HardConcrete | None = None) -> None:
        self.embeddings = encoder_of(model).get_submodule(layout.word_embeddings.partition(".")[0])
        wide = {id(module) for module in self.embeddings.modules()}
        self.gates = gates
        self.gated: dict[nn.Module, Working] = working_of(gates) if gates is not None else {}
        groups = [
            Together(three, KIND)
            for three in triples(model, layout)
            if not any(module in self.gated for module in three)
        ]
        self.groups = {module: group for group in groups for module in group.modules}
        # a parameter that two modules share has one copy
        works: dict[int, Tensor] = {id(master): work for group in groups for master, work in group.works()}
        if gates is None:  # gates multiply weights of the model's own shape
            works |= {id(master): work for master, work in roomy(model, layout, KIND)}
        self.copies = []
        for module in model.modules():
            for name, master in module._parameters.items():
                if id(module) in wide or master is None or not master.is_floating_point():
                    continue
                work = works.setdefault(id(master), master.detach().to(KIND))
                if type(module) not in _BY_HAND:
                    work.requires_grad_(master.requires_grad)  # autograd's, and gathered
                self.copies.append(Copy(module, name, master, work))
        self.own = {id(copy.work): copy for copy in self.copies}
        # modules whose weight gradients are computed here, and by which method: its name, for a bound one would keep all this alive
        self.by_hand = {m: _BY_HAND[type(m)] for m in model.modules() if type(m) in _BY_HAND and id(m) not in wide}
        self.anchor = torch.zeros((), requires_grad=True)
        self.sums: dict[int, Tensor] = {}  # of gradients, float32, by the parameter's id; made when first needed
        self.owners: dict[int, nn.Parameter] = {}
        self.written: set[int] = set()  # sums that hold something of this update
        self.tied: set[int] = set()  # parameters that have a gradient by autograd as well
        self.collecting: Literal["no", "yes", "dropped"] = "no"
        self.stream: Any = None
        self._held: list[Tensor] = []  # what the second stream still reads
        self.refresh()

    def beside(self, device: torch.device) -> None:
        """From now on weight gradients are computed in a second stream."""
        self.stream = torch.cuda.Stream(device)

    def __enter__(self) -> Half:
        for copy in self.copies:
            # found before the parameter of that name, which stays registered and untouched
            copy.module.__dict__[copy.name] = copy.work
        for module, kind in self.by_hand.items():
            module.__dict__["forward"] = partial(getattr(self, kind), module)
        self._hook = self.embeddings.register_forward_hook(lambda _module, _args, output: output.to(KIND))
        if self.gates is not None and self.gated:
            self.gates.aside = True
        return self

    def __exit__(self, *_: object) -> None:
        if self.gates is not None and self.gated:
            self.gates.aside = False
        self._hook.remove()
        for group in self.groups.values():
            group.forget()
        for module in self.by_hand:
            module.__dict__.pop("forward", None)
        for copy in self.copies:
            copy.module.__dict__.pop(copy.name, None)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Around the backward pass of a loss: what it brings the weights is added up. Other gradients, of an ascent say, are not."""
        with self._collecting("yes"):
            yield
        self._gather()

    @contextmanager
    def dropped(self) -> Iterator[None]:
        """Weight gradients are computed, and thrown away: what a wasteful ascent costs."""
        with self._collecting("dropped"):
            yield

    @contextmanager
    def _collecting(self, how: Literal["yes", "dropped"]) -> Iterator[None]:
        self.collecting = how
        try:
            yield
        finally:
            self.collecting = "no"
            if self._held:  # else the second stream did nothing, and a graph must not wait for what is no part of it
                try:
                    torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)
                finally:  # also where a recording broke
                    self._held.clear()

    def clear(self) -> None:
        """A new update begins."""
        self.written.clear()
        for copy in self.copies:
            copy.work.grad = None

    def to_gradients(self) -> None:
        """Make the sums the gradients of their parameters."""
        for key in self.written:
            owner, total = self.owners[key], self.sums[key]
            if owner.grad is not None and owner.grad is not total:  # as of embeddings that are a decoder's weights too
                total.add_(owner.grad)
                self.tied.add(key)
            owner.grad = total
        for copy in self.copies:
            if copy.mask is not None and copy.master.grad is not None:
                copy.master.grad.mul_(copy.mask)

    def owns(self, parameter: nn.Parameter) -> bool:
        """Whether the parameter's gradient is one of the sums, and no part of it comes from autograd."""
        return id(parameter) in self.written and id(parameter) not in self.tied

    @torch.no_grad()
    def refresh(self) -> None:
        """The masters have moved: so do the copies."""
        scaled = {id(gated.master): gated for gated in self.gated.values() if gated.constant}
        plain = [copy for copy in self.own.values() if id(copy.master) not in scaled]
        torch._foreach_copy_([copy.inner for copy in plain], [copy.master for copy in plain])
        for copy in self.own.values():
            if id(copy.master) in scaled:
                copy.work.copy_(scaled[id(copy.master)].weight(KIND)[0])

    def linear(self, module: Any, x: Tensor) -> Tensor:
        """A linear layer."""
        weight, bias = module.weight, module.bias
        owner = self.gated.get(module) or self.own.get(id(weight))
        beside, known = self.own.get(id(bias)), None
        if owner is None:  # gated by a hook: autograd's, and so is the bias
            if beside is not None:
                bias.requires_grad_(beside.master.requires_grad)
            return F.linear(x, weight, bias)
        if not isinstance(owner, Copy) and not owner.constant:
            weight, known = owner.weight(KIND)
        trained = [
            owner.master,
            *([] if isinstance(owner, Copy) else [owner.gate]),
            *([beside.master] if beside else []),
        ]
        if not torch.is_grad_enabled() or not any(parameter.requires_grad for parameter in trained):
            return F.linear(x, weight, bias)
        if isinstance(owner, Copy) and module in self.groups and owner.work is weight:
            answer = self.groups[module].ask(module, x, partial(self._together, self.groups[module]))
            if answer is not None:
                return answer
        return Linear.apply(x, weight, bias, self.anchor, partial(self._take_linear, owner, beside, known))

    def _together(self, group: Together, x: Tensor) -> tuple[Tensor, ...]:
        copies = [(self.own[id(module.weight)], self.own.get(id(module.bias))) for module in group.modules]

        def take(place: int, x: Tensor, gradient: Tensor) -> None:
            self._take_linear(*copies[place], None, x, gradient, None)

        return LinearTogether.apply(x, group.weight, group.bias, self.anchor, group.sizes, take)

    def norm(self, module: Any, x: Tensor) -> Tensor:
        """A layer normalisation: the gradients of its weights are as slow as the rest of it."""
        weight, bias = module.weight, module.bias
        copies = [self.own.get(id(weight)), self.own.get(id(bias))]
        trained = any(copy is not None and copy.master.requires_grad for copy in copies)
        if weight is None or not trained or not torch.is_grad_enabled():
            return F.layer_norm(x, module.normalized_shape, weight, bias, module.eps)
        return Norm.apply(
            x, weight, bias, self.anchor, tuple(module.normalized_shape), module.eps, partial(self._take_norm, copies)
        )

    def _take_linear(
        self, weight: Copy | Working, bias: Copy | None, known: Any, x: Tensor, gradient: Tensor, inward: Tensor | None
    ) -> None:
        """The gradients of a linear layer's weight and bias."""
        if self.collecting == "no":
            return
        x, gradient = _flat(x), _flat(gradient)
        if isinstance(weight, Copy):  # without the room around it
            gradient, x = gradient[:, : weight.master.shape[0]], x[:, : weight.master.shape[1]]
        with self._aside(x, gradient, *([inward] if inward is not None else [])):
            if self.collecting == "dropped":
                product(gradient, x)
                return
            if isinstance(weight, Copy):
                self._add(made(weight.master, gradient, x))
            else:
                for part in weight.parts(Passed(x, gradient, _flat(inward) if inward is not None else None), known):
                    self._add(part)
            if bias is not None and bias.master.requires_grad:
                self._add(found(bias.master, column_sums(gradient)))

    def _take_norm(
        self, copies: list[Copy | None], gradients: Callable[[], tuple[Tensor, ...]], *tensors: Tensor
    ) -> None:
        if self.collecting == "no":
            return
        with self._aside(*tensors):
            for copy, gradient in zip(copies, gradients(), strict=True):
                if copy is not None and self.collecting == "yes":
                    self._add(found(copy.master, gradient))

    def _add(self, part: Part) -> None:
        """Add a part to its parameter's sum, or begin one with it."""
        parameter, write, add = part
        if not parameter.requires_grad:
            return
        key = id(parameter)
        if key not in self.sums:
            self.sums[key], self.owners[key] = torch.empty_like(parameter, dtype=torch.float32), parameter
        (add if key in self.written else write)(self.sums[key])
        self.written.add(key)

    def _aside(self, *tensors: Tensor) -> Any:
        if self.stream is None:
            return nullcontext()
        self._held += tensors  # their memory must not be given away before the second stream is through
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        return torch.cuda.stream(self.stream)

    @torch.no_grad()
    def _gather(self) -> None:
        """What autograd gave the copies, in bf16 (biases of layers that hooks gate, say): to the sums with it."""
        for copy in self.own.values():
            if copy.work.grad is not None:
                self._add(found(copy.master, copy.work.grad))
                copy.work.grad = None


def _flat(values: Tensor) -> Tensor:
    return values.reshape(-1, values.shape[-1])


_BY_HAND = {nn.Linear: "linear", nn.LayerNorm: "norm"}
