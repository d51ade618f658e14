"""What survives of a ticket of single weights: a bar for attention and one for the feed-forward part of every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from robust_tickets.report.figures.axes import Scale, colour, figure, group, label, shorten, svg
from robust_tickets.report.figures.layers import BAR, CELL, LEFT, LETTER, ROW, TOP
from robust_tickets.report.markup import Html, tag
from robust_tickets.report.run_data import Arm

if TYPE_CHECKING:
    pass

PARTS = {"attention": "attention", "feedforward": "feed-forward"}
APART = 62  # pixels from one bar's end to the next one's start: room for its number


def weights(arm: Arm, index: int) -> Html | None:
    """One unstructured ticket. Layer 1, nearest the words, is at the bottom."""
    if arm.shape is None or not arm.shape.weights:
        return None
    rows, depth = arm.shape.weights, len(arm.shape.weights)
    starts = {part: LEFT + i * (BAR + APART) for i, part in enumerate(PARTS)}
    width, height = LEFT + len(PARTS) * (BAR + APART), TOP + depth * ROW + 12
    parts = [
        label(0, 14, shorten(arm.title, int(width / LETTER)), kind="name"),
        *(label(start, TOP - 10, PARTS[part], kind="tick") for part, start in starts.items()),
    ]
    for layer, row in enumerate(rows):
        parts.append(_layer(row, layer, TOP + (depth - 1 - layer) * ROW, starts, colour(index)))
    kept, of = (sum(pair[k] for row in rows for pair in row.values()) for k in (0, 1))
    said = "; ".join(f"layer {i + 1}: {_said(row)}" for i, row in enumerate(rows))
    caption = f"{kept:,} of {of:,} weights of the layers ({100 * kept / max(of, 1):.1f} %)."
    return figure([svg(width, height, parts, alt=f"{arm.title}. {said}")], caption, "layers")


def _layer(row: Mapping[str, tuple[int, int]], layer: int, y: float, starts: Mapping[str, int], kind: str) -> Html:
    bars = []
    for part, (kept, of) in row.items():
        share, scale = kept / of if of else 0.0, Scale(low=0, high=1, start=starts[part], end=starts[part] + BAR)
        full = max(1.0, scale(share) - scale(0))
        bars += [
            tag("rect", x=scale(0), y=y + 1.5, width=BAR, height=CELL - 3, rx=3, class_="gone"),
            tag("rect", x=scale(0), y=y + 1.5, width=full, height=CELL - 3, rx=3, class_=f"{kind} solid"),
            label(scale(1) + 7, y + 10.5, f"{100 * share:.0f} %", kind="tick"),
        ]
    return group(label(LEFT - 10, y + 10.5, layer + 1, "end", "tick"), *bars, title=f"Layer {layer + 1}: {_said(row)}")


def _said(row: Mapping[str, tuple[int, int]]) -> str:
    return ", ".join(f"{kept:,} of {of:,} weights in {PARTS[part]}" for part, (kept, of) in row.items())
