"""How many queries the texts took: a histogram for every attack on every arm, over one logarithmic axis."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from robust_tickets.measure.metrics import FAILED, SUCCESS
from robust_tickets.report import format as numbers
from robust_tickets.report.figures.axes import (
    Scale,
    colour,
    decades,
    figure,
    group,
    label,
    line,
    squeeze,
    svg,
    two_lines,
)
from robust_tickets.report.markup import Html, tag
from robust_tickets.report.run_data import Run

BINS = 8  # in a factor of ten
MOST = 16  # rows; more would be no figure any more


@dataclass(frozen=True, kw_only=True)
class Row:
    """The queries of one attack on one arm, by whether it won."""

    index: int
    title: str
    attack: str  # its title, where the drawing has several
    won: tuple[int, ...]
    held: tuple[int, ...]

    @property
    def said(self) -> str:
        every = sorted(self.won + self.held)
        whose = f"{self.title}, {self.attack}" if self.attack else self.title
        return f"{whose}: median {self.median}, from {every[0]} to {every[-1]} queries; {len(self.won)} fooled, {len(self.held)} held"

    @property
    def median(self) -> int:
        every = sorted(self.won + self.held)
        return every[(len(every) - 1) // 2]


def query_histogram(run: Run) -> Html | None:
    rows = [row for key in run.attack_keys for row in _rows(run, key)][:MOST]
    if not rows:
        return None
    caption = (
        "How many queries a text took that was right before the attack. Full: fooled; faint, above: held. "
        "The axis is logarithmic; every row has its own height. The line is the median."
    )
    alt = "Queries a text. " + "; ".join(row.said for row in rows)
    return figure([_draw(rows, 860, 212, 78, alt, "broad"), _draw(rows, 350, 16, 110, alt, "narrow")], caption)


def _rows(run: Run, key: str) -> list[Row]:
    found = []
    for i, arm in enumerate(run.arms):
        attack = arm.attack(key)
        examples = attack.examples if attack else ()
        won, held = (
            tuple(e.queries for e in examples if e.status == status and e.queries) for status in (SUCCESS, FAILED)
        )
        if won or held:
            found.append(
                Row(
                    index=i,
                    title=arm.title,
                    attack=run.attack_titles[key] if len(run.attack_keys) > 1 else "",
                    won=won,
                    held=held,
                )
            )
    return found


def _bin(queries: int) -> int:
    return math.floor(BINS * math.log10(queries) + 1e-9)


def _draw(rows: list[Row], width: int, left: int, height: int, alt: str, kind: str) -> Html:
    every = [q for row in rows for q in row.won + row.held]
    low, high = _bin(min(every)) / BINS, (_bin(max(every)) + 1) / BINS
    scale = Scale(low=low, high=high, start=left, end=width - (100 if kind == "broad" else 14))
    counts = [(Counter(map(_bin, row.won)), Counter(map(_bin, row.held))) for row in rows]
    bottom = height * len(rows) + 6
    every_tick = high - low <= (3.2 if kind == "broad" else 1.6)
    ticks = [t for t in decades(math.floor(low), math.ceil(high), every_tick) if low <= math.log10(t) <= high]
    parts = [line(scale(math.log10(t)), 4, scale(math.log10(t)), bottom, "grid") for t in ticks]
    parts += [label(scale(math.log10(t)), bottom + 18, numbers.count(t), "middle", "tick") for t in ticks]
    parts.append(label((scale(low) + scale(high)) / 2, bottom + 38, "queries a text", "middle", "axis"))
    for place, (row, (won, held)) in enumerate(zip(rows, counts, strict=True)):
        ground, room = height * (place + 1), height - (18 if kind == "broad" else 54)
        top = max(won[b] + held[b] for b in won | held)
        parts.append(_row(row, won, held, scale, ground, room / top, left, kind))
    return svg(width, bottom + 46, parts, alt=alt, kind=kind)


def _row(
    row: Row, won: Counter[int], held: Counter[int], scale: Scale, ground: float, unit: float, left: float, kind: str
) -> Html:
    bars = []
    for b in sorted(won | held):
        start, end = scale(b / BINS) + 1, scale((b + 1) / BINS) - 1
        for count, base, style in ((won[b], 0, "solid"), (held[b], won[b], "haze full")):
            if count:
                box = {
                    "x": start,
                    "y": ground - unit * (base + count),
                    "width": max(1.0, end - start),
                    "height": unit * count,
                }
                bars.append(tag("rect", **box, class_=f"{style} {colour(row.index)}"))
    middle = scale(math.log10(row.median))
    said = f"median {numbers.count(row.median)}"
    if kind == "broad":
        words = [squeeze(row.title, 22), squeeze(row.attack, 26)] if row.attack else two_lines(row.title, 22)
        kinds = ("name", "quiet" if row.attack else "name")
        names = [
            label(left - 18, ground - 22 + 17 * (k - (len(words) - 1) / 2), w, "end", kinds[k])
            for k, w in enumerate(words)
        ]
        names.append(label(scale.end + 10, ground - 4, said, kind="quiet"))
    else:
        under = f"{row.attack}, {said}" if row.attack else said
        names = [
            label(left, ground - 82, squeeze(row.title, 38), kind="name"),
            label(left, ground - 65, squeeze(under, 46), kind="quiet"),
        ]
    height = 60.0 if kind == "broad" else 56.0
    ends = [
        line(scale.start, ground, scale.end, ground, "leader"),
        line(middle, ground - height, middle, ground, "median"),
    ]
    return group(*bars, *ends, *names, title=row.said)
