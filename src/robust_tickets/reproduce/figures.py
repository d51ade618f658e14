"""The papers' figures plotted from our runs, accuracy by length of training, and what robustness costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from robust_tickets.files import write_text
from robust_tickets.report import charts
from robust_tickets.report.charts import DASHES, around
from robust_tickets.report.format import plural
from robust_tickets.report.tables import plain_table
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import Reading, Wanted, attacks_of, device_of, notes_of, place, read_runs
from robust_tickets.reproduce.arms import (
    Row,
    arms,
    attack_title,
    backbone_title,
    distinct_title,
    older,
    rows,
    sweeps,
    swept,
)
from robust_tickets.reproduce.job import BERT, Flavour, Job
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.plan import needs
from robust_tickets.reproduce.protocol import constants
from robust_tickets.reproduce.ticket_figures import Panel, along, distance_maps, layers_caption, survivors_by_layer
from robust_tickets.stats.compare_runs import FEWEST_RUNS, TrainedRun

MAPS, LAYERS, GATES = ("ER-F2",), ("ER-F5", "RT-F3", "OR-F1"), ("RT-F1", "RT-F5")
STOPPED = {
    "earlyrobust_whole": "earlyrobust_first"
}  # a search that continues past its rule's point, and the one that stops there
TASKLESS = ("OR-F1",)  # a job has a task all the same
WORDS: Mapping[str, str] = published.toml("contents.toml")["captions"]


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
    def ran(self) -> bool:
        return any(panel.svg for panel in self.panels)

    @property
    def why(self) -> str:
        return " ".join(dict.fromkeys(panel.why for panel in self.panels if panel.why))

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source for panel in self.panels for source in panel.sources))

    @property
    def arms(self) -> list[Job]:
        """A job of each arm on each task that it shows."""
        jobs = map(Job.of_id, self.sources)
        return list({(job.backbone, job.task, job.arm, job.flavour): job for job in jobs}.values())


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
    made, names, panels = [row for row in rows if not row.why], {row.arm for row in rows}, list[Panel]()
    drawn = list(dict.fromkeys((row.backbone, task) for row in made for task in row.tasks))
    # an arm may have runs on tasks that are not shown
    there = [one for one in outcomes if one.unit.flavour == flavour and (one.unit.backbone, one.unit.task) in drawn]
    own = [one for one in there if one.unit.arm in names]
    instead = _instead(names, own, there) if id in MAPS + LAYERS else []
    own = sorted([*own, *instead], key=lambda one: one.unit)  # the same bytes in any order
    for backbone, task in drawn:
        here = [one for one in own if (one.unit.backbone, one.unit.task) == (backbone, task)]
        lacking = f"; needs {what}" if (what := needs(backbone, task, outcomes)) else ""
        if id in MAPS + LAYERS + GATES:
            where = backbone_title(backbone) if id in TASKLESS else place(task, backbone)
            none = [Panel(title=where, why=f"{where}: not run{lacking}.")]
            panels += _searched(id, where, made, here) if here else none
        else:
            points = [_swept(id, row) for row in made if row.backbone == backbone and task in row.tasks]
            panels += sweep(place(task, backbone), points, here, lacking)
    if id in LAYERS:
        words = layers_caption(own, WORDS) + (f" {WORDS['last']}" if instead else "")
    elif id in MAPS:
        words = WORDS["maps"] + (f" {WORDS['short']}" if instead else "")
    else:
        words = WORDS["gates" if id in GATES else "lines"]
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


# --- lines: gates along a search, and accuracy against what is swept


class Swept(NamedTuple):
    """A point of a line: the arm that makes it, and its place on the axis; ``look`` numbers the line, if the page does elsewhere."""

    name: str
    axis: str
    x: float | None  # none where the swept setting does not apply
    arm: str
    look: int | None = None


AXES = {"ER-F3": "threshold gamma", "RT-F2": "weights removed, %", "RT-F4": "epoch, of a schedule of 10"}
MAIN = ("textfooler-real", "textfooler-substitute")
MOST = 60  # points of a line; a longer trace is thinned evenly
MEASURES = {"R": "R, the mean chance of a gate to be open, %", "exact": "gates at exactly 0 or 1, %"}
Points = list[tuple[float | None, Reading]]  # by place along the axis
Lines = dict[str, tuple[int, Points]]  # by name: the number that gives colour, marker and dash, and the points


def _swept(id: str, row: Row) -> Swept:
    part = "neurons" if "neuron" in f"{row.name} {row.arm}".lower() else "heads"
    axis = AXES.get(id) or f"{part} removed, %"
    return Swept(row.name, axis, 100 * row.x if row.x is not None and axis.endswith("%") else row.x, row.arm)


def _words(x: float | None) -> str:
    return "–" if x is None else f"{x:.2g}" if abs(x) < 10 else f"{x:.3g}"


def _searched(id: str, where: str, rows: Sequence[Row], own: Sequence[Outcome]) -> list[Panel]:
    """The panels of a figure of searches, on one backbone and task."""
    if id in MAPS:
        return distance_maps(own, where)
    if id in LAYERS:
        return [survivors_by_layer(own, where)]
    names = {row.arm: f"lambda {row.x:g}" if row.x is not None else row.name for row in rows}
    panels = []
    for key, what in MEASURES.items():
        traced = {name: (i, _traced(arm, own, key)) for i, (arm, name) in enumerate(names.items())}
        series = {name: line for name, line in traced.items() if line[1]}
        panels += [lines(where, what, "epoch", series, (0, 100), plain=True)] if series else []
    return panels or [Panel(title=where, why=f"{where}: the runs there are traced no gates.")]


def _traced(arm: str, outcomes: Sequence[Outcome], key: str) -> Points:
    """The searches' values, in percent, at every epoch that was traced."""
    at: dict[float, list[TrainedRun]] = {}
    for unit, one in ((one.unit, one) for one in outcomes if one.unit.arm == arm and not one.unit.repeat):
        for epoch, value in {round(epoch, 4): value for epoch, value in along(one, "gates", key)}.items():
            at.setdefault(epoch, []).append(TrainedRun(value=100 * value, seed=unit.seed, source=unit.id))
    epochs = sorted(at)
    if len(epochs) > MOST:
        epochs = sorted({epochs[round(k * (len(epochs) - 1) / (MOST - 1))] for k in range(MOST)})
    return [(x, Reading(name=arm, runs=tuple(at[x]))) for x in epochs]


def lines(title: str, what: str, axis: str, series: Lines, up: charts.Interval, *, plain: bool = False) -> Panel:
    """One panel: ``what`` is measured on a scale over ``up``; ``plain`` lines have neither markers nor single runs."""
    every = [x for _, points in series.values() for x, _ in points if x is not None]
    pad = 0.0 if plain else 0.04 * (max(every) - min(every)) or 0.5
    across = charts.Axis.linear(axis, min(every) - pad, max(every) + pad)
    drawn, table = [], []
    for name, (index, points) in series.items():
        level = [(end, one) for x, one in points if x is None for end in (across.low, across.high)]  # not swept
        swept = [(x, one) for x, one in points if x is not None]
        xs, own = zip(*(level or sorted(swept, key=lambda point: point[0])), strict=True)
        drawn.append(
            charts.Series(
                index=index,
                title=name,
                summary=f"{name}: from {own[0].mean:.1f} to {own[-1].mean:.1f}",
                dash=index % DASHES,
                marked=not plain,
                x=xs,
                y=[one.mean for one in own],
                bands=[one.band for one in own],
                runs=() if level or plain else [one.values for one in own],
            )
        )
        for x, one in points:
            each = " ".join(f"{value:.1f}" for value in one.values)
            table.append((name, _words(x), *one.cells, each))
    heads, name = ("Line", axis, "Mean", "95 % interval", "Runs", "Each run"), f"{title}: {what}"
    y = charts.Axis.linear(what if len(what) < 30 else "accuracy under attack, %", *up)
    sources = dict.fromkeys(source for _, points in series.values() for _, one in points for source in one.sources)
    return Panel(
        title=name,
        svg=charts.lines(name, drawn, across, y),
        table=plain_table(name, heads, table),
        sources=tuple(sources),
    )


def sweep(where: str, points: Sequence[Swept], outcomes: Sequence[Outcome], lacking: str = "") -> list[Panel]:
    """A panel for every measure and swept setting on a task, and one that names what is missing and ``lacking``."""
    counts = Counter(one.name for one in points)
    if max(counts.values()) > 1:  # a line of one point beside swept ones (the full model) is level
        points = [one if counts[one.name] > 1 else one._replace(x=None) for one in points]
    own = [one for one in outcomes if one.unit.arm in {point.arm for point in points}]
    done = {one.unit.arm for one in own if one.unit.repeat == 0 and one.clean}  # not only searched
    enough = max(Counter(one.name for one in points if one.arm in done and one.x is not None).values(), default=0) > 1
    attacks, panels = textfoolers(own), list[Panel]()
    axes = dict.fromkeys(one.axis for one in points if one.x is not None)
    found = {
        (axis, attack): series
        for axis in (axes if enough else ())
        for attack in ("", *attacks)
        if (series := _series([one for one in points if one.x is None or one.axis == axis], attack, own))
    }
    for (axis, attack), series in found.items():  # those of one measure share their scale
        alike = [line for (_, other), some in found.items() if other == attack for _, line in some.values()]
        values = [v for line in alike for _, one in line for v in (*one.values, *(one.band or ()))]
        low, high = around(values, max(1.0, 0.08 * (max(values) - min(values))))
        what = f"accuracy under {attack_title(attack)}, %" if attack else "clean accuracy, %"
        panels.append(lines(where, what, axis, series, (low, high) if high > low else (low - 1, high + 1)))
    if unrun := [one for one in points if one.arm not in done]:
        missing = [one.name if one.x is None else f"{one.name} at {_words(one.x)}" for one in unrun]
        named = f" of {len(points)} points {', '.join(missing)}" if len(unrun) < len(points) else ""
        panels.append(Panel(title=where, why=f"{where}: not run{named}{lacking}."))
    if enough and not attacks:
        panels.append(Panel(title=where, why=f"{where}: trained, not attacked by TextFooler."))
    return panels


def _series(points: Sequence[Swept], attack: str, own: Sequence[Outcome]) -> Lines:
    """Clean accuracy, or that under an attack, of each line that was run."""
    unit, metric = own[0].unit, "aua" if attack else "clean"
    wanted = Wanted(
        arm="", task=unit.task, metric=metric, attack=attack or None, backbone=unit.backbone, flavour=unit.flavour
    )
    series: Lines = {}
    for index, name in enumerate(dict.fromkeys(one.name for one in points)):
        line = [one for one in points if one.name == name]
        read = [(one.x, read_runs(replace(wanted, arm=one.arm), own)) for one in line]
        if known := [(x, one) for x, one in read if one.units]:
            series[name] = (index if line[0].look is None else line[0].look, known)
    return series


def textfoolers(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """The main comparison's two TextFoolers, where they were run; else the first that was."""
    found = attacks_of(outcomes, "textfooler")
    return tuple(name for name in MAIN if name in found) or found[:1]


def lengths(outcomes: Sequence[Outcome], looks: Mapping[str, int] | None = None) -> Drawn:
    """Whole schedules of different lengths: a line for each arm that was trained on a task at two or more.

    ``looks`` numbers arms as the page does, for equal colours and shapes.
    """
    own = sorted((one for one in outcomes if one.unit.flavour == "corrected" and one.clean), key=lambda one: one.unit)
    usual, panels = float(constants().training["epochs"]), list[Panel]()
    bases = {of.base: name for name, of in sweeps().items() if name.endswith("_epochs")}  # sweeps over whole schedules
    for backbone, task in dict.fromkeys((one.unit.backbone, one.unit.task) for one in own):
        here = [one for one in own if (one.unit.backbone, one.unit.task) == (backbone, task)]
        there, shown = {one.unit.arm for one in here}, list[Swept]()
        for k, (base, name) in enumerate(bases.items()):
            look = (looks or {}).get(base, len(looks or ()) + k)
            points = [(x, arm) for x, arm in sorted([*swept(name), (usual, base)]) if arm in there]
            if len(points) > 1:
                shown += [Swept(arms()[base].title, "epochs of training", x, arm, look) for x, arm in points]
        panels += sweep(place(task, backbone), shown, here) if shown else []
    return Drawn(id="Lengths", caption=WORDS["lines"], panels=tuple(panel for panel in panels if panel.svg))


# --- what robustness costs: accuracy under an attack against the size of a model and the work of making it

NAMED = 16  # arms beyond are faint dots, named by their tooltip and in the table
COSTS = {  # title of the axis; what arms without a value lack
    "encoder_millions": ("encoder's parameters kept, millions", "have a known size"),
    "work": ("plain epochs, search included", "are known by their passes"),
    "seconds": ("seconds of search and training", "were timed alone on one device"),
}


class Spot(NamedTuple):
    """An arm: its colour and shape, its size or cost, and its accuracy under attack."""

    look: int
    title: str
    x: float
    aua: Reading

    @property
    def few(self) -> bool:
        """Too few runs for any claim: grey, and on no frontier."""
        return len(self.aua.units) < FEWEST_RUNS


def pareto(
    outcomes: Sequence[Outcome], *, task: str, attack: str, backbone: str = BERT, looks: Mapping[str, int] | None = None
) -> Drawn:
    """Accuracy under an attack against size and work, of all arms run on a task. Up and to the left is better.

    ``looks`` numbers arms as the page does, for equal colours and shapes.
    """
    where, by = place(task, backbone), attack_title(attack)
    wanted = Wanted(arm="", task=task, metric="aua", attack=attack, backbone=backbone)
    own = sorted((one for one in outcomes if wanted.beside(one)), key=lambda one: one.unit)
    looks = looks or {arm: index for index, arm in enumerate(sorted({one.unit.arm for one in own}))}
    device = device_of(own)
    panels = []
    for measure, (what, counted) in COSTS.items():
        spots = []
        for arm, index in looks.items():
            size = read_runs(replace(wanted, arm=arm, metric=measure, attack=None), own)
            aua = read_runs(replace(wanted, arm=arm), own)
            if size.units and aua.units:
                spots.append(Spot(index, distinct_title(arm, looks), size.mean, aua))
        title = f"{where}: accuracy under {by} against {what}"
        none = Panel(title=title, why=f"{where}: of the arms attacked by {by} fewer than two {counted}.")
        panels.append(_pareto(spots, what, title) if len(spots) > 1 else none)
    times = f" Times are of runs that had the device to themselves ({device})." if device else ""
    return Drawn(id="Pareto", caption=f"Accuracy under {by} on {where}. {WORDS['pareto']}{times}", panels=tuple(panels))


def frontier(spot: Spot, spots: Sequence[Spot]) -> bool:
    """Whether it has enough runs, and no other such is at least as good in both and better in one."""
    own = (spot.x, spot.aua.mean)
    others = [(other.x, other.aua.mean) for other in spots if not other.few]
    return not spot.few and not any(x <= own[0] and y >= own[1] and (x, y) != own for x, y in others)


def _pareto(spots: Sequence[Spot], what: str, title: str) -> Panel:
    best = {spot.look: frontier(spot, spots) for spot in spots}
    # those to be named first; a sweep's arms have long titles
    spots = sorted(spots, key=lambda one: (not best[one.look], -len(one.aua.units), len(one.title), one.look))
    points = [
        charts.Point(
            index=spot.look,
            title=spot.title,
            x=spot.x,
            y=spot.aua.mean,
            along=spot.aua.band,
            few=spot.few,
            named=k < NAMED,
            summary=f"{spot.title}: {spot.aua.mean:.1f} ({plural(len(spot.aua.units), 'run')}) at {spot.x:.3g}",
        )
        for k, spot in enumerate(spots)
    ]
    across = [point.x for point in points]
    up = [v for point in points for v in (point.y, *(point.along or ()))]
    pad = 0.12 * (max(across) - min(across)) or 1.0
    x = charts.Axis.linear(what, max(0.0, min(across) - pad), max(across) + pad)
    y = charts.Axis.linear("accuracy under attack, %", *around(up, max(2.0, 0.08 * (max(up) - min(up)))), 6)
    # what is to be had at most for a given cost: level from an arm to the next dearer one
    steps = sorted((spot.x, spot.aua.mean) for spot in spots if best[spot.look])
    heads, table = ("Arm", what, "Under attack, %", "95 % interval", "Runs", "On the frontier"), []
    for spot in sorted(spots, key=lambda spot: -spot.aua.mean):
        on = "too few runs" if spot.few else "yes" if best[spot.look] else "no"
        table.append((spot.title, f"{spot.x:.1f}", *spot.aua.cells, on))
    drawing, sources = charts.scatter(title, points, x, y, steps), [one for spot in spots for one in spot.aua.sources]
    return Panel(title=title, svg=drawing, table=plain_table(title, heads, table), sources=tuple(sources))
