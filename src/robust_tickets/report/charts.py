"""Charts as SVG: plain data in, a drawing with an alternative text out. No script, no image; colours come from the style sheet.

Every chart is drawn once, about as wide as a phone held upright shows it; the page scales it up. Names therefore stand above or below
what they name, not beside it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from robust_tickets.report.markup import Html, join, short, tag

WIDE = 460  # units across a chart
LEFT, TOP, BELOW = 52, 14, 46  # of a plot with two axes; below it the ticks and the name of the axis across
LINE = 18  # units between two names
COLOURS = 8  # arms beyond the eighth start over, hollow; beyond the sixteenth with another shape
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


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Data from ``low`` to ``high`` onto pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Rounded far below what is drawn: last bits differ between computers, and what lies on an edge would be drawn otherwise."""
        return round(self.start + (value - self.low) / ((self.high - self.low) or 1) * (self.end - self.start), 6)

    def ticks(self, about: int = 5) -> list[float]:
        """Round numbers inside the scale, about so many."""
        rough = (self.high - self.low) / max(about, 1) or 1
        power = 10 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [step * i for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def around(values: list[float], pad: float, low: float = 0.0, high: float = 100.0) -> tuple[float, float]:
    """A range that holds ``values`` with ``pad`` on both sides, inside the possible ones."""
    return max(low, min(values) - pad), min(high, max(values) + pad)


def colour(index: int) -> str:
    return f"arm{index % COLOURS}"


def look(index: int) -> tuple[int, int, bool]:
    """Colour, shape and hollowness of arm ``index``: no two of the first 128 alike, so that a figure needs no looks of its own."""
    return index % COLOURS, (index + index // (2 * COLOURS)) % len(SHAPES), index // COLOURS % 2 == 1


def marker(x: float, y: float, index: int, size: float = 7, hollow: bool | None = None) -> Html:
    """A point of arm ``index``, as it looks in every figure: colour is never the only sign.

    ``hollow`` is for a figure in which that says something else.
    """
    return _shape(x, y, index, size, _filled(index, hollow))


def markers(across: Sequence[float], y: float, index: int, size: float, kind: str = "") -> list[Html]:
    """Points of arm ``index`` beside one another: what all of them look like is written once, around them."""
    if not across:
        return []
    return [group(*(_shape(x, y, index, size) for x in across), kind=f"{kind} {_filled(index)}".strip())]


def _filled(index: int, hollow: bool | None = None) -> str:
    return f"{colour(index)} {'hollow' if (look(index)[2] if hollow is None else hollow) else 'solid'}"


def _shape(x: float, y: float, index: int, size: float, kind: str | None = None) -> Html:
    shape = look(index)[1]
    if shape == 0:
        return tag("circle", cx=x, cy=y, r=size, class_=kind)
    if shape == 1:
        s = size * 0.9
        return tag("rect", x=x - s, y=y - s, width=2 * s, height=2 * s, class_=kind)
    return tag("path", d=outline([(x + size * dx, y + size * dy) for dx, dy in SHAPES[shape]]), class_=kind)


def outline(corners: Sequence[tuple[float, float]]) -> str:
    """A closed path with corners of one decimal, from each to the next by how far it is: a page has thousands of them."""
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


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Html:
    to = f"V{short(y2)}" if x1 == x2 else f"H{short(x2)}" if y1 == y2 else f"L{short(x2)} {short(y2)}"
    return tag("path", d=f"M{short(x1)} {short(y1)}{to}", class_=kind)


def label(x: float, y: float, words: object, anchor: str = "start", kind: str = "", **more: object) -> Html:
    return tag("text", words, x=x, y=y, text_anchor=anchor if anchor != "start" else None, class_=kind or None, **more)


def svg(width: float, height: float, parts: list[Html], *, alt: str, kind: str = "") -> Html:
    """A drawing with a text for those who cannot see it."""
    size = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "width": f"{width:.0f}", "height": f"{height:.0f}"}
    return tag("svg", *parts, **size, role="img", aria_label=alt, class_=kind or None)


def figure(drawings: list[Html], caption: object, kind: str = "") -> Html:
    """Drawings under one caption."""
    return tag(
        "figure", *[tag("div", drawing) for drawing in drawings], tag("figcaption", caption), class_=kind or None
    )


def shorten(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def squeeze(words: str, most: int) -> str:
    """``words`` with the middle left out where they are too long: names often differ at their ends."""
    if len(words) <= most:
        return words
    tail = (most - 1) // 2
    return f"{words[: most - 1 - tail].rstrip()}…{words[-tail:].lstrip()}"


def two_lines(words: str, most: int) -> list[str]:
    """``words`` on one line or two of at most ``most`` characters; what is longer is shortened."""
    first, *rest = textwrap.wrap(words, most, break_on_hyphens=False) or [""]
    return [first, shorten(" ".join(rest), most)] if rest else [first]


def folded(words: str, most: int, lines: int) -> list[str]:
    """``words`` on so many lines at most; of what is longer the middle of the last is left out."""
    found = textwrap.wrap(words, most, break_on_hyphens=False) or [""]
    return found if len(found) <= lines else [*found[: lines - 1], squeeze(" ".join(found[lines - 1 :]), most)]


def group(*parts: object, kind: str = "", title: str = "") -> Html:
    return tag("g", tag("title", title) if title else None, join(parts), class_=kind or None)


def places(wanted: list[float], highest: float, lowest: float, apart: float | Sequence[float]) -> list[float]:
    """Heights for labels: near their points, in their order, never on top of one another, none below ``lowest``.

    ``apart``: how much room a label takes, or each of them.
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    room = list(apart) if isinstance(apart, Sequence) else [apart] * len(wanted)
    gaps = [(room[a] + room[b]) / 2 for a, b in pairwise(order)]
    placed: list[float] = []
    for k, i in enumerate(order):
        placed.append(max(wanted[i], placed[-1] + gaps[k - 1]) if placed else max(wanted[i], highest))
    for k in range(len(placed)):
        placed[k] = min(placed[k], lowest - sum(gaps[k:]))
    back = dict(zip(order, placed, strict=True))
    return [back[i] for i in range(len(wanted))]


def decades(low: int, high: int, every: bool) -> list[int]:
    """Ticks of a logarithmic axis from 10^low to 10^high: the powers of ten, and 2 and 5 times them where there is room."""
    return [
        step * 10**power for power in range(low, high + 1) for step in ((1, 2, 5) if every and power < high else (1,))
    ]


Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Fall:
    """A row of ``dots``: from a hollow point to a filled one with its interval; ``said`` is the row in words."""

    index: int
    title: str
    start: float | None
    end: float
    interval: Interval | None
    said: str


def dots(rows: Sequence[Fall], write: Callable[[float], str], *, alt: str, low: float = 0, high: float = 100) -> Html:
    """One scale for all rows, each under its name."""
    height, left = 74, 16
    scale, bottom = Scale(low=low, high=high, start=left, end=WIDE - 24), height * len(rows) + 12
    ticks = scale.ticks(5)
    parts = [line(scale(t), 4, scale(t), bottom, "grid") for t in ticks]
    parts += [label(scale(t), bottom + 18, f"{t:g}", "middle", "tick") for t in ticks]
    for place, row in enumerate(rows):
        y, end = height * (place + 0.75) + 6, scale(row.end)
        drawn = [label(left, y - 36, squeeze(row.title, 50), kind="name")]
        if row.start is not None:
            start = scale(row.start)
            near = start - end < 60  # two numbers would touch: the first goes beside its point
            drawn += [line(start, y, end, y, f"fall {colour(row.index)}"), marker(start, y, row.index, 6, hollow=True)]
            drawn.append(
                label(
                    *((start + 13, y + 4.5) if near else (start, y - 14)),
                    write(row.start),
                    "start" if near else "middle",
                    "quiet",
                )
            )
        if row.interval is not None:
            a, b = map(scale, row.interval)
            drawn.append(tag("rect", x=a, y=y - 9, width=b - a, height=18, rx=9, class_=f"haze {colour(row.index)}"))
        drawn += [marker(end, y, row.index, 8, hollow=False), label(end, y - 14, write(row.end), "middle", "strong")]
        parts.append(group(*drawn, title=row.said))
    return svg(WIDE, bottom + 26, parts, alt=alt, kind="wide")


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What an axis says and where it has ticks; ``place`` is where a value is on its scale, its logarithm for instance."""

    name: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    @staticmethod
    def linear(name: str, low: float, high: float, about: int = 5) -> Axis:
        ticks = Scale(low=low, high=high, start=0, end=1).ticks(about)
        return Axis(name=name, low=low, high=high, ticks=[(t, f"{t:g}") for t in ticks])

    @staticmethod
    def powers(name: str, low: float, high: float, write: Callable[[float], str]) -> Axis:
        """Logarithmic, from 10^low to 10^high."""
        found = [
            t
            for t in decades(math.floor(low), math.ceil(high), every=high - low <= 2)
            if low <= math.log10(t) <= high + 1e-9
        ]
        return Axis(name=name, low=low, high=high, ticks=[(math.log10(t), write(t)) for t in found])


def _plot(x: Axis, y: Axis, bottom: float) -> tuple[Scale, Scale, list[Html]]:
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
    """A point of a scatter, with an interval along each axis."""

    index: int
    title: str
    x: float
    across: Interval
    y: float
    along: Interval
    said: str


def scatter(points: Sequence[Point], x: Axis, y: Axis, *, alt: str) -> Html:
    """Points with both intervals, their names below the plot."""
    bottom = 320
    across, up, parts = _plot(x, y, bottom)
    for place, point in enumerate(points):
        px, py, height, kind = (
            across(point.x),
            up(point.y),
            bottom + BELOW + 14 + LINE * place,
            f"bar {colour(point.index)}",
        )
        drawn = [
            line(across(point.across[0]), py, across(point.across[1]), py, kind),
            line(px, up(point.along[0]), px, up(point.along[1]), kind),
            marker(px, py, point.index, 7),
            marker(LEFT + 6, height, point.index, 5),
            label(LEFT + 18, height + 4.5, squeeze(point.title, 44), kind="name"),
        ]
        parts.append(group(*drawn, title=point.said))
    return svg(WIDE, bottom + BELOW + 10 + LINE * len(points), parts, alt=alt, kind="wide")


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line with its band: places along the axis, values there, and the ends of their intervals."""

    index: int
    title: str
    said: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    under: str = ""  # smaller, under the title
    dash: int = 0
    steps: bool = False


def lines(series: Sequence[Series], x: Axis, y: Axis, *, alt: str) -> Html:
    """Lines, their bands below all of them, their names below the plot."""
    bottom = 290
    across, up, parts = _plot(x, y, bottom)
    apart = 2 * LINE if any(one.under for one in series) else LINE
    for one in series:
        if one.low:
            there = "L".join(f"{across(a):.1f} {up(b):.1f}" for a, b in zip(one.x, one.high, strict=True))
            back = "L".join(
                f"{across(a):.1f} {up(b):.1f}" for a, b in zip(reversed(one.x), reversed(one.low), strict=True)
            )
            parts.append(tag("path", d=f"M{there}L{back}Z", class_=f"haze thin {colour(one.index)}"))
    for place, one in enumerate(series):
        kind, height = f"curve {colour(one.index)} dash{one.dash}", bottom + BELOW + 14 + apart * place
        drawn = [
            tag("path", d=_path(one, across, up), class_=kind),
            tag("path", d=f"M{LEFT - 30} {height:.1f}h24", class_=kind),
            label(LEFT + 2, height + 4.5, squeeze(one.title, 46), kind="name"),
            label(LEFT + 2, height + 20, squeeze(one.under, 54), kind="quiet") if one.under else None,
        ]
        parts.append(group(*drawn, title=one.said))
    return svg(WIDE, bottom + BELOW + 10 + apart * len(series), parts, alt=alt, kind="wide")


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
    said: str


def histogram(rows: Sequence[Spread], x: Axis, *, alt: str) -> Html:
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
            a, b = scale(start) + 1, scale(end) - 1
            for count, base, kind in ((full, 0, "solid"), (faint, full, "haze full")):
                if count:
                    box = {
                        "x": a,
                        "y": ground - unit * (base + count),
                        "width": max(1.0, b - a),
                        "height": unit * count,
                    }
                    drawn.append(tag("rect", **box, class_=f"{kind} {colour(row.index)}"))
        drawn += [
            line(scale.start, ground, scale.end, ground, "leader"),
            line(scale(row.median), ground - room, scale(row.median), ground, "median"),
            label(left, ground - 82, squeeze(row.title, 50), kind="name"),
            label(left, ground - 65, squeeze(row.under, 56), kind="quiet"),
        ]
        parts.append(group(*drawn, title=row.said))
    return svg(WIDE, bottom + 46, parts, alt=alt, kind="wide")


CELL, GAP, ROW, BAR = 12, 3, 19, 76  # of bars and squares


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A row of ``bars``: squares that are filled or not, and shares from 0 to 1."""

    title: str
    said: str
    shares: Sequence[float]
    squares: Sequence[bool] = ()


def bars(title: str, heads: Sequence[str], rows: Sequence[Layer], index: int, *, alt: str) -> Html:
    """Rows from the bottom up; ``heads`` names the squares, if there are any, and each column of bars."""
    left, top, apart = 26, 46, 62
    widest = max((len(row.squares) for row in rows), default=0)
    first = left + (widest * (CELL + GAP) + 16 if widest else 0)
    starts = [*([left] if widest else []), *(first + k * (BAR + apart) for k in range(len(heads) - bool(widest)))]
    width, height = starts[-1] + BAR + apart - 16, top + len(rows) * ROW + 12
    parts = [label(0, 14, shorten(title, int(width / 8.5)), kind="name")]  # a letter is about so wide
    parts += [label(start, top - 10, words, kind="tick") for start, words in zip(starts, heads, strict=True)]
    for k, row in enumerate(rows):
        y = top + (len(rows) - 1 - k) * ROW
        drawn = [
            tag(
                "rect",
                x=left + h * (CELL + GAP),
                y=y,
                width=CELL,
                height=CELL,
                rx=3,
                class_=f"{colour(index)} solid" if on else "gone",
            )
            for h, on in enumerate(row.squares)
        ]
        for start, share in zip(starts[bool(widest) :], row.shares, strict=True):
            box = {"x": start, "y": y + 1.5, "height": CELL - 3, "rx": 3}
            drawn += [
                tag("rect", **box, width=BAR, class_="gone"),
                tag("rect", **box, width=max(1.0, BAR * share), class_=f"{colour(index)} solid"),
                label(start + BAR + 7, y + 10.5, f"{100 * share:.0f} %", kind="tick"),
            ]
        parts.append(group(label(left - 10, y + 10.5, row.title, "end", "tick"), *drawn, title=row.said))
    return svg(width, height, parts, alt=alt)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A line across a heat map at one of its places, with a word."""

    at: int
    word: str


def heat_map(
    values: Sequence[Sequence[float]], names: Sequence[str], *, title: str, axis: str, alt: str, say: Callable[[int, int], str],
    mark: Mark | None = None, heading: str = "",
) -> Html:  # fmt: skip
    """A square a pair of places, the fainter the smaller; both axes run from the lower left. ``heading`` is for maps that stand together."""
    side, left, top = 250, 40.0, 34 + (22 if heading else 0)
    cell, worst = side / len(values), max(map(max, values))
    cells = [
        tag("rect", tag("title", say(a, b)), x=left + b * cell, y=top + side - (a + 1) * cell, width=cell, height=cell,
            fill_opacity=_shade(value / worst if worst else 0.0), class_="heat")
        for a, row in enumerate(values)
        for b, value in enumerate(row)
    ]  # fmt: skip
    parts = [
        label(0, 14, heading, kind="name") if heading else None,
        label(left, top - 12, title, kind="name"),
        group(*cells),
        tag("rect", x=left, y=top, width=side, height=side, class_="frame"),
        label(left + side / 2, top + side + 16, axis, "middle", "tick"),
    ]
    for at in sorted({0, len(names) - 1}):
        parts.append(label(left + (at + 0.5) * cell, top + side + 16, names[at], "middle", "tick"))
        parts.append(label(left - 7, top + side - (at + 0.5) * cell + 4, names[at], "end", "tick"))
    if mark is not None:
        x = left + (mark.at + 0.5) * cell
        early = x < left + side / 2  # leaves the title its room
        parts.append(line(x, top - 5, x, top + side, "stop"))
        parts.append(
            label(
                x - 4 if early else min(x + 4, left + side),
                top - 10,
                mark.word,
                "start" if early else "end",
                "stop-word",
            )
        )
    y, steps, wide = top + side + 44.0, 20, 110
    parts += [
        tag(
            "rect",
            x=left + k * wide / steps,
            y=y,
            width=wide / steps,
            height=9,
            fill_opacity=_shade(k / (steps - 1)),
            class_="heat",
        )
        for k in range(steps)
    ]
    parts += [
        label(left, y + 24, "0 %", kind="tick"),
        label(left + wide, y + 24, f"{100 * worst:.1f} % differ", "middle", "tick"),
    ]
    return svg(left + side + 22, top + side + 76, [part for part in parts if part is not None], alt=alt)


def _shade(share: float) -> float:
    return round(0.03 + 0.97 * share, 3)
