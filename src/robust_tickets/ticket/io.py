"""A ticket's files: ``ticket.safetensors`` (bit-packed masks, scores of units) and ``ticket.json`` (the rest).

One score a weight is 32 times its mask: the scores of an unstructured ticket lie in ``scores.safetensors``, are read
when first drawn from, and may be removed; what is left is a whole ticket that can be applied but not drawn from again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json, sha256_file, write_bytes, write_json
from robust_tickets.ticket.topk import Group

if TYPE_CHECKING:
    from robust_tickets.ticket.ticket import Ticket

SCHEMA = 1
APART = "scores.safetensors"


class StoredScores(Mapping[str, Group]):
    """The scores of an unstructured ticket, still in their file; reading checks the hash that ticket.json holds."""

    def __init__(self, path: Path, sha256: str, shapes: Sequence[tuple[int, ...]]) -> None:
        self.path, self.sha256, self.shapes = path, sha256, list(shapes)
        self.read: Group | None = None

    def __getitem__(self, group: str) -> Group:
        if group != "weights":
            raise KeyError(group)
        if self.read is None:
            self.read = self._load()
        return self.read

    def __iter__(self) -> Iterator[str]:
        return iter(("weights",))

    def __len__(self) -> int:
        return 1

    def _load(self) -> Group:
        from safetensors import SafetensorError, safe_open

        if not self.path.is_file():
            message, hint = f"the scores of this ticket are gone: {self.path}", "put the file back, or search again"
            raise TicketsError(message, hint=hint, code="ticket.scores_gone")
        damaged = _damaged(self.path, "remove it to keep the ticket as drawn, or search again")
        if sha256_file(self.path) != self.sha256:
            raise damaged
        scores = []
        try:
            with safe_open(self.path, "np") as file:
                for i, shape in enumerate(self.shapes):
                    array = file.get_tensor(f"score.weights.{i}")
                    if array.shape != shape or array.dtype != np.float32:
                        raise damaged
                    array.flags.writeable = False
                    scores.append(array)
        except (SafetensorError, ValueError):
            raise damaged from None
        return tuple(scores)


def save(ticket: Ticket, folder: Path) -> Path:
    """Write the scores, the masks and, last, ``ticket.json``."""
    from safetensors.numpy import save as pack

    apart = ticket.kind == "unstructured" and bool(ticket.scores)
    masks = {f"mask.{g}.{i}": np.packbits(m) for g, masks in ticket.masks.items() for i, m in enumerate(masks)}
    scores = {
        f"score.{g}.{i}": np.ascontiguousarray(s) for g, scores in ticket.scores.items() for i, s in enumerate(scores)
    }
    blob = pack(masks if apart else masks | scores)
    about = {
        "schema": SCHEMA,
        "kind": ticket.kind,
        "family": ticket.family,
        "names": list(ticket.names),
        "shapes": {g: [list(m.shape) for m in masks] for g, masks in ticket.masks.items()},
        "unit_weights": dict(ticket.unit_weights),
        "scored": [] if apart else sorted(ticket.scores),
        "removed": ticket.removed,
        "sparsity": ticket.sparsity,
        "provenance": dict(ticket.provenance),
        "digest": ticket.digest,
        "sha256": hashlib.sha256(blob).hexdigest(),
    }
    if apart:
        about["scores_sha256"] = sha256_file(write_bytes(folder / APART, pack(scores)))
    write_bytes(folder / "ticket.safetensors", blob)
    write_json(folder / "ticket.json", about)
    return folder


def load(make: type[Ticket], folder: Path) -> Ticket:
    """Read a saved ticket back; every mismatch is an error that names the file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as unpack

    for name in ("ticket.json", "ticket.safetensors"):
        if not (folder / name).is_file():
            message = f"no ticket in {folder}: {name} is missing"
            raise TicketsError(message, hint="give the folder that a search wrote", code="ticket.not_found")
    about = read_json(folder / "ticket.json")
    blob = (folder / "ticket.safetensors").read_bytes()
    found = about.get("schema") if isinstance(about, dict) else type(about).__name__
    if found != SCHEMA:
        message = f"{folder / 'ticket.json'} has schema {found!r}, this version reads {SCHEMA}"
        raise TicketsError(message, hint="update the package", code="ticket.schema")
    damaged = _damaged(folder / "ticket.safetensors", "the ticket is damaged: search again")
    if hashlib.sha256(blob).hexdigest() != about.get("sha256"):
        raise damaged
    try:
        tensors = unpack(blob)
        shapes = {g: [tuple(s) for s in shapes] for g, shapes in about["shapes"].items()}
        masks = {g: tuple(_unpack(tensors[f"mask.{g}.{i}"], s) for i, s in enumerate(ss)) for g, ss in shapes.items()}
        scores: Mapping[str, Group] = {
            g: tuple(tensors[f"score.{g}.{i}"] for i in range(len(shapes[g]))) for g in about["scored"]
        }
        if about.get("scores_sha256") and (folder / APART).is_file():
            scores = StoredScores(folder / APART, about["scores_sha256"], shapes["weights"])
        plain = {name: about[name] for name in ("kind", "family", "unit_weights", "provenance")}
        ticket = make(names=tuple(about["names"]), masks=masks, scores=scores, **plain)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, SafetensorError):
        raise damaged from None
    if ticket.digest != about.get("digest"):
        raise damaged
    return ticket


def _damaged(path: Path, hint: str) -> TicketsError:
    return TicketsError(f"{path} does not match ticket.json", hint=hint, code="ticket.damaged")


def _unpack(packed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    if packed.size != (size + 7) // 8:
        raise ValueError("mask size")
    return np.unpackbits(packed, count=size).view(bool).reshape(shape)
