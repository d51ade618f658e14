"""Drawings as tests look at them: whether they are well formed, and how the marks of arms look, however large they are."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from robust_tickets.reproduce.figures.drawn import Drawn

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


def well_formed(drawn: Drawn) -> list[ElementTree.Element]:
    """The drawings as XML; each has a text, and no number that is none."""
    assert "nan" not in drawn.svg.lower()
    assert "None" not in drawn.svg
    found = [one for panel in drawn.panels if panel.svg for one in ElementTree.fromstring(f"<p>{panel.svg}</p>")]
    assert all(one.get("aria-label") and one.get("role") == "img" for one in found)
    return found
