"""Accuracy against query budget: what is left of each arm after so many queries, every attack and arm in one drawing.

It is read off one run of each attack: an example counts as broken from the query on at which it fell (``attack.tally`` says how exact that
is).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from robust_tickets.measure.metrics import ERROR, FAILED, SUCCESS, wilson
from robust_tickets.report import format as numbers
from robust_tickets.report.figures.axes import Scale, colour, decades, figure, group, label, line, places, squeeze, svg
from robust_tickets.report.markup import Html, tag
from robust_tickets.report.run_data import Attack, Run, number

LEFT, TOP, BELOW, APART = 58, 14, 50, 20  # as in the scatter
POINTS = 160  # places along the axis at which a curve is drawn
DASHES = 4  # kinds of lines, one an attack
MOST = 8  # curves in one drawing; with more, one drawing an attack


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One attack on one arm: when its examples fell, in order."""

    index: int  # of the arm
    dash: int  # of the attack
    title: str
    attack: str  # its title, where the drawing has several
    n: int
    attacked: int
    falls: tuple[int, ...]
    last: int  # queries of the longest search
    most: int | None  # the run's own budget: nothing is known beyond it

    def at(self, budget: float) -> tuple[float, float, float]:
        """Accuracy within a budget, and its interval; percent."""
        right = self.attacked - bisect_right(self.falls, budget)
        low, high = wilson(right, self.n)
        return 100 * right / self.n, 100 * low, 100 * high

    @property
    def said(self) -> str:
        named = [
            b for b in (10, 30, 100, 300, 1000, 3000, 10_000) if self.falls and self.falls[0] / 3 <= b <= self.last
        ]
        whose = f"{self.title}, {self.attack}" if self.attack else self.title
        return (
            f"{whose}: "
            + ", ".join(f"{numbers.percent(self.at(b)[0])} after {b}" for b in [*named, self.last])
            + " queries"
        )


def budget_curves(run: Run) -> list[Html]:
    """One figure, or one an attack where there are many curves."""
    found = [curves for key in run.attack_keys if (curves := _curves(run, key))]
    together = [curve for curves in found for curve in curves]
    groups = [together] if len(together) <= MOST else found
    return [_figure(run, curves) for curves in groups if curves]


def _curves(run: Run, key: str) -> list[Curve]:
    many = len(run.attack_keys) > 1
    return [
        curve
        for i, arm in enumerate(run.arms)
        if (attack := arm.attack(key)) is not None
        and (curve := _curve(attack, i, run.attack_keys.index(key), arm.title, run.attack_titles[key] if many else ""))
    ]


def _curve(attack: Attack, index: int, place: int, title: str, name: str) -> Curve | None:
    counted = [e for e in attack.examples if e.status != ERROR]
    spent = [e.queries for e in counted if e.status in (SUCCESS, FAILED) and e.queries]
    falls = sorted((e.fell_at or e.queries or 1) for e in counted if e.status == SUCCESS)
    if not spent:
        return None
    budget = number(attack.about.get("query_budget"))
    return Curve(
        index=index,
        dash=place % DASHES,
        title=title,
        attack=name,
        n=len(counted),
        attacked=len(spent),
        falls=tuple(falls),
        last=max(spent),
        most=None if budget is None else int(budget),
    )


def _figure(run: Run, curves: list[Curve]) -> Html:
    exact = (
        "with two classes each point is what a run with that budget finds"
        if len(run.labels) == 2
        else "with more than two classes a run with that budget may find a little more"
    )
    caption = (
        f"Accuracy within a budget of so many queries a text, read off one run of each attack: {exact}. "
        f"The haze is the 95{numbers.GLUE}% interval; the axis of the queries is logarithmic."
    )
    if any(curve.most is not None for curve in curves):
        caption += " A curve ends where its run had no more queries to ask."
    if len({curve.dash for curve in curves}) > 1:
        caption += " A colour is an arm, a kind of line an attack."
    alt = "Accuracy against query budget. " + "; ".join(curve.said for curve in curves)
    return figure([_draw(curves, 940, 600, 380, alt, "broad"), _draw(curves, 350, 336, 290, alt, "narrow")], caption)


def _draw(curves: list[Curve], width: int, right: int, bottom: int, alt: str, kind: str) -> Html:
    first = min((curve.falls[0] for curve in curves if curve.falls), default=10)
    low, most = math.floor(math.log10(max(1, first - 1))), max(curve.last for curve in curves)
    high = max(math.log10(most), low + 0.5)
    x = Scale(low=low, high=high, start=LEFT, end=right)
    y = Scale(low=0, high=100, start=bottom, end=TOP)
    broad = kind == "broad"
    parts = [tag("rect", x=LEFT, y=TOP, width=right - LEFT, height=bottom - TOP, class_="plot")]
    for tick in decades(low, math.ceil(high), every=high - low <= (3.2 if broad else 1.6)):
        if math.log10(tick) <= high + 1e-9:
            across = x(math.log10(tick))
            parts += [
                line(across, TOP, across, bottom, "grid"),
                label(across, bottom + 18, numbers.count(tick), "middle", "tick"),
            ]
    for t in range(0, 101, 20):
        parts += [line(LEFT, y(t), right, y(t), "grid"), label(LEFT - 9, y(t) + 4, t, "end", "tick")]
    middle = (TOP + bottom) / 2
    parts.append(label((LEFT + right) / 2, bottom + 40, "query budget a text", "middle", "axis"))
    parts.append(
        label(16, middle, "accuracy within the budget, %", "middle", "axis", transform=f"rotate(-90 16 {middle:.0f})")
    )
    parts += [_haze(curve, _powers(curve, low, high), x, y) for curve in curves]
    apart = 2 * APART - 4 if any(curve.attack for curve in curves) else APART
    below = apart * len(curves)
    lowest = bottom - (apart - APART) if broad else bottom + BELOW + 10 + below - (apart - APART)
    wanted = [y(curve.at(most)[0]) if broad else bottom + BELOW + 12 for curve in curves]
    for curve, place in zip(curves, places(wanted, TOP + 8, lowest, apart), strict=True):
        style = f"curve {colour(curve.index)} dash{curve.dash}"
        start, powers = right + 30.0 if broad else LEFT - 30.0, _powers(curve, low, high)
        drawn = [
            tag("path", d=_steps(curve, powers, x, y), class_=style),
            tag("path", d=f"M{start:.1f} {place:.1f}h24", class_=style),
        ]
        if broad:
            drawn.append(line(x(powers[-1]) + 4, y(curve.at(most)[0]), start - 4, place, "leader"))
        drawn.append(label(start + 32, place + 4.5, squeeze(curve.title, 33), kind="name"))
        drawn.append(label(start + 32, place + 20, squeeze(curve.attack, 38), kind="quiet"))
        parts.append(group(*drawn[: 5 if curve.attack else -1], title=curve.said))
    return svg(width, bottom + BELOW + (0 if broad else 8 + below), parts, alt=alt, kind=kind)


def _powers(curve: Curve, low: float, high: float) -> list[float]:
    """Places along the axis, up to the run's own budget."""
    end = high if curve.most is None else min(high, max(low, math.log10(curve.most)))
    return [low + (end - low) * k / (POINTS - 1) for k in range(POINTS)]


def _steps(curve: Curve, powers: Sequence[float], x: Scale, y: Scale) -> str:
    values = [curve.at(10**power + 1e-9)[0] for power in powers]
    path = [f"M{x(powers[0]):.1f} {y(values[0]):.1f}"]
    for (_, before), (power, value) in pairwise(zip(powers, values, strict=True)):
        if value != before:
            path.append(f"H{x(power):.1f}V{y(value):.1f}")
    return "".join([*path, f"H{x(powers[-1]):.1f}"])


def _haze(curve: Curve, powers: Sequence[float], x: Scale, y: Scale) -> Html:
    ends = [(power, *curve.at(10**power + 1e-9)[1:]) for power in powers]
    there = "L".join(f"{x(power):.1f} {y(high):.1f}" for power, _, high in ends)
    back = "L".join(f"{x(power):.1f} {y(low):.1f}" for power, low, _ in reversed(ends))
    return tag("path", d=f"M{there}L{back}Z", class_=f"haze thin {colour(curve.index)}")
