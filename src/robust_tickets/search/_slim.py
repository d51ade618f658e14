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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from robust_tickets import progress
from robust_tickets.adversary._pairs import defined, usable
from robust_tickets.classifier.fits import fits
from robust_tickets.classifier.given import model_of
from robust_tickets.config import Settings, component, describe, fraction, setting
from robust_tickets.data.feed import batches_of
from robust_tickets.errors import TicketsError
from robust_tickets.search import stopping
from robust_tickets.search._found import Found, told
from robust_tickets.search._per_task import PerTask
from robust_tickets.search._watch import Scores, Watch, mini_epochs
from robust_tickets.seeds import derive, torch_generator
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.finetune import identity_of, updates_per_epoch
from robust_tickets.train.optim import Optimised

LEAST = 10  # updates between two points of the paper's rule: consecutive updates hardly change a ranking
APART = 3.5  # random walks: heads' coefficients closer together are hardly ranked (numbers: docs/papers/earlyrobust.md)


@dataclass(frozen=True, kw_only=True)
class Slim(Settings, PerTask, Optimised):
    """Settings of a coefficient search; ``heads`` and ``neurons`` are the fractions removed."""

    heads: float = fraction()
    neurons: float = fraction()
    head_l1: float = setting(at_least=0)
    neuron_l1: float = setting(at_least=0)
    adversary: Any = component("adversaries")
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
    # training
    # the most that is run; more where few rows leave the paper's rule too few points
    epochs: int = setting(1, at_least=1)
    horizon: int = setting(0, at_least=0)  # epochs that the learning rate's schedule is made for; 0: epochs
    lr: float = 2e-5
    batch_size: int = setting(32, at_least=1)
    weight_decay: float = 1e-2
    warmup: float = 0.1
    clip: float = 1.0
    accumulate: int = setting(1, at_least=1)
    precision: Literal["fp32", "bf16"] = "fp32"
    # graph: CUDA graphs, where there is a CUDA device
    engine: Literal["auto", "eager", "graph"] = setting("auto", counts=False)
    # the released code's ways
    rule: Literal["exact", "quantile"] = "exact"
    loader_shuffle: bool = True
    log_every: int = setting(10, at_least=1)
    checkpoint_every: float = setting(30.0, at_least=0, counts=False)  # seconds
    checkpoint_steps: int = setting(0, at_least=0, counts=False)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        usable(self.adversary, self.accumulate)
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
        self.optim  # noqa: B018  # checks its numbers

    @property
    def drawn(self) -> str:
        """``at``, where "auto" is what the rule's source has."""
        if self.at != "auto":
            return self.at
        return "first" if self.stop == "paper" else "current"

    def _per_epoch(self, task: Any) -> int:
        """Updates of an epoch."""
        return updates_per_epoch(task, self.batch_size, self.accumulate)

    def steps(self, task: Any = None) -> int:
        """Updates at most; the rule usually stops earlier."""
        per_epoch = self._per_epoch(task)
        return self._points(per_epoch)[-1] if self.stop == "fixed" else self._epochs(per_epoch) * per_epoch

    def soonest(self, task: Any) -> int:
        """The first update at which the rule may stop the search: `early_bird` compares ``window`` points, the others one more."""
        most = self.steps(task)
        wanted = (self.window + (self.stop != "early_bird")) * (2 if self.at == "before" else 1)
        points = self._points(self._per_epoch(task))
        return most if self.stop == "fixed" or len(points) < wanted else points[wanted - 1]

    def on_task(self, clf: Any, task: Any, folder: Path | str | None) -> Found:
        """Search on the labels of ``task``'s training split, from theta_0 with the classifier it has."""
        defined(self.adversary, "classification")
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
            tokenizer=theta.tokenizer,
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
        tokenizer: Any,
        origin: Mapping[str, Any],
        identity: str,
        folder: Path | str | None,
    ) -> Found:
        """Train ``model`` (which is used up) and its coefficients on ``batches``; draw the ticket."""
        from robust_tickets.backbone.layout import layout_of
        from robust_tickets.prune.gates import Gates
        from robust_tickets.train.loop import Loop
        from robust_tickets.train.step import full_precision, make_step

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
        generator = torch_generator(self.seed, "search", "adversary", device=model.device)
        with Gates(model, layout) as c:
            penalised = self.head_l1 > 0 or self.neuron_l1 > 0
            watch = Watch(
                snapshot=c.snapshot,
                draw=partial(self._draw, **about),
                rule=self._rule(points),
                points=points,
                per_epoch=per_epoch,
            )
            step = make_step(
                model,
                generator=generator,
                adversary=self.adversary,
                precision=self.precision,
                regulariser=(lambda: c.l1(self.head_l1, self.neuron_l1)) if penalised else None,
                tokenizer=tokenizer,
                seed=derive(self.seed, "search", "adversary"),
                gates=c,
            )
            steps = Loop(
                title="search",
                parts={"model": model, "gates": c, **step.parts},
                step=step,
                batches=batches,
                optim=self.optim,
                epochs=epochs,
                horizon=self._horizon(per_epoch),
                accumulate=self.accumulate,
                seed=derive(self.seed, "search"),
                generators={"adversary": generator},
                after_step=watch,
                memory=watch,
                folder=Path(folder) if folder else None,
                identity=identity,
                checkpoint_every=self.checkpoint_every,
                checkpoint_steps=self.checkpoint_steps,
                engine_kind=self.engine,
                log_every=self.log_every,
            ).run()
        found = self._found(watch, origin, steps)
        if folder:
            found.save(folder)
        return found

    def _epochs(self, per_epoch: int) -> int:
        """As many as the paper's rule needs to fire, where its points are ``LEAST`` updates apart and no mini-epochs."""
        if self.stop != "paper" or self.mini * per_epoch >= LEAST:
            return self.epochs
        return max(self.epochs, math.ceil((self.window + 1) * LEAST / per_epoch))

    def _horizon(self, per_epoch: int) -> int:
        return max(self.horizon, self._epochs(per_epoch)) * per_epoch

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
            pulls[i % watch.per_epoch] += self.optim.lr_at(i, self._horizon(watch.per_epoch))
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
