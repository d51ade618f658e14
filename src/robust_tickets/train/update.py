"""One eager update: gradients of micro-batches, clipping, learning rate, AdamW. The reference of all engines.

The loop says which batches and which update it is; everything that an update computes is here, and ``cuda/graphs.py`` records just this code
as CUDA graphs. So nothing here reads a value back from the device, and what changes from update to update (learning rate, a penalty's
weight) is a number on the device where there is one. On the CPU it is a Python float, in double precision.

What a micro-batch draws (dropout, perturbations, gate noise) is a function of the seed, the update and the micro-batch's number in it,
and of nothing that was drawn before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor, nn

from robust_tickets import progress
from robust_tickets.adversary.objective import Adversary, Ground, Objective
from robust_tickets.backbone.layout import layout_of
from robust_tickets.config import one_of
from robust_tickets.data.batching import View, parts_of
from robust_tickets.environment import attention
from robust_tickets.errors import TicketsError
from robust_tickets.seeds import derive
from robust_tickets.train.bf16 import Half
from robust_tickets.train.settings import Optim

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from robust_tickets.prune.gates import Gates
    from robust_tickets.prune.hardconcrete import HardConcrete

Precision = Literal["fp32", "bf16"]
Backward = Callable[[Tensor], None]
Update = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Unclipped:
    """A loss whose gradient joins after the others were clipped: ``weight`` of the updates done, times ``loss()``."""

    loss: Callable[[], Tensor]
    weight: Callable[[int], float]


@dataclass(frozen=True, kw_only=True)
class Step:
    """What the loop calls with a batch, ``backward`` and ``update``; it leaves gradients behind and returns the loss, detached."""

    run: Callable[[Mapping[str, Tensor], Backward, Update | None], Tensor]
    memory: nn.Module | None = None  # the adversary's: trained and saved with the model
    views: tuple[View, ...] = ()  # what the adversary reads beside the texts
    updates: int = 1  # optimiser steps that one batch takes (FreeAT: one a replay)
    half: Half | None = None  # bf16 working weights, where the step computes with them

    def __call__(self, batch: Mapping[str, Tensor], backward: Backward, update: Update | None = None) -> Tensor:
        return self.run(batch, backward, update)

    @property
    def parts(self) -> dict[str, nn.Module]:
        """What the loop trains and saves besides the model."""
        return {} if self.memory is None else {"adversary": self.memory}


def make_step(
    model: PreTrainedModel,
    *,
    generator: torch.Generator,
    adversary: Adversary | None = None,
    precision: Precision = "fp32",
    regulariser: Callable[[], Tensor] | None = None,
    ground: Ground | None = None,
    gates: Gates | HardConcrete | None = None,
    autocast: bool = False,
) -> Step:
    """A step on ``model``: plain, or ``adversary``'s. ``ground`` is what it may look at before the first step.

    ``gates`` are those of the model, if it has some. ``bf16`` has working weights beside the masters (``bf16.py``), which the loop's
    engine keeps; with ``autocast`` every pass casts the weights themselves, and their gradients lie where autograd puts them.
    """
    one_of("the precision", precision, get_args(Precision))
    layout = layout_of(model)
    ground = ground or Ground(model=model, layout=layout)
    memory = adversary.begin(ground) if adversary is not None else None
    if memory is not None:
        memory = memory.to(next(model.parameters()).device)
    views = adversary.views(ground) if adversary is not None else ()
    names = [view.name for view in views]
    if "" in names or len(set(names)) < len(names):
        message = f"views need names of their own, got {names}"
        raise TicketsError(message, hint="give each view a name", code="adversary.views")
    if views and ground.split is None:
        message = f"{type(adversary).__name__} reads views of texts, and there are none here"
        hint = "an adversary with views is defined_for classification"
        raise TicketsError(message, hint=hint, code="adversary.views")
    half = Half(model, layout, gates) if precision == "bf16" and not autocast else None

    def run(batch: Mapping[str, Tensor], backward: Backward, update: Update | None) -> Tensor:
        inputs, labels, other = parts_of(batch)
        objective = Objective(
            model=model,
            layout=layout,
            inputs=inputs,
            labels=labels,
            views=other,
            backward=backward,
            generator=generator,
            regulariser=regulariser,
            half=precision == "bf16" and half is None,
            dropping=half.dropped if half else nullcontext,
            memory=memory,
            update=update,
        )
        return plain(objective) if adversary is None else adversary(objective)

    return Step(run=run, memory=memory, views=views, updates=1 if adversary is None else adversary.updates, half=half)


def full_precision(model: PreTrainedModel) -> None:
    """Weights in fp32, in place: updates of 2e-5 are lost in half precision. Autocast (``bf16``) wants fp32 weights too."""
    halves = {parameter.dtype for parameter in model.parameters()} & {torch.float16, torch.bfloat16}
    if halves:
        progress.say(
            f"the model's weights are {', '.join(str(d).removeprefix('torch.') for d in halves)}: trained as float32"
        )
        model.float()


def plain(objective: Objective) -> Tensor:
    """Cross-entropy at the text itself."""
    loss = objective.loss()
    objective.backward(loss + objective.penalty())
    return loss.detach()


def named_parameters(parts: Mapping[str, nn.Module]) -> dict[str, nn.Parameter]:
    """Trainable parameters of all parts under one name each, shared ones once."""
    seen: set[int] = set()
    named = {}
    for part, module in parts.items():
        for name, parameter in module.named_parameters():
            if parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                named[f"{part}.{name}"] = parameter
    return named


def adamw(parts: Mapping[str, nn.Module], optim: Optim, rates: Mapping[str, float] | None = None) -> torch.optim.AdamW:
    """AdamW over two groups. Biases and normalisation weights are not decayed; gates are, as in the papers' code.

    ``rates`` gives parts (by name) learning rates of their own, in groups of their own: ``pace`` is theirs over ``optim``'s.
    """
    spared = {id(p) for p in _spared(parts.values())}
    named = named_parameters(parts)
    if not named:
        message = "nothing to train: no parameter requires a gradient"
        raise TicketsError(message, hint="unfreeze the model", code="train.frozen")
    paces = {name: (rates or {}).get(name.partition(".")[0], optim.lr) / optim.lr for name in named}
    groups: list[dict[str, Any]] = []
    for pace in dict.fromkeys(paces.values()):
        members = [p for name, p in named.items() if paces[name] == pace]
        groups += [
            {"params": [p for p in members if id(p) not in spared], "weight_decay": optim.weight_decay, "pace": pace},
            {"params": [p for p in members if id(p) in spared], "weight_decay": 0.0, "pace": pace},
        ]
    groups = [group for group in groups if group["params"]]
    # one kernel for all; elementwise, so still deterministic
    fused = all(p.device.type in ("cpu", "cuda") for p in named.values())
    return torch.optim.AdamW(groups, lr=optim.lr, eps=optim.eps, betas=optim.betas, fused=fused)


def _spared(modules: Iterable[nn.Module]) -> Iterable[nn.Parameter]:
    for root in modules:
        for path, module in root.named_modules():
            norm = "norm" in type(module).__name__.lower()
            for name, parameter in module.named_parameters(recurse=False):
                # the papers' rule; it spares MPNet's relative_attention_bias too
                if norm or "bias" in f"{path}.{name}":
                    yield parameter


Batch = Mapping[str, Tensor]


@dataclass(kw_only=True)
class Engine:
    """``update(group, done)`` is the update that follows ``done`` updates; it returns the group's mean loss, on the device."""

    step: Step
    parameters: Mapping[str, nn.Parameter]
    optimiser: torch.optim.AdamW
    optim: Optim
    horizon: int  # updates that the schedule is made for
    unclipped: Unclipped | None = None
    seed: int
    generators: Mapping[str, torch.Generator] = field(default_factory=dict)  # of the step, besides torch's own
    name: str = "eager"

    continues = False  # the random streams continue from update to update, so that a checkpoint must hold them

    def __post_init__(self) -> None:
        self.device = next(iter(self.parameters.values())).device
        self.half: Half | None = self.step.half
        # was a gradient ever infinite; read with the loss
        self.exploded = torch.zeros((), device=self.device, dtype=torch.bool)
        self.replay = 0  # optimiser steps made inside this batch
        self.rate = 0.0  # the last learning rate
        self.on_device = on_device(self.device)
        if self.on_device:
            self.rates = torch.zeros(self.step.updates, device=self.device)
            self.weight = torch.zeros((), device=self.device)
            for group in self.optimiser.param_groups:
                group["lr"] = torch.zeros((), device=self.device)

    def update(self, group: Sequence[Batch], done: int) -> Tensor:
        """Forward and backward over the group's micro-batches, each at its share of the rows; then the (last) optimiser step."""
        self._schedule(done)
        self._clear()
        rows = [len(batch["labels"]) for batch in group]
        loss = torch.zeros((), device=self.device)
        for micro, (batch, count) in enumerate(zip(group, rows, strict=True)):
            if not self.continues:
                self._seed(done, micro)
            loss = loss + self._gradients(self._moved(batch), count / sum(rows))
        self._descend()
        return loss

    def _seed(self, done: int, micro: int) -> None:
        """Give dropout and every generator the stream of this micro-batch."""
        for name, stream in {"dropout": global_stream(self.device), **self.generators}.items():
            stream.manual_seed(derive(self.seed, name, done, micro))

    def resumed(self) -> None:
        """The weights were put back from a checkpoint."""
        if self.half:
            self.half.refresh()

    def _schedule(self, done: int) -> None:
        """What this update has that the last one had not."""
        updates = self.step.updates
        self.replay = 0
        self._rates = [self.optim.lr_at(done * updates + i, self.horizon * updates) for i in range(updates)]
        self._weight = self.unclipped.weight(done) if self.unclipped else 0.0
        self.rate = self._rates[-1]
        if self.on_device:
            for place, rate in enumerate(self._rates):
                self.rates[place].fill_(rate)  # a number in a kernel's arguments: nothing is waited for
            self.weight.fill_(self._weight)

    def _moved(self, batch: Batch) -> dict[str, Tensor]:
        return {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}

    def _clear(self) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        if self.half:
            self.half.clear()

    def _gradients(self, batch: Batch, share: float) -> Tensor:
        """Add a micro-batch's gradients, weighted; its weighted loss, detached."""
        with self.half or nullcontext(), attention(self.device, batch["input_ids"].shape[1], half=bool(self.half)):
            return share * self.step(batch, partial(self._backward, share), self._midway)

    def _backward(self, share: float, loss: Tensor) -> None:
        with self.half.collected() if self.half else nullcontext():
            (loss * share).backward()

    def _midway(self) -> None:
        """An optimiser step inside a batch; the last one is the update's own."""
        self._descend()
        self._clear()
        self.replay += 1

    def _descend(self) -> None:
        """Clip, set the learning rate, one optimiser step."""
        if self.half:
            self.half.to_gradients()
        self._clip()
        if self.unclipped is not None:
            weight = self.weight if self.on_device else self._weight
            (weight * self.unclipped.loss()).backward()
        for group in self.optimiser.param_groups:
            if self.on_device:
                torch.mul(self.rates[self.replay], group["pace"], out=group["lr"])
            else:
                group["lr"] = self._rates[self.replay] * group["pace"]
        self.optimiser.step()
        if self.half:
            self.half.refresh()

    def _clip(self) -> None:
        """Scale the gradients to the largest norm allowed. On a GPU AdamW's kernel does it, unless a gradient is still to come."""
        if not self.on_device or self.unclipped is not None or not self.optim.clip:
            norm = torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.optim.clip or math.inf)
        else:
            norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters.values() if p.grad is not None])
            # the same factor as clip_grad_norm_ has; the kernel divides by it
            self.optimiser.grad_scale = ((norm + 1e-6) / self.optim.clip).clamp_min(1.0)  # type: ignore[attr-defined]
        self.exploded |= ~torch.isfinite(norm)  # stays on the device until the loss is read


def global_stream(device: torch.device) -> torch.Generator:
    """Torch's own stream on a device, which dropout reads. ``torch.manual_seed`` seeds those of all devices, in 0.3 ms."""
    if device.type != "cuda":
        return torch.default_generator
    return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]


def on_device(device: torch.device) -> bool:
    """Whether what changes from update to update is kept as numbers on the device."""
    return device.type == "cuda"
