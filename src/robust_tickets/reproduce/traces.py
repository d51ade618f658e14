"""What an outcome keeps for figures, as values: distances of masks, gates along a search, what survives in each layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from robust_tickets.errors import TicketsError
from robust_tickets.report.figures import PARTS
from robust_tickets.report.run_data import Distances, by_layer, distances_of, finite
from robust_tickets.reproduce.aggregate import HINT
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.search.stopping import paper


@dataclass(frozen=True, kw_only=True)
class Survivors:
    """Per layer, the share that is kept of each part; ``heads`` has one for every head: 0 or 1 where heads are what was removed."""

    parts: Mapping[str, tuple[float, ...]]
    heads: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if len({len(shares) for shares in self.parts.values()}) != 1 or len({len(row) for row in self.heads}) > 1:
            raise ValueError("layers differ in number or in heads")

    @property
    def depth(self) -> int:
        return len(next(iter(self.parts.values())))

    @property
    def form(self) -> tuple[int, list[str], list[int]]:
        """Layers, parts and heads of each layer: equal for tickets of one model."""
        return self.depth, list(self.parts), list(map(len, self.heads))


@contextmanager
def _from(outcome: Outcome, what: str) -> Iterator[None]:
    """What is no such thing was written by somebody else: it is refused, not shown."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
        message = f"{outcome.unit.id}: its {what} cannot be read ({problem})"
        raise TicketsError(message, hint=HINT, code="result.traces") from None


def distances(outcome: Outcome) -> Distances | None:
    """As the search wrote them; ``None`` where it wrote none."""
    given = outcome.traces.get("distances")
    if not given:
        return None
    with _from(outcome, "mask distances"):
        found = distances_of(given)
        return replace(found, rule_at=_stop(given, found)) if found.rule == "fixed" and found.groups else found


def _stop(given: Mapping[str, Any], found: Distances) -> int | None:
    """Where the paper's rule would have stopped a search that it did not stop: asked again at every point, as in a search."""
    far = np.maximum.reduce([np.array(rows) for rows in found.groups.values()])
    gamma, window = float(given["gamma"]), int(given["window"])
    return next((i for i in range(len(far)) if paper(far[: i + 1, : i + 1], gamma, window) is not None), None)


def along(outcome: Outcome, trace: str, key: str) -> tuple[tuple[float, float], ...]:
    """Epoch and value of each line of a trace that has the value."""
    with _from(outcome, trace):
        lines = outcome.traces.get(trace) or ()
        return tuple((finite(line["epoch"]), finite(line[key])) for line in lines if line.get(key) is not None)


def by_head(outcomes: Sequence[Outcome]) -> bool:
    """Whether the tickets of single weights among these were all counted by head; the first outcomes have matrices alone."""
    return all("by_head" in one.ticket for one in outcomes if one.ticket and "weights" in one.ticket)


def survivors(outcome: Outcome, *, matrices: bool = False) -> Survivors | None:
    """Of its ticket; ``None`` where it has none. ``matrices``: of single weights by matrices, also where heads were counted."""
    kept = outcome.ticket or {}
    with _from(outcome, "ticket"):
        if "by_head" in kept and not matrices:
            shares = tuple(tuple(map(_share, row)) for row in kept["by_head"])
            parts = {"heads": tuple(fmean(row) for row in shares), "MLPs": tuple(map(_share, kept["by_mlp"]))}
            return Survivors(parts=parts, heads=shares)
        if "heads" in kept:
            heads = tuple(tuple(map(int, row)) for row in kept["heads"])
            means = {"heads": tuple(sum(row) / max(1, len(row)) for row in heads)}
            return Survivors(parts={**means, "neurons": tuple(map(_share, kept["neurons"]))}, heads=heads)
        return Survivors(parts=_weights(kept["weights"], outcome.unit.backbone)) if "weights" in kept else None


def _share(count: Sequence[int]) -> float:
    kept, of = count
    return kept / max(1, of)


def _weights(counts: Mapping[str, Sequence[int]], backbone: str) -> dict[str, tuple[float, ...]]:
    """Matrices added up by layer and part."""
    layers = by_layer(backbone.partition("-")[0], [(name, kept, of) for name, (kept, of) in counts.items()])
    return {title: tuple(_share(layer[part]) for layer in layers) for part, title in PARTS.items()}
