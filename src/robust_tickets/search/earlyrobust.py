"""EarlyRobust (Xi et al., EMNLP 2022, "Efficient Adversarial Training with Robust Early-Bird Tickets"), stage 1.

Slimming coefficients on heads and neurons are trained with the model under FreeLB and an L1 term; once the masks they draw stop
changing, the ticket is drawn and everything else of the search is thrown away. Fine-tuning starts from theta_0, its head included.

Defaults are the paper's (§4.1, Table 6) and, where it is silent, its released code: AdamW 2e-5, weight decay 1e-2 (coefficients too),
linear warm-up over 10 % of one epoch and decay to its end, clip 1, K 5, eps0 .05, no projection. L1 weights and step size are IMDB's
unless ``EarlyRobust.for_task("sst2")`` picks a row of Table 6; batches are GLUE's 32, IMDB and AG News have 8 there.

Where the released code differs from the paper, the paper is the default and the code a switch: ``stop="official"`` (an anchor and its
next five points), ``rule="quantile"`` (strict quantile, over-prunes under ties), ``loader_shuffle=False`` (file order; IMDB's first 12,500
rows have one label), ``at="first"``. Its silent fall-back when nothing converges is not offered: here that is said and recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from robust_tickets import progress
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.checks import at_least_one, check_literals, not_negative
from robust_tickets.config import describe
from robust_tickets.errors import TicketsError
from robust_tickets.search import _stop
from robust_tickets.search._found import Found
from robust_tickets.search._per_task import PerTask
from robust_tickets.search._watch import Scores, Watch, mini_epochs
from robust_tickets.seeds import derive, torch_generator
from robust_tickets.ticket import Ticket
from robust_tickets.train.finetune import batches_of, identity_of, updates_per_epoch
from robust_tickets.train.fits import fits
from robust_tickets.train.optim import Optimised

# Table 6 (L1 weights, step size, neurons removed) with the released scripts' batch sizes
TABLE6: dict[str, dict[str, float]] = {
    "imdb": {"head_l1": 1e-5, "neuron_l1": 2e-4, "step_size": 0.01, "neurons": 0.4, "batch_size": 8},
    "sst2": {"head_l1": 1e-4, "neuron_l1": 3e-4, "step_size": 0.02, "neurons": 0.3, "batch_size": 32},
    "ag_news": {"head_l1": 3e-4, "neuron_l1": 5e-5, "step_size": 0.01, "neurons": 0.2, "batch_size": 8},
    "qnli": {"head_l1": 2e-4, "neuron_l1": 3e-4, "step_size": 0.01, "neurons": 0.3, "batch_size": 32},
    "qqp": {"head_l1": 1e-5, "neuron_l1": 1e-5, "step_size": 0.01, "neurons": 0.3, "batch_size": 32},
}


@dataclass(frozen=True, kw_only=True)
class EarlyRobust(PerTask, Optimised):
    """``EarlyRobust()(classifier, task)`` finds a ticket and leaves the classifier as it was. ``heads``, ``neurons``: fractions removed."""

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        name: {**{k: v for k, v in row.items() if k != "step_size"}, "adversary": {"step_size": row["step_size"]}}
        for name, row in TABLE6.items()
    }

    heads: float = 1 / 6
    neurons: float = 0.3
    head_scope: Literal["global", "layer"] = "global"
    neuron_scope: Literal["global", "layer"] = "global"
    adversary: Any = field(default=FreeLB(), metadata={"registry": "adversaries"})
    head_l1: float = 1e-5
    neuron_l1: float = 2e-4
    # stopping
    gamma: float = 0.1
    window: int = 5
    mini: float = 0.05  # epochs between two points
    stop: Literal["paper", "official", "early_bird"] = "paper"
    at: Literal["current", "first"] = "current"  # paper's rule only
    # training
    epochs: int = 1  # the schedule's horizon, and the most that is run
    lr: float = 2e-5
    batch_size: int = 32
    weight_decay: float = 1e-2
    warmup: float = 0.1
    clip: float = 1.0
    accumulate: int = 1
    precision: Literal["fp32", "bf16"] = "fp32"
    # the released code's ways
    rule: Literal["exact", "quantile"] = "exact"
    loader_shuffle: bool = True
    log_every: int = 10
    checkpoint_every: float = 30.0  # seconds
    checkpoint_steps: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_literals(self)
        at_least_one(self, "epochs", "batch_size", "accumulate", "log_every", "window")
        not_negative(self, "gamma", "head_l1", "neuron_l1", "checkpoint_every", "checkpoint_steps")
        for name in ("heads", "neurons"):
            if not 0 <= getattr(self, name) < 1:
                raise TicketsError(
                    f"EarlyRobust.{name} is a fraction to remove in [0, 1), got {getattr(self, name)}", hint="0.3 removes 30 %"
                )
        if not 0 < self.mini <= self.epochs:
            raise TicketsError(f"EarlyRobust.mini must be in (0, {self.epochs}] epochs, got {self.mini}", hint="0.05 is the paper's")
        self.optim  # noqa: B018  # checks its numbers

    def steps(self, task: Any) -> int:
        """Updates at most; the rule usually stops earlier."""
        return self.epochs * updates_per_epoch(task, self.batch_size, self.accumulate)

    def __call__(self, clf: Any, task: Any, *, folder: Path | str | None = None) -> Found:
        """Search on ``task``'s training split. ``folder`` receives what is found, metrics.jsonl and checkpoint/ to go on from."""
        from robust_tickets.layout import layout_of
        from robust_tickets.prune.gates import Gates
        from robust_tickets.train.loop import Loop
        from robust_tickets.train.step import full_precision, make_step

        if clf.model is None:
            raise TicketsError("a wrapped callable has no heads to search", hint="load a model with load_classifier")
        fits(clf, task)
        theta = clf.copy()  # theta_0 stays as it is
        full_precision(theta.model)
        layout = layout_of(theta.model)
        about: dict[str, Any] = {"family": layout.family, "unit_weights": layout.unit_weights(theta.model)}
        self._draw(_spread(heads=layout.heads_of(theta.model), neurons=layout.neurons_of(theta.model)), **about)  # refused before it costs
        batches = batches_of(theta, task, self.batch_size, derive(self.seed, "search", "batches"), file_order=not self.loader_shuffle)
        generator = torch_generator(self.seed, "search", "adversary", device=theta.device)
        with Gates(theta.model, layout) as c:
            penalised = self.head_l1 > 0 or self.neuron_l1 > 0
            watch = Watch(
                snapshot=c.snapshot,
                draw=partial(self._draw, **about),
                rule=partial(_stop.RULES[self.stop], gamma=self.gamma, window=self.window, at=self.at),
                points=mini_epochs(self.steps(task) // self.epochs, self.epochs, self.mini),
                per_epoch=self.steps(task) // self.epochs,
            )
            step = make_step(
                theta.model,
                generator=generator,
                adversary=self.adversary,
                precision=self.precision,
                regulariser=(lambda: c.l1(self.head_l1, self.neuron_l1)) if penalised else None,
                tokenizer=theta.tokenizer,
                seed=derive(self.seed, "search", "adversary"),
            )
            steps = Loop(
                title="search",
                parts={"model": theta.model, "gates": c, **step.parts},
                step=step,
                batches=batches,
                optim=self.optim,
                epochs=self.epochs,
                accumulate=self.accumulate,
                seed=derive(self.seed, "search"),
                generators={"adversary": generator},
                after_step=watch,
                memory=watch,
                folder=Path(folder) if folder else None,
                identity=identity_of(self, clf, task) if folder else "",
                checkpoint_every=self.checkpoint_every,
                checkpoint_steps=self.checkpoint_steps,
                log_every=self.log_every,
            ).run()
        found = self._found(watch, clf, task, steps)
        if folder:
            found.save(folder)
        return found

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

    def _found(self, watch: Watch, clf: Any, task: Any, steps: int) -> Found:
        point, converged = watch.chosen, watch.drawn_at is not None
        trace = watch.trace()
        if not converged:
            note = f"the masks did not settle within {self.epochs} epoch (rule {self.stop}, gamma {self.gamma}): drawn at the last point"
            trace[-1]["note"] = note
            progress.warn(f"search: {note}")
        trace[point]["drawn"] = True
        about = {
            "method": describe(self),
            "model": {"identity": clf.identity, "digest": clf.digest},
            "task": {"name": task.name, "digest": task.digest},
            "point": point,
            "step": watch.steps[point],
            "epoch": watch.epoch(point),
            "steps_run": steps,
            "converged": converged,
        }
        drawn = watch.draw(watch.records[point], provenance=about)  # type: ignore[call-arg]
        epochs = [watch.epoch(i) for i in range(len(watch.steps))]
        return Found(
            ticket=drawn,
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


REGISTERED = EarlyRobust
