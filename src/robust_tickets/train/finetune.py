"""FineTune: train a classifier on a task, plainly or against an adversary, dense or compact alike.

Defaults are stage 2 of EarlyRobust (§4.4 and its released code): AdamW at 2e-5 without weight decay or warm-up, linear decay, gradient
norm clipped to 1, 10 epochs, cross-entropy, dropout on, the last epoch kept. Batches of 32 are its GLUE setting (8 on IMDB and AG News).
RobustT's differ: ``FineTune(weight_decay=1e-2, warmup=0.1)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from robust_tickets.classifier.base import as_model
from robust_tickets.config import refuse, setting
from robust_tickets.data.batching import batches_of, report_cut
from robust_tickets.seeds import derive, numpy_generator
from robust_tickets.stages import identity_of
from robust_tickets.train.settings import Length, TrainingSettings

if TYPE_CHECKING:
    from robust_tickets.classifier import ModelClassifier
    from robust_tickets.data.task import Split, Task


POINTS = 200  # at most; an update moves weights by little, so that more would not change the mean


class Average:
    """The mean so far; a run's memory."""

    def __init__(self, model: nn.Module, share: float, total: int) -> None:
        span = max(1, round(share * total))
        self.model, self.total = model, total
        self.every = -(-span // POINTS)
        self.begins = total - span  # the last update is always one of the points
        self.count, self.mean = 0, list[Tensor]()

    @torch.no_grad()
    def take(self, done: int) -> None:
        """Take the weights in after ``done`` updates, where that is a point."""
        if done <= self.begins or (self.total - done) % self.every != 0:
            return
        weights = [parameter.detach() for parameter in self.model.parameters()]
        self.count += 1
        if self.count == 1:
            self.mean = [weight.clone() for weight in weights]
        else:
            torch._foreach_lerp_(self.mean, weights, 1 / self.count)

    @torch.no_grad()
    def replace_weights(self) -> None:
        """Put the mean in the weights' place."""
        torch._foreach_copy_([parameter.detach() for parameter in self.model.parameters()], self.mean)

    def tensors(self) -> dict[str, Tensor]:
        return {f"mean/{i}": value for i, value in enumerate(self.mean)}

    def values(self) -> dict[str, Any]:
        return {"count": self.count}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self.count = int(values["count"])
        device = next(self.model.parameters()).device
        self.mean = [tensors[f"mean/{i}"].to(device) for i in range(len(tensors))]


@dataclass(frozen=True, kw_only=True)
class FineTune(TrainingSettings):
    """A configured trainer: ``FineTune(epochs=3)(classifier, task)`` trains in place and returns the classifier."""

    epochs: int = 10
    run_epochs: int = setting(0, at_least=0)  # leave after so many of them, on the schedule of all; 0: all
    # updates; also the schedule's horizon
    max_steps: int | None = setting(None, at_least=1, hint="leave it out for whole epochs")
    # updates that the schedule is made for, where more than are run
    horizon: int | None = setting(None, at_least=1, hint="leave it out to decay to the end")
    # share of the updates, the last ones, whose mean weights are the result; 0: the last weights
    average: float = setting(0.0, at_least=0, at_most=1, hint="0.2 averages the last fifth")
    # on the validation split: at the start, after every epoch, at the end
    evaluate: Literal["epoch", "never"] = "epoch"
    evaluation_rows: int = setting(2000, at_least=0)  # at most so many, drawn by the seed; 0: all

    def __post_init__(self) -> None:
        super().__post_init__()
        more = self.run_epochs > self.epochs
        refuse(more, f"FineTune.run_epochs is more than epochs ({self.epochs})", hint="raise epochs")
        twice = self.run_epochs and (self.max_steps or self.horizon)
        refuse(twice, "FineTune.run_epochs sets the horizon", hint="leave max_steps and horizon out")

    def length(self, per_epoch: int) -> Length:
        total = (self.run_epochs or self.epochs) * per_epoch
        total = total if self.max_steps is None else min(self.max_steps, total)
        return Length(total, total, self.epochs * per_epoch if self.run_epochs else self.horizon or total)

    def __call__(
        self, clf: ModelClassifier, task: Task, *, folder: Path | str | None = None, stop_after: int | None = None
    ) -> ModelClassifier:
        """Train ``clf`` in place. ``folder`` receives metrics.jsonl and checkpoint/, and an interrupted run is resumed from there.

        ``stop_after`` leaves after so many updates, with a checkpoint. The caller saves the model, then may remove the checkpoint.
        """
        from robust_tickets.train.loop import TrainingRun
        from robust_tickets.train.update import full_precision

        model = as_model(clf, "trained").model
        clf.check_task(task)
        full_precision(model)
        batches = batches_of(
            clf,
            task,
            self.batch_size,
            derive(self.seed, "finetune", "batches"),
            reads=self.steps(task) * self.accumulate,
        )
        report_cut(batches)
        with TrainingRun(
            settings=self,
            model=model,
            batches=batches,
            classifier=clf,
            folder=Path(folder) if folder else None,
            identity=identity_of(self, clf, task) if folder else "",
        ) as run:
            mean = run.remember(Average(model, self.average, run.total)) if self.average else None
            evaluate = evaluation_of(clf, task, self.evaluation_rows, self.seed) if self.evaluate == "epoch" else None
            for done in run.steps({"model": model}, under=self.adversary, evaluate=evaluate, until=stop_after):
                if mean is not None:
                    mean.take(done)
            if mean is not None and run.done == run.total:
                mean.replace_weights()
        return clf


def evaluation_of(
    clf: ModelClassifier, task: Task, most: int, seed: int, *purpose: str
) -> Callable[[], dict[str, Any]] | None:
    """What evaluates ``clf`` after every epoch, on at most so many validation rows; none where the task has none."""
    from robust_tickets.train.evaluate import Evaluator

    if task.validation_split not in task.splits or len(task.validation) == 0:
        return None
    evaluator = Evaluator(clf, evaluated_rows(task.validation, most, seed, *purpose))
    return lambda: evaluator().numbers()


def evaluated_rows(split: Split, most: int, seed: int, *purpose: str) -> Split:
    """At most so many rows of ``split``, drawn by the seed for a ``purpose`` (fine-tuning's evaluation by default); 0: all."""
    if not 0 < most < len(split):
        return split
    return split.select(
        np.sort(numpy_generator(seed, *(purpose or ("finetune", "evaluation"))).choice(len(split), most, replace=False))
    )
