"""Ticket, the value: masks drawn from scores, frozen and validated. Imports no torch and no transformers.

A structured ticket has the groups ``heads`` and ``neurons``: per layer a mask (True = kept) and the scores it was drawn
from. An unstructured one has the group ``weights``: per matrix a mask of its shape. The scores belong to the ticket, so
that another sparsity is a new draw and not a new search. ``io.py`` has its files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.config import canonical
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.ticket import io, topk
from robust_tickets.ticket.topk import Group, Multiple, Rule, Scope, WeightScope

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from robust_tickets.backbone.layout import Layout

GROUPS = {"structured": ("heads", "neurons"), "unstructured": ("weights",)}
UNITS = {"heads": 0.0, "neurons": 0.0, "head_scope": "global", "neuron_scope": "global", "rule": "exact", "round_to": 1}
WHOLE: dict[str, dict[str, Any]] = {  # the draw that keeps everything
    "structured": UNITS,
    "unstructured": {"sparsity": 0.0, "scope": "global"},
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Ticket:
    """Masks and scores by group, for one backbone family, with where they came from."""

    kind: str
    family: str
    masks: Mapping[str, Group]
    unit_weights: Mapping[str, int]  # matrix weights that one unit of each group holds
    scores: Mapping[str, Group] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # unstructured: the matrix that each mask belongs to
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_groups()
        set_ = object.__setattr__
        set_(self, "masks", frozen({g: self.masks[g] for g in GROUPS[self.kind]}, bool))
        stored = isinstance(self.scores, io.StoredScores)  # checked when they are read
        set_(self, "scores", self.scores if stored else frozen(self.scores, np.float32))
        set_(self, "unit_weights", MappingProxyType({g: int(self.unit_weights[g]) for g in self.masks}))
        set_(self, "provenance", read_only(json.loads(canonical(dict(self.provenance)))))
        for group, scores in () if stored else self.scores.items():
            if group not in self.masks or [s.shape for s in scores] != [m.shape for m in self.masks[group]]:
                message = f"the scores of {group!r} do not have the shapes of its masks"
                raise TicketsError(message, hint="give one score per unit", code="ticket.score_shapes")
        self._check_masks()
        if not isinstance(self.provenance.get("draw", {}), dict):
            message = "the draw in a ticket's provenance must name its settings"
            raise TicketsError(message, hint="leave it out", code="ticket.provenance")

    def _check_groups(self) -> None:
        if self.kind not in GROUPS:
            hint = did_you_mean(self.kind, GROUPS)
            raise TicketsError(f"unknown kind of ticket: {self.kind!r}", hint=hint, code="ticket.kind")
        if set(self.masks) != set(GROUPS[self.kind]):
            message = f"a {self.kind} ticket holds {GROUPS[self.kind]}, got {tuple(self.masks)}"
            raise TicketsError(message, hint="give exactly these groups", code="ticket.groups")
        if set(self.unit_weights) != set(self.masks) or not all(count >= 1 for count in self.unit_weights.values()):
            message = f"unit_weights must give each group at least one weight, got {dict(self.unit_weights)}"
            raise TicketsError(message, hint="use Layout.unit_weights", code="ticket.unit_weights")

    def _check_masks(self) -> None:
        if self.kind == "unstructured":
            if len(set(self.names)) != len(self.masks["weights"]) or len(self.names) != len(self.masks["weights"]):
                message = "an unstructured ticket names the matrix of each mask"
                raise TicketsError(message, hint="give as many names as masks, each once", code="ticket.names")
        else:
            for group, masks in self.masks.items():
                for layer, mask in enumerate(masks):
                    if mask.ndim != 1 or not mask.any():
                        message, hint = f"layer {layer} keeps none of its {group}", "keep at least one in every layer"
                        raise TicketsError(message, hint=hint, code="ticket.empty_layer")
            if len(self.masks["heads"]) != len(self.masks["neurons"]):
                message = "heads and neurons name different numbers of layers"
                raise TicketsError(message, hint="give one mask per layer in both", code="ticket.layers")
        if not all(map(size_of, self.masks.values())):
            hint = "give a mask for every layer or matrix of the backbone"
            raise TicketsError("a ticket without a single unit", hint=hint, code="ticket.empty")

    @classmethod
    def from_kept(cls, model: Any, *, heads: Sequence[Sequence[int]], neurons: Sequence[Sequence[int]]) -> Ticket:
        """A structured ticket from the indices to keep, per layer. ``model``: a Classifier or a transformers model."""
        from robust_tickets.backbone.layout import layout_of

        model = getattr(model, "model", model)
        layout = layout_of(model)
        sizes = layout.units_of(model)
        masks = {g: masks_from_kept(g, kept, sizes[g]) for g, kept in (("heads", heads), ("neurons", neurons))}
        return cls(
            kind="structured",
            family=layout.family,
            masks=masks,
            unit_weights=layout.unit_weights(model),
            provenance={"method": "by hand"},
        )

    @classmethod
    def from_scores(
        cls,
        *,
        family: str,
        scores: Mapping[str, Sequence[np.ndarray]],
        unit_weights: Mapping[str, int],
        provenance: Mapping[str, Any] = MappingProxyType({}),
        **draw: Any,
    ) -> Ticket:
        """A structured ticket drawn from scores; ``draw`` as in :meth:`draw`."""
        full = {g: tuple(np.ones(np.shape(s), dtype=bool) for s in group) for g, group in scores.items()}
        whole = cls(
            kind="structured",
            family=family,
            masks=full,
            scores={g: tuple(s) for g, s in scores.items()},
            unit_weights=unit_weights,
            provenance=provenance,
        )
        return whole.draw(**draw)

    @classmethod
    def from_weight_scores(
        cls,
        *,
        family: str,
        names: Sequence[str],
        scores: Sequence[np.ndarray],
        sparsity: float,
        scope: WeightScope = "global",
        provenance: Mapping[str, Any] = MappingProxyType({}),
    ) -> Ticket:
        """An unstructured ticket from one score per weight; ``names`` are those of ``Layout.matrices_of``."""
        whole = cls(
            kind="unstructured",
            family=family,
            names=tuple(names),
            masks={"weights": tuple(np.ones(np.shape(s), dtype=bool) for s in scores)},
            scores={"weights": tuple(scores)},
            unit_weights={"weights": 1},
            provenance=provenance,
        )
        return whole.draw(sparsity=sparsity, scope=scope)

    def draw(
        self,
        *,
        heads: float | None = None,
        neurons: float | None = None,
        head_scope: Scope | None = None,
        neuron_scope: Scope | None = None,
        rule: Rule | None = None,
        round_to: Multiple | None = None,
        sparsity: float | None = None,
        scope: WeightScope | None = None,
    ) -> Ticket:
        """Another draw from the same scores; ``heads``, ``neurons`` or ``sparsity`` are the fractions removed.

        What is left out is as in the draw that made this ticket (``provenance["draw"]``); where none did, nothing is
        removed, the scope is global and the rule exact. So ``draw(neurons=0.4)`` changes the neurons and removes the
        same heads.

        ``round_to`` (8, 16 or 64; 1: off) brings the neurons of every layer to a multiple that matrix kernels like
        (``topk.rounded``): the fraction removed is then nearly, not exactly, the one given; ``rounding`` reports the
        difference.
        """
        given: dict[str, Any] = {"heads": heads, "neurons": neurons, "sparsity": sparsity, "round_to": round_to}
        given |= {"head_scope": head_scope, "neuron_scope": neuron_scope, "rule": rule, "scope": scope}
        whole = WHOLE[self.kind]
        for name, value in given.items():
            if value is not None and name not in whole:
                message = f"{name} cannot be drawn from a ticket of {' and '.join(self.masks)}"
                raise TicketsError(message, hint=f"draw it by {', '.join(whole)}", code="ticket.groups_drawn")
        if set(self.scores) != set(self.masks):
            hint = "draw from the ticket that a search returned"
            hint += "" if self.kind == "structured" else f", or put {io.APART} back beside it"
            raise TicketsError("this ticket has no scores to draw from", hint=hint, code="ticket.no_scores")
        before = {**whole, **self.provenance.get("draw", {})}
        how: dict[str, Any] = {name: before[name] if given[name] is None else given[name] for name in whole}
        if self.kind == "structured":
            masks = {
                group: topk.draw(self.scores[group], how[group], scope=how[scope_of], rule=how["rule"])
                for group, scope_of in (("heads", "head_scope"), ("neurons", "neuron_scope"))
            }
        else:
            masks = {"weights": topk.draw_weights(self.scores["weights"], how["sparsity"], scope=how["scope"])}
        multiple = how.pop("round_to", 1)  # noted only where something is rounded
        origin = {key: value for key, value in self.provenance.items() if key not in ("draw", "rounded")}
        drawn = replace(self, masks=masks, provenance={**origin, "draw": how})
        return drawn if multiple == 1 else drawn.rounded_to(multiple, scope=how["neuron_scope"])

    def rounded_to(self, multiple: Multiple, *, scope: Scope = "global") -> Ticket:
        """The ticket with the neurons of every layer rounded to a multiple, which its provenance notes."""
        if self.kind != "structured" or "neurons" not in self.scores:
            message = f"round_to needs neurons with scores, this ticket has {', '.join(self.masks)}"
            raise TicketsError(message, hint="leave round_to out", code="ticket.round_to")
        neurons = topk.rounded(self.masks["neurons"], self.scores["neurons"], multiple, scope=scope)
        if multiple == 1:
            return self
        note = {"round_to": multiple, "neurons": [kept_in(self.masks["neurons"]), kept_in(neurons)]}
        about = {**self.provenance, "rounded": note}
        if "draw" in about:
            about["draw"] = {**about["draw"], "round_to": multiple}
        return replace(self, masks={**self.masks, "neurons": neurons}, provenance=about)

    def check_fits(self, model: PreTrainedModel, layout: Layout) -> None:
        """Refuse a model that the heads and neurons of this ticket were not drawn for."""
        if self.kind != "structured":
            message = f"an {self.kind} ticket masks single weights: it gives no smaller shapes"
            raise TicketsError(message, hint="use apply(model, ticket)", code="ticket.kind")
        self.check_family(layout)
        units = layout.units_of(model)
        for group, masks in self.masks.items():
            sizes = [len(mask) for mask in masks]
            if sizes != units[group]:
                message = f"the ticket is for {sizes} {group} by layer, the model has {units[group]}"
                raise TicketsError(message, hint="use a ticket found on a model of this shape", code="ticket.shape")

    def check_family(self, layout: Layout) -> None:
        if self.family != layout.family:
            message = f"the ticket is for {self.family}, the model is {layout.family}"
            raise TicketsError(message, hint="use a ticket found on this backbone", code="ticket.family")

    @property
    def rounding(self) -> str:
        """What rounding did, in words: neurons and matrix weights before and after; empty where nothing was rounded."""
        match self.provenance.get("rounded"):
            case {"round_to": int(multiple), "neurons": (int(before), int(after))}:
                weights = sum(kept_in(m) * self.unit_weights[g] for g, m in self.masks.items())
                were = weights + (before - after) * self.unit_weights["neurons"]
                return (
                    f"neurons rounded to multiples of {multiple}: {after:,} kept instead of {before:,}, "
                    f"{weights:,} prunable weights instead of {were:,} ({100 * (weights / max(1, were) - 1):+.2f} %)"
                )
        return ""

    @property
    def removed(self) -> dict[str, float]:
        """Fraction of the units of each group that is gone."""
        return {g: 1 - kept_in(m) / size_of(m) for g, m in self.masks.items()}

    @property
    def sparsity(self) -> float:
        """Fraction of the prunable matrix weights that is gone."""
        total = sum(size_of(m) * self.unit_weights[g] for g, m in self.masks.items())
        kept = sum(kept_in(m) * self.unit_weights[g] for g, m in self.masks.items())
        return 1 - kept / total

    def kept(self, group: str) -> list[list[int]]:
        """Indices kept, per layer."""
        return [np.flatnonzero(m).tolist() for m in self.masks[group]]

    def distance(self, other: Ticket) -> dict[str, float]:
        """Hamming distance over size, per group; refuses tickets of other shapes."""
        shapes = [(t.names, {g: [m.shape for m in t.masks[g]] for g in t.masks}) for t in (self, other)]
        if shapes[0] != shapes[1]:
            message = "tickets of different shapes have no distance"
            raise TicketsError(message, hint="compare tickets of one backbone", code="ticket.shapes")
        return {
            g: sum(int((a != b).sum()) for a, b in zip(self.masks[g], other.masks[g], strict=True))
            / size_of(self.masks[g])
            for g in self.masks
        }

    @cached_property
    def digest(self) -> str:
        """sha256 of what determines the subnetwork: kind, family, names and masks."""
        h = hashlib.sha256(canonical([self.kind, self.family, list(self.names)]).encode())
        for group, masks in self.masks.items():
            for mask in masks:
                h.update(f"{group}{mask.shape}".encode() + np.packbits(mask).tobytes())
        return h.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ticket) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        """One line: the masks of millions of weights are not to be printed."""
        units = ", ".join(f"{g}={kept_in(m)}/{size_of(m)}" for g, m in self.masks.items())
        return f"Ticket({self.kind}, {self.family}, kept: {units}, digest={self.digest[:8]})"

    def __deepcopy__(self, memo: Any) -> Ticket:
        return self  # nothing in it can be changed

    def __reduce__(self) -> Any:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values = {name: dict(v) if isinstance(v, MappingProxyType) else v for name, v in values.items()}
        return partial(Ticket, **values), ()  # a proxy cannot be pickled

    def save(self, folder: str | Path) -> Path:
        """Write ``ticket.safetensors`` and, last, ``ticket.json`` into ``folder``."""
        return io.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Ticket:
        """Read a saved ticket back; every mismatch is an error that names the file."""
        return io.load(cls, Path(folder))


def expect_ticket(value: object) -> None:
    """Refuse what is no ticket; the result of a search holds one."""
    if not isinstance(value, Ticket):
        found = isinstance(getattr(value, "ticket", None), Ticket)
        hint = "give its ticket: found.ticket" if found else "Ticket.load(folder) reads one"
        raise TicketsError(f"expected a ticket, got a {type(value).__name__}", hint=hint, code="ticket.not_a_ticket")


class ReadOnly(dict[str, Any]):
    """A read-only dict that json can write."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a ticket's provenance cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return read_only, (dict(self),)


def read_only(value: Any) -> Any:
    """JSON values with nothing in them that can be changed: lists become tuples."""
    if isinstance(value, dict):
        return ReadOnly({key: read_only(inner) for key, inner in value.items()})
    return tuple(map(read_only, value)) if isinstance(value, list | tuple) else value


def frozen(groups: Mapping[str, Sequence[np.ndarray]], dtype: Any) -> Mapping[str, Group]:
    """Read-only copies; what already is one is shared: the scores of 85 million weights are 340 MB."""
    made = {}
    for name, arrays in groups.items():
        copies = []
        for array in map(np.asarray, arrays):
            if dtype is bool and array.dtype != bool and not np.isin(array, (0, 1)).all():
                message = f"a mask of {name!r} holds values other than 0 and 1"
                raise TicketsError(message, hint="masks are boolean: True keeps a unit", code="ticket.mask_values")
            if array.dtype != dtype or array.flags.writeable or not array.flags.owndata:
                array = array.astype(dtype, copy=True)
                array.flags.writeable = False
            copies.append(array)
        made[name] = tuple(copies)
    return MappingProxyType(made)


def masks_from_kept(group: str, kept: Sequence[Sequence[int]], sizes: Sequence[int]) -> Group:
    if len(kept) != len(sizes):
        message = f"{group}: the backbone has {len(sizes)} layers, got {len(kept)} lists"
        raise TicketsError(message, hint="give one list of kept indices per layer", code="ticket.layers")
    masks = []
    for layer, (indices, size) in enumerate(zip(kept, sizes, strict=True)):
        mask = np.zeros(size, dtype=bool)
        for i in indices:
            if isinstance(i, bool) or not isinstance(i, int | np.integer) or not 0 <= i < size:
                message = f"{group}: layer {layer} has {size} of them, got index {i}"
                raise TicketsError(message, hint=f"indices run from 0 to {size - 1}", code="ticket.index")
            mask[i] = True
        masks.append(mask)
    return tuple(masks)


def size_of(masks: Group) -> int:
    return sum(m.size for m in masks)


def kept_in(masks: Group) -> int:
    return sum(int(np.count_nonzero(m)) for m in masks)
