"""Charts as SVG: plain data in, a drawing with an alternative text out; colours come from the style sheet.

Every chart is drawn once, about as wide as a phone held upright shows it; the page scales it up. Names are therefore above or below
what they name, not beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup, escape

from robust_tickets.progress import clean
from robust_tickets.report.format import count, percent

WIDE = 460  # units across a chart
LEFT, RIGHT, TOP = 52, WIDE - 14, 14  # of a plot with two axes
BELOW = 60  # it: ticks, the axis's name, then the legend
LINE = 18  # units between two names
DASHES = 4  # kinds of lines
COLOURS = 8  # arms beyond the eighth start over, outlined; beyond the sixteenth with another shape
SHAPES: tuple[tuple[tuple[float, float], ...], ...] = (  # corners around a point of size 1; of a circle there are none
    (),
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    ((0, -1.25), (1.2, 0.9), (-1.2, 0.9)),
)
Interval = tuple[float, float]


# --- markup


def visible(value: object) -> Markup:
    """``value`` as HTML: finished markup stays, any other text is made visible (``clean``) and escaped."""
    return value if isinstance(value, Markup) else escape(clean(value))


def join(parts: Iterable[object]) -> Markup:
    return Markup("".join(visible(part) for part in parts if part is not None))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. ``class_`` is class, other underscores are hyphens; an attribute that is None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{visible(short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{join(children)}</{name}>" if children else f"<{name}{written}/>")


def short(value: object) -> object:
    """Coordinates need no more than two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def svg(
    width: float, height: float, parts: Iterable[object], title: str, words: Iterable[str], kind: str = ""
) -> Markup:
    """A drawing; its title and ``words``, a text for each row of its data, are for those who cannot see it."""
    size = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "width": f"{width:.0f}", "height": f"{height:.0f}"}
    alt = f"{title.rstrip('.')}. {'; '.join(words)}"
    return tag("svg", join(parts), **size, role="img", aria_label=alt, class_=kind or None)


def figure(drawings: Iterable[Markup], caption: object, kind: str = "") -> Markup:
    """Drawings under one caption."""
    return tag("figure", *[tag("div", one) for one in drawings], tag("figcaption", caption), class_=kind or None)


def group(*parts: object, kind: str = "", title: str = "") -> Markup:
    return tag("g", tag("title", title) if title else None, join(parts), class_=kind or None)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return tag("path", d=f"M{short(x1)} {short(y1)}L{short(x2)} {short(y2)}", class_=kind)


def rect(x: float, y: float, width: float, height: float, kind: str, *children: object, **more: object) -> Markup:
    return tag("rect", *children, x=x, y=y, width=width, height=height, **more, class_=kind)


def label(x: float, y: float, words: object, anchor: str = "start", kind: str = "", **more: object) -> Markup:
    return tag("text", words, x=x, y=y, text_anchor=anchor if anchor != "start" else None, class_=kind or None, **more)


def squeeze(words: str, most: int) -> str:
    """``words`` with the middle left out where they are too long: names often differ at their ends."""
    tail = (most - 1) // 2
    return words if len(words) <= most else f"{words[: most - 1 - tail].rstrip()}…{words[-tail:].lstrip()}"


# --- arms: each has a colour, a shape, and is filled or outlined


def colour(index: int) -> str:
    return f"arm{index % COLOURS}"


def marker(x: float, y: float, index: int, size: float = 7, outline: bool | None = None) -> Markup:
    """A point of arm ``index``; no two of the first 64 are alike. ``outline`` overrides the fill where that means something else."""
    outlined = index // COLOURS % 2 == 1 if outline is None else outline
    kind = f"{colour(index)} {'outline' if outlined else 'solid'}"
    corners = SHAPES[(index + index // (2 * COLOURS)) % len(SHAPES)]
    if not corners:
        return tag("circle", cx=x, cy=y, r=size, class_=kind)
    points = " ".join(f"{short(round(x + size * dx, 1))},{short(round(y + size * dy, 1))}" for dx, dy in corners)
    return tag("polygon", points=points, class_=kind)


def swatch(index: int) -> Markup:
    """An arm's mark beside its name."""
    box = {"viewBox": "0 0 14 14", "width": 14, "height": 14}
    return tag("svg", marker(7, 7, index, 5), **box, aria_hidden="true", class_="swatch")


# --- scales and axes


class Scale(NamedTuple):
    """Data from ``low`` to ``high`` onto units from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Rounded, so that it is equal on every computer."""
        return round(self.start + (value - self.low) / ((self.high - self.low) or 1) * (self.end - self.start), 6)

    def inside(self, value: float) -> float:
        """The same, cut at the ends."""
        return self(min(max(value, self.low), self.high))


def around(values: Sequence[float], pad: float, low: float = 0.0, high: float = 100.0) -> Interval:
    """A range that holds ``values`` with ``pad`` on both sides, inside the possible ones."""
    return max(low, min(values) - pad), min(high, max(values) + pad)


class Axis(NamedTuple):
    """An axis: its title, range and labelled ticks."""

    name: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    @staticmethod
    def linear(name: str, low: float, high: float, about: int = 5) -> Axis:
        """Ticks at round numbers, about so many."""
        rough = (high - low) / about or 1
        power = 10 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
        ticks = [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
        return Axis(name, low, high, [(t, f"{t:,.6g}".replace(",", "\u202f")) for t in ticks])

    @staticmethod
    def powers(name: str, low: float, high: float) -> Axis:
        """Logarithmic, from 10^low to 10^high: the powers of ten, and 2 and 5 times them where there is room."""
        steps = (1, 2, 5) if high - low <= 2 else (1,)
        found = [step * 10**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
        return Axis(name, low, high, [(math.log10(t), count(t)) for t in found if low <= math.log10(t) <= high + 1e-9])

    def across(self, start: float, end: float, top: float, bottom: float) -> tuple[Scale, list[Markup]]:
        """The scale of an axis below a plot, and what is drawn of it."""
        scale, parts = Scale(self.low, self.high, start, end), []
        for value, words in self.ticks:
            x = scale(value)
            parts += [line(x, top, x, bottom, "grid"), label(x, bottom + 18, words, "middle", "tick")]
        if self.name:
            parts.append(label((start + end) / 2, bottom + 38, self.name, "middle", "axis"))
        return scale, parts


def _plot(x: Axis, y: Axis, bottom: float) -> tuple[Scale, Scale, list[Markup]]:
    """Two scales and the frame around a plot."""
    across, drawn = x.across(LEFT, RIGHT, TOP, bottom)
    up = Scale(y.low, y.high, bottom, TOP)
    parts = [rect(LEFT, TOP, RIGHT - LEFT, bottom - TOP, "plot"), *drawn]
    for value, words in y.ticks:
        parts += [line(LEFT, up(value), RIGHT, up(value), "grid"), label(LEFT - 8, up(value) + 4, words, "end", "tick")]
    middle = (TOP + bottom) / 2
    parts.append(label(14, middle, y.name, "middle", "axis", transform=f"rotate(-90 14 {middle:.0f})"))
    return across, up, parts


# --- dots: one scale, a row an arm


@dataclass(frozen=True, kw_only=True)
class Row:
    """What every row, point and line has: the number of its arm, its title, and itself in words."""

    index: int
    title: str
    summary: str


@dataclass(frozen=True, kw_only=True)
class Dot(Row):
    """A row of ``dots``: a value with its interval, and an outlined point of its value before, or its runs; ``under`` is below its title."""

    end: float
    interval: Interval | None = None
    start: float | None = None
    under: str = ""
    runs: Sequence[float] = ()
    again: Sequence[float] = ()  # further runs of a seed that was run before: faint


def dots(title: str, rows: Sequence[Dot], low: float = 0, high: float = 100) -> Markup:
    """One scale for all rows, each under its name."""
    height, left = 74, 16
    bottom, axis = height * len(rows) + 12, Axis.linear("", low, high)
    scale, parts = axis.across(left, WIDE - 24, 4, bottom)
    for place, row in enumerate(rows):
        y, end, kind = height * (place + 0.75) + 6, scale(row.end), colour(row.index)
        drawn = [label(left, y - (39 if row.under else 36), squeeze(row.title, 50), kind="name")]
        drawn += [label(left, y - 21, row.under, kind="quiet")] if row.under else []
        if row.interval is not None:
            a, b = map(scale.inside, row.interval)
            drawn.append(rect(a, y - 9, max(2.0, b - a), 18, f"haze {kind}", rx=9))
        if row.runs:
            drawn.append(group(*(marker(scale(run), y, row.index, 5) for run in row.again), kind="again"))
            drawn.append(group(*(marker(scale(run), y, row.index, 6) for run in row.runs), kind="dot"))
            parts.append(group(*drawn, line(end, y - 12, end, y + 12, f"mean {kind}"), title=row.summary))
            continue
        if row.start is not None:  # its number is beside it where the two would touch
            start, words = scale(row.start), percent(row.start)
            drawn += [line(start, y, end, y, f"fall {kind}"), marker(start, y, row.index, 6, outline=True)]
            at = (start + 13, y + 4.5, words, "start") if start - end < 60 else (start, y - 14, words, "middle")
            drawn.append(label(*at, kind="quiet"))
        drawn += [marker(end, y, row.index, 8, outline=False), label(end, y - 14, percent(row.end), "middle", "strong")]
        parts.append(group(*drawn, title=row.summary))
    return svg(WIDE, bottom + 26, parts, title, [row.summary for row in rows], "wide")


# --- small drawings beside a number, which is their text


def spark(
    runs: Sequence[float], low: float, high: float, *, index: int = 0, interval: Interval | None = None, mark: float | None = None
) -> Markup:  # fmt: skip
    """Runs in a table's cell over their interval, with a stroke at ``mark``."""
    wide, high_, middle = 100, 18, 9
    scale = Scale(low, high, 4, wide - 4)
    parts = [line(0, middle, wide, middle, "leader")]
    if interval is not None:
        start, end = (min(max(scale(v), 0.0), float(wide)) for v in interval)
        parts.append(rect(start, middle - 5, max(1.5, end - start), 10, f"haze full {colour(index)}", rx=2))
    parts += [marker(scale(run), middle, index, 2.4) for run in runs]
    parts += [line(scale(mark), 1, scale(mark), high_ - 1, "print")] if mark is not None else []
    return tag("svg", *parts, width=wide, height=high_, aria_hidden="true", class_="thumb")


def difference(value: float, interval: Interval | None, margin: float, reach: float, index: int) -> Markup:
    """A difference with its interval on an axis to ``reach`` on both sides; beyond it, an arrow."""
    wide, middle, kind = 300, 13, colour(index)
    scale = Scale(-reach, reach, 2, wide - 2)
    parts = [rect(scale(-margin), 2, scale(margin) - scale(-margin), 22, "margin", rx=3)]
    parts.append(line(scale(0), 0, scale(0), 26, "median"))
    for at, words in ((-margin, f"−{margin:g}"), (0, "0"), (margin, f"+{margin:g}")):
        parts.append(label(scale(at), 33, words, "middle", "small"))
    if interval is not None:
        parts.append(line(scale.inside(interval[0]), middle, scale.inside(interval[1]), middle, f"bar {kind}"))
        for side in (side for end, side in zip(interval, (-1, 1), strict=True) if side * end > reach):
            x = scale(side * reach)
            corners = f"{x},{middle} {x + 8 * side},{middle - 6} {x + 8 * side},{middle + 6}"
            parts.append(tag("polygon", points=corners, class_=f"{kind} solid tip"))
    parts.append(tag("circle", cx=scale(value), cy=middle, r=5.5, class_=f"{kind} solid"))
    return tag("svg", *parts, viewBox=f"0 0 {wide} 36", width=wide, height=36, aria_hidden="true")


# --- a plot with two axes: points, lines


@dataclass(frozen=True, kw_only=True)
class Point(Row):
    """A point of a scatter, with an interval along each axis where it has one."""

    x: float
    y: float
    across: Interval | None = None
    along: Interval | None = None
    few: bool = False  # of too few runs: grey
    named: bool = True  # else a faint dot, which its tooltip names


def scatter(title: str, points: Sequence[Point], x: Axis, y: Axis, steps: Sequence[Interval] = ()) -> Markup:
    """Points with their intervals, their names below the plot; those of equal ``x`` are shown side by side.

    ``steps``: corners of a line from the left to the right edge.
    """
    bottom, shown = 320, [point for point in points if point.named]
    across, up, parts = _plot(x, y, bottom)
    if steps:
        path = "".join(f"H{across(a):.1f}V{up(b):.1f}" for a, b in steps[1:])
        begin = f"M{across(steps[0][0]):.1f} {up(steps[0][1]):.1f}"
        parts.append(tag("path", d=f"{begin}{path}H{across.end:.1f}", class_="curve edge"))
    for point in points:
        if not point.named:
            dot = tag("circle", cx=across(point.x), cy=up(point.y), r=3, class_="faint")
            parts.append(group(dot, title=point.summary))
    middles = _side_by_side([across(point.x) for point in shown])
    for k, (point, px) in enumerate(zip(shown, middles, strict=True)):
        py, height, kind = up(point.y), bottom + BELOW + LINE * k, f"bar {colour(point.index)}"
        drawn = []
        if point.along is not None:
            drawn.append(line(px, up.inside(point.along[0]), px, up.inside(point.along[1]), kind))
        if point.across is not None:
            drawn.append(line(across.inside(point.across[0]), py, across.inside(point.across[1]), py, kind))
        drawn += [marker(px, py, point.index, 7), marker(LEFT + 6, height, point.index, 5)]
        drawn.append(label(LEFT + 18, height + 4.5, squeeze(point.title, 44), kind="name"))
        parts.append(group(*drawn, kind="few" if point.few else "", title=point.summary))
    height = bottom + BELOW - 4 + LINE * len(shown)
    return svg(WIDE, height, parts, title, [point.summary for point in points], "wide")


def _side_by_side(wanted: Sequence[float]) -> list[float]:
    """Where marks are drawn, those that overlap moved apart."""
    found, bunch = list(wanted), [round(x / 4) for x in wanted]
    for i, own in enumerate(bunch):
        many, place = bunch.count(own), bunch[:i].count(own)
        found[i] += min(9.0, 64 / many) * (place - (many - 1) / 2)
    return found


@dataclass(frozen=True, kw_only=True)
class Series(Row):
    """A line: points along the axis, values there, intervals where there are any; ``runs`` are small dots."""

    x: Sequence[float]
    y: Sequence[float]
    bands: Sequence[Interval | None] = ()
    runs: Sequence[Sequence[float]] = ()
    dash: int = 0
    marked: bool = False


def lines(title: str, series: Sequence[Series], x: Axis, y: Axis) -> Markup:
    """Lines, their bands below all of them, their names below the plot."""
    bottom = 290
    across, up, parts = _plot(x, y, bottom)
    parts += [band for one in series for band in _bands(one, across, up)]
    for place, one in enumerate(series):
        kind, height = f"curve {colour(one.index)} dash{one.dash}", bottom + BELOW + LINE * place
        path = "M" + "L".join(f"{across(a):.1f} {up(b):.1f}" for a, b in zip(one.x, one.y, strict=True))
        drawn = [tag("path", d=path, class_=kind), tag("path", d=f"M{LEFT - 30} {height:.1f}h24", class_=kind)]
        drawn.append(label(LEFT + 2, height + 4.5, squeeze(one.title, 46), kind="name"))
        for a, runs in zip(one.x, one.runs, strict=False):
            small = runs if len(runs) > 1 else ()
            drawn += [
                tag("circle", cx=across(a), cy=up(b), r=2, class_=f"haze full {colour(one.index)}") for b in small
            ]
        if one.marked:
            drawn += [marker(across(a), up(b), one.index, 4.5) for a, b in zip(one.x, one.y, strict=True)]
            drawn.append(marker(LEFT - 18, height, one.index, 4))
        parts.append(group(*drawn, title=one.summary))
    height = bottom + BELOW - 4 + LINE * len(series)
    return svg(WIDE, height, parts, title, [one.summary for one in series], "wide")


def _bands(one: Series, across: Scale, up: Scale) -> list[Markup]:
    """Bands over neighbouring points with intervals; a bar for a single one."""
    parts = []
    for known, stretch in groupby(zip(one.x, one.bands, strict=False), lambda pair: pair[1] is not None):
        ends = [(across(a), up.inside(band[0]), up.inside(band[1])) for a, band in stretch if band is not None]
        if len(ends) == 1:
            parts.append(line(ends[0][0], ends[0][1], ends[0][0], ends[0][2], f"bar {colour(one.index)}"))
        elif known:
            there = "L".join(f"{a:.1f} {high:.1f}" for a, _, high in ends)
            back = "L".join(f"{a:.1f} {low:.1f}" for a, low, _ in reversed(ends))
            parts.append(tag("path", d=f"M{there}L{back}Z", class_=f"haze thin {colour(one.index)}"))
    return parts


# --- histograms


@dataclass(frozen=True, kw_only=True)
class Spread(Row):
    """A row of a histogram: per bin (its two ends on the axis) how many of each of two kinds; the median has a line."""

    under: str
    bins: Sequence[tuple[float, float, int, int]]
    median: float


def histogram(title: str, rows: Sequence[Spread], x: Axis) -> Markup:
    """Rows over one axis, each of its own height: the first kind full, the second faint above it."""
    height, left, room = 110, 16, 56
    bottom = height * len(rows) + 6
    scale, parts = x.across(left, WIDE - 16, 4, bottom)
    for place, row in enumerate(rows):
        ground, unit = height * (place + 1.0), room / max(full + faint for _, _, full, faint in row.bins)
        drawn = []
        for start, end, full, faint in row.bins:
            at, wide = scale(start) + 1, max(1.0, scale(end) - scale(start) - 2)
            for many, base, kind in ((full, 0, "solid"), (faint, full, "haze full")):
                if many:
                    high = unit * (base + many)
                    drawn.append(rect(at, ground - high, wide, unit * many, f"{kind} {colour(row.index)}"))
        drawn += [
            line(scale.start, ground, scale.end, ground, "leader"),
            line(scale(row.median), ground - room, scale(row.median), ground, "median"),
            label(left, ground - 82, squeeze(row.title, 50), kind="name"),
            label(left, ground - 65, squeeze(row.under, 56), kind="quiet"),
        ]
        parts.append(group(*drawn, title=row.summary))
    return svg(WIDE, bottom + 46, parts, title, [row.summary for row in rows], "wide")


# --- bars and squares, a row a layer


@dataclass(frozen=True, kw_only=True)
class Layer(Row):
    """A row of ``bars``: shares from 0 to 1 as bars, with their lowest and highest values, and as squares."""

    shares: Sequence[float]
    reach: Sequence[Interval] = ()
    squares: Sequence[float] = ()


def bars(title: str, heads: Sequence[str], rows: Sequence[Layer]) -> Markup:
    """Rows from the bottom up; ``heads`` names the squares, if there are any, and each column of bars."""
    cell, gap, height, wide, left, top, apart = 12, 3, 19, 76, 26, 26, 62
    most = max((len(row.squares) for row in rows), default=0)
    first = left + (most * (cell + gap) + 16 if most else 0)
    starts = [*([left] if most else []), *(first + k * (wide + apart) for k in range(len(heads) - bool(most)))]
    parts = [label(start, top - 10, words, kind="tick") for start, words in zip(starts, heads, strict=True)]
    for k, row in enumerate(rows):
        y, kind, drawn = top + (len(rows) - 1 - k) * height, f"{colour(row.index)} solid", []
        for h, share in enumerate(row.squares):
            x = left + h * (cell + gap)
            drawn += [rect(x, y, cell, cell, "gone", rx=3)] if share < 1 else []
            drawn += [rect(x, y + cell * (1 - share), cell, cell * share, kind, rx=3)] if share else []
        for i, (start, share) in enumerate(zip(starts[bool(most) :], row.shares, strict=True)):
            drawn += [
                rect(start, y + 1.5, wide, cell - 3, "gone", rx=3),
                rect(start, y + 1.5, max(1.0, wide * share), cell - 3, kind, rx=3),
                label(start + wide + 7, y + 10.5, f"{100 * share:.0f} %", kind="tick"),
            ]
            low, high = row.reach[i] if row.reach else (share, share)
            if high > low:
                drawn.append(rect(start + wide * low, y + cell / 2 - 1, wide * (high - low), 2, "reach"))
        parts.append(group(label(left - 10, y + 10.5, row.title, "end", "tick"), *drawn, title=row.summary))
    size = starts[-1] + wide + apart - 16, top + len(rows) * height + 12
    return svg(*size, parts, title, [row.summary for row in rows])


# --- heat maps


def heat_map(
    title: str,
    words: str,
    values: Sequence[Sequence[float]],
    epochs: Sequence[str],
    mark: tuple[int, str] | None = None,
) -> Markup:
    """A square of shares over pairs of epochs, the fainter the smaller; both axes run from the lower left.

    ``mark``: the number of a line across, with a word; ``words`` are for those who cannot see it.
    """
    side, left, top, scale = 250, 40, 34, 110
    size, worst = side / len(values), max(map(max, values))

    def shade(share: float) -> float:
        return round(0.03 + 0.97 * share, 3)

    cells = []
    for a, row in enumerate(values):
        for b, value in enumerate(row):
            about = tag("title", f"epochs {epochs[a]} and {epochs[b]}: {100 * value:.1f} % differ")
            x, y = left + b * size, top + side - (a + 1) * size
            cells.append(rect(x, y, size, size, "heat", about, fill_opacity=shade(value / worst if worst else 0.0)))
    parts = [
        label(left, top - 12, title, kind="name"),
        group(*cells),
        rect(left, top, side, side, "frame"),
        label(left + side / 2, top + side + 16, "epoch", "middle", "tick"),
    ]
    for at in sorted({0, len(epochs) - 1}):
        parts.append(label(left + (at + 0.5) * size, top + side + 16, epochs[at], "middle", "tick"))
        parts.append(label(left - 7, top + side - (at + 0.5) * size + 4, epochs[at], "end", "tick"))
    if mark is not None:
        x = left + (mark[0] + 0.5) * size  # the word keeps clear of the title
        place = (x - 4, "start") if x < left + side / 2 else (min(x + 4, left + side), "end")
        parts += [line(x, top - 5, x, top + side, "stop"), label(place[0], top - 10, mark[1], place[1], "stop-word")]
    y, steps = top + side + 44.0, 20
    for k in range(steps):
        parts.append(rect(left + k * scale / steps, y, scale / steps, 9, "heat", fill_opacity=shade(k / (steps - 1))))
    worst_words = label(left + scale, y + 24, f"{100 * worst:.1f} % differ", "middle", "tick")
    parts += [label(left, y + 24, "0 %", kind="tick"), worst_words]
    return svg(left + side + 22, top + side + 76, parts, title, [words])
