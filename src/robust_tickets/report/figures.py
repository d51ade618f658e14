"""The figures of a run: each gives a chart its data, a caption, and a text for those who cannot see it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from robust_tickets.report import charts
from robust_tickets.report import format as numbers
from robust_tickets.report.charts import DASHES, Axis, around, figure
from robust_tickets.report.run_data import Arm, Attack, Distances, Run, by_layer
from robust_tickets.stats.classification import FAILED, SUCCESS

PARTS = {"attention": "attention", "feedforward": "feed-forward"}
CURVES = 8  # in one drawing; with more, one drawing an attack
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


def budget_curves(run: Run) -> list[Markup]:
    """Accuracy against query budget, in one figure, or one an attack where there are many curves."""
    every = [(key, i, arm.attack(key)) for key in run.attack_titles for i, arm in enumerate(run.arms)]
    found = [(key, i, points) for key, i, attack in every if attack is not None and len(points := _points(attack)) > 1]
    keys = list(run.attack_titles)
    groups = [found] if len(found) <= CURVES else [[one for one in found if one[0] == key] for key in keys]
    return [_budget(run, group) for group in groups if group]


def _points(attack: Attack) -> list[tuple[float, float, tuple[float, float]]]:
    """The curve of a result: budget, accuracy and its interval; nothing where it is none."""
    try:
        return [
            (
                float(point["budget"]),
                float(point["accuracy"]),
                (float(point["interval"][0]), float(point["interval"][1])),
            )
            for point in attack.curve
        ]
    except (LookupError, TypeError, ValueError):
        return []


def _budget(run: Run, group: Sequence[tuple[str, int, list[tuple[float, float, tuple[float, float]]]]]) -> Markup:
    keys, series = list(run.attack_titles), []
    # budgets at which no text has fallen yet are left out, but for the last
    flat = [sum(value == points[0][1] for _, value, _ in points) for _, _, points in group]
    low = min(points[min(count, len(points) - 1) - 1][0] for count, (_, _, points) in zip(flat, group, strict=True))
    for key, i, points in group:
        shown = [point for point in points if point[0] >= low]
        name = ", ".join([run.arms[i].title, *([run.attack_titles[key]] if len(keys) > 1 else [])])
        values = ", ".join(f"{numbers.percent(value)} after {budget:g}" for budget, value, _ in shown)
        series.append(
            charts.Series(
                index=i,
                title=run.arms[i].title,
                summary=f"{name}: {values} queries",
                x=[math.log10(budget) for budget, _, _ in shown],
                y=[value for _, value, _ in shown],
                bands=[interval for _, _, interval in shown],
                under=run.attack_titles[key] if len(keys) > 1 else "",
                dash=keys.index(key) % DASHES,
                marked=True,
            )
        )
    exact = (
        "with two classes each point is what a run with that budget finds"
        if len(run.labels) == 2
        else "with more than two classes a run with that budget may find a little more"
    )
    caption = (
        f"Accuracy within a budget of so many queries a text, read off one run of each attack: {exact}. The haze is the "
        f"95{numbers.GLUE}% interval; the axis of the queries is logarithmic. A curve ends where its run had no more queries to ask."
    )
    if len({one.dash for one in series}) > 1:
        caption += " A colour is an arm, a kind of line an attack."
    ends = math.log10(low), max(one.x[-1] for one in series)
    x = Axis.powers("query budget a text", *ends, numbers.count)
    y = Axis.linear("accuracy within the budget, %", 0, 100)
    alt = "Accuracy against query budget. " + "; ".join(one.summary for one in series)
    return figure([charts.lines(series, x, y, alt=alt)], caption)


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
