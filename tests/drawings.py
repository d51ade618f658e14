"""Drawings and tables as tests look at them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from robust_tickets.report.tables import Table
from robust_tickets.reproduce.figures import Drawn


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
