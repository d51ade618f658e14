"""How marks of arms look in drawings, wherever and however large they are drawn."""

from __future__ import annotations

import re

Mark = tuple[str, str, tuple[tuple[float, float], ...]]  # element, colour and fill, corners around the middle
_DRAWN = re.compile(r'<(circle|rect|polygon)([^>]*) class="(arm\d (?:solid|hollow))"')


def marks(drawing: str) -> list[Mark]:
    """All of them, in order."""
    return [(kind, look, _corners(rest)) for kind, rest, look in _DRAWN.findall(drawing)]


def _corners(attributes: str) -> tuple[tuple[float, float], ...]:
    found = re.search(r'points="([^"]*)"', attributes)
    if found is None:
        return ()
    points = [tuple(map(float, point.split(","))) for point in found[1].split()]
    x, y = (sum(point[i] for point in points) / len(points) for i in (0, 1))
    size = max(abs(v) for px, py in points for v in (px - x, py - y))
    return tuple((round(2 * (px - x) / size) / 2, round(2 * (py - y) / size) / 2) for px, py in points)  # points keep one decimal
