"""What was not run, and why: every reason once, with the tables and tasks it holds for."""

from __future__ import annotations

from collections.abc import Sequence

from robust_tickets.report.markup import Html, join, scroll, tag
from robust_tickets.reproduce.fill import Filled, FilledCell
from robust_tickets.reproduce.names import arm_title, task_title


def missing(tables: Sequence[Filled], undrawn: dict[str, str]) -> Html | None:
    """``undrawn``: figures of which some panel could not be drawn, and why."""
    groups: dict[str, list[FilledCell]] = {}
    for filled in tables:
        for cell in filled.cells:
            if cell.ours is None:
                groups.setdefault(cell.why or "not run", []).append(cell)
    rows = [_row(why, cells) for why, cells in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))]
    parts: list[Html] = []
    if rows:
        head = tag("tr", *[tag("th", words, scope="col", class_="number" if words == "numbers" else None) for words in HEADS])
        caption = tag("caption", tag("span", f"{sum(map(len, groups.values()))} numbers of the papers' tables have no run of ours."))
        parts.append(scroll("Not run", tag("table", caption, tag("thead", head), tag("tbody", *rows), class_="missing")))
    if undrawn:
        items = [tag("li", tag("a", id, href=f"#{id}"), f": {why}") for id, why in undrawn.items()]
        parts.append(join([tag("h3", "Figures and panels"), tag("ul", *items, class_="said")]))
    return join(parts) if parts else None


HEADS = ("why", "numbers", "tables", "tasks", "methods")


def _row(why: str, cells: Sequence[FilledCell]) -> Html:
    tables = [tag("a", id, href=f"#{id}") for id in dict.fromkeys(cell.table for cell in cells)]
    tasks = ", ".join(dict.fromkeys(task_title(cell.task) for cell in cells))
    arms = list(dict.fromkeys(arm_title(cell.arm) if cell.arm else cell.row for cell in cells))
    named = ", ".join(arms[:SHOWN]) + (f" and {len(arms) - SHOWN} more" if len(arms) > SHOWN else "")
    count = tag("td", tag("data", len(cells), value=len(cells)), class_="number")
    return tag("tr", tag("th", why, scope="row"), count, tag("td", join(tables, ", ")), tag("td", tasks), tag("td", named))


SHOWN = 6  # methods named in a row
