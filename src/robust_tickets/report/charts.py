"""Charts as SVG: plain data in, a drawing with an alternative text out; colours come from the style sheet.

Every chart is drawn once, about as wide as a phone held upright shows it; the page scales it up. Names are therefore above or below
what they name, not beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from robust_tickets.progress import clean

WIDE = 460  # units across a chart
LEFT, TOP, BELOW = 52, 14, 46  # of a plot with two axes; below it the ticks and the name of the axis across
LINE = 18  # units between two names
DASHES = 4  # kinds of lines
COLOURS = 8  # arms beyond the eighth start over, outlined; beyond the sixteenth with another shape
SHAPES: tuple[tuple[tuple[float, float], ...], ...] = (  # corners around a point of size 1; the first two are a circle and a square
    (),
    (),
    ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    ((0, -1.25), (1.2, 0.9), (-1.2, 0.9)),
    ((0, 1.25), (1.2, -0.9), (-1.2, -0.9)),
    ((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4),
     (-1.2, -0.4), (-0.4, -0.4)),
    tuple((1.45 * math.sin(i * math.pi / 5) * (0.45 if i % 2 else 1), -1.45 * math.cos(i * math.pi / 5) * (0.45 if i % 2 else 1))
          for i in range(10)),
    ((-1.2, -0.65), (0, -0.65), (1.3, 0), (0, 0.65), (-1.2, 0.65)),
)  # fmt: skip
Interval = tuple[float, float]


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


@dataclass(frozen=True, kw_only=True)
class Scale:
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

    def ticks(self, about: int = 5) -> list[float]:
        """Round numbers inside the scale, about so many."""
        rough = (self.high - self.low) / max(about, 1) or 1
        power = 10 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [step * i for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def around(values: Sequence[float], pad: float, low: float = 0.0, high: float = 100.0) -> Interval:
    """A range that holds ``values`` with ``pad`` on both sides, inside the possible ones."""
    return max(low, min(values) - pad), min(high, max(values) + pad)


def colour(index: int) -> str:
    return f"arm{index % COLOURS}"


def look(index: int) -> tuple[int, int, bool]:
    """Colour, shape and fill of arm ``index``: no two of the first 128 are alike."""
    return index % COLOURS, (index + index // (2 * COLOURS)) % len(SHAPES), index // COLOURS % 2 == 1


def marker(x: float, y: float, index: int, size: float = 7, outline: bool | None = None) -> Markup:
    """A point of arm ``index`` with its colour, shape and fill.

    ``outline`` overrides the fill, for figures where it means something else.
    """
    return _shape(x, y, index, size, _filled(index, outline))


def markers(across: Sequence[float], y: float, index: int, size: float, kind: str = "") -> list[Markup]:
    """Points of arm ``index`` in one group that has their style."""
    if not across:
        return []
    return [group(*(_shape(x, y, index, size) for x in across), kind=f"{kind} {_filled(index)}".strip())]


def swatch(index: int) -> Markup:
    """An arm's mark beside its name."""
    return tag(
        "svg", marker(7, 7, index, 5), viewBox="0 0 14 14", width=14, height=14, aria_hidden="true", class_="swatch"
    )


def _filled(index: int, outline: bool | None = None) -> str:
    return f"{colour(index)} {'outline' if (look(index)[2] if outline is None else outline) else 'solid'}"


def _shape(x: float, y: float, index: int, size: float, kind: str | None = None) -> Markup:
    shape = look(index)[1]
    if shape == 0:
        return tag("circle", cx=x, cy=y, r=size, class_=kind)
    if shape == 1:
        s = size * 0.9
        return tag("rect", x=x - s, y=y - s, width=2 * s, height=2 * s, class_=kind)
    return tag("path", d=outline([(x + size * dx, y + size * dy) for dx, dy in SHAPES[shape]]), class_=kind)


def outline(corners: Sequence[tuple[float, float]]) -> str:
    """A closed path in relative steps with one decimal."""
    tenths = [(round(10 * round(x, 1)), round(10 * round(y, 1))) for x, y in corners]
    steps = [f"M{_tenth(tenths[0][0])} {_tenth(tenths[0][1])}"]
    for (x, y), (to_x, to_y) in pairwise(tenths):
        across, along = _tenth(to_x - x), _tenth(to_y - y)
        steps.append(
            f"h{across}" if along == "0" else f"v{along}" if across == "0" else f"l{across} {along}".replace(" -", "-")
        )
    return "".join(steps) + "z"


def _tenth(tenths: int) -> str:
    written = f"{tenths / 10:.1f}".removesuffix(".0")
    return written.replace("0.", ".") if abs(tenths) < 10 else written


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    to = f"V{short(y2)}" if x1 == x2 else f"H{short(x2)}" if y1 == y2 else f"L{short(x2)} {short(y2)}"
    return tag("path", d=f"M{short(x1)} {short(y1)}{to}", class_=kind)


def label(x: float, y: float, words: object, anchor: str = "start", kind: str = "", **more: object) -> Markup:
    return tag("text", words, x=x, y=y, text_anchor=anchor if anchor != "start" else None, class_=kind or None, **more)


def group(*parts: object, kind: str = "", title: str = "") -> Markup:
    return tag("g", tag("title", title) if title else None, join(parts), class_=kind or None)


def svg(width: float, height: float, parts: Iterable[object], *, alt: str, kind: str = "") -> Markup:
    """A drawing with a text for those who cannot see it."""
    size = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "width": f"{width:.0f}", "height": f"{height:.0f}"}
    return tag("svg", join(parts), **size, role="img", aria_label=alt, class_=kind or None)


def figure(drawings: Iterable[Markup], caption: object, kind: str = "") -> Markup:
    """Drawings under one caption."""
    return tag("figure", *[tag("div", one) for one in drawings], tag("figcaption", caption), class_=kind or None)


def squeeze(words: str, most: int) -> str:
    """``words`` with the middle left out where they are too long: names often differ at their ends."""
    if len(words) <= most:
        return words
    tail = (most - 1) // 2
    return f"{words[: most - 1 - tail].rstrip()}…{words[-tail:].lstrip()}"


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A row of ``dots``: a value with its interval, and an outlined point of its value before, or its runs.

    ``summary`` is the row in words; ``under`` is below its title.
    """

    index: int
    title: str
    end: float
    summary: str
    interval: Interval | None = None
    start: float | None = None
    under: str = ""
    runs: Sequence[float] = ()
    again: Sequence[float] = ()  # further runs of a seed that was run before: faint


def dots(rows: Sequence[Dot], write: Callable[[float], str], *, alt: str, low: float = 0, high: float = 100) -> Markup:
    """One scale for all rows, each under its name."""
    height, left = 74, 16
    scale, bottom = Scale(low=low, high=high, start=left, end=WIDE - 24), height * len(rows) + 12
    ticks = scale.ticks(5)
    parts = [line(scale(t), 4, scale(t), bottom, "grid") for t in ticks]
    parts += [label(scale(t), bottom + 18, f"{t:g}", "middle", "tick") for t in ticks]
    for place, row in enumerate(rows):
        y, end, kind = height * (place + 0.75) + 6, scale(row.end), colour(row.index)
        drawn = [label(left, y - (39 if row.under else 36), squeeze(row.title, 50), kind="name")]
        if row.under:
            drawn.append(label(left, y - 21, row.under, kind="quiet"))
        if row.interval is not None:
            a, b = map(scale.inside, row.interval)
            drawn.append(tag("rect", x=a, y=y - 9, width=max(2.0, b - a), height=18, rx=9, class_=f"haze {kind}"))
        if row.runs:
            drawn += markers([scale(run) for run in row.again], y, row.index, 5, "again")
            drawn += [*markers([scale(run) for run in row.runs], y, row.index, 6, "dot")]
            drawn.append(line(end, y - 12, end, y + 12, f"mean {kind}"))
        else:
            drawn += _fall(row, y, scale, write) if row.start is not None else []
            drawn += [
                marker(end, y, row.index, 8, outline=False),
                label(end, y - 14, write(row.end), "middle", "strong"),
            ]
        parts.append(group(*drawn, title=row.summary))
    return svg(WIDE, bottom + 26, parts, alt=alt, kind="wide")


def _fall(row: Dot, y: float, scale: Scale, write: Callable[[float], str]) -> list[Markup]:
    """The line from the outlined point; its number is beside it where the two would touch."""
    start, end = scale(row.start or 0.0), scale(row.end)
    words = write(row.start or 0.0)
    beside = start - end < 60
    return [
        line(start, y, end, y, f"fall {colour(row.index)}"),
        marker(start, y, row.index, 6, outline=True),
        label(start + 13, y + 4.5, words, kind="quiet") if beside else label(start, y - 14, words, "middle", "quiet"),
    ]


CELL_WIDE, CELL_HIGH = 100, 18  # of what is drawn in a table's cell


def spark(
    runs: Sequence[float], low: float, high: float, *, index: int = 0, interval: Interval | None = None, mark: float | None = None
) -> Markup:  # fmt: skip
    """Runs in a table's cell over their interval, with a stroke at ``mark``; the number beside it is its text."""
    scale, middle = Scale(low=low, high=high, start=4, end=CELL_WIDE - 4), CELL_HIGH / 2
    parts = [line(0, middle, CELL_WIDE, middle, "leader")]
    if interval is not None:
        start, end = (min(max(scale(v), 0.0), float(CELL_WIDE)) for v in interval)
        box = {"x": start, "y": middle - 5, "width": max(1.5, end - start), "height": 10, "rx": 2}
        parts.append(tag("rect", **box, class_=f"haze full {colour(index)}"))
    parts += markers([scale(run) for run in runs], middle, index, 2.4)
    parts += [line(scale(mark), 1, scale(mark), CELL_HIGH - 1, "print")] if mark is not None else []
    return tag("svg", *parts, width=CELL_WIDE, height=CELL_HIGH, aria_hidden="true", class_="thumb")


def difference(value: float, interval: Interval | None, margin: float, reach: float, index: int) -> Markup:
    """A difference with its interval on an axis to ``reach`` on both sides; beyond it, an arrow."""
    wide, middle = 300, 13
    scale = Scale(low=-reach, high=reach, start=2, end=wide - 2)
    box = {"x": scale(-margin), "y": 2, "width": scale(margin) - scale(-margin), "height": 22, "rx": 3}
    parts = [tag("rect", **box, class_="margin"), line(scale(0), 0, scale(0), 26, "median")]
    for at, words in ((-margin, f"−{margin:g}"), (0, "0"), (margin, f"+{margin:g}")):
        parts.append(label(scale(at), 33, words, "middle", "small"))
    if interval is not None:
        parts.append(line(scale.inside(interval[0]), middle, scale.inside(interval[1]), middle, f"bar {colour(index)}"))
        for end, side in ((interval[0], -1), (interval[1], 1)):
            if side * end > reach:
                x = scale(side * reach)
                corners = f"{x},{middle} {x + 8 * side},{middle - 6} {x + 8 * side},{middle + 6}"
                parts.append(tag("polygon", points=corners, class_=f"{colour(index)} solid tip"))
    parts.append(tag("circle", cx=scale(value), cy=middle, r=5.5, class_=f"{colour(index)} solid"))
    return tag("svg", *parts, viewBox=f"0 0 {wide} 36", width=wide, height=36, aria_hidden="true")


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis: its title, scale and labelled ticks."""

    name: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    @staticmethod
    def linear(name: str, low: float, high: float, about: int = 5) -> Axis:
        ticks = Scale(low=low, high=high, start=0, end=1).ticks(about)
        return Axis(name=name, low=low, high=high, ticks=[(t, f"{t:,.6g}".replace(",", "\u202f")) for t in ticks])

    @staticmethod
    def powers(name: str, low: float, high: float, write: Callable[[float], str]) -> Axis:
        """Logarithmic, from 10^low to 10^high: the powers of ten, and 2 and 5 times them where there is room."""
        steps = (1, 2, 5) if high - low <= 2 else (1,)
        found = [step * 10**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
        inside = [t for t in found if low <= math.log10(t) <= high + 1e-9]
        return Axis(name=name, low=low, high=high, ticks=[(math.log10(t), write(t)) for t in inside])

    @staticmethod
    def at(name: str, values: Iterable[float], write: Callable[[float], str]) -> Axis:
        """Ticks at the values themselves, or every second, third … of them, so that their numbers do not touch."""
        own = sorted(set(values)) or [0.0, 1.0]
        pad = 0.04 * (own[-1] - own[0]) or 0.5 * abs(own[0]) or 0.5
        low, high = own[0] - pad, own[-1] + pad
        scale = Scale(low=low, high=high, start=LEFT, end=WIDE - 14)
        room = [4.5 * len(write(value)) + 3 for value in own]
        for step in range(1, len(own) + 1):
            kept = range(0, len(own), step)
            if all(scale(own[b]) - scale(own[a]) > room[a] + room[b] for a, b in pairwise(kept)):
                break
        return Axis(name=name, low=low, high=high, ticks=[(own[k], write(own[k])) for k in kept])


def _plot(x: Axis, y: Axis, bottom: float) -> tuple[Scale, Scale, list[Markup]]:
    """Two scales and the frame around a plot."""
    right = WIDE - 14
    across = Scale(low=x.low, high=x.high, start=LEFT, end=right)
    up = Scale(low=y.low, high=y.high, start=bottom, end=TOP)
    parts = [tag("rect", x=LEFT, y=TOP, width=right - LEFT, height=bottom - TOP, class_="plot")]
    for value, words in x.ticks:
        parts += [line(across(value), TOP, across(value), bottom, "grid")]
        parts += [label(across(value), bottom + 18, words, "middle", "tick")]
    for value, words in y.ticks:
        parts += [line(LEFT, up(value), right, up(value), "grid"), label(LEFT - 8, up(value) + 4, words, "end", "tick")]
    middle = (TOP + bottom) / 2
    parts.append(label((LEFT + right) / 2, bottom + 38, x.name, "middle", "axis"))
    parts.append(label(14, middle, y.name, "middle", "axis", transform=f"rotate(-90 14 {middle:.0f})"))
    return across, up, parts


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of a scatter, with an interval along each axis where it has one."""

    index: int
    title: str
    x: float
    y: float
    summary: str
    across: Interval | None = None
    along: Interval | None = None
    few: bool = False  # of too few runs: grey
    named: bool = True  # else a faint dot, which its tooltip names


def scatter(
    points: Sequence[Point], x: Axis, y: Axis, *, alt: str, steps: Sequence[tuple[float, float]] = ()
) -> Markup:
    """Points with their intervals, their names below the plot; those of equal ``x`` are shown side by side.

    ``steps``: corners of a line from the left to the right edge.
    """
    bottom, shown = 320, [point for point in points if point.named]
    across, up, parts = _plot(x, y, bottom)
    if steps:
        path = "".join(f"H{across(a):.1f}V{up(b):.1f}" for a, b in steps[1:])
        parts.append(
            tag(
                "path",
                d=f"M{across(steps[0][0]):.1f} {up(steps[0][1]):.1f}{path}H{across.end:.1f}",
                class_="curve edge",
            )
        )
    parts += [
        group(tag("circle", cx=across(point.x), cy=up(point.y), r=3, class_="faint"), title=point.summary)
        for point in points
        if not point.named
    ]
    places = _side_by_side([across(point.x) for point in shown])
    for k, (point, px) in enumerate(zip(shown, places, strict=True)):
        py, height, kind = up(point.y), bottom + BELOW + 14 + LINE * k, f"bar {colour(point.index)}"
        drawn = [marker(px, py, point.index, 7), marker(LEFT + 6, height, point.index, 5)]
        if point.across is not None:
            drawn.insert(0, line(across.inside(point.across[0]), py, across.inside(point.across[1]), py, kind))
        if point.along is not None:
            drawn.insert(0, line(px, up.inside(point.along[0]), px, up.inside(point.along[1]), kind))
        drawn.append(label(LEFT + 18, height + 4.5, squeeze(point.title, 44), kind="name"))
        parts.append(group(*drawn, kind="few" if point.few else "", title=point.summary))
    return svg(WIDE, bottom + BELOW + 10 + LINE * len(shown), parts, alt=alt, kind="wide")


def _side_by_side(wanted: Sequence[float], near: float = 3.0, apart: float = 9.0, most: float = 64.0) -> list[float]:
    """Places of marks, those that overlap moved around their middle."""
    order, bunches = sorted(range(len(wanted)), key=wanted.__getitem__), list[list[int]]()
    for i in order:
        if bunches and wanted[i] - wanted[bunches[-1][-1]] < near:
            bunches[-1].append(i)
        else:
            bunches.append([i])
    found = list(wanted)
    for bunch in bunches:
        middle, step = (wanted[bunch[0]] + wanted[bunch[-1]]) / 2, min(apart, most / len(bunch))
        for k, i in enumerate(sorted(bunch)):
            found[i] = middle + step * (k - (len(bunch) - 1) / 2) if len(bunch) > 1 else wanted[i]
    return found


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line: places along the axis, values there, intervals where there are any; ``runs`` are small dots."""

    index: int
    title: str
    summary: str
    x: Sequence[float]
    y: Sequence[float]
    bands: Sequence[Interval | None] = ()
    runs: Sequence[Sequence[float]] = ()
    under: str = ""  # smaller, under the title
    dash: int = 0
    steps: bool = False
    marked: bool = False


def lines(series: Sequence[Series], x: Axis, y: Axis, *, alt: str) -> Markup:
    """Lines, their bands below all of them, their names below the plot."""
    bottom = 290
    across, up, parts = _plot(x, y, bottom)
    apart = 2 * LINE if any(one.under for one in series) else LINE
    parts += [band for one in series for band in _bands(one, across, up)]
    for place, one in enumerate(series):
        kind, height = f"curve {colour(one.index)} dash{one.dash}", bottom + BELOW + 14 + apart * place
        drawn: list[Markup | None] = [
            tag("path", d=_path(one, across, up), class_=kind),
            tag("path", d=f"M{LEFT - 30} {height:.1f}h24", class_=kind),
            label(LEFT + 2, height + 4.5, squeeze(one.title, 46), kind="name"),
            label(LEFT + 2, height + 20, squeeze(one.under, 54), kind="quiet") if one.under else None,
        ]
        small = [
            (across(a), up(run)) for a, runs in zip(one.x, one.runs, strict=False) if len(runs) > 1 for run in runs
        ]
        drawn += [tag("circle", cx=a, cy=b, r=2, class_=f"haze full {colour(one.index)}") for a, b in small]
        if one.marked:
            drawn += [marker(across(a), up(b), one.index, 4.5) for a, b in zip(one.x, one.y, strict=True)]
            drawn.append(marker(LEFT - 18, height, one.index, 4))
        parts.append(group(*drawn, title=one.summary))
    return svg(WIDE, bottom + BELOW + 10 + apart * len(series), parts, alt=alt, kind="wide")


def _bands(one: Series, across: Scale, up: Scale) -> list[Markup]:
    """Bands over neighbouring points with intervals; a bar for a single one."""
    stretches: list[list[tuple[float, float, float]]] = [[]]
    for a, ends in zip(one.x, one.bands, strict=False):
        if ends is None:
            stretches.append([])
        else:
            stretches[-1].append((across(a), up.inside(ends[0]), up.inside(ends[1])))
    parts = []
    for stretch in filter(None, stretches):
        if len(stretch) == 1:
            ((a, low, high),) = stretch
            parts.append(line(a, low, a, high, f"bar {colour(one.index)}"))
            continue
        there = "L".join(f"{a:.1f} {high:.1f}" for a, _, high in stretch)
        back = "L".join(f"{a:.1f} {low:.1f}" for a, low, _ in reversed(stretch))
        parts.append(tag("path", d=f"M{there}L{back}Z", class_=f"haze thin {colour(one.index)}"))
    return parts


def _path(one: Series, across: Scale, up: Scale) -> str:
    if not one.steps:
        return "M" + "L".join(f"{across(a):.1f} {up(b):.1f}" for a, b in zip(one.x, one.y, strict=True))
    path = [f"M{across(one.x[0]):.1f} {up(one.y[0]):.1f}"]
    for (_, before), (place, value) in pairwise(zip(one.x, one.y, strict=True)):
        if value != before:
            path.append(f"H{across(place):.1f}V{up(value):.1f}")
    return "".join([*path, f"H{across(one.x[-1]):.1f}"])


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A row of a histogram: per bin (its two ends on the axis) how many of each of two kinds; the median has a line."""

    index: int
    title: str
    under: str
    bins: Sequence[tuple[float, float, int, int]]
    median: float
    summary: str


def histogram(rows: Sequence[Spread], x: Axis, *, alt: str) -> Markup:
    """Rows over one axis, each of its own height: the first kind full, the second faint above it."""
    height, left, room = 110, 16, 56
    scale, bottom = Scale(low=x.low, high=x.high, start=left, end=WIDE - 16), height * len(rows) + 6
    parts = [line(scale(t), 4, scale(t), bottom, "grid") for t, _ in x.ticks]
    parts += [label(scale(t), bottom + 18, words, "middle", "tick") for t, words in x.ticks]
    parts.append(label((left + scale.end) / 2, bottom + 38, x.name, "middle", "axis"))
    for place, row in enumerate(rows):
        ground, unit = height * (place + 1.0), room / max(full + faint for _, _, full, faint in row.bins)
        drawn = []
        for start, end, full, faint in row.bins:
            box = {"x": scale(start) + 1, "width": max(1.0, scale(end) - scale(start) - 2)}
            for count, base, kind in ((full, 0, "solid"), (faint, full, "haze full")):
                if count:
                    size = {"y": ground - unit * (base + count), "height": unit * count}
                    drawn.append(tag("rect", **box, **size, class_=f"{kind} {colour(row.index)}"))
        drawn += [
            line(scale.start, ground, scale.end, ground, "leader"),
            line(scale(row.median), ground - room, scale(row.median), ground, "median"),
            label(left, ground - 82, squeeze(row.title, 50), kind="name"),
            label(left, ground - 65, squeeze(row.under, 56), kind="quiet"),
        ]
        parts.append(group(*drawn, title=row.summary))
    return svg(WIDE, bottom + 46, parts, alt=alt, kind="wide")


CELL, GAP, ROW, BAR = 12, 3, 19, 76  # of bars and squares


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A row of ``bars``: shares from 0 to 1 as bars, with their lowest and highest values, and as squares."""

    title: str
    summary: str
    shares: Sequence[float]
    reach: Sequence[Interval] = ()
    squares: Sequence[float] = ()


def bars(heads: Sequence[str], rows: Sequence[Layer], index: int, *, alt: str) -> Markup:
    """Rows from the bottom up; ``heads`` names the squares, if there are any, and each column of bars."""
    left, top, apart, kind = 26, 26, 62, f"{colour(index)} solid"
    widest = max((len(row.squares) for row in rows), default=0)
    first = left + (widest * (CELL + GAP) + 16 if widest else 0)
    starts = [*([left] if widest else []), *(first + k * (BAR + apart) for k in range(len(heads) - bool(widest)))]
    width, height = starts[-1] + BAR + apart - 16, top + len(rows) * ROW + 12
    parts = [label(start, top - 10, words, kind="tick") for start, words in zip(starts, heads, strict=True)]
    for k, row in enumerate(rows):
        y, drawn = top + (len(rows) - 1 - k) * ROW, []
        for h, share in enumerate(row.squares):
            box: dict[str, float] = {"x": left + h * (CELL + GAP), "width": CELL, "rx": 3}
            drawn += [tag("rect", **box, y=y, height=CELL, class_="gone")] if share < 1 else []
            drawn += [tag("rect", **box, y=y + CELL * (1 - share), height=CELL * share, class_=kind)] if share else []
        for i, (start, share) in enumerate(zip(starts[bool(widest) :], row.shares, strict=True)):
            box = {"x": start, "y": y + 1.5, "height": CELL - 3, "rx": 3}
            drawn += [
                tag("rect", **box, width=BAR, class_="gone"),
                tag("rect", **box, width=max(1.0, BAR * share), class_=kind),
                label(start + BAR + 7, y + 10.5, f"{100 * share:.0f} %", kind="tick"),
            ]
            low, high = row.reach[i] if row.reach else (share, share)
            if high > low:
                box = {"x": start + BAR * low, "y": y + CELL / 2 - 1, "width": BAR * (high - low), "height": 2}
                drawn.append(tag("rect", **box, class_="reach"))
        parts.append(group(label(left - 10, y + 10.5, row.title, "end", "tick"), *drawn, title=row.summary))
    return svg(width, height, parts, alt=alt)


@dataclass(frozen=True, kw_only=True)
class Heat:
    """A square of values over pairs of named places; ``mark``: the place of a line across, with a word."""

    values: Sequence[Sequence[float]]
    names: Sequence[str]
    title: str
    axis: str
    describe: Callable[[int, int], str]
    mark: tuple[int, str] | None = None


def heat_map(of: Heat, *, alt: str) -> Markup:
    """A square a pair of places, the fainter the smaller; both axes run from the lower left."""
    side, left, top = 250, 40.0, 34
    size, worst = side / len(of.values), max(map(max, of.values))
    cells = [
        tag("rect", tag("title", of.describe(a, b)), x=left + b * size, y=top + side - (a + 1) * size, width=size, height=size,
            fill_opacity=_shade(value / worst if worst else 0.0), class_="heat")
        for a, row in enumerate(of.values)
        for b, value in enumerate(row)
    ]  # fmt: skip
    parts = [
        label(left, top - 12, of.title, kind="name"),
        group(*cells),
        tag("rect", x=left, y=top, width=side, height=side, class_="frame"),
        label(left + side / 2, top + side + 16, of.axis, "middle", "tick"),
    ]
    for at in sorted({0, len(of.names) - 1}):
        parts.append(label(left + (at + 0.5) * size, top + side + 16, of.names[at], "middle", "tick"))
        parts.append(label(left - 7, top + side - (at + 0.5) * size + 4, of.names[at], "end", "tick"))
    if of.mark is not None:
        x = left + (of.mark[0] + 0.5) * size
        early = x < left + side / 2  # keeps clear of the title
        place = (x - 4, "start") if early else (min(x + 4, left + side), "end")
        parts.append(line(x, top - 5, x, top + side, "stop"))
        parts.append(label(place[0], top - 10, of.mark[1], place[1], "stop-word"))
    y, steps, wide = top + side + 44.0, 20, 110
    for k in range(steps):
        box = {"x": left + k * wide / steps, "y": y, "width": wide / steps, "height": 9}
        parts.append(tag("rect", **box, fill_opacity=_shade(k / (steps - 1)), class_="heat"))
    parts.append(label(left, y + 24, "0 %", kind="tick"))
    parts.append(label(left + wide, y + 24, f"{100 * worst:.1f} % differ", "middle", "tick"))
    return svg(left + side + 22, top + side + 76, parts, alt=alt)


def _shade(share: float) -> float:
    return round(0.03 + 0.97 * share, 3)
