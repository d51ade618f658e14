"""The figures of a run: each gives a chart its data, and a caption."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from markupsafe import Markup

from robust_tickets.report import charts
from robust_tickets.report import format as numbers
from robust_tickets.report.charts import DASHES, Axis, Interval, around, figure
from robust_tickets.report.run_data import Arm, Attack, Distances, Run, by_layer
from robust_tickets.stats.classification import FAILED, SUCCESS

PARTS = {"attention": "attention", "feedforward": "feed-forward"}
BINS = 8  # of a histogram, in a factor of ten
ROWS = 16  # of a histogram
POINTS = 48  # of a heat map; a longer search is thinned evenly


def _points(run: Run, attack: str) -> list[charts.Point]:
    """The arms whose accuracy was measured before and under an attack."""
    found = [(i, arm.title, arm.attack(attack)) for i, arm in enumerate(run.arms)]
    return [
        charts.Point(
            index=i,
            title=title,
            x=of.clean,
            y=of.aua,
            across=of.intervals.get("clean"),
            along=of.intervals.get("aua"),
            summary=f"{title}: before {numbers.percent(of.clean)}, under attack {numbers.percent(of.aua)}",
        )
        for i, title, of in found
        if of is not None and of.aua is not None and of.clean is not None
    ]


def glance(run: Run, attack: str) -> Markup | None:
    """The fall of accuracy from before to under attack, of the same texts, a row an arm."""
    title, points = run.attack_titles[attack], _points(run, attack)
    rows = [
        charts.Dot(index=p.index, title=p.title, start=p.x, end=p.y, interval=p.along, summary=p.summary)
        for p in points
    ]
    caption = f"Outlined: accuracy on the attacked texts before the attack. Filled: under {title}; the haze is its 95{numbers.GLUE}% interval."
    drawing = charts.dots(f"Accuracy on the attacked texts before and under {title}", rows)
    return figure([drawing], caption, "glance") if rows else None


def scatter(run: Run, attack: str) -> Markup | None:
    """Clean against robust: every arm a point with both intervals. Up and to the right is better."""
    title, points = run.attack_titles[attack], _points(run, attack)
    if len(points) < 2:  # one point has nothing to compare with
        return None
    x = Axis.linear("accuracy before the attack, %", *_range(v for p in points for v in (p.x, *(p.across or ()))))
    y = Axis.linear("accuracy under attack, %", *_range(v for p in points for v in (p.y, *(p.along or ()))), about=6)
    drawing = charts.scatter(
        f"Accuracy on the attacked texts before the attack against that under {title}", points, x, y
    )
    caption = (
        f"Accuracy on the attacked texts, before and under {title}; bars are 95{numbers.GLUE}% intervals. "
        "Higher and further right is better. The axes do not start at zero."
    )
    return figure([drawing], caption)


def _range(values: Iterable[float]) -> Interval:
    found = list(values)
    return around(found, max(2.0, 0.12 * (max(found) - min(found))))


def budget_curves(run: Run) -> list[Markup | None]:
    """Accuracy against query budget, a figure an attack and a line an arm."""
    return [_budget_curve(run, attack) for attack in run.attack_titles]


def _budget_curve(run: Run, attack: str) -> Markup | None:
    title, found = run.attack_titles[attack], [(i, arm, arm.attack(attack)) for i, arm in enumerate(run.arms)]
    curves = [(i, arm, points) for i, arm, of in found if of is not None and len(points := _curve(of)) > 1]
    if not curves:
        return None
    # budgets at which no text has fallen yet are left out, but for the last
    flat = [sum(value == points[0][1] for _, value, _ in points) for *_, points in curves]
    low = min(points[min(count, len(points) - 1) - 1][0] for count, (*_, points) in zip(flat, curves, strict=True))
    series = []
    for i, arm, points in curves:
        shown = [point for point in points if point[0] >= low]
        values = ", ".join(f"{numbers.percent(value)} after {budget:g}" for budget, value, _ in shown)
        x, y, bands = zip(*((math.log10(budget), value, band) for budget, value, band in shown), strict=True)
        look, words = i % DASHES, f"{arm.title}: {values} queries"
        series.append(
            charts.Series(index=i, title=arm.title, summary=words, x=x, y=y, bands=bands, dash=look, marked=True)
        )
    ends = math.log10(low), max(one.x[-1] for one in series)
    exact = (
        "with two classes each point is what a run with that budget finds"
        if len(run.labels) == 2
        else "with more than two classes a run with that budget may find a little more"
    )
    caption = (
        f"Accuracy under {title} within a budget of so many queries a text, read off one run of the attack: {exact}. The haze is the "
        f"95{numbers.GLUE}% interval; the axis of the queries is logarithmic. A curve ends where its run had no more queries to ask."
    )
    x_axis, y_axis = Axis.powers("query budget a text", *ends), Axis.linear("accuracy within the budget, %", 0, 100)
    return figure([charts.lines(f"Accuracy under {title} against query budget", series, x_axis, y_axis)], caption)


def _curve(attack: Attack) -> list[tuple[float, float, Interval]]:
    """Budget, accuracy and its interval; nothing where the result has no such curve."""
    try:
        points = [(point["budget"], point["accuracy"], *point["interval"]) for point in attack.curve]
        return [(float(budget), float(value), (float(a), float(b))) for budget, value, a, b in points]
    except (LookupError, TypeError, ValueError):
        return []


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
    return figure([charts.histogram("Queries a text", rows, Axis.powers("queries a text", low, high))], caption)


def _spread(run: Run, title: str, index: int, attack: Attack) -> charts.Spread | None:
    won, held = ([e.queries for e in attack.texts if e.status == s and e.queries] for s in (SUCCESS, FAILED))
    every = sorted(won + held)
    if not every:
        return None
    median = every[(len(every) - 1) // 2]
    one, other = (Counter(math.floor(BINS * math.log10(q)) for q in some) for some in (won, held))
    arm, of = run.arms[index].title, [title] if len(run.attack_titles) > 1 else []
    summary = f"median {median}, from {every[0]} to {every[-1]} queries; {len(won)} fooled, {len(held)} held"
    return charts.Spread(
        index=index,
        title=arm,
        under=", ".join([*of, f"median {numbers.count(median)}"]),
        bins=[(b / BINS, (b + 1) / BINS, one[b], other[b]) for b in sorted(one | other)],
        median=math.log10(median),
        summary=f"{', '.join([arm, *of])}: {summary}",
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
            index=index,
            title=str(k),
            summary=f"layer {k}: {_counted(parts)}",
            shares=[kept / max(1, of) for name, (kept, of) in parts.items() if name != "heads"],
            squares=squares,
        )
        for k, (parts, squares) in enumerate(rows, 1)
    ]
    names = list(rows[0][0])
    total = {name: tuple(map(sum, zip(*(parts[name] for parts, _ in rows), strict=True))) for name in names}
    return figure([charts.bars(arm.title, names, drawn)], f"{arm.title}: {_counted(total)}.", "layers")


def _kept(mask: np.ndarray) -> tuple[int, int]:
    return int(np.count_nonzero(mask)), mask.size


def _counted(parts: Mapping[str, tuple[int, ...]]) -> str:
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
    drawings, shown = {}, _thin(found)
    at, word = (found.drawn_at, "drawn here") if found.rule_at is None else (found.rule_at, "rule stops")
    mark, epochs = None if at is None else (shown.index(at), word), [f"{found.points[i]:.2f}" for i in shown]
    for name, rows in found.groups.items():
        worst = 100 * max((max(row) for row in rows), default=0.0)
        words = f"Mask distances of the search for {title}: up to {worst:.1f} %.{_stopped(found)}"
        drawings[name] = charts.heat_map(name, words, [[rows[i][j] for j in shown] for i in shown], epochs, mark)
    return drawings


def _stopped(found: Distances) -> str:
    """Where the search stopped and the ticket was drawn, in words; empty where that is not known."""
    if found.stopped_at is None or found.drawn_at is None:
        return ""
    words = f" The search stopped at epoch {found.points[found.stopped_at]:.2f}; "
    if found.rule_at is not None:
        return f"{words}its rule would have stopped it at epoch {found.points[found.rule_at]:.2f}."
    rule = f" by the rule “{found.rule}”" if found.rule else ""
    words += f"the ticket was drawn at epoch {found.points[found.drawn_at]:.2f}{rule}."
    return words if found.converged else f"{words} The masks did not converge."


def _thin(found: Distances) -> list[int]:
    """Points that are shown, those that are marked among them."""
    points = len(found.points)
    kept = set(np.linspace(0, points - 1, min(points, POINTS)).round().astype(int).tolist())
    return sorted(kept | {one for one in (found.drawn_at, found.rule_at) if one is not None})
