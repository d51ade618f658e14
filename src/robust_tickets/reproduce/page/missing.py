"""What was not run, and why: every reason once, with the tables and tasks it holds for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from robust_tickets.report.markup import Html, join, scroll, tag
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import NOT_RUN
from robust_tickets.reproduce.arms import arm_title, task_title
from robust_tickets.reproduce.cost import cost, device
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.plan import needs, plan
from robust_tickets.reproduce.tables import Filled, FilledCell
from robust_tickets.reproduce.wording import hours
from robust_tickets.stats.compare_runs import FEWEST_RUNS


def missing(tables: Sequence[Filled], undrawn: dict[str, str], outcomes: Sequence[Outcome]) -> Html | None:
    """``undrawn``: figures of which some panel could not be drawn, and why."""
    groups: dict[
        tuple[str, str], dict[object, FilledCell]
    ] = {}  # an attack of ours may stand several times for one printed number
    for filled in tables:
        for cell in filled.cells:
            if cell.ours is None:
                groups.setdefault((_why(cell, outcomes), cell.task), {})[cell.number] = cell
    parts: list[Html] = []
    if groups:
        ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        rows = [_row(why, task, list(cells.values())) for (why, task), cells in ordered]
        head = tag(
            "tr", *[tag("th", words, scope="col", class_="number" if words == "numbers" else None) for words in HEADS]
        )
        caption = tag(
            "caption",
            tag("span", "Printed numbers that no run of ours stands beside, or not under every attack of ours."),
        )
        parts.append(
            scroll("Not run", tag("table", caption, tag("thead", head), tag("tbody", *rows), class_="missing"))
        )
    left = {
        one.id: found for one in published.tables() if math.fsum((found := left_of(one.id, outcomes)).values()) >= 60
    }
    if left:
        said = (
            "What each would still take on one H200, estimated: five runs a row, all tasks, every attack with every set of candidates, all "
            "data and weights at hand. Tables share runs, so that all of them take less than the sum."
        )
        items = [_item(id, found) for id, found in left.items()]
        parts.append(join([tag("h3", "What is left"), tag("p", said), tag("ul", *items, class_="left")]))
    if undrawn:
        items = [tag("li", tag("a", id, href=f"#{id}"), f": {why}") for id, why in undrawn.items()]
        listed = tag("ul", *items, class_="said")
        parts.append(tag("details", tag("summary", f"{len(undrawn)} figures of which panels are missing"), listed))
    return join(parts) if parts else None


def _why(cell: FilledCell, outcomes: Sequence[Outcome]) -> str:
    """With what a run of it needs that none of these runs had; where it was run, or cannot be, that is not the reason."""
    lacking = needs(cell.backbone, cell.task, outcomes) if cell.why in ("", NOT_RUN) else ""
    return (cell.why or NOT_RUN) + (f"; needs {lacking}" if lacking else "")


def _item(id: str, left: dict[str, float]) -> Html:
    total, most = math.fsum(left.values()), max(left, key=lambda task: left[task])
    mostly = tag("small", f"mostly {task_title(most)}") if len(left) > 1 and left[most] > MOSTLY * total else None
    return tag("li", tag("a", id, href=f"#{id}"), mostly, tag("data", hours(total), value=round(total)))


def left_of(id: str, outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Seconds a task; counted for fixed sizes and a fixed device, so that the page does not depend on where it is made.

    Seeds cost alike: one is counted for all of which the same was done.
    """
    asked, on = plan([id], seeds=1, paths=AT_HAND), device("h200")
    known: dict[frozenset[object], dict[str, float]] = {}
    total: dict[str, float] = {}
    for seed in range(FEWEST_RUNS):
        own = [
            replace(one, unit=replace(one.unit, seed=0))
            for one in outcomes
            if (one.unit.seed, one.unit.repeat) == (seed, 0)
        ]
        done = frozenset(
            (one.unit, tuple(attack.name for attack in one.attacks)) for one in own if one.unit in asked.attacks
        )
        if done not in known:
            known[done] = {}
            for unit, seconds in cost(asked, own, on).units.items():
                known[done][unit.task] = known[done].get(unit.task, 0.0) + seconds
        for task, seconds in known[done].items():
            total[task] = total.get(task, 0.0) + seconds
    return total


AT_HAND = Paths(counted=True)
HEADS = ("why", "task", "numbers", "tables", "methods")
SHOWN = 6  # methods named in a row
MOSTLY = 0.6  # of a table's time


def _row(why: str, task: str, cells: Sequence[FilledCell]) -> Html:
    tables = [tag("a", id, href=f"#{id}") for id in dict.fromkeys(cell.table for cell in cells)]
    arms = list(dict.fromkeys(arm_title(cell.arm) if cell.arm else cell.row for cell in cells))
    named = ", ".join(arms[:SHOWN]) + (f" and {len(arms) - SHOWN} more" if len(arms) > SHOWN else "")
    count = tag("td", tag("data", len(cells), value=len(cells)), class_="number")
    return tag(
        "tr",
        tag("th", why, scope="row"),
        tag("td", task_title(task)),
        count,
        tag("td", join(tables, ", ")),
        tag("td", named),
    )
