"""What EarlyRobust, EarlyBERT and ORTicket share: settings, the masks that coefficients draw as a search goes, and when it may stop.

    c <- 1 on every head and neuron of a copy of theta_0
    for each batch:  one step (plain, or the adversary's) on theta and c, with lambda_H |c_H| + lambda_F |c_F| in its last pass
                     every mini-epoch: m_t <- masks(c); stop where the rule says so
    ticket <- masks(c at the point that the rule names)

Only c leaves the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from robust_tickets import progress
from robust_tickets.backbone.layout import layout_of
from robust_tickets.config import fraction, refuse, setting
from robust_tickets.data.batching import batches_of
from robust_tickets.search import stopping
from robust_tickets.search.base import Found, Search, SearchRun, Trace, checked, origin_of
from robust_tickets.seeds import derive
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.settings import Length, TrainingSettings

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from robust_tickets.classifier import ModelClassifier
    from robust_tickets.data.task import Task
    from robust_tickets.prune.gates import Gates

LEAST = 10  # updates between two points of the paper's rule: consecutive updates hardly change a ranking
APART = 3.5  # random walks: heads' coefficients closer together are hardly ranked (numbers: docs/papers/earlyrobust.md)
GROUPS = ("heads", "neurons")
Scores = Mapping[str, Sequence[np.ndarray]]  # by layer


class MaskTrace(Trace):
    """The coefficients at each point, as copies, and the masks that ``draw`` makes of them."""

    def __init__(self, c: Gates, *, draw: Callable[[Scores], Ticket], at: Sequence[int]) -> None:
        super().__init__()
        self.c, self.draw, self.points = c, draw, list(at)
        self.sizes = {group: [len(layer) for layer in layers] for group, layers in c.snapshot().items()}
        # the best units spread evenly over the layers: what no draw from these can keep, no draw can. Refused before it costs
        draw({g: [-(np.arange(n) * len(ns) + i) for i, n in enumerate(ns)] for g, ns in self.sizes.items()})
        self.scores: list[Scores] = []  # at each point
        self.steps: list[int] = []
        self.losses: list[float | None] = []
        self.apart = stopping.Apart()

    def record(self, step: int, loss: Tensor) -> bool:
        """Take in an update; whether it is a point."""
        self.add(loss)
        if step not in self.points:
            return False
        scores = {group: [np.array(layer) for layer in layers] for group, layers in self.c.snapshot().items()}
        self.losses.append(self.mean_loss(step, np.concatenate([layer for group in GROUPS for layer in scores[group]])))
        self.steps.append(step)
        self._add(scores)
        return True

    def _add(self, scores: Scores) -> None:
        self.scores.append(scores)
        self.apart.add(self.draw(scores).masks)

    def lines(self, per_epoch: int) -> list[dict[str, Any]]:
        """One line per point; ``heads`` and ``neurons`` are distances to the point before."""
        apart = self.apart.matrices
        return [
            {
                "point": i,
                "step": step,
                "epoch": round(step / per_epoch, 4),
                **{group: float(apart[group][i, i - 1]) if i else None for group in GROUPS},
                "loss": self.losses[i],
            }
            for i, step in enumerate(self.steps)
        ]

    def tensors(self) -> dict[str, Tensor]:
        import torch

        points = {g: [np.concatenate(list(scores[g])) for scores in self.scores] for g in GROUPS}
        return super().tensors() | {g: torch.from_numpy(np.stack(rows)) for g, rows in points.items() if rows}

    def values(self) -> dict[str, Any]:
        return super().values() | {"steps": list(self.steps), "losses": list(self.losses)}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        super().restore(tensors, values)
        self.steps, self.losses = list(values["steps"]), list(values["losses"])
        for i in range(len(self.steps)):
            self._add({g: np.split(tensors[g][i].numpy(), np.cumsum(ns)[:-1]) for g, ns in self.sizes.items()})


@dataclass(frozen=True, kw_only=True)
class CoefficientSearch(Search, TrainingSettings):
    """Settings of a coefficient search; ``heads`` and ``neurons`` are the fractions removed."""

    heads: float = fraction()
    neurons: float = fraction()
    head_l1: float = setting(at_least=0)  # lambda_H
    neuron_l1: float = setting(at_least=0)  # lambda_F
    head_scope: Literal["global", "layer"] = "global"
    neuron_scope: Literal["global", "layer"] = "global"
    # neurons of a layer of the ticket; the rule that stops the search sees exact draws
    round_to: Literal[1, 8, 16, 64] = 1
    # stopping
    gamma: float = setting(0.1, at_least=0)
    window: int = setting(5, at_least=1)
    mini: float = 0.05  # epochs between two points
    stop: Literal["paper", "official", "early_bird", "fixed"] = "paper"
    # first: of the paper's rule, and its default; before: of the official one
    at: Literal["auto", "current", "first", "before"] = setting("auto", resolved="drawn")
    at_epoch: float = 0.2  # where stop="fixed" draws
    # training; ``epochs`` is the most that is run: more where few rows leave the paper's rule too few points
    horizon: int = setting(0, at_least=0)  # epochs that the learning rate's schedule is made for; 0: epochs
    weight_decay: float = 1e-2
    warmup: float = 0.1
    # the released code's ways
    rule: Literal["exact", "quantile"] = "exact"
    loader_shuffle: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        for part, usual in (("mini", "0.05 is the paper's"), ("at_epoch", "0.2 is the released scripts'")):
            wrong = not 0 < getattr(self, part) <= self.epochs
            refuse(wrong, f"{name}.{part} must be above 0 and at most epochs", hint=usual)
        refuse(0 < self.horizon < self.epochs, f"{name}.horizon is less than epochs", hint="raise it, or 0")
        for at, stop in (("before", "official"), ("first", "paper")):
            refuse(self.at == at and self.stop != stop, f"{name}.at={at!r} is the {stop} rule's", hint=f"stop={stop!r}")

    @property
    def drawn(self) -> str:
        """``at``, where "auto" is what the rule's source has."""
        if self.at != "auto":
            return self.at
        return "first" if self.stop == "paper" else "current"

    def start(
        self, clf: ModelClassifier, task: Task | None, folder: Path | None, tuned: ModelClassifier | None
    ) -> SearchRun:
        """A copy of theta_0 with the classifier it has, and the labels of ``task``'s training split."""
        from robust_tickets.train.update import full_precision

        task = checked(task, clf)
        theta = clf.copy()
        full_precision(theta.model)
        batches = batches_of(
            theta,
            task,
            self.batch_size,
            derive(self.seed, "search", "batches"),
            file_order=not self.loader_shuffle,
            reads=self.steps(task) * self.accumulate,
        )
        return SearchRun(
            settings=self,
            model=theta.model,
            classifier=theta,
            given=task,
            batches=batches,
            folder=folder,
            identity=self.identity(clf, task, round_to=1),
            origin=origin_of(clf, task),
        )

    # how long

    def length(self, per_epoch: int) -> Length:
        """As many epochs as the paper's rule needs, where its points are ``LEAST`` updates apart and no mini-epochs."""
        epochs = self.epochs
        if self.stop == "paper" and self.mini * per_epoch < LEAST:
            epochs = max(epochs, math.ceil((self.window + 1) * LEAST / per_epoch))
        return Length(epochs * per_epoch, epochs * per_epoch, max(self.horizon, epochs) * per_epoch)

    def steps(self, task: Task) -> int:
        """Updates at most; the rule usually stops earlier."""
        per_epoch = self.per_epoch(task)
        return self.points(per_epoch)[-1] if self.stop == "fixed" else self.length(per_epoch).total

    def points(self, per_epoch: int) -> list[int]:
        """Updates after which the coefficients are recorded."""
        epochs = self.length(per_epoch).total // per_epoch
        ends = stopping.mini_epochs(per_epoch, epochs, self.mini, LEAST if self.stop == "paper" else 1)
        if self.stop == "fixed":
            fixed = max(1, round(self.at_epoch * per_epoch))
            return [*(step for step in ends if step < fixed), fixed]
        if self.at == "before":
            return stopping.pairs(ends, self.epochs * per_epoch)
        return ends

    def mini_epochs(self, run: SearchRun) -> list[int]:
        """``points``; a search that takes more epochs than were asked for is announced."""
        if run.total > self.epochs * run.per_epoch:
            progress.say(
                f"search: up to {run.total // run.per_epoch} epochs of {run.per_epoch} updates, for {self.window + 1} points "
                f"{LEAST} updates apart"
            )
        return self.points(run.per_epoch)

    def stopping(self, masks: MaskTrace) -> int | None:
        """The point to draw the ticket at, once the rule is satisfied."""
        far = masks.apart.far()
        if self.stop == "fixed":
            return stopping.fixed(far, last=len(masks.points) - 1)
        return stopping.RULES[self.stop](far, gamma=self.gamma, window=self.window, at=self.drawn)

    # what is found

    def draw(self, theta: PreTrainedModel, scores: Scores) -> Ticket:
        """The ticket that coefficients of ``theta`` stand for, before rounding."""
        layout = layout_of(theta)
        return Ticket.from_scores(
            family=layout.family,
            unit_weights=layout.unit_weights(theta),
            scores=scores,
            heads=self.heads,
            neurons=self.neurons,
            head_scope=self.head_scope,
            neuron_scope=self.neuron_scope,
            rule=self.rule,
        )

    def found(self, masks: MaskTrace, run: SearchRun) -> Found:
        """The ticket drawn at the point that the rule names, or at the last one."""
        named, trace = self.stopping(masks), masks.lines(run.per_epoch)
        point = len(trace) - 1 if named is None else named
        converged = None if self.stop == "fixed" else named is not None  # a fixed point claims nothing
        if converged is False:
            trace[-1]["note"] = (
                f"the masks still changed after {run.done} updates (rule {self.stop}, gamma {self.gamma}): drawn at the last point"
            )
            progress.warn(f"search: {trace[-1]['note']}")
        trace[point]["drawn"] = True
        spread = self._spread(masks, point, run)
        if near_random := spread < APART:
            progress.warn(
                "search: the ticket is near random, its coefficients never moved apart (the heads' spread is "
                f"{spread:.1f} times that of a random walk, less than {APART}): more rows help"
            )
        epoch = trace[point]["epoch"]
        about = {
            "point": point,
            "step": masks.steps[point],
            "epoch": epoch,
            "steps_run": run.done,
            "converged": converged,
            "spread": round(spread, 2),
            "near_random": near_random,
        }
        distances = {
            "schema": 1,
            "points": [line["epoch"] for line in trace],
            **{group: matrix.tolist() for group, matrix in masks.apart.matrices.items()},
            "stopped_at": round(run.done / run.per_epoch, 4),
            "drawn_at": epoch,
            "point": point,
            "converged": converged,
            "rule": self.stop,
            "gamma": self.gamma,
            "window": self.window,
        }
        ticket = masks.draw(masks.scores[point])
        ticket = replace(ticket, provenance={**ticket.provenance, **about}).draw(round_to=self.round_to)
        return Found(ticket=ticket, trace=trace, distances=distances)

    def _spread(self, masks: MaskTrace, point: int, run: SearchRun) -> float:
        """Standard deviation of the heads' coefficients over a random walk's: as many updates, each by its learning rate up or down.

        The same rows in a later epoch pull the same way, whatever that is: their updates add up to one.
        """
        pulls = np.zeros(run.per_epoch)
        for i in range(masks.steps[point]):
            pulls[i % run.per_epoch] += self.optim.lr_at(i, run.horizon)
        walk = float(np.sqrt((pulls**2).sum()))
        return float(np.concatenate(masks.scores[point]["heads"]).std()) / walk if walk else 0.0
