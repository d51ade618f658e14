"""Random tickets: uniform scores instead of a search, the control of EarlyRobust and RobustT, which average five seeds.

Of heads and neurons (EarlyRobust): ``match="global"`` is one draw at the given fractions over all, at least one head a layer;
``match="layer"`` keeps as many units in every layer as a given ticket (``like=``), at random places. Of single weights (RobustT), where
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
from robust_tickets.config import Settings, describe, fraction, refuse
from robust_tickets.errors import TicketsError
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
class RandomTicket(Search, Settings):
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

    def steps(self, task: Task) -> int:
        """A random ticket takes no training."""
        return 0

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
        draw = self._weights if weights else self._units
        origin = {"method": describe(self)} if like is None else {"method": describe(self), "like": like.digest}
        return Found(ticket=draw(model, layout, like)).finished(origin, Path(folder) if folder else None)

    def matches(self, kind: str | None) -> bool:
        """Whether single weights are drawn beside a ticket of ``kind`` (none: no ticket to match); refuses what does not go together."""
        weights = self.sparsity is not None or kind == "unstructured"
        refuse(
            self.match == "global" and kind is not None,
            "RandomTicket(match='global') matches no ticket",
            hint="match='layer', or leave like out",
        )
        if self.match == "layer" and kind is None:
            hint = 'like=ticket in Python, --like FOLDER, like = "ARM" in a recipe'
            raise TicketsError(
                "RandomTicket(match='layer') matches the counts of a ticket, got none", hint=hint, code="settings.rule"
            )
        refuse(
            self.match == "matrix" and not weights,
            "RandomTicket(match='matrix') is for single weights",
            hint="give sparsity=",
        )
        refuse(self.round_to > 1 and weights, "RandomTicket.round_to rounds neurons", hint="round_to=1")
        refuse(
            kind == "structured" and weights,
            "RandomTicket(sparsity=…) matches no heads and neurons",
            hint="leave sparsity out",
        )
        return weights

    def _units(self, model: PreTrainedModel, layout: Layout, like: Ticket | None) -> Ticket:
        sizes = {"heads": layout.heads_of(model), "neurons": layout.neurons_of(model)}
        scores = {
            group: tuple(
                numpy_generator(self.seed, "random ticket", group, i).random(n, dtype=np.float32)
                for i, n in enumerate(counts)
            )
            for group, counts in sizes.items()
        }
        about: dict[str, Any] = {"family": layout.family, "unit_weights": layout.unit_weights(model)}
        if like is None:
            return Ticket.from_scores(
                scores=scores, heads=self.heads, neurons=self.neurons, round_to=self.round_to, **about
            )
        _same_backbone(like, layout.family, sizes)
        masks = {
            group: tuple(
                keep_best([score], int(mask.sum()))[0]
                for score, mask in zip(scores[group], like.masks[group], strict=True)
            )
            for group in scores
        }
        return Ticket(kind="structured", masks=masks, scores=scores, **about).rounded_to(self.round_to)

    def _weights(self, model: PreTrainedModel, layout: Layout, like: Ticket | None) -> Ticket:
        shapes = {name: tuple(module.weight.shape) for name, module in layout.matrices_of(model).items()}
        if like is not None:
            _same_backbone(like, layout.family, shapes)
            # its matrices, in its order
            shapes = dict(zip(like.names, (mask.shape for mask in like.masks["weights"]), strict=True))
        scores = {
            name: numpy_generator(self.seed, "random ticket", name).random(shape, dtype=np.float32)
            for name, shape in shapes.items()
        }
        if like is None:
            return Ticket.from_weight_scores(
                family=layout.family,
                names=list(scores),
                scores=list(scores.values()),
                sparsity=self.sparsity or 0.0,
                scope="matrix" if self.match == "matrix" else "global",
            )
        kept = {name: int(np.count_nonzero(mask)) for name, mask in zip(like.names, like.masks["weights"], strict=True)}
        masks: dict[str, np.ndarray] = {}
        for group in _groups(scores, layout, self.match):
            drawn = keep_best([scores[name] for name in group], sum(kept[name] for name in group))
            masks |= zip(group, drawn, strict=True)
        return Ticket(
            kind="unstructured",
            family=layout.family,
            names=tuple(scores),
            masks={"weights": tuple(masks[name] for name in scores)},
            scores={"weights": tuple(scores.values())},
            unit_weights={"weights": 1},
        )


def _groups(names: Mapping[str, Any], layout: Layout, match: str) -> list[list[str]]:
    """Matrices whose counts are matched together: each by itself, or those of one layer (the pooler is a layer of its own)."""
    groups: dict[str | int, list[str]] = {}
    for name in names:
        place = layout.place_of(name)
        groups.setdefault(name if match == "matrix" or place is None else place[0], []).append(name)
    return list(groups.values())


def _same_backbone(like: Ticket, family: str, sizes: Mapping[str, Any]) -> None:
    if like.kind == "structured":
        shape: dict[str, Any] = {group: [len(mask) for mask in masks] for group, masks in like.masks.items()}
    else:
        shape = {name: mask.shape for name, mask in zip(like.names, like.masks["weights"], strict=True)}
    if like.family != family:
        raise TicketsError(
            f"the ticket to match is for another backbone ({like.family}) than the model ({family})",
            hint="match its own",
            code="ticket.family",
        )
    if shape != sizes:
        raise TicketsError(
            f"the ticket to match is for a {family} of other sizes than the model's",
            hint="match one of this model",
            code="ticket.shape",
        )


REGISTERED = RandomTicket
