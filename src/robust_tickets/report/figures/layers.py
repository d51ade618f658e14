"""What survives: every head of every layer as a square, the neurons of every layer as a bar."""

from __future__ import annotations

from robust_tickets.report.figures.axes import Scale, colour, figure, group, label, shorten, svg
from robust_tickets.report.markup import Html, tag
from robust_tickets.report.run_data import Arm, Shape

CELL, GAP, ROW = 12, 3, 19
LEFT, TOP, BAR = 26, 46, 76
LETTER = 8.5  # pixels of a letter of a name, about


def layers(arm: Arm, index: int) -> Html | None:
    """One ticket. Layer 1, nearest the words, is at the bottom, as a network is usually drawn."""
    shape = arm.shape
    if shape is None or not shape.heads:
        return None
    depth, widest = len(shape.heads), max(map(len, shape.heads))
    heads_end = LEFT + widest * (CELL + GAP)
    bars = heads_end + 16
    width, height = bars + BAR + 46, TOP + depth * ROW + 12
    scale = Scale(low=0, high=1, start=bars, end=bars + BAR)
    kept_heads, all_heads = sum(map(sum, shape.heads)), sum(map(len, shape.heads))
    kept_neurons, all_neurons = (sum(pair[k] for pair in shape.neurons) for k in (0, 1))
    parts = [
        label(0, 14, shorten(arm.title, int(width / LETTER)), kind="name"),
        label(LEFT, TOP - 10, "heads", kind="tick"),
        label(bars, TOP - 10, "neurons", kind="tick"),
    ]
    for layer in range(depth):
        parts.append(_layer(shape, layer, TOP + (depth - 1 - layer) * ROW, scale, colour(index)))
    caption = f"{kept_heads} of {all_heads} heads, {kept_neurons} of {all_neurons} neurons."
    said = "; ".join(
        f"layer {i + 1}: {sum(heads)} of {len(heads)} heads, {kept} of {of} neurons"
        for i, (heads, (kept, of)) in enumerate(zip(shape.heads, shape.neurons, strict=True))
    )
    return figure([svg(width, height, parts, alt=f"{arm.title}. {said}")], caption, "layers")


def _layer(shape: Shape, layer: int, y: float, scale: Scale, kind: str) -> Html:
    heads, (kept, of) = shape.heads[layer], shape.neurons[layer]
    share = kept / of if of else 0.0
    cells = [
        tag(
            "rect",
            x=LEFT + h * (CELL + GAP),
            y=y,
            width=CELL,
            height=CELL,
            rx=3,
            class_=f"{kind} solid" if alive else "gone",
        )
        for h, alive in enumerate(heads)
    ]
    return group(
        label(LEFT - 10, y + 10.5, layer + 1, "end", "tick"),
        *cells,
        tag("rect", x=scale(0), y=y + 1.5, width=BAR, height=CELL - 3, rx=3, class_="gone"),
        tag(
            "rect",
            x=scale(0),
            y=y + 1.5,
            width=max(1.0, scale(share) - scale(0)),
            height=CELL - 3,
            rx=3,
            class_=f"{kind} solid",
        ),
        label(scale(1) + 7, y + 10.5, f"{100 * share:.0f} %", kind="tick"),
        title=f"Layer {layer + 1}: {sum(heads)} of {len(heads)} heads, {kept} of {of} neurons",
    )
