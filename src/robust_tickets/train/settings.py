"""The settings that every training has: fine-tuning, the coefficient searches, RobustT and IMP inherit them. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from robust_tickets.adversary.objective import Adversary, Kind, defined, usable
from robust_tickets.config import Settings, component, setting

if TYPE_CHECKING:
    from robust_tickets.data.task import Task


@dataclass(frozen=True, kw_only=True)
class Optim:
    """AdamW's numbers; ``warmup`` is a fraction of the horizon, ``clip`` the largest global gradient norm (0: no clipping)."""

    lr: float = 2e-5
    weight_decay: float = 0.0
    warmup: float = 0.0
    clip: float = 1.0
    eps: float = 1e-8
    betas: tuple[float, float] = (0.9, 0.999)

    def lr_at(self, step: int, horizon: int) -> float:
        """Learning rate of the update that follows ``step`` updates: linear up from 0, then linear down to 0 at ``horizon``."""
        rising = int(self.warmup * horizon)
        if step < rising:
            return self.lr * step / rising
        return self.lr * max(0, horizon - step) / max(1, horizon - rising)


class Length(NamedTuple):
    """Updates of a training."""

    total: int
    last: int  # where it is left, on the schedule of all
    horizon: int  # that the schedule is made for


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """What a training is made with."""

    trains: ClassVar[Kind] = "classification"

    epochs: int = setting(1, at_least=1)
    lr: float = setting(2e-5, above=0, hint="2e-5 is the papers' value")
    batch_size: int = setting(32, at_least=1)
    weight_decay: float = setting(0.0, at_least=0)
    warmup: float = setting(0.0, at_least=0, below=1, hint="0.1 warms up for 10 % of the updates")
    clip: float = setting(1.0, at_least=0, hint="0 switches it off")
    accumulate: int = setting(1, at_least=1)  # batches per update
    precision: Literal["fp32", "bf16"] = "fp32"
    # graph: CUDA graphs, where there is a CUDA device
    engine: Literal["auto", "eager", "graph"] = setting("auto", counts=False)
    adversary: Adversary | None = component("adversaries")
    # updates between two reads of the loss; a GPU's are read one interval later
    log_every: int = setting(10, at_least=1)
    checkpoint_every: float = setting(30.0, at_least=0, counts=False)  # seconds
    checkpoint_steps: int = setting(0, at_least=0, counts=False)  # updates; 0: by time and at epoch ends only
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        usable(self.adversary, self.accumulate)
        defined(self.adversary, self.trains)

    @property
    def optim(self) -> Optim:
        return Optim(lr=self.lr, weight_decay=self.weight_decay, warmup=self.warmup, clip=self.clip)

    def per_epoch(self, task: Task) -> int:
        """Updates of an epoch of ``task``."""
        return updates_per_epoch(task, self.batch_size, self.accumulate)

    def length(self, per_epoch: int) -> Length:
        """Updates, where an epoch has ``per_epoch``."""
        total = self.epochs * per_epoch
        return Length(total, total, total)

    def steps(self, task: Task) -> int:
        """Updates that training on ``task`` takes."""
        return self.length(self.per_epoch(task)).last


def updates_per_epoch(task: Task, batch_size: int, accumulate: int) -> int:
    return math.ceil(math.ceil(len(task.train) / batch_size) / accumulate)
