"""Gates along a search, by penalty (RT-F1, RT-F5): lines over epochs, from what the searches traced."""

from __future__ import annotations

from collections.abc import Sequence

from robust_tickets.reproduce.figures.drawn import Panel
from robust_tickets.reproduce.figures.lines import Axis, lines
from robust_tickets.reproduce.figures.series import Point, Series
from robust_tickets.reproduce.figures.traces import along
from robust_tickets.reproduce.outcome import Outcome

EPOCH = Axis(title="epoch", unit=" epochs")
MOST = 60  # points of a line; a longer trace is thinned evenly
MEASURES = {"R": "R, the mean chance of a gate to be open, %", "exact": "gates at exactly 0 or 1, %"}


def gates(where: str, arms: Sequence[tuple[str, Sequence[Outcome]]]) -> list[Panel]:
    """R and the share of exact gates; ``arms`` are the lines' names and their runs."""
    panels = []
    for key, what in MEASURES.items():
        series = [one for i, (name, own) in enumerate(arms) if (one := _traced(name, i, own, key))]
        if series:
            panels.append(lines(where, what, EPOCH, series, low=0, high=100, dots=False, marks=False))
    return panels or [Panel(title=where, why=f"{where}: the runs there are traced no gates.")]


def _traced(name: str, index: int, outcomes: Sequence[Outcome], key: str) -> Series | None:
    """The searches' values, in percent, at every epoch that was traced."""
    at: dict[float, list[tuple[float, str]]] = {}
    for one in outcomes:
        if one.unit.repeat == 0:
            for epoch, value in along(one, "gates", key):
                at.setdefault(round(epoch, 4), []).append((100 * value, one.unit.id))
    if not at:
        return None
    epochs = sorted(at)
    kept = (
        epochs
        if len(epochs) <= MOST
        else sorted({epochs[round(k * (len(epochs) - 1) / (MOST - 1))] for k in range(MOST)})
    )
    points = tuple(Point(x=x, values=tuple(v for v, _ in at[x]), sources=tuple(id for _, id in at[x])) for x in kept)
    return Series(name=name, index=index, points=points)
