"""What survives in each layer, over all searches (ER-F5, RT-F3, OR-F1): every head as a square, every other part as a bar."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from robust_tickets.errors import TicketsError
from robust_tickets.report.charts import Scale, colour, group, label, svg
from robust_tickets.report.markup import Html, tag
from robust_tickets.reproduce.figures.agreement import mean_percent
from robust_tickets.reproduce.figures.drawn import WIDE, Panel, Table
from robust_tickets.reproduce.figures.traces import Survivors, by_head, survivors
from robust_tickets.reproduce.outcome import Outcome

CELL, GAP, ROW = 11, 2, 18
LEFT, TOP, NUMBER = 28, 62, 40


def survivors_by_layer(outcomes: Sequence[Outcome], title: str, index: int = 0) -> Panel:
    """One panel. Layer 1, nearest the words, is at the bottom."""
    apart = by_head(outcomes)
    found = [
        (one, told)
        for one in outcomes
        if one.unit.repeat == 0 and (told := survivors(one, matrices=not apart)) is not None
    ]
    if not found:
        return Panel(title=title, why=f"{title}: the runs there are have no ticket.")
    shapes, sources = [told for _, told in found], tuple(one.unit.id for one, _ in found)
    parts, depth = shapes[0].parts, shapes[0].depth
    for one, told in found:
        if (told.depth, list(told.parts), list(map(len, told.heads))) != (
            depth,
            list(parts),
            list(map(len, shapes[0].heads)),
        ):
            raise TicketsError(
                f"the tickets of {sources[0]} and {one.unit.id} are not of one model",
                hint="restore the result files; results are not edited",
            )
    searches = "1 search" if len(shapes) == 1 else f"{len(shapes)} searches"
    height = TOP + depth * ROW + 6
    drawn = [label(0, 14, title, kind="name"), label(0, 33, f"share that survives, {searches}", kind="quiet")]
    squares = bool(shapes[0].heads)
    bars = [name for name in parts if not (squares and name == "heads")]
    start = LEFT + (CELL + GAP) * len(shapes[0].heads[0]) + 14 if squares else LEFT
    wide = (WIDE - start) / len(bars) - NUMBER - 6
    scales = {
        name: Scale(low=0, high=1, start=start + k * (wide + NUMBER + 6), end=start + k * (wide + NUMBER + 6) + wide)
        for k, name in enumerate(bars)
    }
    drawn += [label(LEFT, TOP - 9, "heads", kind="tick")] if squares else []
    drawn += [label(scale.start, TOP - 9, name, kind="tick") for name, scale in scales.items()]
    said = [_said(shapes, layer) for layer in range(depth)]
    for layer in range(depth):
        y = TOP + (depth - 1 - layer) * ROW
        heads = _heads(shapes, layer, y, colour(index)) if squares else []
        rest = [part for name, scale in scales.items() for part in _bar(shapes, name, layer, y, scale, colour(index))]
        number = label(LEFT - 9, y + 10, layer + 1, "end", "tick")
        drawn.append(group(number, *heads, *rest, title=said[layer]))
    alt = f"{title}, {searches}. " + "; ".join(said)
    return Panel(title=title, svg=svg(WIDE, height, drawn, alt=alt), table=_table(shapes), sources=sources)


def _heads(shapes: Sequence[Survivors], layer: int, y: float, kind: str) -> list[Html]:
    """A square is filled as high as the share of searches in which its head survives, or as the mean share of its weights."""
    parts = []
    for head in range(len(shapes[0].heads[layer])):
        share, x = sum(shape.heads[layer][head] for shape in shapes) / len(shapes), LEFT + head * (CELL + GAP)
        parts.append(tag("rect", x=x, y=y, width=CELL, height=CELL, class_="gone"))
        if share:
            parts.append(
                tag("rect", x=x, y=y + CELL * (1 - share), width=CELL, height=CELL * share, class_=f"{kind} solid")
            )
    return parts


def _bar(shapes: Sequence[Survivors], name: str, layer: int, y: float, scale: Scale, kind: str) -> list[Html]:
    """The mean as a bar; a thin line from the lowest to the highest search."""
    shares = [shape.parts[name][layer] for shape in shapes]
    mean, low, high = fmean(shares), min(shares), max(shares)
    whole = {"y": y + 1, "height": CELL - 2}
    parts = [
        tag("rect", x=scale(0), width=scale(1) - scale(0), **whole, class_="gone"),
        tag("rect", x=scale(0), width=max(1.0, scale(mean) - scale(0)), **whole, class_=f"{kind} solid"),
        label(scale(1) + 6, y + 10, mean_percent(shares, 0) + " %", kind="tick"),
    ]
    if high > low:
        parts.append(
            tag("rect", x=scale(low), y=y + CELL / 2 - 1, width=scale(high) - scale(low), height=2, class_="reach")
        )
    return parts


def _said(shapes: Sequence[Survivors], layer: int) -> str:
    told = []
    for name in shapes[0].parts:
        shares = [shape.parts[name][layer] for shape in shapes]
        spread = f" ({100 * min(shares):.0f} to {100 * max(shares):.0f})" if len(shares) > 1 else ""
        told.append(f"{mean_percent(shares, 0)} % of {name}{spread}")
    return f"layer {layer + 1}: " + ", ".join(told)


def _table(shapes: Sequence[Survivors]) -> Table:
    parts = shapes[0].parts
    rows = []
    for layer in range(shapes[0].depth):
        cells = []
        for name in parts:
            shares = [shape.parts[name][layer] for shape in shapes]
            cells += [mean_percent(shares), f"{100 * min(shares):.1f} to {100 * max(shares):.1f}"]
        rows.append((str(layer + 1), *cells))
    head = [words for name in parts for words in (f"{name}, mean %", f"{name}, lowest to highest %")]
    return Table(head=("Layer", *head), rows=tuple(rows))
