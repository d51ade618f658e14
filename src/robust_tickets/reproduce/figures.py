"""The papers' figures plotted from our runs, and accuracy by length of training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from markupsafe import Markup

from robust_tickets.files import write_text
from robust_tickets.report import charts
from robust_tickets.report.charts import DASHES, around
from robust_tickets.report.format import plural, span
from robust_tickets.report.tables import Table, plain_table
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import Wanted, attacks_of, notes_of, read_runs
from robust_tickets.reproduce.arms import Row, arms, attack_title, backbone_title, older, sweeps, swept, task_title
from robust_tickets.reproduce.arms import rows as rows_of
from robust_tickets.reproduce.job import BERT, Flavour
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.plan import needs
from robust_tickets.reproduce.protocol import constants
from robust_tickets.reproduce.ticket_figures import (
    Panel,
    Survivors,
    agreement,
    along,
    by_head,
    distance_maps,
    survivors,
    survivors_by_layer,
    where_stopped,
)
from robust_tickets.stats.compare_runs import FEWEST_RUNS
from robust_tickets.stats.intervals import Interval, mean_interval

MAPS, LAYERS, GATES = ("ER-F2",), ("ER-F5", "RT-F3", "OR-F1"), ("RT-F1", "RT-F5")
# a search that continues past its rule's point, and the one that stops there
STOPPED = {"earlyrobust_whole": "earlyrobust_first"}
TASKLESS = ("OR-F1",)  # a unit has a task all the same
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
    from robust_tickets.reproduce.html import page

    of = published.table(drawn.id)
    return write_text(folder / f"{of.id}.html", page("figure.html.j2", f"{of.id}: {of.title}", of=of, drawn=drawn))


def figure(
    id: str,
    outcomes: Sequence[Outcome],
    folder: Path | None = None,
    *,
    flavour: Flavour = "corrected",
    pairs: Collection[tuple[str, str]] | None = None,
) -> Drawn:
    """The figure called ``id``. ``folder`` holds the outcomes' files, with the ids of examples.

    ``pairs``: backbones with tasks to plot, by default all.
    """
    wanted = [
        replace(row, tasks=tuple(task for task in row.tasks if pairs is None or (row.backbone, task) in pairs))
        for row in rows_of(id, flavour)
    ]
    return draw(published.table(id).id, [row for row in wanted if row.tasks], outcomes, folder, flavour)


def draw(
    id: str, rows: Sequence[Row], outcomes: Sequence[Outcome], folder: Path | None = None, flavour: Flavour = "corrected"
) -> Drawn:  # fmt: skip
    """Plot a figure from given rows."""
    made, names = [row for row in rows if not row.why], {row.arm for row in rows}
    drawn = list(dict.fromkeys((row.backbone, task) for row in made for task in row.tasks))
    # an arm may have runs on tasks that are not shown
    there = [one for one in outcomes if one.unit.flavour == flavour and (one.unit.backbone, one.unit.task) in drawn]
    own = [one for one in there if one.unit.arm in names]
    instead = _instead(names, own, there) if id in MAPS + LAYERS else []
    own = sorted([*own, *instead], key=lambda one: one.unit)  # the same bytes in any order

    def how(backbone: str, task: str) -> str:
        """The command that runs it, and what it needs that no run used."""
        only = f"backbone={backbone}" if id in TASKLESS else f"task={task}"
        lacking, what = needs(backbone, task, outcomes), "it" if id in MAPS + LAYERS + GATES else "them"
        return f"`tickets reproduce {id} --only {only}` runs {what}" + (f", and needs {lacking}" if lacking else "")

    if id in MAPS + LAYERS + GATES:
        panels = [
            panel for backbone, task in drawn for panel in _searched(id, made, own, backbone, task, how(backbone, task))
        ]
        words = _words(id, own) + (f" {WORDS['short' if id in MAPS else 'last']}" if instead else "")
    else:
        panels, words = sweep(made, own, folder, lambda row: _axis(id, row), how), WORDS["lines"]
    panels += [Panel(title=row.name, why=f"{row.name}: {row.why}.") for row in rows if row.why]
    notes = dict.fromkeys(note.removesuffix(".") for one in own for note in notes_of(one))
    more = [f"Of these runs: {'; '.join(notes)}."] if notes else []
    return Drawn(id=id, caption=" ".join([words, *more]), panels=tuple(panels))


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


def _searched(
    id: str, rows: Sequence[Row], outcomes: Sequence[Outcome], backbone: str, task: str, how: str
) -> list[Panel]:
    """The panels of a figure of searches, on one task; ``how`` is the command that runs it."""
    own = [one for one in outcomes if (one.unit.backbone, one.unit.task) == (backbone, task)]
    where = backbone_title(backbone) if id in TASKLESS else place(backbone, task)
    if not own:
        return [Panel(title=where, why=f"{where}: not run; {how}.")]
    if id in MAPS:
        return distance_maps(own, task)
    if id in LAYERS:
        return [survivors_by_layer(own, where)]
    names = {row.arm: f"lambda {row.x:g}" if row.x is not None else row.name for row in rows}
    return gates(where, [(name, [one for one in own if one.unit.arm == arm]) for arm, name in names.items()])


def _words(id: str, own: Sequence[Outcome]) -> str:
    """How to read a figure of searches."""
    if id in MAPS:
        return f"{WORDS['maps']} {where_stopped(own)}"
    if id in GATES:
        return WORDS["gates"]
    if not any("heads" in (one.ticket or {}) for one in own):
        return f"{WORDS['layers']} {WORDS['weights']}" if own and by_head(own) else WORDS["layers"]
    groups: dict[tuple[str, str], list[Survivors]] = {}
    for one in own:
        if one.unit.repeat == 0 and (kept := survivors(one)) is not None:
            groups.setdefault((one.unit.backbone, one.unit.task), []).append(kept)
    sentences = [WORDS["layers"], WORDS["heads"]]
    for key, shapes in groups.items():
        name = f"{backbone_title(key[0]) if id in TASKLESS else place(*key)}: " if len(groups) > 1 else ""
        sentences += [f"{name}{words}"] if (words := agreement(shapes)) else []
    return " ".join(sentences)


# --- lines: accuracy against what is swept, and gates along a search


@dataclass(frozen=True, kw_only=True)
class Abscissa:
    """The swept setting: ``unit`` follows its values in texts; ``factor`` makes percent of shares."""

    title: str
    unit: str = ""
    factor: float = 1.0

    def words(self, x: float) -> str:
        shown = self.factor * x
        return f"{shown:.2g}" if abs(shown) < 10 else f"{shown:.3g}"


HEADS, NEURONS = (Abscissa(title=f"{part} removed, %", unit=" %", factor=100) for part in ("heads", "neurons"))
AXES = {
    "ER-F3": Abscissa(title="threshold gamma"),
    "RT-F2": Abscissa(title="weights removed, %", unit=" %", factor=100),
    "RT-F4": Abscissa(title="epoch, of a schedule of 10"),
}
EPOCH, LENGTH = Abscissa(title="epoch", unit=" epochs"), Abscissa(title="epochs of training")
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
    def summary(self) -> str:
        return (
            f"{self.mean:.1f} ({plural(len(self.values), 'run')}{f', {span(self.interval)}' if self.interval else ''})"
        )

    @property
    def cells(self) -> tuple[str, str, str]:
        """Mean, interval and number of runs, for a table."""
        ends = f"{self.interval[0]:.1f} to {self.interval[1]:.1f}" if self.interval else "–"
        return f"{self.mean:.1f}", ends, str(len(self.values))


def point_of(x: float | None, wanted: Wanted, outcomes: Sequence[Outcome], folder: Path | None) -> Point | None:
    """The point of an arm; ``None`` where no run has a value."""
    reading = read_runs(wanted, outcomes, folder)
    return Point(x=x, values=reading.runs.values, sources=reading.units) if reading.runs.values else None


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line: ``index`` gives its colour, marker and dash, the same in every panel of a figure."""

    name: str
    index: int
    points: tuple[Point, ...]

    def summary(self, axis: Abscissa) -> str:
        words = ["throughout" if p.x is None else f"{axis.words(p.x)}{axis.unit}" for p in self.points]
        points = [f"{x}: {p.summary}" for x, p in zip(words, self.points, strict=True)]
        shown = points if len(points) <= 10 else [points[0], points[len(points) // 2], points[-1]]
        return f"{self.name}, {', '.join(shown)}"

    def chart(self, axis: Abscissa, ends: Interval, plain: bool) -> charts.Series:
        """The line to plot; one that is not swept is level between the ``ends`` of the axis."""
        level = next((point for point in self.points if point.x is None), None)
        swept = sorted((p for p in self.points if p.x is not None), key=lambda p: p.x or 0.0)
        own = [level, level] if level is not None else swept
        return charts.Series(
            index=self.index, title=self.name, summary=self.summary(axis), dash=self.index % DASHES, marked=not plain,
            x=ends if level is not None else [p.x or 0.0 for p in swept],
            y=[p.mean for p in own],
            bands=[p.interval for p in own],
            runs=[p.values for p in swept] if level is None and not plain else (),
        )  # fmt: skip


def lines(
    title: str, what: str, axis: Abscissa, series: Sequence[Series], scale: Interval, *, plain: bool = False
) -> Panel:
    """One panel: ``what`` is measured on ``scale``; ``plain`` lines have neither markers nor single runs."""
    every = [point.x for one in series for point in one.points if point.x is not None]
    own = charts.Axis.at(axis.title, every, axis.words)
    x = charts.Axis.linear(axis.title, min(every), max(every)) if plain else own
    drawing = charts.lines(
        [one.chart(axis, (x.low, x.high), plain) for one in series],
        x,
        charts.Axis.linear(what if len(what) < 30 else "accuracy under attack, %", *scale),
        alt=f"{title}, {what}. " + "; ".join(one.summary(axis) for one in series),
    )
    rows = [
        (one.name, "–" if p.x is None else axis.words(p.x), *p.cells, " ".join(f"{v:.1f}" for v in p.values))
        for one in series
        for p in one.points
    ]
    heads = ("Line", axis.title, "Mean", "95 % interval", "Runs", "Each run")
    sources = tuple(dict.fromkeys(source for one in series for point in one.points for source in point.sources))
    name = f"{title}: {what}"
    return Panel(title=name, svg=drawing, table=plain_table(name, heads, rows), sources=sources)


def sweep(
    rows: Sequence[Row],
    outcomes: Sequence[Outcome],
    folder: Path | None,
    axis_of: Callable[[Row], Abscissa],
    how: Callable[[str, str], str],
    looks: Mapping[str, int] | None = None,
) -> list[Panel]:
    """A panel for every task, measure and swept setting; ``how`` is the command for what is missing.

    ``looks``: numbers of lines by name, for methods that the page shows elsewhere too; others are numbered in order.
    """
    panels: list[Panel] = []
    for backbone, task in dict.fromkeys((row.backbone, task) for row in rows for task in row.tasks):
        here = _with_level_lines([row for row in rows if row.backbone == backbone and task in row.tasks])
        names = {row.arm for row in here}
        own = [o for o in outcomes if (o.unit.backbone, o.unit.task) == (backbone, task) and o.unit.arm in names]
        of = _Sweep(where=place(backbone, task), rows=here, own=own, folder=folder, axis_of=axis_of, looks=looks or {})
        panels += [*(of.panels() if of.enough else []), *of.missing(how(backbone, task))]
    return panels


def textfoolers(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """The main comparison's two TextFoolers, where they were run; else the first that was."""
    found = attacks_of(outcomes, "textfooler")
    return tuple(name for name in MAIN if name in found) or found[:1]


@dataclass(frozen=True, kw_only=True)
class _Sweep:
    """The runs behind a task's panels."""

    where: str
    rows: Sequence[Row]
    own: Sequence[Outcome]
    folder: Path | None
    axis_of: Callable[[Row], Abscissa]
    looks: Mapping[str, int]

    @property
    def done(self) -> set[str]:
        """Arms that were trained, not only searched."""
        return {one.unit.arm for one in self.own if one.unit.repeat == 0 and one.clean}

    @property
    def enough(self) -> bool:
        """Whether a line has two points."""
        points = Counter(row.name for row in self.rows if row.arm in self.done and row.x is not None)
        return any(n > 1 for n in points.values())

    def panels(self) -> list[Panel]:
        axes = dict.fromkeys(self.axis_of(row) for row in self.rows if row.x is not None)
        measures: dict[str | None, str] = {None: "clean accuracy, %"}
        measures |= {name: f"accuracy under {attack_title(name)}, %" for name in textfoolers(self.own)}
        found = {(axis, attack): self.series(axis, attack) for axis in axes for attack in measures}
        panels = []
        for (axis, attack), series in found.items():
            alike = [
                one for (_, other), every in found.items() if other == attack for one in every
            ]  # equal over the axes
            panels += [lines(self.where, measures[attack], axis, series, _scale(alike))] if series else []
        return panels

    def series(self, axis: Abscissa, attack: str | None) -> list[Series]:
        """The lines over one axis."""
        unit, found = self.own[0].unit, []
        about = {"task": unit.task, "backbone": unit.backbone, "flavour": unit.flavour, "attack": attack}
        for index, name in enumerate(dict.fromkeys(row.name for row in self.rows)):
            points = []
            for row in self.rows:
                if row.name == name and (row.x is None or self.axis_of(row) == axis):
                    wanted = Wanted(arm=row.arm, metric="aua" if attack else "clean", **about)  # type: ignore[arg-type]
                    points.append(point_of(row.x, wanted, self.own, self.folder))
            known = tuple(point for point in points if point is not None)
            found += [Series(name=name, index=self.looks.get(name, index), points=known)] if known else []
        return found

    def missing(self, how: str) -> list[Panel]:
        """Panels that name what was not trained or not attacked."""
        sentences, done = [], self.done
        unrun = [row for row in self.rows if row.arm not in done]
        if unrun and not self.enough:
            ran = len(self.rows) - len(unrun)
            some = f"only {ran} of {len(self.rows)} points are run" if ran else "not run"
            sentences.append(f"{self.where}: {some}; {how}.")
        elif unrun:
            points = [row.name if row.x is None else f"{row.name} at {self.axis_of(row).words(row.x)}" for row in unrun]
            sentences.append(f"{self.where}, not run: {', '.join(points)}; {how}.")
        if self.enough and not textfoolers(self.own):
            sentences.append(f"{self.where}: trained, not attacked by TextFooler.")
        return [Panel(title=self.where, why=words) for words in sentences]


def _with_level_lines(rows: Sequence[Row]) -> list[Row]:
    """Rows with ``x=None`` for a line of one point beside swept ones (the full model)."""
    points = Counter(row.name for row in rows)
    return [replace(row, x=None) if points[row.name] == 1 and max(points.values()) > 1 else row for row in rows]


def _scale(series: Sequence[Series]) -> Interval:
    """A range that holds every run and every band."""
    every = [v for one in series for point in one.points for v in (*point.values, *(point.interval or ()))]
    low, high = around(every, max(1.0, 0.08 * (max(every) - min(every)))) if every else (0.0, 100.0)
    return (low, high) if high > low else (low - 1, high + 1)


def lengths(outcomes: Sequence[Outcome], folder: Path | None = None, looks: Mapping[str, int] | None = None) -> Drawn:
    """Whole schedules of different lengths: a line for each arm that was trained on a task at two or more.

    ``looks`` numbers arms as the page does, for equal colours and shapes.
    """
    own = sorted((one for one in outcomes if one.unit.flavour == "corrected" and one.clean), key=lambda one: one.unit)
    there = dict.fromkeys((one.unit.backbone, one.unit.task, one.unit.arm) for one in own)
    usual = float(constants().training["epochs"])
    # sweeps over whole schedules have this suffix
    bases = {of.base: swept(name) for name, of in sweeps().items() if name.endswith("_epochs")}
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
    panels = sweep(shown, own, folder, lambda _: LENGTH, lambda *_: "`tickets reproduce --campaign D` runs them", names)
    return Drawn(id="Lengths", caption=WORDS["lines"], panels=tuple(panel for panel in panels if panel.svg))


MOST = 60  # points of a line; a longer trace is thinned evenly
MEASURES = {"R": "R, the mean chance of a gate to be open, %", "exact": "gates at exactly 0 or 1, %"}


def gates(where: str, arms: Sequence[tuple[str, Sequence[Outcome]]]) -> list[Panel]:
    """R and the share of exact gates along a search; ``arms`` are the lines' names and their runs."""
    panels = []
    for key, what in MEASURES.items():
        series = [one for i, (name, own) in enumerate(arms) if (one := _traced(name, i, own, key))]
        panels += [lines(where, what, EPOCH, series, (0, 100), plain=True)] if series else []
    return panels or [Panel(title=where, why=f"{where}: the runs there are traced no gates.")]


def _traced(name: str, index: int, outcomes: Sequence[Outcome], key: str) -> Series | None:
    """The searches' values, in percent, at every epoch that was traced."""
    at: dict[float, list[tuple[float, str]]] = {}
    for one in outcomes:
        for epoch, value in along(one, "gates", key) if one.unit.repeat == 0 else ():
            at.setdefault(round(epoch, 4), []).append((100 * value, one.unit.id))
    if not at:
        return None
    epochs = sorted(at)
    if len(epochs) > MOST:
        epochs = sorted({epochs[round(k * (len(epochs) - 1) / (MOST - 1))] for k in range(MOST)})
    points = [Point(x=x, values=tuple(v for v, _ in at[x]), sources=tuple(id for _, id in at[x])) for x in epochs]
    return Series(name=name, index=index, points=tuple(points))
