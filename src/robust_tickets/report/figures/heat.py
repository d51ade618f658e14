"""Mask distances: how much the ticket drawn at one point of the search differs from the ticket drawn at another."""

from __future__ import annotations

from robust_tickets.report.figures.axes import figure, group, label, line, svg
from robust_tickets.report.markup import Html, tag
from robust_tickets.report.run_data import Arm, Distances

SIDE = 250  # pixels of one map
LEFT, TOP = 40, 34
MOST = 48  # points shown; a longer search is thinned evenly


def heat(arm: Arm) -> Html | None:
    """One map per group, side by side on one colour scale each, with the place where the search stopped."""
    found = arm.distances
    if found is None or not found.points:
        return None
    shown = _thin(found)
    stop = stopped(found)
    thin = "" if len(shown) == len(found.points) else f" {len(shown)} of {len(found.points)} points shown."
    caption = (
        f"{arm.title}: share of units on which the tickets drawn at two points of the search differ. The fainter, the more alike."
        f"{stop}{thin}"
    )
    return figure(list(maps(found, arm.title).values()), caption, "heat-map")


def maps(found: Distances, title: str, heading: str = "") -> dict[str, Html]:
    """The drawing of each group, under a heading where searches stand side by side."""
    worst = {name: max((max(row) for row in rows), default=0.0) for name, rows in found.groups.items()}
    said = ", ".join(f"{name} up to {100 * d:.1f} %" for name, d in worst.items())
    alt = f"Mask distances of the search for {title}: {said}.{stopped(found)}"
    shown, lower = _thin(found), 22 if heading else 0
    return {
        name: svg(
            LEFT + SIDE + 22,
            TOP + SIDE + 76 + lower,
            _under(heading, lower, _map(found, name, shown)),
            alt=f"{name}. {alt}",
        )
        for name in found.groups
    }


def _under(heading: str, lower: int, parts: list[Html]) -> list[Html]:
    return (
        [label(0, 14, heading, kind="name"), tag("g", *parts, transform=f"translate(0 {lower})")] if heading else parts
    )


def _map(found: Distances, name: str, shown: list[int]) -> list[Html]:
    left, rows, cell = float(LEFT), found.groups[name], SIDE / len(shown)
    worst = max((rows[i][j] for i in shown for j in shown), default=0.0)
    cells = []
    for a, i in enumerate(shown):
        for b, j in enumerate(shown):
            told = f"epochs {found.points[i]:.2f} and {found.points[j]:.2f}: {100 * rows[i][j]:.1f} % differ"
            y = TOP + SIDE - (a + 1) * cell  # time runs up and to the right
            part = tag("title", told)
            shade = rows[i][j] / worst if worst else 0.0
            cells.append(
                tag(
                    "rect",
                    part,
                    x=left + b * cell,
                    y=y,
                    width=cell,
                    height=cell,
                    fill_opacity=round(0.03 + 0.97 * shade, 3),
                    class_="heat",
                )
            )
    ends = (shown[0], shown[-1]) if len(shown) > 1 else (shown[0],)
    parts = [
        label(left, TOP - 12, name, kind="name"),
        group(*cells),
        tag("rect", x=left, y=TOP, width=SIDE, height=SIDE, class_="frame"),
    ]
    for i in ends:
        at = shown.index(i)
        parts.append(label(left + (at + 0.5) * cell, TOP + SIDE + 16, f"{found.points[i]:.2f}", "middle", "tick"))
        parts.append(label(left - 7, TOP + SIDE - (at + 0.5) * cell + 4, f"{found.points[i]:.2f}", "end", "tick"))
    marked = found.drawn_at if found.settled_at is None else found.settled_at
    if marked is not None:
        across = left + (shown.index(marked) + 0.5) * cell
        word, early = (
            "drawn here" if found.settled_at is None else "rule stops",
            across < left + SIDE / 2,
        )  # leaves the name its room
        parts += [
            line(across, TOP - 5, across, TOP + SIDE, "stop"),
            label(
                across - 4 if early else min(across + 4, left + SIDE),
                TOP - 10,
                word,
                "start" if early else "end",
                "stop-word",
            ),
        ]
    parts += _legend(left, worst)
    parts.append(label(left + SIDE / 2, TOP + SIDE + 16, "epoch", "middle", "tick"))
    return parts


def stopped(found: Distances) -> str:
    """Where the search stopped and the ticket was drawn, as a sentence; empty where that is not known."""
    if found.stopped_at is None or found.drawn_at is None:
        return ""
    rule = f" by the rule “{found.rule}”" if found.rule else ""
    end, drawn = found.points[found.stopped_at], found.points[found.drawn_at]
    if found.settled_at is not None:
        return f" The search went on to epoch {end:.2f}; its rule would have stopped it at epoch {found.points[found.settled_at]:.2f}."
    if not found.converged:
        return f" The masks did not settle{rule}: the ticket was drawn at the last point, epoch {drawn:.2f}."
    if end == drawn:
        return f" The search stopped at epoch {end:.2f}{rule}; the ticket was drawn there."
    return f" The search stopped at epoch {end:.2f}{rule}; the ticket was drawn at epoch {drawn:.2f}."


def _legend(left: float, worst: float) -> list[Html]:
    y, steps, wide = TOP + SIDE + 44.0, 20, 110
    bars = [
        tag(
            "rect",
            x=left + k * wide / steps,
            y=y,
            width=wide / steps,
            height=9,
            fill_opacity=round(0.03 + 0.97 * k / (steps - 1), 3),
            class_="heat",
        )
        for k in range(steps)
    ]
    return [
        *bars,
        label(left, y + 24, "0 %", kind="tick"),
        label(left + wide, y + 24, f"{100 * worst:.1f} % differ", "middle", "tick"),
    ]


def _thin(found: Distances) -> list[int]:
    """Points that are shown, those that are marked among them."""
    points = len(found.points)
    if points <= MOST:
        return list(range(points))
    kept = {round(k * (points - 1) / (MOST - 1)) for k in range(MOST)}
    return sorted(kept | {one for one in (found.drawn_at, found.settled_at) if one is not None})
