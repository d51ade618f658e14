"""Iterative magnitude pruning with rewinding (Chen et al., NeurIPS 2020, "The Lottery Ticket Hypothesis for Pre-trained BERT Networks").

    theta <- theta_0, m <- 1
    for s in 10 %, 20 %, …, sparsity:
        fine-tune theta * m on the task (3 epochs)
        remove the weights of smallest |theta|, over all 73 matrices together, until a fraction s is gone in all
        theta <- theta_0 (the encoder; the classifier stays as trained)
    ticket <- m

Defaults are the released code's (the paper is silent): AdamW 2e-5, eps 1e-8, no weight decay, batches of 32, gradient norm 1. In round r
(from 0) 1/(10-r) of what remains goes, which is 10 points of the whole. Its optimiser and schedule are made anew each round, but the
schedule's horizon is that of all ten rounds, so that the learning rate hardly drops: ``schedule="run"``; ``"round"`` decays to 0 in each.
It rewinds ``bert.*`` alone: ``classifier="kept"``; the text rewinds all of theta: ``classifier="rewound"``.

RobustT's "LTH" is this, trained plainly at the sparsities of its Table 1 (``IMP.for_task``); its "w/o Mask Training" is this with
``adversary=FreeLB()``. The scores remember the round in which a weight went, so one search gives every rung: ``ticket.draw(sparsity=0.3)``.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from robust_tickets import progress
from robust_tickets.backbone.layout import layout_of
from robust_tickets.classifier import ModelClassifier
from robust_tickets.config import refuse, setting
from robust_tickets.search.base import Found, Search, SearchRun, checked, origin_of
from robust_tickets.seeds import derive
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.ticket.topk import keep_best, removed_count
from robust_tickets.train.finetune import FineTune, evaluation_of
from robust_tickets.train.settings import TrainingSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from robust_tickets.data.task import Task

# the sparsities of "LTH" in RobustT's Table 1; its text says that they equal RobustT's own, but SST-2 has 60 % against 30 % there
LTH: Mapping[str, Mapping[str, Any]] = {
    "imdb": {"sparsity": 0.2},
    "ag_news": {"sparsity": 0.4},
    "sst2": {"sparsity": 0.6},
}

Scores = dict[str, np.ndarray]  # by matrix
BELOW_ONE = np.float32(0.999)  # the share of the largest: a round's scores must not reach the next round's


@dataclass(frozen=True, kw_only=True)
class IMP(Search, TrainingSettings):
    """``IMP(sparsity=0.6)(classifier, task)``: six rounds of fine-tuning; the classifier stays as it was."""

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = LTH

    sparsity: float = 0.6  # where the last round ends
    step: float = 0.1  # of all weights, each round
    classifier: Literal["kept", "rewound"] = "kept"
    schedule: Literal["run", "round"] = "run"
    epochs: int = 3  # of one round
    evaluation_rows: int = setting(2000, at_least=0)  # of the validation split, after each round; 0: all

    def __post_init__(self) -> None:
        super().__post_init__()
        wrong = not 0 < self.step <= self.sparsity < 1
        refuse(wrong, "IMP needs 0 < step <= sparsity < 1", hint="step=0.1, sparsity=0.6: six rounds")

    def start(
        self, clf: ModelClassifier, task: Task | None, folder: Path | None, tuned: ModelClassifier | None
    ) -> SearchRun:
        """theta_0 itself: each round trains a copy."""
        task = checked(task, clf)
        return SearchRun(
            settings=self,
            model=clf.model,
            classifier=clf,
            given=task,
            folder=folder,
            identity=self.identity(clf, task),
            origin={**origin_of(clf, task), "rounds": len(self.rungs)},
        )

    def search(self, theta: PreTrainedModel, run: SearchRun) -> Found:
        """Fine-tune theta * m, remove the smallest weights from m, rewind theta; until ``sparsity`` is reached."""
        family, weights = magnitudes(run.classifier)
        m = Pruned(weights)
        rounds = run.phase("rounds", m)
        for number, rung in list(enumerate(self.rungs, start=1))[len(m.trace) :]:
            progress.say(f"search: round {number} of {len(self.rungs)}, to {rung:.0%}")
            model = run.classifier.with_model(rewound(theta, m.scores, m.head))
            folder = run.below(f"round-{number}")
            self.training(run.task, number)(model, run.task, folder=folder)
            _, weights = magnitudes(model)
            removed = remove(m.scores, weights, number - 1, rung)
            if number == len(self.rungs):
                mark(m.scores, weights, {name: np.isinf(score) for name, score in m.scores.items()}, number)
            m.head = head_of(model.model) if self.classifier == "kept" else {}
            measure = evaluation_of(model, run.task, self.evaluation_rows, self.seed)  # before the removal
            measured = (
                {key: value for key, value in measure().items() if key in ("loss", "accuracy")} if measure else {}
            )
            m.trace.append({"round": number, "sparsity": rung, "removed": removed, **measured})
            rounds.save(number)
            if folder:  # three times the model
                shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        ticket = Ticket.from_weight_scores(
            family=family, names=list(m.scores), scores=list(m.scores.values()), sparsity=self.sparsity
        )
        return Found(ticket=ticket, trace=m.trace)

    @property
    def rungs(self) -> list[float]:
        """The sparsity after each round."""
        whole = [round(self.step * i, 10) for i in range(1, round(1 / self.step) + 1)]
        return [*(rung for rung in whole if rung < self.sparsity - 1e-9), self.sparsity]

    def training(self, task: Task, number: int) -> FineTune:
        """Fine-tuning of one round; its order of the data is its own, as in one long run."""
        shared = {field.name: getattr(self, field.name) for field in fields(TrainingSettings) if field.name != "seed"}
        training = FineTune(**shared, evaluate="never", seed=derive(self.seed, "imp", number))
        if self.schedule == "round":
            return training
        return replace(training, horizon=round(1 / self.step) * training.steps(task))


class Pruned:
    """What is known between two rounds: scores (infinity where a weight is still there), the classification head, a line a round."""

    def __init__(self, weights: Scores) -> None:
        self.scores = {name: np.full(weight.shape, np.inf, dtype=np.float32) for name, weight in weights.items()}
        self.head: dict[str, Tensor] = {}
        self.trace: list[dict[str, Any]] = []

    def tensors(self) -> dict[str, Tensor]:
        scores = {f"score/{name}": torch.from_numpy(score) for name, score in self.scores.items()}
        return scores | {f"head/{name}": value for name, value in self.head.items()}

    def values(self) -> dict[str, Any]:
        return {"trace": self.trace}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self.scores = {name: tensors[f"score/{name}"].numpy() for name in self.scores}
        self.head = {name.removeprefix("head/"): t for name, t in tensors.items() if name.startswith("head/")}
        self.trace = list(values["trace"])


def magnitudes(clf: ModelClassifier) -> tuple[str, Scores]:
    """The family of ``clf``, and |w| of every matrix that unstructured tickets mask, by its name in the encoder."""
    layout = layout_of(clf.model)
    matrices = layout.matrices_of(clf.model).items()
    return layout.family, {name: module.weight.detach().float().abs().cpu().numpy() for name, module in matrices}


# A weight's score says when it went: the round (from 0) plus its share of the largest magnitude that went with it, below 1. Those that are
# left at the end come last, by magnitude. So a draw at the sparsity of any round gives that round's masks exactly, and one between two
# rounds removes the later one's smallest first.


def remove(scores: Scores, magnitudes: Scores, done: int, sparsity: float) -> int:
    """Give a score to the smallest of what is still there, until the fraction ``sparsity`` of all is gone; how many went."""
    total = sum(m.size for m in scores.values())
    candidates = [np.where(np.isinf(scores[name]), magnitudes[name], np.float32(-1)) for name in scores]
    kept = keep_best(candidates, total - removed_count(total, sparsity))
    went = {name: np.isinf(scores[name]) & ~mask for name, mask in zip(scores, kept, strict=True)}
    mark(scores, magnitudes, went, done)
    return sum(int(np.count_nonzero(mask)) for mask in went.values())


def mark(scores: Scores, magnitudes: Scores, where: Mapping[str, np.ndarray], done: int) -> None:
    """Give scores to the weights of ``where``, which go together after ``done`` rounds, or stay."""
    largest = max((float(magnitudes[name][mask].max()) for name, mask in where.items() if mask.any()), default=0.0)
    for name, mask in where.items():
        scores[name][mask] = np.float32(done) + magnitudes[name][mask] * (BELOW_ONE / np.float32(largest or 1.0))


def rewound(theta_0: PreTrainedModel, scores: Scores, head: Mapping[str, Tensor]) -> PreTrainedModel:
    """theta_0 again, without what went, and with ``head`` instead of its own classifier where one is given."""
    from robust_tickets.backbone.weight_masks import attach

    model = copy.deepcopy(theta_0)
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in head.items():
            parameters[name].copy_(value)
    attach(model, {name: torch.from_numpy(np.isinf(score)) for name, score in scores.items()})
    return model


def head_of(model: PreTrainedModel) -> dict[str, Tensor]:
    """Everything that is not the encoder."""
    inside = f"{model.base_model_prefix}."
    return {name: p.detach().clone() for name, p in model.named_parameters() if not name.startswith(inside)}


REGISTERED = IMP
