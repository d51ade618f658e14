"""AdamW with weight-decay groups, and the linear schedule as a pure function of the step.

The schedule keeps no state: the learning rate of update i is computed from i, so a resumed run cannot drift from an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from robust_tickets.errors import TicketsError


@dataclass(frozen=True, kw_only=True)
class Optim:
    """AdamW's numbers; ``warmup`` is a fraction of the horizon, ``clip`` the largest global gradient norm (0: no clipping)."""

    lr: float = 2e-5
    weight_decay: float = 0.0
    warmup: float = 0.0
    clip: float = 1.0
    eps: float = 1e-8
    betas: tuple[float, float] = (0.9, 0.999)

    def __post_init__(self) -> None:
        if self.lr <= 0:
            raise TicketsError(f"the learning rate must be positive, got {self.lr}", hint="2e-5 is the papers' value")
        if not 0 <= self.warmup < 1:
            raise TicketsError(
                f"warmup is a fraction of the steps in [0, 1), got {self.warmup}", hint="0.1 warms up for 10 % of them"
            )
        if self.weight_decay < 0 or self.clip < 0:
            raise TicketsError("weight_decay and clip must not be negative", hint="0 switches them off")

    def lr_at(self, step: int, horizon: int) -> float:
        """Learning rate of the update that follows ``step`` updates: linear up from 0, then linear down to 0 at ``horizon``."""
        rising = int(self.warmup * horizon)
        if step < rising:
            return self.lr * step / rising
        return self.lr * max(0, horizon - step) / max(1, horizon - rising)


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


class Optimised:
    """What every method with these settings shares: its optimiser, and the passes its adversary takes."""

    lr: float
    weight_decay: float
    warmup: float
    clip: float
    adversary: Any
    batch_size: int
    accumulate: int
    if TYPE_CHECKING:

        def steps(self, task: Any) -> int: ...

    @property
    def optim(self) -> Optim:
        return Optim(lr=self.lr, weight_decay=self.weight_decay, warmup=self.warmup, clip=self.clip)

    @property
    def passes(self) -> float:
        """Forward-backward passes per batch, or what costs as much."""
        return float(getattr(self.adversary, "passes", 1))

    def work(self, task: Any) -> float:
        """How many rows of a plain training step all updates come to, for estimates; a method of several phases adds them up."""
        return self.steps(task) * self.batch_size * self.accumulate * self.passes


def adamw(parts: Mapping[str, nn.Module], optim: Optim, rates: Mapping[str, float] | None = None) -> torch.optim.AdamW:
    """AdamW over two groups. Biases and normalisation weights are not decayed; gates are, as in the papers' code.

    ``rates`` gives parts (by name) learning rates of their own, in groups of their own: ``pace`` is theirs over ``optim``'s.
    """
    spared = {id(p) for p in _spared(parts.values())}
    named = named_parameters(parts)
    if not named:
        raise TicketsError("nothing to train: no parameter requires a gradient", hint="unfreeze the model")
    paces = {name: (rates or {}).get(name.partition(".")[0], optim.lr) / optim.lr for name in named}
    groups: list[dict[str, Any]] = []
    for pace in dict.fromkeys(paces.values()):
        members = [p for name, p in named.items() if paces[name] == pace]
        groups += [
            {"params": [p for p in members if id(p) not in spared], "weight_decay": optim.weight_decay, "pace": pace},
            {"params": [p for p in members if id(p) in spared], "weight_decay": 0.0, "pace": pace},
        ]
    groups = [group for group in groups if group["params"]]
    fused = all(
        p.device.type in ("cpu", "cuda") for p in named.values()
    )  # one kernel for all; elementwise, so still deterministic
    return torch.optim.AdamW(groups, lr=optim.lr, eps=optim.eps, betas=optim.betas, fused=fused)


def _spared(modules: Iterable[nn.Module]) -> Iterable[nn.Parameter]:
    for root in modules:
        for path, module in root.named_modules():
            norm = "norm" in type(module).__name__.lower()
            for name, parameter in module.named_parameters(recurse=False):
                if (
                    norm or "bias" in f"{path}.{name}"
                ):  # the papers' rule; it spares MPNet's relative_attention_bias too
                    yield parameter
