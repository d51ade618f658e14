"""One-shot magnitude pruning: the smallest weights of all 73 matrices together go at once (the baseline of Chen et al., NeurIPS 2020, "The
Lottery Ticket Hypothesis for Pre-trained BERT Networks").

    scores <- |w| for every weight of the layers' projections and the pooler; the lowest fraction s goes

``of="pretrained"`` looks at theta_0 itself and trains nothing, as their released one-shot script does; ``of="finetuned"`` looks at a copy
that was fine-tuned on the task first, with IMP's settings for one round. Either way the ticket is for theta_0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from robust_tickets.classifier.base import model_of
from robust_tickets.config import Settings, describe, fraction
from robust_tickets.errors import TicketsError
from robust_tickets.search.base import Found, PerTask, origin
from robust_tickets.search.base import tuned as tune
from robust_tickets.search.imp import LTH, ROUND, magnitudes
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.finetune import FineTune


@dataclass(frozen=True, kw_only=True)
class OMP(Settings, PerTask):
    """``OMP(sparsity=0.6)(classifier)``; ``sparsity`` is the fraction of weights removed."""

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = LTH

    sparsity: float = fraction(0.6)
    scope: Literal["global", "matrix"] = "global"
    of: Literal["pretrained", "finetuned"] = "pretrained"
    tuning: FineTune = field(
        default=FineTune(**ROUND)
    )  # of the copy that ``of="finetuned"`` looks at; its seed is the search's
    seed: int = 0

    @property
    def passes(self) -> float:
        return self.tuning.passes

    def steps(self, task: Any) -> int:
        return self.tuning.steps(task) if self.of == "finetuned" else 0

    def work(self, task: Any) -> float:
        return self.tuning.work(task) if self.of == "finetuned" else 0.0

    def __call__(self, clf: Any, task: Any = None, *, folder: Path | str | None = None, tuned: Any = None) -> Found:
        """Draw for ``clf``, which stays as it is. ``tuned`` gives the fine-tuned classifier instead of training one."""
        for given in (clf,) if tuned is None else (clf, tuned):
            model_of(given, "pruned")
        if self.of == "pretrained":
            if tuned is not None:
                raise TicketsError("OMP(of='pretrained') looks at theta_0, got tuned=", hint="use of='finetuned'")
            weights = clf
        elif tuned is not None:
            weights = tuned
        elif task is None:
            raise TicketsError(
                "OMP(of='finetuned') needs a task to fine-tune on", hint="give one, or tuned=a classifier"
            )
        else:
            weights = tune(replace(self.tuning, seed=self.seed), clf, task, Path(folder) if folder else None)
        family, scores = magnitudes(weights)
        about = origin(describe(self), clf, task if self.of == "finetuned" else None)
        if tuned is not None:
            about["tuned"] = {"identity": tuned.identity, "digest": tuned.digest}
        ticket = Ticket.from_weight_scores(
            family=family,
            names=list(scores),
            scores=list(scores.values()),
            sparsity=self.sparsity,
            scope=self.scope,
            provenance=about,
        )
        found = Found(ticket=ticket)
        if folder:
            found.save(folder)
        return found


REGISTERED = OMP
