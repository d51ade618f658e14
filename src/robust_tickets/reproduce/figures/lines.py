"""A panel of lines over one axis: means with bands, each run a small dot, names at the lines' ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from robust_tickets.report.charts import Scale, colour, group, label, line, marker, places, svg, two_lines
from robust_tickets.report.markup import Html, tag
from robust_tickets.reproduce.figures.drawn import WIDE, Panel, Table
from robust_tickets.reproduce.figures.series import Point, Series

LEFT, TOP, BOTTOM, BELOW = 38, 52, 236, 46
BESIDE = 122  # pixels for names beside the plot
LETTERS = 12  # of a name, on a line
DASHES = 4
MOST = 12  # places on the axis that may each have a number


@dataclass(frozen=True, kw_only=True)
class Axis:
    """``unit`` is written after a number where it is read out; ``factor`` makes percent of shares."""

    title: str
    unit: str = ""
    factor: float = 1.0

    def words(self, x: float) -> str:
        shown = self.factor * x
        return f"{shown:.2g}" if abs(shown) < 10 else f"{shown:.3g}"


def lines(
    title: str,
    what: str,
    axis: Axis,
    series: Sequence[Series],
    *,
    low: float,
    high: float,
    dots: bool = True,
    marks: bool = True,
) -> Panel:
    """One panel: ``title`` says where, ``what`` is measured; ``low`` and ``high`` are shared by panels that are to be compared."""
    every = [point.x for one in series for point in one.swept if point.x is not None]
    first, last = (min(every), max(every)) if every else (0.0, 1.0)
    pad = 0.04 * (last - first) or 0.5 * abs(first) or 0.5
    right = WIDE - (BESIDE if len(series) > 1 else 12)
    x, y = (
        Scale(low=first - pad, high=last + pad, start=LEFT, end=right),
        Scale(low=low, high=high, start=BOTTOM, end=TOP),
    )
    parts = [
        label(0, 14, title, kind="name"),
        label(0, 33, what, kind="quiet"),
        tag("rect", x=LEFT, y=TOP, width=right - LEFT, height=BOTTOM - TOP, class_="plot"),
    ]
    for t in y.ticks(5):
        parts += [line(LEFT, y(t), right, y(t), "grid"), label(LEFT - 8, y(t) + 4, f"{t:g}", "end", "tick")]
    for t in _ticks(x, every, axis):
        parts += [
            line(x(t), BOTTOM, x(t), BOTTOM + 4, "grid"),
            label(x(t), BOTTOM + 18, axis.words(t), "middle", "tick"),
        ]
    parts.append(label((LEFT + right) / 2, BOTTOM + 38, axis.title, "middle", "axis"))
    parts += [_band(one, x, y) for one in series]
    ends = [y(one.swept[-1].mean if one.swept else one.points[0].mean) for one in series]
    names = [two_lines(one.name, LETTERS) for one in series]
    apart = 34.0 if any(len(words) > 1 for words in names) else 18.0
    for one, words, end, place in zip(series, names, ends, places(ends, TOP + 6, BOTTOM, apart), strict=True):
        drawn = [_line(one, x, y), *_marks(one, x, y, axis, dots=dots, marks=marks)]
        if len(series) > 1:
            start = right + 14.0
            drawn.append(line(right + 2, end, start - 2, place, "leader"))
            drawn.append(
                tag(
                    "path",
                    d=f"M{start:.1f} {place:.1f}h12",
                    class_=f"curve {colour(one.index)} dash{one.index % DASHES}",
                )
            )
            drawn += [marker(start + 6, place, one.index, 4)] if marks else []
            drawn += [label(start + 17, place + 4 + 14 * k, said, kind="tick") for k, said in enumerate(words)]
        parts.append(group(*drawn, title=_said(one, axis)))
    alt = f"{title}, {what}. " + "; ".join(_said(one, axis) for one in series)
    sources = tuple(dict.fromkeys(source for one in series for point in one.points for source in point.sources))
    return Panel(
        title=f"{title}: {what}",
        svg=svg(WIDE, BOTTOM + BELOW, parts, alt=alt),
        table=table(axis, series),
        sources=sources,
    )


def table(axis: Axis, series: Sequence[Series]) -> Table:
    """A row a point: its place, the mean, the interval and the single runs."""
    rows = []
    for one in series:
        for point in one.points:
            where = "–" if point.x is None else axis.words(point.x)
            span = f"{point.interval[0]:.1f} to {point.interval[1]:.1f}" if point.interval else "–"
            rows.append(
                (
                    one.name,
                    where,
                    f"{point.mean:.1f}",
                    span,
                    str(len(point.values)),
                    " ".join(f"{v:.1f}" for v in point.values),
                )
            )
    return Table(head=("Line", axis.title, "Mean", "95 % interval", "Runs", "Each run"), rows=tuple(rows))


def span_of(series: Sequence[Series], floor: float = 0.0, ceiling: float = 100.0) -> tuple[float, float]:
    """A range that holds every run and every band."""
    every = [v for one in series for point in one.points for v in (*point.values, *(point.interval or ()))]
    pad = max(1.0, 0.08 * (max(every) - min(every))) if every else 0.0
    low, high = (max(floor, min(every) - pad), min(ceiling, max(every) + pad)) if every else (floor, ceiling)
    return (low, high) if high > low else (low - 1, high + 1)


def _ticks(x: Scale, every: Sequence[float], axis: Axis) -> list[float]:
    """The places that were run, or every second, third … of them, so that their numbers do not touch; of many, round ones."""
    own = sorted(set(every))
    if len(own) > MOST:
        return x.ticks(4)
    for step in range(1, len(own) + 1):
        kept = own[::step]
        if all(x(b) - x(a) > 4 * (len(axis.words(a)) + len(axis.words(b))) + 3 for a, b in pairwise(kept)):
            break
    return kept


def _line(one: Series, x: Scale, y: Scale) -> Html:
    style = f"curve {colour(one.index)} dash{one.index % DASHES}"
    if one.level is not None:
        return tag("path", d=f"M{x.start:.1f} {y(one.level.mean):.1f}H{x.end:.1f}", class_=style)
    return tag("path", d="M" + "L".join(f"{x(p.x or 0):.1f} {y(p.mean):.1f}" for p in one.swept), class_=style)


def _band(one: Series, x: Scale, y: Scale) -> Html:
    """Over neighbours that both have an interval; a lone one gets a bar of its own."""
    kind, parts = colour(one.index), []
    if one.level is not None and one.level.interval:
        low, high = _within(one.level, y)
        parts.append(
            tag(
                "rect", x=x.start, y=y(high), width=x.end - x.start, height=y(low) - y(high), class_=f"haze thin {kind}"
            )
        )
    stretches: list[list[Point]] = [[]]
    for point in one.swept:
        if point.interval:
            stretches[-1].append(point)
        elif stretches[-1]:
            stretches.append([])
    for stretch in filter(None, stretches):
        if len(stretch) == 1:
            low, high = _within(stretch[0], y)
            across = x(stretch[0].x or 0)
            parts.append(line(across, y(low), across, y(high), f"bar {kind}"))
            continue
        there = "L".join(f"{x(p.x or 0):.1f} {y(_within(p, y)[1]):.1f}" for p in stretch)
        back = "L".join(f"{x(p.x or 0):.1f} {y(_within(p, y)[0]):.1f}" for p in reversed(stretch))
        parts.append(tag("path", d=f"M{there}L{back}Z", class_=f"haze {kind}"))
    return group(*parts)


def _within(point: Point, y: Scale) -> tuple[float, float]:
    """The interval, cut at the panel's edge."""
    low, high = point.interval or (point.mean, point.mean)
    return max(low, y.low), min(high, y.high)


def _marks(one: Series, x: Scale, y: Scale, axis: Axis, *, dots: bool, marks: bool) -> list[Html]:
    parts = [marker(x.end, y(one.level.mean), one.index, 4.5)] if one.level is not None and marks else []
    for point in one.swept:
        across, said = x(point.x or 0), f"{one.name}, {axis.words(point.x or 0)}{axis.unit}: {point.said}"
        runs = [tag("circle", cx=across, cy=y(v), r=2, class_=f"haze full {colour(one.index)}") for v in point.values]
        parts.append(
            group(
                *(runs if dots and len(runs) > 1 else []),
                *([marker(across, y(point.mean), one.index, 4.5)] if marks else []),
                title=said,
            )
        )
    return parts


def _said(one: Series, axis: Axis) -> str:
    points = [
        f"{axis.words(p.x)}{axis.unit}: {p.said}" if p.x is not None else f"throughout: {p.said}" for p in one.points
    ]
    shown = points if len(points) <= 10 else [points[0], points[len(points) // 2], points[-1]]
    return f"{one.name}, {', '.join(shown)}"
