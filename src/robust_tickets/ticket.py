"""Ticket: what a search found and a draw kept; frozen, validated, saved as safetensors + JSON.

A structured ticket has the groups ``heads`` and ``neurons``: per layer a mask (True = kept) and the scores it was drawn from. An
unstructured one has the group ``weights``: per matrix a mask of its shape. Masks are stored bit-packed, scores as float32. The scores
travel with the ticket, so that another sparsity is a new draw and not a new search. This file imports no torch and no transformers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from robust_tickets import draw as _draw
from robust_tickets.config import canonical
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import read_json, write_bytes, write_json

SCHEMA = 1
GROUPS = {"structured": ("heads", "neurons"), "unstructured": ("weights",)}
Group = tuple[np.ndarray, ...]


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
        if self.kind not in GROUPS:
            raise TicketsError(f"unknown kind of ticket: {self.kind!r}", hint=did_you_mean(self.kind, GROUPS))
        if set(self.masks) != set(GROUPS[self.kind]):
            raise TicketsError(f"a {self.kind} ticket holds {GROUPS[self.kind]}, got {tuple(self.masks)}", hint="give exactly these groups")
        if set(self.unit_weights) != set(self.masks):
            raise TicketsError("unit_weights must name the groups of the masks", hint="use Layout.unit_weights")
        set_ = object.__setattr__
        set_(self, "masks", _frozen({g: self.masks[g] for g in GROUPS[self.kind]}, bool))
        set_(self, "scores", _frozen(self.scores, np.float32))
        set_(self, "unit_weights", MappingProxyType({g: int(self.unit_weights[g]) for g in self.masks}))
        set_(self, "provenance", _read_only(json.loads(canonical(dict(self.provenance)))))
        for group, scores in self.scores.items():
            if group not in self.masks or [s.shape for s in scores] != [m.shape for m in self.masks[group]]:
                raise TicketsError(f"the scores of {group!r} do not have the shapes of its masks", hint="give one score per unit")
        if self.kind == "structured":
            for group, masks in self.masks.items():
                bare = [i for i, m in enumerate(masks) if m.ndim != 1 or not m.any()]
                if bare:
                    raise TicketsError(f"layer {bare[0]} keeps none of its {group}", hint="keep at least one in every layer")
            if len({len(m) for m in self.masks.values()}) > 1:
                raise TicketsError("heads and neurons name different numbers of layers", hint="give one mask per layer in both")
        elif len(self.names) != len(self.masks["weights"]):
            raise TicketsError("an unstructured ticket names the matrix of each mask", hint="give as many names as masks")

    @classmethod
    def from_kept(cls, model: Any, *, heads: Sequence[Sequence[int]], neurons: Sequence[Sequence[int]]) -> Ticket:
        """A structured ticket by hand: the indices to keep, per layer. ``model``: a Classifier or a transformers model."""
        from robust_tickets.layout import layout_of

        model = getattr(model, "model", model)
        layout = layout_of(model)
        sizes = {"heads": layout.heads_of(model), "neurons": layout.neurons_of(model)}
        masks = {g: _masks_from_kept(g, kept, sizes[g]) for g, kept in (("heads", heads), ("neurons", neurons))}
        return cls(
            kind="structured", family=layout.family, masks=masks, unit_weights=layout.unit_weights(model), provenance={"method": "by hand"}
        )

    @classmethod
    def from_scores(
        cls, *, family: str, scores: Mapping[str, Sequence[np.ndarray]], unit_weights: Mapping[str, int], **draw: Any
    ) -> Ticket:
        """A structured ticket drawn from scores; ``draw`` as in :meth:`draw`, plus ``provenance``."""
        provenance = draw.pop("provenance", {})
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

    def draw(
        self,
        *,
        heads: float | None = None,
        neurons: float | None = None,
        head_scope: _draw.Scope | None = None,
        neuron_scope: _draw.Scope | None = None,
        rule: _draw.Rule | None = None,
    ) -> Ticket:
        """Another sparsity from the same scores: ``heads`` and ``neurons`` are the fractions removed.

        What is left out is as in the draw that made this ticket (``provenance["draw"]``); where none did, nothing is removed, the scope
        is global and the rule exact. So ``draw(neurons=0.4)`` changes the neurons and removes the same heads.
        """
        if self.kind != "structured":
            raise TicketsError(f"heads and neurons cannot be drawn from an {self.kind} ticket", hint="draw weights by sparsity")
        if set(self.scores) != set(self.masks):
            raise TicketsError("this ticket carries no scores to draw from", hint="draw from the ticket that a search returned")
        asked: dict[str, Any] = {"heads": heads, "neurons": neurons, "head_scope": head_scope, "neuron_scope": neuron_scope, "rule": rule}
        before = {**_WHOLE, **self.provenance.get("draw", {})}
        how: dict[str, Any] = {key: value if value is not None else before[key] for key, value in asked.items()}
        masks = {
            group: _draw.draw(self.scores[group], how[group], scope=how[scope], floor=1, rule=how["rule"])
            for group, scope in (("heads", "head_scope"), ("neurons", "neuron_scope"))
        }
        return replace(self, masks=masks, provenance={**self.provenance, "draw": how})

    @property
    def layers(self) -> int:
        return len(self.masks["heads"]) if self.kind == "structured" else 0

    @property
    def removed(self) -> dict[str, float]:
        """Fraction of the units of each group that is gone."""
        return {g: 1 - _kept(m) / _size(m) for g, m in self.masks.items()}

    @property
    def sparsity(self) -> float:
        """Fraction of the prunable matrix weights that is gone."""
        total = sum(_size(m) * self.unit_weights[g] for g, m in self.masks.items())
        kept = sum(_kept(m) * self.unit_weights[g] for g, m in self.masks.items())
        return 1 - kept / total

    def kept(self, group: str) -> list[list[int]]:
        """Indices kept, per layer."""
        return [np.flatnonzero(m).tolist() for m in self.masks[group]]

    def distance(self, other: Ticket) -> dict[str, float]:
        """Hamming distance over size, per group; refuses tickets of other shapes."""
        shapes = [{g: [m.shape for m in t.masks[g]] for g in t.masks} for t in (self, other)]
        if shapes[0] != shapes[1]:
            raise TicketsError("tickets of different shapes have no distance", hint="compare tickets of one backbone")
        return {
            g: sum(int((a != b).sum()) for a, b in zip(self.masks[g], other.masks[g], strict=True)) / _size(self.masks[g])
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

    def save(self, folder: str | Path) -> Path:
        """Write ``ticket.safetensors`` and, last, ``ticket.json`` into ``folder``."""
        from safetensors.numpy import save

        folder = Path(folder)
        tensors = {f"mask.{g}.{i}": np.packbits(m) for g, masks in self.masks.items() for i, m in enumerate(masks)}
        tensors |= {f"score.{g}.{i}": np.ascontiguousarray(s) for g, scores in self.scores.items() for i, s in enumerate(scores)}
        blob = save(tensors)
        about = {
            "schema": SCHEMA,
            "kind": self.kind,
            "family": self.family,
            "names": list(self.names),
            "shapes": {g: [list(m.shape) for m in masks] for g, masks in self.masks.items()},
            "unit_weights": dict(self.unit_weights),
            "scored": sorted(self.scores),
            "removed": self.removed,
            "sparsity": self.sparsity,
            "provenance": dict(self.provenance),
            "digest": self.digest,
            "sha256": hashlib.sha256(blob).hexdigest(),
        }
        write_bytes(folder / "ticket.safetensors", blob)
        write_json(folder / "ticket.json", about)
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Ticket:
        """Read a saved ticket back; every mismatch is an error that names the file."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        folder = Path(folder)
        for name in ("ticket.json", "ticket.safetensors"):
            if not (folder / name).is_file():
                raise TicketsError(f"no ticket in {folder}: {name} is missing", hint="give the folder that a search wrote")
        about = read_json(folder / "ticket.json")
        blob = (folder / "ticket.safetensors").read_bytes()
        if not isinstance(about, dict) or about.get("schema") != SCHEMA:
            found = about.get("schema") if isinstance(about, dict) else type(about).__name__
            raise TicketsError(f"{folder / 'ticket.json'} has schema {found!r}, this version reads {SCHEMA}", hint="update the package")
        damaged = TicketsError(f"{folder / 'ticket.safetensors'} does not match ticket.json", hint="the ticket is damaged: search again")
        if hashlib.sha256(blob).hexdigest() != about.get("sha256"):
            raise damaged
        try:
            tensors = load(blob)
            shapes = {g: [tuple(s) for s in shapes] for g, shapes in about["shapes"].items()}
            masks = {g: tuple(_unpack(tensors[f"mask.{g}.{i}"], s) for i, s in enumerate(ss)) for g, ss in shapes.items()}
            scores = {g: tuple(tensors[f"score.{g}.{i}"] for i in range(len(shapes[g]))) for g in about["scored"]}
            ticket = cls(
                kind=about["kind"],
                family=about["family"],
                names=tuple(about["names"]),
                masks=masks,
                scores=scores,
                unit_weights=about["unit_weights"],
                provenance=about["provenance"],
            )
        except (KeyError, TypeError, ValueError, AttributeError, SafetensorError):
            raise damaged from None
        if ticket.digest != about.get("digest"):
            raise damaged
        return ticket


_WHOLE: dict[str, Any] = {"heads": 0.0, "neurons": 0.0, "head_scope": "global", "neuron_scope": "global", "rule": "exact"}


class _ReadOnly(dict[str, Any]):
    """A dict that json can write and nobody can change."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a ticket's provenance cannot be changed")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return _read_only, (dict(self),)


def _read_only(value: Any) -> Any:
    """JSON values with nothing in them that can be changed: lists become tuples."""
    if isinstance(value, dict):
        return _ReadOnly({key: _read_only(inner) for key, inner in value.items()})
    return tuple(map(_read_only, value)) if isinstance(value, list | tuple) else value


def _frozen(groups: Mapping[str, Sequence[np.ndarray]], dtype: Any) -> Mapping[str, Group]:
    frozen = {}
    for name, arrays in groups.items():
        copies = []
        for array in arrays:
            array = np.asarray(array)
            if dtype is bool and array.dtype != bool and not np.isin(array, (0, 1)).all():
                raise TicketsError(f"a mask of {name!r} holds values other than 0 and 1", hint="masks are boolean: True keeps a unit")
            copy = array.astype(dtype, copy=True)
            copy.flags.writeable = False
            copies.append(copy)
        frozen[name] = tuple(copies)
    return MappingProxyType(frozen)


def _masks_from_kept(group: str, kept: Sequence[Sequence[int]], sizes: Sequence[int]) -> Group:
    if len(kept) != len(sizes):
        raise TicketsError(
            f"{group}: the backbone has {len(sizes)} layers, got {len(kept)} lists", hint="give one list of kept indices per layer"
        )
    masks = []
    for layer, (indices, size) in enumerate(zip(kept, sizes, strict=True)):
        mask = np.zeros(size, dtype=bool)
        for i in indices:
            if (
                isinstance(i, bool | np.bool_) or not isinstance(i, int | np.integer) or not 0 <= i < size
            ):  # a list of booleans is no list of indices
                raise TicketsError(f"{group}: layer {layer} has {size} of them, got index {i}", hint=f"indices run from 0 to {size - 1}")
            mask[i] = True
        masks.append(mask)
    return tuple(masks)


def _unpack(packed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    if packed.size != (size + 7) // 8:
        raise ValueError("mask size")
    return np.unpackbits(packed, count=size).astype(bool).reshape(shape)


def _size(masks: Group) -> int:
    return sum(m.size for m in masks)


def _kept(masks: Group) -> int:
    return sum(int(m.sum()) for m in masks)
