"""Clean against robust: every arm a point with both intervals. Up and to the right is better."""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.report import format as numbers
from robust_tickets.report.figures.axes import (
    Scale,
    around,
    colour,
    figure,
    group,
    label,
    line,
    marker,
    places,
    shorten,
    svg,
)
from robust_tickets.report.markup import Html, tag
from robust_tickets.report.run_data import Interval, Run

LEFT, TOP = 58, 14
BELOW = 50  # pixels under the plot for its axis
APART = 20  # pixels between two labels


@dataclass(frozen=True, kw_only=True)
class Point:
    """One arm: its place and its intervals."""

    index: int
    title: str
    clean: float
    across: Interval
    aua: float
    along: Interval

    @property
    def said(self) -> str:
        return f"{self.title}: clean {numbers.percent(self.clean)}, under attack {numbers.percent(self.aua)}"


def scatter(run: Run, attack: str) -> Html | None:
    points = []
    for i, arm in enumerate(run.arms):
        found = arm.attack(attack)
        if found is not None and found.aua is not None and found.clean is not None:  # both of the same texts
            across = found.intervals.get("clean", (found.clean, found.clean))
            along = found.intervals.get("aua", (found.aua, found.aua))
            points.append(Point(index=i, title=arm.title, clean=found.clean, across=across, aua=found.aua, along=along))
    if len(points) < 2:  # one point is against nothing, and the first figure has it
        return None
    title = run.attack_titles[attack]
    alt = f"Accuracy on the attacked texts before the attack against that under {title}. " + "; ".join(
        p.said for p in points
    )
    caption = (
        f"Accuracy on the attacked texts, before and under {title}; bars are 95{numbers.GLUE}% intervals. "
        "Higher and further right is better. The axes do not start at zero."
    )
    return figure([_draw(points, 940, 640, 400, alt, "broad"), _draw(points, 350, 336, 300, alt, "narrow")], caption)


def _draw(points: list[Point], width: int, right: int, bottom: int, alt: str, kind: str) -> Html:
    """The plot ends at ``right`` and ``bottom``; names stand beside it on a wide page, below it on a narrow one."""
    x = Scale(**_range([v for p in points for v in p.across]), start=LEFT, end=right)
    y = Scale(**_range([v for p in points for v in p.along]), start=bottom, end=TOP)
    parts = [tag("rect", x=LEFT, y=TOP, width=right - LEFT, height=bottom - TOP, class_="plot")]
    for t in x.ticks(5):
        parts += [line(x(t), TOP, x(t), bottom, "grid"), label(x(t), bottom + 18, f"{t:g}", "middle", "tick")]
    for t in y.ticks(6):
        parts += [line(LEFT, y(t), right, y(t), "grid"), label(LEFT - 9, y(t) + 4, f"{t:g}", "end", "tick")]
    middle = (TOP + bottom) / 2
    parts.append(label((LEFT + right) / 2, bottom + 40, "accuracy before the attack, %", "middle", "axis"))
    parts.append(
        label(16, middle, "accuracy under attack, %", "middle", "axis", transform=f"rotate(-90 16 {middle:.0f})")
    )
    broad = kind == "broad"
    lowest = bottom - 4 if broad else bottom + BELOW + 10 + APART * len(points)
    wanted = [y(p.aua) if broad else bottom + BELOW + 12 for p in points]
    for point, place in zip(points, places(wanted, TOP + 8, lowest, APART), strict=True):
        px, py, start = x(point.clean), y(point.aua), right + 20.0 if broad else LEFT + 6.0
        drawn = [
            line(x(point.across[0]), py, x(point.across[1]), py, f"bar {colour(point.index)}"),
            line(px, y(point.along[0]), px, y(point.along[1]), f"bar {colour(point.index)}"),
            marker(px, py, point.index, 7),
            marker(start, place, point.index, 5),
            label(start + 12, place + 4.5, shorten(point.title, 28 if broad else 32), kind="name"),
        ]
        parts.append(
            group(*([line(px + 10, py, start - 9, place, "leader")] if broad else []), *drawn, title=point.said)
        )
    return svg(width, bottom + BELOW + (0 if broad else 8 + APART * len(points)), parts, alt=alt, kind=kind)


def _range(values: list[float]) -> dict[str, float]:
    low, high = around(values, max(2.0, 0.12 * (max(values) - min(values))))
    return {"low": low, "high": high}
