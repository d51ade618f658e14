"""What EarlyRobust, EarlyBERT and ORTicket share: settings, the masks that coefficients draw as a search goes, and when it may stop.

    c <- 1 on every head and neuron of a copy of theta_0
    for each batch:  one step (plain, or the adversary's) on theta and c, with lambda_H |c_H| + lambda_F |c_F| in its last pass
                     every mini-epoch: m_t <- masks(c); stop where the rule says so
    ticket <- masks(c at the point that the rule names)

Only c leaves the search.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from robust_tickets import progress
from robust_tickets.config import fraction, refuse, setting
from robust_tickets.data.batching import batches_of
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.search import stopping
from robust_tickets.search.base import Found, Search, SearchRun, Start, checked, origin_of
from robust_tickets.seeds import derive
from robust_tickets.stages import identity_of
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
Scores = Mapping[str, Sequence[np.ndarray]]


class Draw(Protocol):
    """A ticket from coefficients."""

    def __call__(self, scores: Scores, *, family: str, unit_weights: Mapping[str, int]) -> Ticket: ...


class MaskTrace:
    """The coefficients at each point, as copies, and the masks that ``draw`` makes of them; a run's memory."""

    def __init__(self, model: PreTrainedModel, c: Gates, *, draw: Draw, at: Sequence[int]) -> None:
        from robust_tickets.backbone.layout import layout_of

        layout = layout_of(model)
        self._about: dict[str, Any] = {"family": layout.family, "unit_weights": layout.unit_weights(model)}
        self._draw, self._snapshot, self.points = draw, c.snapshot, list(at)
        # refused before it costs
        self.draw(spread_evenly(heads=layout.heads_of(model), neurons=layout.neurons_of(model)))
        self.scores: list[dict[str, list[np.ndarray]]] = []  # at each point
        self.steps: list[int] = []
        self.losses: list[float] = []
        self._apart = stopping.Apart()
        self._loss: Tensor | None = None  # sum since the last point; stays on the device
        self._count = 0

    def draw(self, scores: Scores) -> Ticket:
        return self._draw(scores, **self._about)

    def record(self, step: int, loss: Tensor) -> bool:
        """Take in an update; whether it is a point."""
        self._loss = loss if self._loss is None else self._loss + loss
        self._count += 1
        if step not in self.points:
            return False
        scores = {group: [np.array(layer) for layer in layers] for group, layers in self._snapshot().items()}
        mean = float(self._loss) / self._count
        if not math.isfinite(mean) or not all(
            np.isfinite(layer).all() for layers in scores.values() for layer in layers
        ):
            raise TicketsError(
                f"the search diverged by step {step}: loss {mean}",
                hint="lower its learning rate or step size",
                exit_code=FAILED,
                code="search.diverged",
            )
        self._loss, self._count = None, 0
        self.losses.append(mean)
        self.steps.append(step)
        self._add(scores)
        return True

    def _add(self, scores: dict[str, list[np.ndarray]]) -> None:
        self.scores.append(scores)
        self._apart.add(self.draw(scores).masks)

    def distances(self) -> np.ndarray:
        """Between the masks of all points, the larger of the groups'."""
        return self._apart.far()

    def by_group(self) -> dict[str, np.ndarray]:
        return self._apart.matrices

    def lines(self, per_epoch: int) -> list[dict[str, Any]]:
        """One line per point; ``heads`` and ``neurons`` are distances to the point before."""
        apart = self.by_group()
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

    # the run's Memory

    def tensors(self) -> dict[str, Tensor]:
        import torch

        saved = {
            f"{point}/{group}/{layer}": torch.from_numpy(values.copy())
            for point, scores in enumerate(self.scores)
            for group, layers in scores.items()
            for layer, values in enumerate(layers)
        }
        return saved | ({"loss": self._loss} if self._loss is not None else {})

    def values(self) -> dict[str, Any]:
        layers = {group: len(scores) for group, scores in self.scores[0].items()} if self.scores else {}
        return {"steps": list(self.steps), "losses": list(self.losses), "layers": layers, "loss_count": self._count}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self.steps, self.losses, self._count = list(values["steps"]), list(values["losses"]), int(values["loss_count"])
        self._loss = tensors.get("loss")
        self.scores, self._apart = [], stopping.Apart()
        for point in range(len(self.steps)):
            self._add({g: [tensors[f"{point}/{g}/{i}"].numpy() for i in range(n)] for g, n in values["layers"].items()})


@dataclass(frozen=True, kw_only=True)
class CoefficientSearch(Search, TrainingSettings):
    """Settings of a coefficient search; ``heads`` and ``neurons`` are the fractions removed."""

    heads: float = fraction()
    neurons: float = fraction()
    head_l1: float = setting(at_least=0)  # lambda_H
    neuron_l1: float = setting(at_least=0)  # lambda_F
    head_scope: Literal["global", "layer"] = "global"
    neuron_scope: Literal["global", "layer"] = "global"
    round_to: Literal[1, 8, 16, 64] = (
        1  # neurons of a layer of the ticket; the rule that stops the search sees exact draws
    )
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
            refuse(
                not 0 < getattr(self, part) <= self.epochs,
                f"{name}.{part} must be above 0 and at most epochs",
                hint=usual,
            )
        refuse(
            self.horizon and self.horizon < self.epochs, f"{name}.horizon is less than epochs", hint="raise it, or 0"
        )
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
    ) -> Start:
        """A copy of theta_0 with the classifier it has, and the labels of ``task``'s training split."""
        from robust_tickets.train.update import full_precision

        task = checked(task, "searched", clf)
        theta = clf.copy()
        full_precision(theta.model)
        return Start(
            theta=theta.model,
            classifier=theta,
            settings=self,
            batches=batches_of(
                theta,
                task,
                self.batch_size,
                derive(self.seed, "search", "batches"),
                file_order=not self.loader_shuffle,
                reads=self.steps(task) * self.accumulate,
            ),
            identity=identity_of(replace(self, round_to=1), clf, task) if folder else "",  # rounding changes no step
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
        return self.most(self.per_epoch(task))

    def most(self, per_epoch: int) -> int:
        return self._points(per_epoch)[-1] if self.stop == "fixed" else self.length(per_epoch).total

    def soonest(self, task: Task) -> int:
        """The first update at which the rule may stop the search: `early_bird` compares ``window`` points, the others one more."""
        most = self.steps(task)
        wanted = (self.window + (self.stop != "early_bird")) * (2 if self.at == "before" else 1)
        points = self._points(self.per_epoch(task))
        return most if self.stop == "fixed" or len(points) < wanted else points[wanted - 1]

    def mini_epochs(self, run: SearchRun) -> list[int]:
        """Updates after which the coefficients are recorded."""
        if run.total > self.epochs * run.per_epoch:
            progress.say(
                f"search: up to {run.total // run.per_epoch} epochs of {run.per_epoch} updates, for {self.window + 1} points "
                f"{LEAST} updates apart"
            )
        return self._points(run.per_epoch)

    def _points(self, per_epoch: int) -> list[int]:
        epochs = self.length(per_epoch).total // per_epoch
        ends = stopping.mini_epochs(per_epoch, epochs, self.mini, LEAST if self.stop == "paper" else 1)
        if self.stop == "fixed":
            fixed = max(1, round(self.at_epoch * per_epoch))
            return [*(step for step in ends if step < fixed), fixed]
        if self.at == "before":
            return stopping.pairs(ends, self.epochs * per_epoch)
        return ends

    def stopping(self, masks: MaskTrace) -> int | None:
        """The point to draw the ticket at, once the rule is satisfied."""
        if self.stop == "fixed":
            return stopping.fixed(masks.distances(), last=len(masks.points) - 1)
        rule = stopping.RULES[self.stop]
        return rule(masks.distances(), gamma=self.gamma, window=self.window, at=self.drawn)

    # what is found

    def draw(self, scores: Scores, *, family: str, unit_weights: Mapping[str, int]) -> Ticket:
        return Ticket.from_scores(
            family=family,
            unit_weights=unit_weights,
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
            epochs = run.total // run.per_epoch
            note = (
                f"the masks did not settle within {epochs} epoch{'s' * (epochs > 1)} (rule {self.stop}, gamma {self.gamma}): "
                "drawn at the last point"
            )
            trace[-1]["note"] = note
            progress.warn(f"search: {note}")
        trace[point]["drawn"] = True
        spread = self._spread(masks, point, run)
        if near_random := spread < APART:
            how = f"the heads' spread is {spread:.1f} times that of a random walk, less than {APART}"
            progress.warn(
                f"search: the ticket is near random, its coefficients never moved apart ({how}): more rows help"
            )
        ticket = masks.draw(masks.scores[point])
        about = {
            "point": point,
            "step": masks.steps[point],
            "epoch": trace[point]["epoch"],
            "steps_run": run.done,
            "converged": converged,
            "spread": round(spread, 2),
            "near_random": near_random,
        }
        distances = {
            "schema": 1,
            "points": [line["epoch"] for line in trace],
            **{group: matrix.tolist() for group, matrix in masks.by_group().items()},
            "stopped_at": round(run.done / run.per_epoch, 4),
            "drawn_at": trace[point]["epoch"],
            "point": point,
            "converged": converged,
            "rule": self.stop,
            "gamma": self.gamma,
            "window": self.window,
        }
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


def spread_evenly(**sizes: list[int]) -> Scores:
    """Scores whose best units are spread evenly over the layers: what no draw from these can keep, no draw can."""
    return {group: [-(np.arange(n) * len(layers) + i) for i, n in enumerate(layers)] for group, layers in sizes.items()}
