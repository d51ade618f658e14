"""A panel of lines, whatever the runs gave: nothing leaves the drawing, no two names lie on one another, every run is told."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from robust_tickets.reproduce.figures.drawn import WIDE
from robust_tickets.reproduce.figures.lines import BOTTOM, LEFT, TOP, Axis, lines, span_of
from robust_tickets.reproduce.figures.series import Point, Series

VALUES = st.lists(st.floats(0, 100), min_size=1, max_size=7)
SWEPT = st.dictionaries(st.floats(0, 1), VALUES, min_size=1, max_size=6)


@st.composite
def some_series(draw: st.DrawFn) -> list[Series]:
    found = []
    for index in range(draw(st.integers(1, 5))):
        places: dict[float | None, list[float]] = (
            {None: draw(VALUES)} if draw(st.booleans()) and index else dict(draw(SWEPT))
        )
        points = tuple(Point(x=x, values=tuple(values), sources=("run",) * len(values)) for x, values in places.items())
        found.append(Series(name=draw(st.text("ab <&é", min_size=1, max_size=30)), index=index, points=points))
    return found


@given(some_series())
def test_everything_stays_inside_and_is_told(series: list[Series]) -> None:
    low, high = span_of(series)
    panel = lines("SST-2", "accuracy, %", Axis(title="share", factor=100), series, low=low, high=high)
    drawing = ElementTree.fromstring(panel.svg)
    drawn = [path for path in drawing.iter("path") if path.get("class", "").startswith(("curve ", "haze "))]
    assert len(drawn) >= len(series)
    for path in drawn:  # marks reach beyond by half of them, ticks below
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d", "")):
            assert LEFT - 0.1 <= float(x) <= WIDE
            assert TOP - 0.1 <= float(y) <= BOTTOM + 0.1
    for circle in drawing.iter("circle"):
        assert TOP - 0.1 <= float(circle.get("cy", "nan")) <= BOTTOM + 0.1
    samples = sorted(
        float(y) for path in drawing.iter("path") for y in re.findall(r"M[\d.]+ ([\d.]+)h12", path.get("d", ""))
    )
    assert len(samples) == (len(series) if len(series) > 1 else 0)
    assert all(b - a > 17.9 for a, b in pairwise(samples))
    assert panel.table is not None
    assert sum(int(row[4]) for row in panel.table.rows) == sum(
        len(point.values) for one in series for point in one.points
    )
