"""Random tickets: uniform scores instead of a search, the control of EarlyRobust and RobustT, which average five seeds.

Of heads and neurons (EarlyRobust): ``match="global"`` is one draw at the given fractions over all, at least one head a layer;
``match="layer"`` keeps as many units in every layer as a given ticket (``like=``), at random positions. Of single weights (RobustT), where
``sparsity`` is given or ``like`` is an unstructured ticket: ``"matrix"`` keeps as many in every matrix as ``like``, which is RobustT's,
``"layer"`` as many in every layer, ``"global"`` is one draw over all; without ``like``, ``"matrix"`` removes ``sparsity`` of every matrix.
``round_to`` rounds the neurons of each layer, also where ``like`` gives their number: what it has rounded already stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np

from robust_tickets.backbone.layout import Layout, layout_of
from robust_tickets.classifier.base import as_model
from robust_tickets.config import describe, fraction, refuse
from robust_tickets.prune.compact import matching
from robust_tickets.search.base import Found, Search
from robust_tickets.search.earlyrobust import TABLE6
from robust_tickets.seeds import numpy_generator
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.ticket.topk import keep_best

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from robust_tickets.classifier import ModelClassifier
    from robust_tickets.data.task import Task


@dataclass(frozen=True, kw_only=True)
class RandomTicket(Search):
    """``RandomTicket(seed=1)(classifier)``; ``heads``, ``neurons`` or, for single weights, ``sparsity`` are fractions removed."""

    # EarlyRobust's sparsity
    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        name: {"neurons": row["neurons"]} for name, row in TABLE6.items()
    }

    heads: float = fraction(1 / 6)
    neurons: float = fraction(0.3)
    sparsity: float | None = fraction(None)  # given: an unstructured ticket
    match: Literal["global", "layer", "matrix"] = "global"
    round_to: Literal[1, 8, 16, 64] = 1  # neurons of a layer
    seed: int = 0

    def __call__(  # type: ignore[override]  # it searches nothing, and looks at a ticket instead
        self,
        clf: ModelClassifier | PreTrainedModel,
        task: Task | None = None,
        *,
        folder: Path | str | None = None,
        like: Ticket | None = None,
    ) -> Found:
        """Draw for the backbone of ``clf``, which is neither run nor changed; ``like`` is the ticket whose counts are matched."""
        weights = self.matches(like.kind if like is not None else None)
        model = cast("PreTrainedModel", getattr(clf, "model", clf))
        if not hasattr(model, "config"):  # a bare transformers model will do
            as_model(clf, "searched")
        layout = layout_of(model)
        ticket = (self._weights if weights else self._units)(model, layout, like)
        origin = {"method": describe(self)} | ({} if like is None else {"like": like.digest})
        return Found(ticket=ticket).finished(origin, Path(folder) if folder else None)

    def matches(self, kind: str | None) -> bool:
        """Whether single weights are drawn beside a ticket of ``kind`` (none: no ticket to match); refuses what does not go together."""
        weights = self.sparsity is not None or kind == "unstructured"
        name = f"RandomTicket(match={self.match!r})"
        if kind is None:
            hint = 'like=ticket in Python, --like FOLDER, like = "ARM" in a recipe'
            refuse(self.match == "layer", f"{name} matches the counts of a ticket, got none", hint=hint)
        else:
            refuse(self.match == "global", f"{name} matches no ticket", hint="match='layer', or leave like out")
            mixed = kind == "structured" and weights
            refuse(mixed, "RandomTicket(sparsity=…) matches no heads and neurons", hint="leave sparsity out")
        refuse(self.match == "matrix" and not weights, f"{name} is for single weights", hint="give sparsity=")
        refuse(self.round_to > 1 and weights, "RandomTicket.round_to rounds neurons", hint="round_to=1")
        return weights

    def _units(self, model: PreTrainedModel, layout: Layout, like: Ticket | None) -> Ticket:
        scores = {
            group: tuple(self._uniform(n, group, i) for i, n in enumerate(counts))
            for group, counts in layout.units_of(model).items()
        }
        about: dict[str, Any] = {"family": layout.family, "unit_weights": layout.unit_weights(model), "scores": scores}
        if like is None:
            return Ticket.from_scores(heads=self.heads, neurons=self.neurons, round_to=self.round_to, **about)
        like.check_fits(model, layout)
        masks = {
            group: tuple(keep_best([score], int(m.sum()))[0] for score, m in zip(scores[group], old, strict=True))
            for group, old in like.masks.items()
        }
        return Ticket(kind="structured", masks=masks, **about).rounded_to(self.round_to)

    def _weights(self, model: PreTrainedModel, layout: Layout, like: Ticket | None) -> Ticket:
        if like is None:
            names = {name: tuple(module.weight.shape) for name, module in layout.matrices_of(model).items()}
            return Ticket.from_weight_scores(
                family=layout.family,
                names=list(names),
                scores=[self._uniform(shape, name) for name, shape in names.items()],
                sparsity=self.sparsity or 0.0,
                scope="matrix" if self.match == "matrix" else "global",
            )
        matching(model, layout, like)  # refuses another backbone's
        old = dict(zip(like.names, like.masks["weights"], strict=True))
        scores = {name: self._uniform(mask.shape, name) for name, mask in old.items()}
        # matrices whose counts are matched together: each by itself, or those of one layer (the pooler is one of its own)
        groups: dict[str | int, list[str]] = {}
        for name in old:
            place = layout.place_of(name)
            groups.setdefault(name if self.match == "matrix" or place is None else place[0], []).append(name)
        masks: dict[str, np.ndarray] = {}
        for group in groups.values():
            kept = sum(int(np.count_nonzero(old[name])) for name in group)
            masks |= zip(group, keep_best([scores[name] for name in group], kept), strict=True)
        return Ticket(
            kind="unstructured",
            family=layout.family,
            names=like.names,
            masks={"weights": tuple(masks[name] for name in old)},
            scores={"weights": tuple(scores.values())},
            unit_weights={"weights": 1},
        )

    def _uniform(self, shape: Any, *names: Any) -> np.ndarray:
        values: np.ndarray = numpy_generator(self.seed, "random ticket", *names).random(shape, dtype=np.float32)
        return values


REGISTERED = RandomTicket
