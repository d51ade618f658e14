"""The search that EarlyRobust, EarlyBERT and ORTicket share: train coefficients with the model until their masks settle.

    c <- 1 on every head and neuron of a copy of theta_0
    for each batch:  one step (plain, or the adversary's) on theta and c, with lambda_H |c_H| + lambda_F |c_F| in its last pass
                     every mini-epoch: m_t <- masks(c); stop where the rule says so
    ticket <- masks(c at the point that the rule names)

The methods differ in what is trained (a task's labels, masked words), in the adversary and in their numbers; all that is theirs stands in
their own files. Only c leaves the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from robust_tickets import progress
from robust_tickets.classifier.base import fits, model_of
from robust_tickets.config import describe, fraction, setting
from robust_tickets.data.batching import batches_of
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.search import stopping
from robust_tickets.search.base import Found, PerTask, told
from robust_tickets.seeds import derive
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.finetune import identity_of
from robust_tickets.train.settings import Length, TrainingSettings

GROUPS = ("heads", "neurons")
Scores = Mapping[str, Sequence[np.ndarray]]


def mini_epochs(per_epoch: int, epochs: int, mini: float, least: int = 1) -> list[int]:
    """Updates after which a point is recorded: the ends of the mini-epochs, or every ``least`` updates where those lie closer."""
    if mini * per_epoch < least:
        return list(range(least, epochs * per_epoch + 1, least))
    count = max(1, round(epochs / mini))
    ends = sorted({min(epochs * per_epoch, max(1, round(i * mini * per_epoch))) for i in range(1, count + 1)})
    return ends[:-1] if len(ends) > 1 and ends[-1] - ends[-2] < least else ends  # the last one may be cut short


class Watch:
    """The loop's callback and memory: ``draw`` turns scores into a ticket, ``rule`` a matrix of distances into a point or None."""

    def __init__(
        self,
        *,
        snapshot: Callable[[], Scores],
        draw: Callable[[Scores], Ticket],
        rule: Callable[[np.ndarray], int | None],
        points: Sequence[int],
        per_epoch: int,
    ) -> None:
        self.snapshot, self.draw, self.rule = snapshot, draw, rule
        self.points, self.per_epoch = frozenset(points), per_epoch
        self.records: list[dict[str, list[np.ndarray]]] = []  # scores at each point
        self.steps: list[int] = []
        self.losses: list[float] = []
        self.apart = stopping.Apart()
        self.drawn_at: int | None = None
        self.loss_sum: Tensor | None = None  # since the last point; stays on the device
        self.loss_count = 0

    def __call__(self, step: int, loss: Tensor) -> bool:
        """After an update; True when the rule has fired."""
        self.loss_sum = loss if self.loss_sum is None else self.loss_sum + loss
        self.loss_count += 1
        if step not in self.points:
            return False
        scores = {group: [np.array(layer) for layer in layers] for group, layers in self.snapshot().items()}
        mean = float(self.loss_sum) / self.loss_count
        if not math.isfinite(mean) or not all(
            np.isfinite(layer).all() for layers in scores.values() for layer in layers
        ):
            raise TicketsError(
                f"the search diverged by step {step}: loss {mean}",
                hint="lower its learning rate or step size",
                exit_code=FAILED,
            )
        self.losses.append(mean)
        self.loss_sum, self.loss_count = None, 0
        self.steps.append(step)
        self._record(scores)
        self.drawn_at = self.rule(self.apart.far())
        return self.drawn_at is not None

    def _record(self, scores: dict[str, list[np.ndarray]]) -> None:
        self.records.append(scores)
        self.apart.add(self.draw(scores).masks)

    def distances(self) -> dict[str, np.ndarray]:
        return self.apart.matrices

    @property
    def chosen(self) -> int:
        """The point to draw at: the rule's, or the last one if it never fired."""
        return self.drawn_at if self.drawn_at is not None else len(self.records) - 1

    def trace(self) -> list[dict[str, Any]]:
        """One line per point; ``heads`` and ``neurons`` are distances to the point before."""
        apart = self.distances()
        return [
            {
                "point": i,
                "step": step,
                "epoch": self.epoch(i),
                **{group: float(apart[group][i, i - 1]) if i else None for group in GROUPS},
                "loss": self.losses[i],
            }
            for i, step in enumerate(self.steps)
        ]

    def epoch(self, point: int) -> float:
        return round(self.steps[point] / self.per_epoch, 4)

    # the loop's Memory

    def tensors(self) -> dict[str, Tensor]:
        saved = {
            f"{point}/{group}/{layer}": torch.from_numpy(values.copy())
            for point, record in enumerate(self.records)
            for group, layers in record.items()
            for layer, values in enumerate(layers)
        }
        return saved | ({"loss": self.loss_sum} if self.loss_sum is not None else {})

    def values(self) -> dict[str, Any]:
        layers = {group: len(record) for group, record in self.records[0].items()} if self.records else {}
        return {
            "steps": list(self.steps),
            "losses": list(self.losses),
            "layers": layers,
            "drawn_at": self.drawn_at,
            "loss_count": self.loss_count,
        }

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self.steps, self.losses = list(values["steps"]), list(values["losses"])
        self.drawn_at, self.loss_count = values["drawn_at"], int(values["loss_count"])
        self.loss_sum = tensors.get("loss")
        self.records, self.apart = [], stopping.Apart()
        for point in range(len(self.steps)):
            self._record(
                {g: [tensors[f"{point}/{g}/{i}"].numpy() for i in range(n)] for g, n in values["layers"].items()}
            )


LEAST = 10  # updates between two points of the paper's rule: consecutive updates hardly change a ranking
APART = 3.5  # random walks: heads' coefficients closer together are hardly ranked (numbers: docs/papers/earlyrobust.md)


@dataclass(frozen=True, kw_only=True)
class Slim(PerTask, TrainingSettings):
    """Settings of a coefficient search; ``heads`` and ``neurons`` are the fractions removed."""

    heads: float = fraction()
    neurons: float = fraction()
    head_l1: float = setting(at_least=0)
    neuron_l1: float = setting(at_least=0)
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
            if not 0 < getattr(self, part) <= self.epochs:
                raise TicketsError(
                    f"{name}.{part} must be in (0, {self.epochs}] epochs, got {getattr(self, part)}", hint=usual
                )
        if self.horizon and self.horizon < self.epochs:
            raise TicketsError(
                f"{name}.horizon is {self.horizon} epochs, less than the {self.epochs} that are run",
                hint="raise it, or 0",
            )
        for at, stop in (("before", "official"), ("first", "paper")):
            if self.at == at and self.stop != stop:
                raise TicketsError(
                    f"{name}.at is {at!r}, which is the {stop} rule's, and stop is {self.stop!r}", hint=f"stop={stop!r}"
                )

    @property
    def drawn(self) -> str:
        """``at``, where "auto" is what the rule's source has."""
        if self.at != "auto":
            return self.at
        return "first" if self.stop == "paper" else "current"

    def length(self, per_epoch: int) -> Length:
        epochs = self._epochs(per_epoch)
        return Length(epochs * per_epoch, epochs * per_epoch, max(self.horizon, epochs) * per_epoch)

    def steps(self, task: Any = None) -> int:
        """Updates at most; the rule usually stops earlier."""
        per_epoch = self.per_epoch(task)
        return self._points(per_epoch)[-1] if self.stop == "fixed" else self.length(per_epoch).last

    def soonest(self, task: Any) -> int:
        """The first update at which the rule may stop the search: `early_bird` compares ``window`` points, the others one more."""
        most = self.steps(task)
        wanted = (self.window + (self.stop != "early_bird")) * (2 if self.at == "before" else 1)
        points = self._points(self.per_epoch(task))
        return most if self.stop == "fixed" or len(points) < wanted else points[wanted - 1]

    def on_task(self, clf: Any, task: Any, folder: Path | str | None) -> Found:
        """Search on the labels of ``task``'s training split, from theta_0 with the classifier it has."""
        model_of(clf, "searched")
        fits(clf, task)
        theta = clf.copy()  # theta_0 stays as it is
        return self.slim(
            theta.model,
            batches_of(
                theta,
                task,
                self.batch_size,
                derive(self.seed, "search", "batches"),
                file_order=not self.loader_shuffle,
                reads=self.steps(task) * self.accumulate,
            ),
            clf=theta,
            origin={
                "model": {"identity": clf.identity, "digest": clf.digest},
                "task": {"name": task.name, "digest": task.digest},
            },
            identity=identity_of(replace(self, round_to=1), clf, task) if folder else "",  # rounding changes no step
            folder=folder,
        )

    def slim(
        self,
        model: Any,
        batches: Any,
        *,
        clf: Any,
        origin: Mapping[str, Any],
        identity: str,
        folder: Path | str | None,
    ) -> Found:
        """Train ``model`` (which is used up) and its coefficients on ``batches``; draw the ticket."""
        from robust_tickets.backbone.layout import layout_of
        from robust_tickets.prune.gates import Gates
        from robust_tickets.train.loop import TrainingRun
        from robust_tickets.train.update import full_precision

        full_precision(model)
        layout = layout_of(model)
        about: dict[str, Any] = {"family": layout.family, "unit_weights": layout.unit_weights(model)}
        self._draw(
            _spread(heads=layout.heads_of(model), neurons=layout.neurons_of(model)), **about
        )  # refused before it costs
        per_epoch = -(-len(batches) // self.accumulate)
        points, epochs = self._points(per_epoch), self._epochs(per_epoch)
        if epochs > self.epochs:
            progress.say(
                f"search: up to {epochs} epochs of {per_epoch} updates, for {self.window + 1} points {LEAST} updates apart"
            )
        run = TrainingRun(
            settings=self,
            model=model,
            batches=batches,
            classifier=clf,
            name="search",
            folder=Path(folder) if folder else None,
            identity=identity,
        )
        penalised = self.head_l1 > 0 or self.neuron_l1 > 0
        with Gates(model, layout) as c, run:
            watch = run.remember(
                Watch(
                    snapshot=c.snapshot,
                    draw=partial(self._draw, **about),
                    rule=self._rule(points),
                    points=points,
                    per_epoch=per_epoch,
                )
            )
            for step in run.steps(
                {"model": model, "gates": c},
                under=self.adversary,
                penalty=(lambda: c.l1(self.head_l1, self.neuron_l1)) if penalised else None,
            ):
                if watch(step, run.loss):
                    run.stop()
        steps = run.done
        found = self._found(watch, origin, steps)
        if folder:
            found.save(folder)
        return found

    def _epochs(self, per_epoch: int) -> int:
        """As many as the paper's rule needs to fire, where its points are ``LEAST`` updates apart and no mini-epochs."""
        if self.stop != "paper" or self.mini * per_epoch >= LEAST:
            return self.epochs
        return max(self.epochs, math.ceil((self.window + 1) * LEAST / per_epoch))

    def _points(self, per_epoch: int) -> list[int]:
        """Updates after which the coefficients are recorded."""
        ends = mini_epochs(per_epoch, self._epochs(per_epoch), self.mini, LEAST if self.stop == "paper" else 1)
        if self.stop == "fixed":
            fixed = max(1, round(self.at_epoch * per_epoch))
            return [*(step for step in ends if step < fixed), fixed]
        if self.at == "before":
            return stopping.pairs(ends, self.epochs * per_epoch)
        return ends

    def _rule(self, points: list[int]) -> Callable[[np.ndarray], int | None]:
        if self.stop == "fixed":
            return partial(stopping.fixed, last=len(points) - 1)
        return partial(stopping.RULES[self.stop], gamma=self.gamma, window=self.window, at=self.drawn)

    def _draw(self, scores: Scores, **about: Any) -> Ticket:
        return Ticket.from_scores(
            scores=scores,
            heads=self.heads,
            neurons=self.neurons,
            head_scope=self.head_scope,
            neuron_scope=self.neuron_scope,
            rule=self.rule,
            **about,
        )

    def _spread(self, watch: Watch, point: int) -> float:
        """Standard deviation of the heads' coefficients over a random walk's: as many updates, each by its learning rate up or down.

        The same rows in a later epoch pull the same way, whatever that is: their updates add up to one.
        """
        pulls = np.zeros(watch.per_epoch)
        for i in range(watch.steps[point]):
            pulls[i % watch.per_epoch] += self.optim.lr_at(i, self.length(watch.per_epoch).horizon)
        walk = float(np.sqrt((pulls**2).sum()))
        return float(np.concatenate(watch.records[point]["heads"]).std()) / walk if walk else 0.0

    def _found(self, watch: Watch, origin: Mapping[str, Any], steps: int) -> Found:
        point, trace = watch.chosen, watch.trace()
        converged = None if self.stop == "fixed" else watch.drawn_at is not None  # a fixed point claims nothing
        if converged is False:
            most = self._epochs(watch.per_epoch)
            within = f"{most} epoch{'s' * (most > 1)}"
            note = f"the masks did not settle within {within} (rule {self.stop}, gamma {self.gamma}): drawn at the last point"
            trace[-1]["note"] = note
            progress.warn(f"search: {note}")
        trace[point]["drawn"] = True
        spread = self._spread(watch, point)
        if near_random := spread < APART:
            how = f"the heads' spread is {spread:.1f} times that of a random walk, less than {APART}"
            progress.warn(
                f"search: the ticket is near random, its coefficients never moved apart ({how}): more rows help"
            )
        epochs = [watch.epoch(i) for i in range(len(watch.steps))]
        provenance = {
            "method": describe(self),
            **origin,
            "point": point,
            "step": watch.steps[point],
            "epoch": epochs[point],
            "steps_run": steps,
            "converged": converged,
            "spread": round(spread, 2),
            "near_random": near_random,
        }
        ticket = watch.draw(watch.records[point], provenance=provenance)  # type: ignore[call-arg]
        return Found(
            ticket=told(ticket.draw(round_to=self.round_to)),
            trace=trace,
            distances={
                "schema": 1,
                "points": epochs,
                **{group: matrix.tolist() for group, matrix in watch.distances().items()},
                "stopped_at": round(steps / watch.per_epoch, 4),
                "drawn_at": epochs[point],
                "point": point,
                "converged": converged,
                "rule": self.stop,
                "gamma": self.gamma,
                "window": self.window,
            },
        )


def _spread(**sizes: list[int]) -> Scores:
    """Scores whose best units are spread evenly over the layers: what no draw from these can keep, no draw can."""
    return {group: [-(np.arange(n) * len(layers) + i) for i, n in enumerate(layers)] for group, layers in sizes.items()}
