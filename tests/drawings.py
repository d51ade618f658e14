"""Drawings as tests look at them: whether they are well formed, and how the marks of arms look, however large they are."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

from robust_tickets.report.tables import Table
from robust_tickets.reproduce.figures import Drawn

Mark = tuple[str, str, tuple[tuple[float, float], ...]]  # element, colour and fill, corners around the middle
Corners = list[tuple[float, float]]
_LOOK = re.compile(r"\b(arm\d (?:solid|outline))$")
_STEP = re.compile(r"([Mhvl])([-.\d ]+)")
_NUMBER = re.compile(r"-?(?:\d+\.\d+|\.\d+|\d+)")


def marks(drawing: str) -> list[Mark]:
    """All of them, in order; where several stand in one group, the group says how they look."""
    return [found for root in ElementTree.fromstring(f"<p>{drawing}</p>") for found in _marks(root, "")]


def _marks(element: ElementTree.Element, around: str) -> Iterator[Mark]:
    own = _LOOK.search(element.get("class") or "")
    look = own[1] if own else around if element.get("class") is None else ""
    if element.tag == "g" or element.tag not in ("circle", "rect", "path"):
        for inner in element:
            yield from _marks(inner, look if element.tag == "g" else "")
    elif look:
        yield element.tag, look, _around(corners(element.get("d") or ""))


def corners(path: str) -> Corners:
    """Of a path that goes from each to the next by how far it is, and closes."""
    assert not path or path.endswith("z"), path
    found: Corners = []
    for letter, written in _STEP.findall(path):
        given = [float(number) for number in _NUMBER.findall(written)]
        x, y = found[-1] if letter != "M" else (0.0, 0.0)
        across, along = {"h": (*given, 0.0), "v": (0.0, *given)}.get(letter, given)
        found.append((x + across, y + along))
    return found


def _around(points: Corners) -> tuple[tuple[float, float], ...]:
    if not points:
        return ()
    x, y = (sum(point[i] for point in points) / len(points) for i in (0, 1))
    size = max(abs(v) for px, py in points for v in (px - x, py - y))
    return tuple(
        (round(2 * (px - x) / size) / 2, round(2 * (py - y) / size) / 2) for px, py in points
    )  # points keep one decimal


def well_formed(drawn: Drawn) -> list[ElementTree.Element]:
    """The drawings as XML; each has a text, and no number that is none."""
    assert "nan" not in drawn.svg.lower()
    assert "None" not in drawn.svg
    found = [one for panel in drawn.panels if panel.svg for one in ElementTree.fromstring(f"<p>{panel.svg}</p>")]
    assert all(one.get("aria-label") and one.get("role") == "img" for one in found)
    return found


def cells(table: Table | None) -> list[tuple[str, ...]]:
    """The texts of a table, row by row."""
    assert table is not None
    return [(row.name, *(cell.text for cell in row.cells)) for row in table.rows]


def heads(table: Table | None) -> tuple[str, ...]:
    assert table is not None
    return (table.first, *(column.title for column in table.columns))
