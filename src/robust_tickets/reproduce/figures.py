"""The papers' figures plotted from our runs, accuracy by length of training, and what robustness costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from markupsafe import Markup

from robust_tickets.files import write_text
from robust_tickets.report import charts
from robust_tickets.report.charts import DASHES, around
from robust_tickets.report.format import plural
from robust_tickets.report.tables import Table, plain_table
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import Wanted, attacks_of, notes_of, read_runs, timed_alone
from robust_tickets.reproduce.arms import (
    Row,
    arms,
    attack_title,
    backbone_title,
    distinct_title,
    older,
    rows,
    sweeps,
    task_title,
)
from robust_tickets.reproduce.arms import swept as points_of
from robust_tickets.reproduce.job import BERT, Flavour
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.plan import needs
from robust_tickets.reproduce.protocol import constants
from robust_tickets.reproduce.ticket_figures import (
    Panel,
    agreement,
    along,
    by_head,
    distance_maps,
    survivors,
    survivors_by_layer,
)
from robust_tickets.stats.compare_runs import FEWEST_RUNS
from robust_tickets.stats.intervals import Interval, mean_interval

MAPS, LAYERS, GATES = ("ER-F2",), ("ER-F5", "RT-F3", "OR-F1"), ("RT-F1", "RT-F5")
STOPPED = {
    "earlyrobust_whole": "earlyrobust_first"
}  # a search that continues past its rule's point, and the one that stops there
TASKLESS = ("OR-F1",)  # a job has a task all the same
WORDS = {
    "maps": "Share of units on which the tickets drawn at two points of a search differ; the fainter, the more alike.",
    "short": "These searches ended where their rule stopped them; what masks do afterwards is not run.",
    "last": "These tickets were drawn at the last of the rule's five points; those drawn at the first are not run.",
    "layers": (
        "Layer 1 is nearest the words. A bar is the mean share that survives; the thin line reaches from the lowest search to the highest."
    ),
    "heads": "A square is a head, filled as high as the share of searches in which it survives.",
    "weights": (
        "A square is a head, filled as high as the share of the weights of its query, key and value that survives, mean over searches; "
        "MLPs are the attention's output and the feed-forward part."
    ),
    "gates": "One line for each penalty lambda, mean over searches where there are several; a band with five or more.",
    "lines": (
        "Lines are means over runs, small dots single runs; a band is the 95 % interval of the mean, drawn where there are five runs or "
        "more. The axis of accuracies does not start at zero."
    ),
    "pareto": (
        "Mean over runs. Bars: 95 % interval of the mean, with five runs or more; arms of fewer are grey, and no line is drawn by them. "
        "Those on the line have none that is both cheaper and more robust, by the means alone. Arms of one size are side by side; beyond "
        "16 arms those of fewest runs are faint dots. The axes do not start at zero. Plain epochs of the whole model are reckoned by passes, "
        "tokens and FLOPs."
    ),
}


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure: its panels, some with only the reason why nothing is plotted."""

    id: str
    caption: str
    panels: tuple[Panel, ...]

    @property
    def svg(self) -> Markup:
        return charts.join(panel.svg for panel in self.panels)

    @property
    def why(self) -> str:
        return " ".join(dict.fromkeys(panel.why for panel in self.panels if panel.why))

    @property
    def tables(self) -> list[Table]:
        return [panel.table for panel in self.panels if panel.table is not None]

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source for panel in self.panels for source in panel.sources))


def write(drawn: Drawn, folder: Path) -> Path:
    """A figure as a file of its own, ``FOLDER/<id>.html``, which loads nothing."""
    from robust_tickets.reproduce.page import document

    of = published.table(drawn.id)
    return write_text(folder / f"{of.id}.html", document("figure.html.j2", f"{of.id}: {of.title}", of=of, drawn=drawn))


def figure(
    id: str,
    outcomes: Sequence[Outcome],
    *,
    flavour: Flavour = "corrected",
    pairs: Collection[tuple[str, str]] | None = None,
) -> Drawn:
    """The figure called ``id``. ``pairs``: backbones with tasks to plot, by default all."""
    wanted = [
        replace(row, tasks=tuple(task for task in row.tasks if pairs is None or (row.backbone, task) in pairs))
        for row in rows(id, flavour)
    ]
    return draw(published.table(id).id, [row for row in wanted if row.tasks], outcomes, flavour)


def draw(id: str, rows: Sequence[Row], outcomes: Sequence[Outcome], flavour: Flavour = "corrected") -> Drawn:
    """Plot a figure from given rows."""
    made, names, searched = [row for row in rows if not row.why], {row.arm for row in rows}, id in MAPS + LAYERS
    drawn = list(dict.fromkeys((row.backbone, task) for row in made for task in row.tasks))
    # an arm may have runs on tasks that are not shown
    there = [one for one in outcomes if one.unit.flavour == flavour and (one.unit.backbone, one.unit.task) in drawn]
    own = [one for one in there if one.unit.arm in names]
    instead = _instead(names, own, there) if searched else []
    own = sorted([*own, *instead], key=lambda one: one.unit)  # the same bytes in any order
    lacking = {pair: f"; needs {what}" if (what := needs(*pair, outcomes)) else "" for pair in drawn}
    if searched or id in GATES:
        panels = [panel for pair in drawn for panel in _searched(id, made, own, pair, lacking[pair])]
        words = WORDS["maps"] if id in MAPS else WORDS["gates"] if id in GATES else _of_layers(own)
        words += f" {WORDS['short' if id in MAPS else 'last']}" if instead else ""
    else:
        panels, words = sweep(made, own, lambda row: _axis(id, row), lacking), WORDS["lines"]
    panels += [Panel(title=row.name, why=f"{row.name}: {row.why}.") for row in rows if row.why]
    notes = "; ".join(dict.fromkeys(note.removesuffix(".") for one in own for note in notes_of(one)))
    return Drawn(id=id, caption=f"{words} Of these runs: {notes}." if notes else words, panels=tuple(panels))


def _instead(names: Collection[str], own: Sequence[Outcome], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Runs that replace these where none was run: searches that stopped by rule, or arms beside them."""
    found = list(own)
    others = [one for arm in sorted(names) for name in (STOPPED.get(arm, ""), arm) for one in (name, *older(name))]
    for other in dict.fromkeys(others):
        there = {(one.unit.backbone, one.unit.task) for one in found}
        found += [o for o in outcomes if o.unit.arm == other and (o.unit.backbone, o.unit.task) not in there]
    return found[len(own) :]


def place(backbone: str, task: str) -> str:
    """A task in words, with the backbone where that is not BERT-base."""
    return task_title(task) if backbone == BERT else f"{task_title(task)}, {backbone_title(backbone)}"


# --- searches: masks, survivors, gates


def _searched(
    id: str, rows: Sequence[Row], outcomes: Sequence[Outcome], pair: tuple[str, str], lacking: str
) -> list[Panel]:
    """The panels of a figure of searches, on one backbone and task."""
    backbone, task = pair
    own = [one for one in outcomes if (one.unit.backbone, one.unit.task) == pair]
    where = backbone_title(backbone) if id in TASKLESS else place(*pair)
    if not own:
        return [Panel(title=where, why=f"{where}: not run{lacking}.")]
    if id in MAPS:
        return distance_maps(own, task)
    if id in LAYERS:
        return [survivors_by_layer(own, where)]
    names = {row.arm: f"lambda {row.x:g}" if row.x is not None else row.name for row in rows}
    panels = []
    for key, what in MEASURES.items():
        traced = {
            name: (i, points)
            for i, (arm, name) in enumerate(names.items())
            if (points := _traced([one for one in own if one.unit.arm == arm], key))
        }
        panels += [lines(where, what, EPOCH, traced, (0, 100), plain=True)] if traced else []
    return panels or [Panel(title=where, why=f"{where}: the runs there are traced no gates.")]


def _of_layers(own: Sequence[Outcome]) -> str:
    """How to read a figure of survivors, and how far searches of one task agree on heads."""
    if not any("heads" in (one.ticket or {}) for one in own):
        return f"{WORDS['layers']} {WORDS['weights']}" if own and by_head(own) else WORDS["layers"]
    sentences = [WORDS["layers"], WORDS["heads"]]
    for key in dict.fromkeys((one.unit.backbone, one.unit.task) for one in own):
        here = [one for one in own if (one.unit.backbone, one.unit.task) == key and not one.unit.repeat]
        words = agreement([kept for one in here if (kept := survivors(one)) is not None])
        sentences += [f"{place(*key)}: {words}"] if words else []
    return " ".join(sentences)


MOST = 60  # points of a line; a longer trace is thinned evenly
MEASURES = {"R": "R, the mean chance of a gate to be open, %", "exact": "gates at exactly 0 or 1, %"}


def _traced(outcomes: Sequence[Outcome], key: str) -> list[Point]:
    """The searches' values, in percent, at every epoch that was traced."""
    at: dict[float, list[tuple[float, str]]] = {}
    for one in outcomes:
        for epoch, value in along(one, "gates", key) if one.unit.repeat == 0 else ():
            at.setdefault(round(epoch, 4), []).append((100 * value, one.unit.id))
    epochs = sorted(at)
    if len(epochs) > MOST:
        epochs = sorted({epochs[round(k * (len(epochs) - 1) / (MOST - 1))] for k in range(MOST)})
    return [Point(x=x, values=tuple(v for v, _ in at[x]), sources=tuple(id for _, id in at[x])) for x in epochs]


# --- lines: accuracy against what is swept, and gates along a search


@dataclass(frozen=True, kw_only=True)
class Abscissa:
    """The swept setting; ``factor`` makes percent of shares."""

    title: str
    factor: float = 1.0

    def words(self, x: float) -> str:
        shown = self.factor * x
        return f"{shown:.2g}" if abs(shown) < 10 else f"{shown:.3g}"


HEADS, NEURONS = (Abscissa(title=f"{part} removed, %", factor=100) for part in ("heads", "neurons"))
AXES = {
    "ER-F3": Abscissa(title="threshold gamma"),
    "RT-F2": Abscissa(title="weights removed, %", factor=100),
    "RT-F4": Abscissa(title="epoch, of a schedule of 10"),
}
EPOCH, LENGTH = Abscissa(title="epoch"), Abscissa(title="epochs of training")
MAIN = ("textfooler-real", "textfooler-substitute")


def _axis(id: str, row: Row) -> Abscissa:
    return AXES.get(id) or (NEURONS if "neuron" in f"{row.name} {row.arm}".lower() else HEADS)


@dataclass(frozen=True, kw_only=True)
class Point:
    """The values of an arm's runs; ``x`` is ``None`` where the swept setting does not apply."""

    x: float | None
    values: tuple[float, ...]
    sources: tuple[str, ...]

    @property
    def mean(self) -> float:
        return fmean(self.values)  # exact in every Python: sum() changed in 3.12

    @property
    def interval(self) -> Interval | None:
        """95 % of the mean over runs; ``None`` with fewer than five."""
        return mean_interval(self.values) if len(self.values) >= FEWEST_RUNS else None

    @property
    def cells(self) -> tuple[str, str, str]:
        """Mean, interval and number of runs, for a table."""
        ends = f"{self.interval[0]:.1f} to {self.interval[1]:.1f}" if self.interval else "–"
        return f"{self.mean:.1f}", ends, str(len(self.values))


def point_of(x: float | None, wanted: Wanted, outcomes: Sequence[Outcome]) -> Point | None:
    """The point of an arm; ``None`` where no run has a value."""
    reading = read_runs(wanted, outcomes)
    return Point(x=x, values=reading.values, sources=reading.units) if reading.values else None


Lines = Mapping[
    str, tuple[int, Sequence[Point]]
]  # by name: the number that gives colour, marker and dash, and the points


def lines(title: str, what: str, axis: Abscissa, series: Lines, scale: Interval, *, plain: bool = False) -> Panel:
    """One panel: ``what`` is measured on ``scale``; ``plain`` lines have neither markers nor single runs."""
    every = [point.x for _, points in series.values() for point in points if point.x is not None]
    x = (
        charts.Axis.linear(axis.title, min(every), max(every))
        if plain
        else charts.Axis.at(axis.title, every, axis.words)
    )
    y = charts.Axis.linear(what if len(what) < 30 else "accuracy under attack, %", *scale)
    drawn, table, sources = [], [], dict[str, None]()
    for name, (index, points) in series.items():
        level = [point for point in points if point.x is None]  # one that is not swept: level from end to end
        swept = sorted((point for point in points if point.x is not None), key=lambda point: point.x or 0.0)
        own = level * 2 if level else swept
        drawn.append(
            charts.Series(
                index=index, title=name, summary=f"{name}: from {own[0].mean:.1f} to {own[-1].mean:.1f}", dash=index % DASHES,
                marked=not plain, x=(x.low, x.high) if level else [point.x or 0.0 for point in swept], y=[point.mean for point in own],
                bands=[point.interval for point in own], runs=() if level or plain else [point.values for point in swept],
            )
        )  # fmt: skip
        for point in points:
            at = "–" if point.x is None else axis.words(point.x)
            table.append((name, at, *point.cells, " ".join(f"{value:.1f}" for value in point.values)))
            sources |= dict.fromkeys(point.sources)
    heads, name = ("Line", axis.title, "Mean", "95 % interval", "Runs", "Each run"), f"{title}: {what}"
    drawing = charts.lines(drawn, x, y, alt=f"{title}, {what}. " + "; ".join(one.summary for one in drawn))
    return Panel(title=name, svg=drawing, table=plain_table(name, heads, table), sources=tuple(sources))


def sweep(
    rows: Sequence[Row],
    outcomes: Sequence[Outcome],
    axis_of: Callable[[Row], Abscissa],
    lacking: Mapping[tuple[str, str], str],
    looks: Mapping[str, int] | None = None,
) -> list[Panel]:
    """A panel for every task, measure and swept setting, and one that names what is missing.

    ``lacking``: what a backbone and task need. ``looks``: numbers of lines by name, where the page shows them elsewhere.
    """
    panels: list[Panel] = []
    for pair in dict.fromkeys((row.backbone, task) for row in rows for task in row.tasks):
        here, where = [row for row in rows if row.backbone == pair[0] and pair[1] in row.tasks], place(*pair)
        points = Counter(row.name for row in here)
        # a line of one point beside swept ones (the full model) is level
        level = {name for name, count in points.items() if count == 1 and max(points.values()) > 1}
        here, names = [replace(row, x=None) if row.name in level else row for row in here], {row.arm for row in here}
        own = [o for o in outcomes if (o.unit.backbone, o.unit.task) == pair and o.unit.arm in names]
        done = {one.unit.arm for one in own if one.unit.repeat == 0 and one.clean}  # not only searched
        counts = Counter(row.name for row in here if row.arm in done and row.x is not None)
        enough = max(counts.values(), default=0) > 1
        attacks = textfoolers(own)
        panels += _sweep(where, here, own, attacks, axis_of, looks or {}) if enough else []
        if unrun := [row for row in here if row.arm not in done]:
            missing = [row.name if row.x is None else f"{row.name} at {axis_of(row).words(row.x)}" for row in unrun]
            named = f" of {len(here)} points {', '.join(missing)}" if len(unrun) < len(here) else ""
            panels.append(Panel(title=where, why=f"{where}: not run{named}{lacking[pair]}."))
        if enough and not attacks:
            panels.append(Panel(title=where, why=f"{where}: trained, not attacked by TextFooler."))
    return panels


def _sweep(
    where: str,
    rows: Sequence[Row],
    own: Sequence[Outcome],
    attacks: Sequence[str],
    axis_of: Callable[[Row], Abscissa],
    looks: Mapping[str, int],
) -> list[Panel]:
    """The panels of one task; those of one measure share their scale."""
    unit, found = own[0].unit, dict[tuple[Abscissa, str], Lines]()
    about: dict[str, Any] = {"task": unit.task, "backbone": unit.backbone, "flavour": unit.flavour}
    for axis in dict.fromkeys(axis_of(row) for row in rows if row.x is not None):
        for attack in ("", *attacks):
            how = {"metric": "aua", "attack": attack} if attack else {"metric": "clean"}
            series: dict[str, tuple[int, list[Point]]] = {}
            for index, name in enumerate(dict.fromkeys(row.name for row in rows)):
                alike = [row for row in rows if row.name == name and (row.x is None or axis_of(row) == axis)]
                points = [point_of(row.x, Wanted(arm=row.arm, **about, **how), own) for row in alike]
                if known := [point for point in points if point is not None]:
                    series[name] = (looks.get(name, index), known)
            if series:
                found[axis, attack] = series
    panels = []
    for (axis, attack), series_of in found.items():
        alike = [
            point for (_, other), one in found.items() if other == attack for _, some in one.values() for point in some
        ]
        every = [value for point in alike for value in (*point.values, *(point.interval or ()))]
        low, high = around(every, max(1.0, 0.08 * (max(every) - min(every))))
        scale = (low, high) if high > low else (low - 1, high + 1)
        what = f"accuracy under {attack_title(attack)}, %" if attack else "clean accuracy, %"
        panels.append(lines(where, what, axis, series_of, scale))
    return panels


def textfoolers(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """The main comparison's two TextFoolers, where they were run; else the first that was."""
    found = attacks_of(outcomes, "textfooler")
    return tuple(name for name in MAIN if name in found) or found[:1]


def lengths(outcomes: Sequence[Outcome], looks: Mapping[str, int] | None = None) -> Drawn:
    """Whole schedules of different lengths: a line for each arm that was trained on a task at two or more.

    ``looks`` numbers arms as the page does, for equal colours and shapes.
    """
    own = sorted((one for one in outcomes if one.unit.flavour == "corrected" and one.clean), key=lambda one: one.unit)
    there = dict.fromkeys((one.unit.backbone, one.unit.task, one.unit.arm) for one in own)
    usual = float(constants().training["epochs"])
    # sweeps over whole schedules have this suffix
    bases = {of.base: points_of(name) for name, of in sweeps().items() if name.endswith("_epochs")}
    rows = [
        Row(table="Lengths", name=arms()[base].title, arm=arm, backbone=backbone, tasks=(task,), x=x)
        for base, points in bases.items()
        for x, arm in sorted([*points, (usual, base)])
        for backbone, task, name in there
        if name == arm
    ]
    several = Counter((row.backbone, row.tasks, row.name) for row in rows)
    shown = [row for row in rows if several[row.backbone, row.tasks, row.name] > 1]
    names = {arms()[base].title: (looks or {}).get(base, len(looks or ()) + k) for k, base in enumerate(bases)}
    panels = sweep(shown, own, lambda _: LENGTH, {(row.backbone, row.tasks[0]): "" for row in shown}, names)
    return Drawn(id="Lengths", caption=WORDS["lines"], panels=tuple(panel for panel in panels if panel.svg))


# --- what robustness costs: accuracy under an attack against the size of a model and the work of making it

NAMED = 16  # arms beyond are faint dots, named by their tooltip and in the table
COSTS = {  # title of the axis; what arms without a value lack
    "encoder_millions": ("encoder's parameters kept, millions", "have a known size"),
    "work": ("plain epochs, search included", "are known by their passes"),
    "seconds": ("seconds of search and training", "were timed alone on one device"),
}


@dataclass(frozen=True, kw_only=True)
class Spot:
    """An arm: its size or cost, and its accuracy under attack."""

    index: int  # its colour and shape
    title: str
    x: float
    aua: Point

    @property
    def few(self) -> bool:
        """Too few runs for any claim: grey, and on no frontier."""
        return len(self.aua.values) < FEWEST_RUNS


def pareto(
    outcomes: Sequence[Outcome], *, task: str, attack: str, backbone: str = BERT, looks: Mapping[str, int] | None = None
) -> Drawn:
    """Accuracy under an attack against size and work, of all arms run on a task. Up and to the left is better.

    ``looks`` numbers arms as the page does, for equal colours and shapes.
    """
    where, by = place(backbone, task), attack_title(attack)
    wanted = Wanted(arm="", task=task, metric="aua", attack=attack, backbone=backbone)
    own = sorted((one for one in outcomes if wanted.beside(one)), key=lambda one: one.unit)
    looks = looks or {arm: index for index, arm in enumerate(sorted({one.unit.arm for one in own}))}
    # seconds are compared on the device that most arms were timed on
    on = {str(one.env.get("device", "")): set[str]() for one in own if timed_alone(one)}
    for one in filter(timed_alone, own):
        on[str(one.env.get("device", ""))].add(one.unit.arm)
    device = max(sorted(on), key=lambda name: len(on[name]), default="")
    alone = [one for one in own if timed_alone(one) and str(one.env.get("device", "")) == device]
    panels = []
    for measure, (what, counted) in COSTS.items():
        spots = []
        for arm, index in looks.items():
            sized = replace(wanted, arm=arm, metric=measure, attack=None)
            size = point_of(None, sized, alone if measure == "seconds" else own)
            aua = point_of(None, replace(wanted, arm=arm), own)
            if size is not None and aua is not None:
                spots.append(Spot(index=index, title=distinct_title(arm, looks), x=size.mean, aua=aua))
        title = f"{where}: accuracy under {by} against {what}"
        if len(spots) < 2:
            panels.append(Panel(title=title, why=f"{where}: of the arms attacked by {by} fewer than two {counted}."))
        else:
            panels.append(_pareto(spots, what, title))
    timed = f" Times are of runs that had the device to themselves ({device})." if device else ""
    caption = f"Accuracy under {by} on {where}. {WORDS['pareto']}{timed}"
    return Drawn(id="Pareto", caption=caption, panels=tuple(panels))


def frontier(spot: Spot, spots: Sequence[Spot]) -> bool:
    """Whether it has enough runs, and no other such is at least as good in both and better in one."""
    own = (spot.x, spot.aua.mean)
    others = [(other.x, other.aua.mean) for other in spots if not other.few]
    return not spot.few and not any(x <= own[0] and y >= own[1] and (x, y) != own for x, y in others)


def _pareto(spots: Sequence[Spot], what: str, title: str) -> Panel:
    best = {spot.index: frontier(spot, spots) for spot in spots}
    # those to be named first; a sweep's arms have long titles
    spots = sorted(spots, key=lambda one: (not best[one.index], -len(one.aua.values), len(one.title), one.index))
    points = [
        charts.Point(
            index=spot.index, title=spot.title, x=spot.x, y=spot.aua.mean, along=spot.aua.interval, few=spot.few, named=k < NAMED,
            summary=f"{spot.title}: {spot.aua.mean:.1f} ({plural(len(spot.aua.values), 'run')}) at {spot.x:.3g}",
        )
        for k, spot in enumerate(spots)
    ]  # fmt: skip
    across = [point.x for point in points]
    up = [v for point in points for v in (point.y, *(point.along or ()))]
    pad = 0.12 * (max(across) - min(across)) or 1.0
    x = charts.Axis.linear(what, max(0.0, min(across) - pad), max(across) + pad)
    y = charts.Axis.linear("accuracy under attack, %", *around(up, max(2.0, 0.08 * (max(up) - min(up)))), 6)
    # what is to be had at most for a given cost: level from an arm to the next dearer one
    steps = sorted((spot.x, spot.aua.mean) for spot in spots if best[spot.index])
    drawing = charts.scatter(points, x, y, alt=f"{title}. " + "; ".join(one.summary for one in points), steps=steps)
    heads = ("Arm", what, "Under attack, %", "95 % interval", "Runs", "On the frontier")
    table = [
        (
            spot.title,
            f"{spot.x:.1f}",
            *spot.aua.cells,
            "too few runs" if spot.few else "yes" if best[spot.index] else "no",
        )
        for spot in sorted(spots, key=lambda spot: -spot.aua.mean)
    ]
    sources = tuple(source for spot in spots for source in spot.aua.sources)
    return Panel(title=title, svg=drawing, table=plain_table(title, heads, table), sources=sources)
