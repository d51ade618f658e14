"""What was not run, and why: every reason once, with the tables and tasks it holds for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from robust_tickets.measure.runs import FEWEST_RUNS
from robust_tickets.report.markup import Html, join, scroll, tag
from robust_tickets.reproduce import published
from robust_tickets.reproduce.cost import cost, device
from robust_tickets.reproduce.fill import Filled, FilledCell
from robust_tickets.reproduce.names import arm_title, task_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.page.standing import exact
from robust_tickets.reproduce.places import Places
from robust_tickets.reproduce.plan import plan

AT_HAND = Places(**{role: Path(role) for role in ("vectors_real", "vectors_substitute", "encoder", "tagger", "masked", "corpus")})  # type: ignore[arg-type]


def missing(tables: Sequence[Filled], undrawn: dict[str, str], outcomes: Sequence[Outcome]) -> Html | None:
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
    left = {one.id: seconds for one in published.tables() if (seconds := _left(one.id, outcomes)) >= 60}
    if left:
        items = [tag("li", tag("a", id, href=f"#{id}"), tag("data", hours(value), value=exact(value))) for id, value in left.items()]
        said = "What each would still take on one H200, estimated: five runs a row, all tasks and attacks, everything at hand. "
        said += "Tables share runs, so that all of them take less than the sum."
        parts.append(join([tag("h3", "What is left"), tag("p", said), tag("ul", *items, class_="left")]))
    if undrawn:
        items = [tag("li", tag("a", id, href=f"#{id}"), f": {why}") for id, why in undrawn.items()]
        parts.append(join([tag("h3", "Figures and panels"), tag("ul", *items, class_="said")]))
    return join(parts) if parts else None


def _left(id: str, outcomes: Sequence[Outcome]) -> float:
    """Seconds; counted for fixed sizes and a fixed device, so that the page does not depend on where it is made.

    Seeds cost alike: one is counted for all of which the same was done.
    """
    asked, on = plan([id], seeds=1, places=AT_HAND), device("h200")
    known: dict[frozenset[object], float] = {}
    total = 0.0
    for seed in range(FEWEST_RUNS):
        own = [replace(one, unit=replace(one.unit, seed=0)) for one in outcomes if (one.unit.seed, one.unit.repeat) == (seed, 0)]
        done = frozenset((one.unit, tuple(attack.name for attack in one.attacks)) for one in own if one.unit in asked.attacks)
        if done not in known:
            known[done] = cost(asked, own, on).total
        total += known[done]
    return total


def hours(seconds: float) -> str:
    return f"{seconds / 3600:.0f} h" if seconds >= 36000 else f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


HEADS = ("why", "numbers", "tables", "tasks", "methods")


def _row(why: str, cells: Sequence[FilledCell]) -> Html:
    tables = [tag("a", id, href=f"#{id}") for id in dict.fromkeys(cell.table for cell in cells)]
    tasks = ", ".join(dict.fromkeys(task_title(cell.task) for cell in cells))
    arms = list(dict.fromkeys(arm_title(cell.arm) if cell.arm else cell.row for cell in cells))
    named = ", ".join(arms[:SHOWN]) + (f" and {len(arms) - SHOWN} more" if len(arms) > SHOWN else "")
    count = tag("td", tag("data", len(cells), value=len(cells)), class_="number")
    return tag("tr", tag("th", why, scope="row"), count, tag("td", join(tables, ", ")), tag("td", tasks), tag("td", named))


SHOWN = 6  # methods named in a row
