"""Iterative magnitude pruning with rewinding (Chen et al., NeurIPS 2020, "The Lottery Ticket Hypothesis for Pre-trained BERT Networks").

    theta <- theta_0, m <- 1
    for s in 10 %, 20 %, …, sparsity:
        fine-tune theta * m on the task (3 epochs)
        remove the weights of smallest |theta|, over all 73 matrices together, until a fraction s is gone in all
        theta <- theta_0 (the encoder; the classifier goes on as it is)
    ticket <- m

Defaults are the released code's (the paper is silent): AdamW 2e-5, eps 1e-8, no weight decay, batches of 32, gradient norm 1. In round r
(from 0) 1/(10-r) of what remains goes, which is 10 points of the whole. Its optimiser and schedule are made anew each round, but the
schedule's horizon is that of all ten rounds, so that the learning rate hardly drops: ``schedule="run"``; ``"round"`` decays to 0 in each.
It rewinds ``bert.*`` alone: ``classifier="kept"``; the text rewinds all of theta: ``classifier="rewound"``.

RobustT's "LTH" is this, trained plainly at the sparsities of its Table 1 (``IMP.for_task``); its "w/o Mask Training" is this with
``adversary=FreeLB()``. The scores remember the round in which a weight went, so one search gives every rung: ``ticket.draw(sparsity=0.3)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from robust_tickets import progress
from robust_tickets.adversary._pairs import defined, usable
from robust_tickets.classifier.fits import fits
from robust_tickets.classifier.given import model_of
from robust_tickets.config import Settings, component, describe, setting
from robust_tickets.errors import TicketsError
from robust_tickets.search._found import Found
from robust_tickets.search._magnitude import LTH, ROUND, magnitudes, origin
from robust_tickets.search._per_task import PerTask
from robust_tickets.search._rounds import Rounds, head_of, remove, rewound, settle
from robust_tickets.seeds import derive
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.finetune import FineTune, evaluated_rows, identity_of
from robust_tickets.train.optim import Optimised


@dataclass(frozen=True, kw_only=True)
class IMP(Settings, PerTask, Optimised):
    """``IMP(sparsity=0.6)(classifier, task)``: six rounds of fine-tuning; the classifier stays as it was."""

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = LTH

    sparsity: float = 0.6  # where the last round ends
    step: float = 0.1  # of all weights, each round
    classifier: Literal["kept", "rewound"] = "kept"
    schedule: Literal["run", "round"] = "run"
    adversary: Any = component("adversaries")
    # training of one round
    epochs: int = setting(ROUND["epochs"], at_least=1)
    lr: float = ROUND["lr"]
    batch_size: int = setting(ROUND["batch_size"], at_least=1)
    weight_decay: float = ROUND["weight_decay"]
    warmup: float = ROUND["warmup"]
    clip: float = ROUND["clip"]
    accumulate: int = setting(1, at_least=1)
    precision: Literal["fp32", "bf16"] = "fp32"
    engine: Literal["auto", "eager", "graph"] = setting("auto", counts=False)
    evaluation_rows: int = setting(2000, at_least=0)  # of the validation split, after each round; 0: all
    log_every: int = setting(10, at_least=1)
    checkpoint_every: float = setting(30.0, at_least=0, counts=False)  # seconds
    checkpoint_steps: int = setting(0, at_least=0, counts=False)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.step <= self.sparsity < 1:
            raise TicketsError(
                f"IMP.step and IMP.sparsity must be 0 < step <= sparsity < 1, got {self.step} and {self.sparsity}",
                hint="sparsity=0.6 in steps of 0.1 is six rounds",
            )
        usable(self.adversary, self.accumulate)
        defined(self.adversary, "classification")
        self.optim  # noqa: B018  # checks its numbers

    @property
    def rungs(self) -> list[float]:
        """The sparsity after each round."""
        whole = [round(self.step * i, 10) for i in range(1, round(1 / self.step) + 1)]
        return [*(rung for rung in whole if rung < self.sparsity - 1e-9), self.sparsity]

    def steps(self, task: Any) -> int:
        return len(self.rungs) * self._training(task, 1).steps(task)

    def __call__(self, clf: Any, task: Any, *, folder: Path | str | None = None) -> Found:
        """Search on ``task``'s training split. ``folder`` receives what is found and ``round-N/``; a killed search goes on from there."""
        theta_0 = model_of(clf, "pruned")
        fits(clf, task)
        family, theta = magnitudes(clf)
        rounds = Rounds(
            folder=Path(folder) if folder else None,
            identity=identity_of(self, clf, task) if folder else "",
            scores={name: np.full(weight.shape, np.inf, dtype=np.float32) for name, weight in theta.items()},
        )
        rounds.resume()
        for number, rung in list(enumerate(self.rungs, start=1))[len(rounds.trace) :]:
            progress.say(f"search: round {number} of {len(self.rungs)}, to {rung:.0%}")
            model = clf.with_model(rewound(theta_0, rounds.scores, rounds.head))
            self._training(task, number)(model, task, folder=rounds.at(number))
            _, theta = magnitudes(model)
            removed = remove(rounds.scores, theta, number - 1, rung)
            if number == len(self.rungs):
                settle(rounds.scores, theta, number)
            line = {"round": number, "sparsity": rung, "removed": removed, **self._evaluation(model, task)}
            rounds.finish(line, head_of(model.model) if self.classifier == "kept" else {})
        ticket = Ticket.from_weight_scores(
            family=family,
            names=list(rounds.scores),
            scores=list(rounds.scores.values()),
            sparsity=self.sparsity,
            provenance={**origin(describe(self), clf, task), "rounds": len(self.rungs)},
        )
        found = Found(ticket=ticket, trace=rounds.trace)
        if folder:
            found.save(folder)
        return found

    def _training(self, task: Any, number: int) -> FineTune:
        """Fine-tuning of one round; its order of the data is its own, as in one long run."""
        shared = {name: getattr(self, name) for name in _SHARED}
        training = FineTune(**shared, evaluate="never", seed=derive(self.seed, "imp", number))
        return (
            replace(training, horizon=round(1 / self.step) * training.steps(task))
            if self.schedule == "run"
            else training
        )

    def _evaluation(self, model: Any, task: Any) -> dict[str, float]:
        """Of the round's model, before the removal, on the validation split."""
        from robust_tickets.train.evaluate import evaluate

        rows = evaluated_rows(task.validation, self.evaluation_rows, self.seed)
        if len(rows) == 0:
            return {}
        numbers = evaluate(model, rows).numbers()
        return {"loss": numbers["loss"], "accuracy": numbers["accuracy"]}


_SHARED = (
    *("epochs", "lr", "batch_size", "weight_decay", "warmup", "clip", "accumulate", "precision", "adversary"),
    *("log_every", "checkpoint_every", "checkpoint_steps", "engine"),
)

REGISTERED = IMP
