"""Scales, ticks, markers and the frame around every figure."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from robust_tickets.report.markup import Html, join, short, tag

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
    """Drawings under one caption; the style sheet fits each to the page's width."""
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
