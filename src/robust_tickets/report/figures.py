"""The figures of a run: each gives a chart its data, a caption, and a text for those who cannot see it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from robust_tickets.report import charts
from robust_tickets.report import format as numbers
from robust_tickets.report.charts import DASHES, Axis, around, figure
from robust_tickets.report.run_data import Arm, Attack, Distances, Run, by_layer
from robust_tickets.stats.classification import ERROR, FAILED, SUCCESS
from robust_tickets.stats.intervals import wilson

PARTS = {"attention": "attention", "feedforward": "feed-forward"}
CURVES = 8  # in one drawing; with more, one drawing an attack
PLACES = 160  # along the axis at which a curve is known
BINS = 8  # of a histogram, in a factor of ten
ROWS = 16  # of a histogram
POINTS = 48  # of a heat map; a longer search is thinned evenly


def _measured(run: Run, attack: str) -> list[tuple[int, Arm, Attack, str]]:
    """The arms whose accuracy was measured before and under an attack: number, arm, attack, and both in words."""
    rows = []
    for i, arm in enumerate(run.arms):
        found = arm.attack(attack)
        if found is not None and found.aua is not None and found.clean is not None:
            words = f"{arm.title}: before {numbers.percent(found.clean)}, under attack {numbers.percent(found.aua)}"
            rows.append((i, arm, found, words))
    return rows


def glance(run: Run, attack: str) -> Markup | None:
    """The fall of accuracy from before to under attack, of the same texts, a row an arm."""
    rows = [
        charts.Dot(index=i, title=arm.title, start=found.clean, end=found.aua or 0.0, interval=found.intervals.get("aua"), summary=words)
        for i, arm, found, words in _measured(run, attack)
    ]  # fmt: skip
    title = run.attack_titles[attack]
    alt = f"Accuracy on the attacked texts before and under {title}. " + "; ".join(row.summary for row in rows)
    caption = f"Outlined: accuracy on the attacked texts before the attack. Filled: under {title}; the haze is its 95{numbers.GLUE}% interval."
    return figure([charts.dots(rows, numbers.percent, alt=alt)], caption, "glance") if rows else None


def scatter(run: Run, attack: str) -> Markup | None:
    """Clean against robust: every arm a point with both intervals. Up and to the right is better."""
    points = [
        charts.Point(
            index=i, title=arm.title, x=found.clean or 0.0, across=found.intervals.get("clean"), y=found.aua or 0.0,
            along=found.intervals.get("aua"), summary=words,
        )
        for i, arm, found, words in _measured(run, attack)
    ]  # fmt: skip
    if len(points) < 2:  # one point has nothing to compare with
        return None
    title = run.attack_titles[attack]
    alt = f"Accuracy on the attacked texts before the attack against that under {title}. "
    caption = (
        f"Accuracy on the attacked texts, before and under {title}; bars are 95{numbers.GLUE}% intervals. "
        "Higher and further right is better. The axes do not start at zero."
    )
    x = Axis.linear("accuracy before the attack, %", *_range([v for p in points for v in (p.x, *(p.across or ()))]))
    y = Axis.linear("accuracy under attack, %", *_range([v for p in points for v in (p.y, *(p.along or ()))]), about=6)
    return figure([charts.scatter(points, x, y, alt=alt + "; ".join(p.summary for p in points))], caption)


def _range(values: list[float]) -> tuple[float, float]:
    return around(values, max(2.0, 0.12 * (max(values) - min(values))))


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One attack on one arm: when its examples fell, in order.

    It is read off one run: an example counts as broken from the query on at which it fell (``attack.result`` says how exact that is).
    """

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
    def summary(self) -> str:
        budgets = (10, 30, 100, 300, 1000, 3000, 10_000)
        named = [b for b in budgets if self.falls and self.falls[0] / 3 <= b <= self.last]
        shares = ", ".join(f"{numbers.percent(self.at(b)[0])} after {b}" for b in [*named, self.last])
        return f"{', '.join(filter(None, (self.title, self.attack)))}: {shares} queries"

    def series(self, low: float, high: float) -> charts.Series:
        end = high if self.most is None else min(high, max(low, math.log10(self.most)))
        powers = [low + (end - low) * k / (PLACES - 1) for k in range(PLACES)]
        found = [self.at(10**power + 1e-9) for power in powers]
        return charts.Series(
            index=self.index,
            title=self.title,
            summary=self.summary,
            x=powers,
            y=[value for value, _, _ in found],
            bands=[(bottom, top) for _, bottom, top in found],
            under=self.attack,
            dash=self.dash,
            steps=True,
        )


def curves(run: Run, key: str) -> list[Curve]:
    """One attack on every arm that it queried."""
    keys, found = list(run.attack_titles), []
    for i, arm in enumerate(run.arms):
        attack = arm.attack(key)
        counted = [e for e in attack.texts if e.status != ERROR] if attack else []
        spent = [e.queries for e in counted if e.status in (SUCCESS, FAILED) and e.queries]
        if attack is None or not spent:
            continue
        found.append(
            Curve(
                index=i,
                dash=keys.index(key) % DASHES,
                title=arm.title,
                attack=run.attack_titles[key] if len(keys) > 1 else "",
                n=len(counted),
                attacked=len(spent),
                falls=tuple(sorted((e.fell_at or e.queries or 1) for e in counted if e.status == SUCCESS)),
                last=max(spent),
                most=attack.query_budget or None,
            )
        )
    return found


def budget_curves(run: Run) -> list[Markup]:
    """Accuracy against query budget, in one figure, or one an attack where there are many curves."""
    found = [some for key in run.attack_titles if (some := curves(run, key))]
    together = [curve for some in found for curve in some]
    return [_budget(run, some) for some in ([together] if len(together) <= CURVES else found) if some]


def _budget(run: Run, some: Sequence[Curve]) -> Markup:
    exact = (
        "with two classes each point is what a run with that budget finds"
        if len(run.labels) == 2
        else "with more than two classes a run with that budget may find a little more"
    )
    caption = (
        f"Accuracy within a budget of so many queries a text, read off one run of each attack: {exact}. The haze is the "
        f"95{numbers.GLUE}% interval; the axis of the queries is logarithmic. A curve ends where its run had no more queries to ask."
    )
    if len({curve.dash for curve in some}) > 1:
        caption += " A colour is an arm, a kind of line an attack."
    low = math.floor(math.log10(max(1, min((curve.falls[0] for curve in some if curve.falls), default=10) - 1)))
    high = max(math.log10(max(curve.last for curve in some)), low + 0.5)
    x = Axis.powers("query budget a text", low, high, numbers.count)
    y = Axis.linear("accuracy within the budget, %", 0, 100)
    alt = "Accuracy against query budget. " + "; ".join(curve.summary for curve in some)
    return figure([charts.lines([curve.series(low, high) for curve in some], x, y, alt=alt)], caption)


def query_histogram(run: Run) -> Markup | None:
    """How many queries the texts took, a row for every attack on every arm, over one logarithmic axis."""
    found = [(title, i, arm.attack(key)) for key, title in run.attack_titles.items() for i, arm in enumerate(run.arms)]
    rows = [row for title, i, attack in found if attack and (row := _spread(run, title, i, attack)) is not None][:ROWS]
    if not rows:
        return None
    caption = (
        "How many queries a text took that was right before the attack. Full: fooled; faint, above: held. "
        "The axis is logarithmic; every row has its own height. The line is the median."
    )
    low = math.floor(min(start for row in rows for start, *_ in row.bins))
    high = max(end for row in rows for _, end, *_ in row.bins)
    alt = "Queries a text. " + "; ".join(row.summary for row in rows)
    return figure([charts.histogram(rows, Axis.powers("queries a text", low, high, numbers.count), alt=alt)], caption)


def _spread(run: Run, title: str, index: int, attack: Attack) -> charts.Spread | None:
    won, held = ([e.queries for e in attack.texts if e.status == s and e.queries] for s in (SUCCESS, FAILED))
    every = sorted(won + held)
    if not every:
        return None
    median = every[(len(every) - 1) // 2]
    one, other = (Counter(math.floor(BINS * math.log10(q)) for q in some) for some in (won, held))
    names = [run.arms[index].title, *([title] if len(run.attack_titles) > 1 else [])]
    summary = f"median {median}, from {every[0]} to {every[-1]} queries; {len(won)} fooled, {len(held)} held"
    return charts.Spread(
        index=index,
        title=names[0],
        under=", ".join([*names[1:], f"median {numbers.count(median)}"]),
        bins=[(b / BINS, (b + 1) / BINS, one[b], other[b]) for b in sorted(one | other)],
        median=math.log10(median),
        summary=f"{', '.join(names)}: {summary}",
    )


def layers(arm: Arm, index: int) -> Markup | None:
    """What survives of a ticket, layer 1 at the bottom: heads as squares, neurons or weights as bars."""
    ticket = arm.ticket
    if ticket is None:
        return None
    rows: list[tuple[dict[str, tuple[int, int]], list[bool]]]  # of each layer: kept and all of its parts, and its heads
    if ticket.kind == "structured":
        masks = zip(ticket.masks["heads"], ticket.masks["neurons"], strict=True)
        rows = [({"heads": _kept(heads), "neurons": _kept(units)}, list(map(bool, heads))) for heads, units in masks]
    else:
        matrices = zip(ticket.names, ticket.masks["weights"], strict=True)
        found = by_layer(ticket.family, [(name, *_kept(mask)) for name, mask in matrices])
        rows = [({words: layer.get(part, (0, 1)) for part, words in PARTS.items()}, []) for layer in found]
    drawn = [
        charts.Layer(
            title=str(k),
            summary=f"layer {k}: {_counted(parts)}",
            shares=[kept / of for name, (kept, of) in parts.items() if name != "heads"],
            squares=squares,
        )
        for k, (parts, squares) in enumerate(rows, 1)
    ]
    names = list(rows[0][0])
    total = {
        name: (sum(parts[name][0] for parts, _ in rows), sum(parts[name][1] for parts, _ in rows)) for name in names
    }
    alt = f"{arm.title}. " + "; ".join(row.summary for row in drawn)
    return figure([charts.bars(names, drawn, index, alt=alt)], f"{arm.title}: {_counted(total)}.", "layers")


def _kept(mask: np.ndarray) -> tuple[int, int]:
    return int(np.count_nonzero(mask)), mask.size


def _counted(parts: Mapping[str, tuple[int, int]]) -> str:
    return ", ".join(f"{kept:,} of {of:,} {name}" for name, (kept, of) in parts.items())


def heat(arm: Arm) -> Markup | None:
    """Mask distances, a map a group: how much the ticket of one point of a search differs from that of another."""
    found = arm.distances
    if found is None or not found.points:
        return None
    shown, what = len(_thin(found)), "share of units on which the tickets drawn at two points of the search differ"
    thin = "" if shown == len(found.points) else f" {shown} of {len(found.points)} points shown."
    caption = f"{arm.title}: {what}. The fainter, the more alike.{_stopped(found)}{thin}"
    return figure(maps(found, arm.title).values(), caption, "heat-map")


def maps(found: Distances, title: str) -> dict[str, Markup]:
    """The drawing of each group."""
    worst = {name: max((max(row) for row in rows), default=0.0) for name, rows in found.groups.items()}
    distances = ", ".join(f"{name} up to {100 * d:.1f} %" for name, d in worst.items())
    alt = f"Mask distances of the search for {title}: {distances}.{_stopped(found)}"
    at, word = (found.drawn_at, "drawn here") if found.rule_at is None else (found.rule_at, "rule stops")
    shown = _thin(found)
    return {
        name: charts.heat_map(
            charts.Heat(
                values=[[rows[i][j] for j in shown] for i in shown],
                names=[f"{found.points[i]:.2f}" for i in shown],
                title=name,
                axis="epoch",
                mark=None if at is None else (shown.index(at), word),
            ),
            alt=f"{name}. {alt}",
        )
        for name, rows in found.groups.items()
    }


def _stopped(found: Distances) -> str:
    """Where the search stopped and the ticket was drawn, in words; empty where that is not known."""
    if found.stopped_at is None or found.drawn_at is None:
        return ""
    rule = f" by the rule “{found.rule}”" if found.rule else ""
    words = f" The search stopped at epoch {found.points[found.stopped_at]:.2f}; "
    if found.rule_at is not None:
        return f"{words}its rule would have stopped it at epoch {found.points[found.rule_at]:.2f}."
    words += f"the ticket was drawn at epoch {found.points[found.drawn_at]:.2f}{rule}."
    return words if found.converged else f"{words} The masks did not converge."


def _thin(found: Distances) -> list[int]:
    """Points that are shown, those that are marked among them."""
    points = len(found.points)
    kept = {round(k * (points - 1) / (POINTS - 1)) for k in range(POINTS)} if points > POINTS else set(range(points))
    return sorted(kept | {one for one in (found.drawn_at, found.rule_at) if one is not None})
