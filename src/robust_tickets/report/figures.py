"""The figures of a run: each gives a chart its data, a caption, and a text for those who cannot see it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from robust_tickets.report import charts
from robust_tickets.report import format as numbers
from robust_tickets.report.charts import DASHES, Axis, around, figure
from robust_tickets.report.run_data import Arm, Attack, Distances, Run, number
from robust_tickets.stats.classification import ERROR, FAILED, SUCCESS
from robust_tickets.stats.intervals import wilson

PARTS = {"attention": "attention", "feedforward": "feed-forward"}
CURVES = 8  # in one drawing; with more, one drawing an attack
PLACES = 160  # along the axis at which a curve is known
BINS = 8  # of a histogram, in a factor of ten
ROWS = 16  # of a histogram
POINTS = 48  # of a heat map; a longer search is thinned evenly


def glance(run: Run, attack: str) -> Markup | None:
    """The fall of accuracy from clean to under attack, a row an arm."""
    rows = []
    for i, arm in enumerate(run.arms):
        found = arm.attack(attack)
        if found is not None and found.aua is not None:
            summary = f"{arm.title}: before {numbers.percent(found.clean)}, under attack {numbers.percent(found.aua)}"
            rows.append(
                charts.Dot(
                    index=i,
                    title=arm.title,
                    start=found.clean,  # of the same texts, not of the whole split
                    end=found.aua,
                    interval=found.intervals.get("aua"),
                    summary=summary,
                )
            )
    if not rows:
        return None
    title = run.attack_titles[attack]
    alt = f"Accuracy on the attacked texts before and under {title}. " + "; ".join(row.summary for row in rows)
    caption = f"Outlined: accuracy on the attacked texts before the attack. Filled: under {title}; the haze is its 95{numbers.GLUE}% interval."
    return figure([charts.dots(rows, numbers.percent, alt=alt)], caption, "glance")


def scatter(run: Run, attack: str) -> Markup | None:
    """Clean against robust: every arm a point with both intervals. Up and to the right is better."""
    points = []
    for i, arm in enumerate(run.arms):
        found = arm.attack(attack)
        if found is not None and found.aua is not None and found.clean is not None:  # both of the same texts
            summary = f"{arm.title}: clean {numbers.percent(found.clean)}, under attack {numbers.percent(found.aua)}"
            points.append(
                charts.Point(
                    index=i,
                    title=arm.title,
                    x=found.clean,
                    across=found.intervals.get("clean", (found.clean, found.clean)),
                    y=found.aua,
                    along=found.intervals.get("aua", (found.aua, found.aua)),
                    summary=summary,
                )
            )
    if len(points) < 2:  # one point has nothing to compare with
        return None
    title = run.attack_titles[attack]
    alt = f"Accuracy on the attacked texts before the attack against that under {title}. "
    caption = (
        f"Accuracy on the attacked texts, before and under {title}; bars are 95{numbers.GLUE}% intervals. "
        "Higher and further right is better. The axes do not start at zero."
    )
    x = Axis.linear("accuracy before the attack, %", *_range([v for p in points for v in p.across or ()]))
    y = Axis.linear("accuracy under attack, %", *_range([v for p in points for v in p.along or ()]), about=6)
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
        named = [
            b for b in (10, 30, 100, 300, 1000, 3000, 10_000) if self.falls and self.falls[0] / 3 <= b <= self.last
        ]
        whose = f"{self.title}, {self.attack}" if self.attack else self.title
        shares = ", ".join(f"{numbers.percent(self.at(b)[0])} after {b}" for b in [*named, self.last])
        return f"{whose}: {shares} queries"

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
    many, found = len(run.attack_keys) > 1, []
    for i, arm in enumerate(run.arms):
        attack = arm.attack(key)
        counted = [e for e in attack.examples if e.status != ERROR] if attack else []
        spent = [e.queries for e in counted if e.status in (SUCCESS, FAILED) and e.queries]
        if attack is None or not spent:
            continue
        budget = number(attack.about.get("query_budget"))
        found.append(
            Curve(
                index=i,
                dash=run.attack_keys.index(key) % DASHES,
                title=arm.title,
                attack=run.attack_titles[key] if many else "",
                n=len(counted),
                attacked=len(spent),
                falls=tuple(sorted((e.fell_at or e.queries or 1) for e in counted if e.status == SUCCESS)),
                last=max(spent),
                most=None if budget is None else int(budget),
            )
        )
    return found


def budget_curves(run: Run) -> list[Markup]:
    """Accuracy against query budget, in one figure, or one an attack where there are many curves."""
    found = [some for key in run.attack_keys if (some := curves(run, key))]
    together = [curve for some in found for curve in some]
    return [_budget(run, some) for some in ([together] if len(together) <= CURVES else found) if some]


def _budget(run: Run, some: list[Curve]) -> Markup:
    exact = (
        "with two classes each point is what a run with that budget finds"
        if len(run.labels) == 2
        else "with more than two classes a run with that budget may find a little more"
    )
    caption = (
        f"Accuracy within a budget of so many queries a text, read off one run of each attack: {exact}. "
        f"The haze is the 95{numbers.GLUE}% interval; the axis of the queries is logarithmic."
    )
    if any(curve.most is not None for curve in some):
        caption += " A curve ends where its run had no more queries to ask."
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
    found = [(key, i, arm) for key in run.attack_keys for i, arm in enumerate(run.arms)]
    rows = [row for key, i, arm in found if (row := _spread(run, key, i, arm.attack(key))) is not None][:ROWS]
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


def _spread(run: Run, key: str, index: int, attack: Attack | None) -> charts.Spread | None:
    examples = attack.examples if attack else ()
    won, held = ([e.queries for e in examples if e.status == status and e.queries] for status in (SUCCESS, FAILED))
    every = sorted(won + held)
    if not every:
        return None
    median = every[(len(every) - 1) // 2]
    one, other = (Counter(math.floor(BINS * math.log10(q)) for q in some) for some in (won, held))
    title, named = run.arms[index].title, run.attack_titles[key] if len(run.attack_keys) > 1 else ""
    summary = f"median {median}, from {every[0]} to {every[-1]} queries; {len(won)} fooled, {len(held)} held"
    return charts.Spread(
        index=index,
        title=title,
        under=", ".join(filter(None, [named, f"median {numbers.count(median)}"])),
        bins=[(b / BINS, (b + 1) / BINS, one[b], other[b]) for b in sorted(one | other)],
        median=math.log10(median),
        summary=f"{', '.join(filter(None, [title, named]))}: {summary}",
    )


def layers(arm: Arm, index: int) -> Markup | None:
    """What survives of a ticket, layer 1 at the bottom: heads as squares, neurons or weights as bars."""
    shape = arm.shape
    if shape is None or not (shape.heads or shape.weights):
        return None
    rows: list[tuple[tuple[float, ...], tuple[bool, ...]]]
    if shape.heads:
        pairs = list(zip(shape.heads, shape.neurons, strict=True))
        descriptions = [f"{sum(heads)} of {len(heads)} heads, {kept} of {of} neurons" for heads, (kept, of) in pairs]
        rows = [((kept / of if of else 0.0,), heads) for heads, (kept, of) in pairs]
        (heads_kept, heads_all) = sum(map(sum, shape.heads)), sum(map(len, shape.heads))
        kept, of = (sum(pair[k] for pair in shape.neurons) for k in (0, 1))
        names, caption = ["heads", "neurons"], f"{heads_kept} of {heads_all} heads, {kept} of {of} neurons."
    else:
        descriptions = [
            ", ".join(f"{k:,} of {n:,} weights in {PARTS[p]}" for p, (k, n) in row.items()) for row in shape.weights
        ]
        rows = [(tuple(_share(row, part) for part in PARTS), ()) for row in shape.weights]
        kept, of = (sum(pair[k] for row in shape.weights for pair in row.values()) for k in (0, 1))
        names, caption = (
            list(PARTS.values()),
            f"{kept:,} of {of:,} weights of the layers ({100 * kept / max(of, 1):.1f} %).",
        )
    drawn = [
        charts.Layer(title=str(k + 1), summary=f"Layer {k + 1}: {words}", shares=shares, squares=squares)
        for k, (words, (shares, squares)) in enumerate(zip(descriptions, rows, strict=True))
    ]
    alt = f"{arm.title}. " + "; ".join(f"layer {k + 1}: {words}" for k, words in enumerate(descriptions))
    return figure([charts.bars(names, drawn, index, alt=alt)], f"{arm.title}: {caption}", "layers")


def _share(row: Mapping[str, tuple[int, int]], part: str) -> float:
    kept, of = row.get(part, (0, 0))
    return kept / of if of else 0.0


def heat(arm: Arm) -> Markup | None:
    """Mask distances, a map a group: how much the ticket of one point of a search differs from that of another."""
    found = arm.distances
    if found is None or not found.points:
        return None
    shown = _thin(found)
    thin = "" if len(shown) == len(found.points) else f" {len(shown)} of {len(found.points)} points shown."
    caption = (
        f"{arm.title}: share of units on which the tickets drawn at two points of the search differ. The fainter, the more alike."
        f"{stopped(found)}{thin}"
    )
    return figure(list(maps(found, arm.title).values()), caption, "heat-map")


def maps(found: Distances, title: str) -> dict[str, Markup]:
    """The drawing of each group."""
    worst = {name: max((max(row) for row in rows), default=0.0) for name, rows in found.groups.items()}
    distances = ", ".join(f"{name} up to {100 * d:.1f} %" for name, d in worst.items())
    alt = f"Mask distances of the search for {title}: {distances}.{stopped(found)}"
    return {name: _map(found, name, f"{name}. {alt}") for name in found.groups}


def _map(found: Distances, name: str, alt: str) -> Markup:
    shown, rows = _thin(found), found.groups[name]

    def describe(a: int, b: int) -> str:
        i, j = shown[a], shown[b]
        return f"epochs {found.points[i]:.2f} and {found.points[j]:.2f}: {100 * rows[i][j]:.1f} % differ"

    at, word = (found.drawn_at, "drawn here") if found.rule_at is None else (found.rule_at, "rule stops")
    of = charts.Heat(
        values=[[rows[i][j] for j in shown] for i in shown],
        names=[f"{found.points[i]:.2f}" for i in shown],
        title=name,
        axis="epoch",
        describe=describe,
        mark=None if at is None else (shown.index(at), word),
    )
    return charts.heat_map(of, alt=alt)


def stopped(found: Distances) -> str:
    """Where the search stopped and the ticket was drawn, as a sentence; empty where that is not known."""
    if found.stopped_at is None or found.drawn_at is None:
        return ""
    rule = f" by the rule “{found.rule}”" if found.rule else ""
    end, drawn = found.points[found.stopped_at], found.points[found.drawn_at]
    if found.rule_at is not None:
        return f" The search went on to epoch {end:.2f}; its rule would have stopped it at epoch {found.points[found.rule_at]:.2f}."
    if not found.converged:
        return f" The masks did not converge{rule}: the ticket was drawn at the last point, epoch {drawn:.2f}."
    if end == drawn:
        return f" The search stopped at epoch {end:.2f}{rule}; the ticket was drawn there."
    return f" The search stopped at epoch {end:.2f}{rule}; the ticket was drawn at epoch {drawn:.2f}."


def _thin(found: Distances) -> list[int]:
    """Points that are shown, those that are marked among them."""
    points = len(found.points)
    if points <= POINTS:
        return list(range(points))
    kept = {round(k * (points - 1) / (POINTS - 1)) for k in range(POINTS)}
    return sorted(kept | {one for one in (found.drawn_at, found.rule_at) if one is not None})
