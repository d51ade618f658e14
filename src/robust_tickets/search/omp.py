"""One-shot magnitude pruning: the smallest weights of all 73 matrices together go at once (the baseline of Chen et al., NeurIPS 2020, "The
Lottery Ticket Hypothesis for Pre-trained BERT Networks").

    scores <- |w| for every weight of the layers' projections and the pooler; the lowest fraction s goes

``of="pretrained"`` looks at theta_0 itself and trains nothing, as their released one-shot script does; ``of="finetuned"`` looks at a copy
that was fine-tuned on the task first, with IMP's settings for one round. Either way the ticket is for theta_0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from robust_tickets.classifier.base import as_model
from robust_tickets.config import fraction
from robust_tickets.errors import TicketsError
from robust_tickets.search.base import Found, Search, SearchRun, fine_tuned, named, origin_of
from robust_tickets.search.imp import LTH, magnitudes
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.finetune import FineTune

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from robust_tickets.classifier import ModelClassifier
    from robust_tickets.data.task import Task


TUNING = FineTune(epochs=3)  # IMP's, of one round


@dataclass(frozen=True, kw_only=True)
class OMP(Search):
    """``OMP(sparsity=0.6)(classifier)``; ``sparsity`` is the fraction of weights removed."""

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = LTH

    sparsity: float = fraction(0.6)
    scope: Literal["global", "matrix"] = "global"
    of: Literal["pretrained", "finetuned"] = "pretrained"
    tuning: FineTune = TUNING  # of the copy that ``of="finetuned"`` looks at; its seed is the search's
    seed: int = 0

    def start(
        self, clf: ModelClassifier, task: Task | None, folder: Path | None, tuned: ModelClassifier | None
    ) -> SearchRun:
        """The model whose weights are looked at."""
        theta = as_model(clf if tuned is None else tuned, "pruned")
        origin = origin_of(clf, task if self.of == "finetuned" else None)
        if tuned is not None:
            if self.of == "pretrained":
                message, hint = "OMP(of='pretrained') looks at theta_0, got tuned=", "use of='finetuned'"
                raise TicketsError(message, hint=hint, code="search.tuned")
            origin["tuned"] = named(tuned)
        elif self.of == "finetuned":
            if task is None:
                message, hint = "OMP(of='finetuned') needs a task to fine-tune on", "give one, or tuned=a classifier"
                raise TicketsError(message, hint=hint, code="search.task")
            theta = fine_tuned(replace(self.tuning, seed=self.seed), clf, task, folder)
        return SearchRun(settings=self.tuning, model=theta.model, classifier=theta, folder=folder, origin=origin)

    def search(self, theta: PreTrainedModel, run: SearchRun) -> Found:
        """The smallest |w| go."""
        family, scores = magnitudes(run.classifier)
        ticket = Ticket.from_weight_scores(
            family=family,
            names=list(scores),
            scores=list(scores.values()),
            sparsity=self.sparsity,
            scope=self.scope,
        )
        return Found(ticket=ticket)


REGISTERED = OMP
