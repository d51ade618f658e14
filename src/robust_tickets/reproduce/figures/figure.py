"""Every figure of the papers, redrawn from our runs; what cannot be drawn says why."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import notes_of
from robust_tickets.reproduce.arms import Row, backbone_title, older
from robust_tickets.reproduce.arms import rows as rows_of
from robust_tickets.reproduce.figures.agreement import agreement
from robust_tickets.reproduce.figures.drawn import Drawn, Panel
from robust_tickets.reproduce.figures.gates import gates
from robust_tickets.reproduce.figures.layers import survivors_by_layer
from robust_tickets.reproduce.figures.lines import Axis
from robust_tickets.reproduce.figures.maps import distance_maps, where_stopped
from robust_tickets.reproduce.figures.sweeps import LINES, place, sweep
from robust_tickets.reproduce.figures.traces import Survivors, by_head, survivors
from robust_tickets.reproduce.job import Flavour
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.plan import needs

MAPS, LAYERS, GATES = ("ER-F2",), ("ER-F5", "RT-F3", "OR-F1"), ("RT-F1", "RT-F5")
STOPPED = {
    "earlyrobust_whole": "earlyrobust_first"
}  # a search that goes on where its rule stops, and the one that stops there
TASKLESS = ("OR-F1",)  # a unit has a task all the same
HEADS, NEURONS = (Axis(title=f"{part} removed, %", unit=" %", factor=100) for part in ("heads", "neurons"))
AXES = {
    "ER-F3": Axis(title="threshold gamma"),
    "RT-F2": Axis(title="weights removed, %", unit=" %", factor=100),
    "RT-F4": Axis(title="epoch, of a schedule of 10"),
}
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
}


def figure(
    id: str,
    outcomes: Sequence[Outcome],
    folder: Path | None = None,
    *,
    flavour: Flavour = "corrected",
    places: Collection[tuple[str, str]] | None = None,
) -> Drawn:
    """The figure called ``id``. ``folder`` holds the outcomes' files: a point's runs are checked against their examples there.

    ``places``: backbones with tasks that are to be drawn, if not all.
    """
    asked = [
        replace(row, tasks=tuple(task for task in row.tasks if places is None or (row.backbone, task) in places))
        for row in rows_of(id, flavour)
    ]
    return draw(published.table(id).id, [row for row in asked if row.tasks], outcomes, folder, flavour)


def draw(
    id: str,
    rows: Sequence[Row],
    outcomes: Sequence[Outcome],
    folder: Path | None = None,
    flavour: Flavour = "corrected",
) -> Drawn:
    """The same from given rows."""
    made, arms = [row for row in rows if not row.why], {row.arm for row in rows}
    drawn = _places(made)  # a caption speaks of what is drawn: an arm may have runs on other tasks
    there = [one for one in outcomes if one.unit.flavour == flavour and (one.unit.backbone, one.unit.task) in drawn]
    mine = [one for one in there if one.unit.arm in arms]
    instead = _instead(arms, mine, there) if id in MAPS + LAYERS else []
    mine += instead
    own = sorted(mine, key=lambda one: one.unit)  # the same bytes in any order

    def how(backbone: str, task: str, what: str = "them") -> str:
        """The command, and what it needs that no run had."""
        only = f"backbone={backbone}" if id in TASKLESS else f"task={task}"
        lacking = needs(backbone, task, outcomes)
        return f"`tickets reproduce {id} --only {only}` runs {what}" + (f", and needs {lacking}" if lacking else "")

    if id in MAPS + LAYERS + GATES:
        panels = [
            panel
            for backbone, task in drawn
            for panel in _searched(id, made, own, backbone, task, how(backbone, task, "it"))
        ]
        words = _words(id, own) + (f" {WORDS['short' if id in MAPS else 'last']}" if instead else "")
    else:
        panels = sweep(made, own, folder, lambda row: _axis(id, row), how)
        words = LINES
    panels += [Panel(title=row.name, why=f"{row.name}: {row.why}.") for row in rows if row.why]
    return Drawn(id=id, caption=" ".join([words, *_notes(own)]), panels=tuple(panels))


def _instead(arms: Collection[str], mine: Sequence[Outcome], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Where none of these searches was run, those that stopped where these go on, or that stand beside them."""
    found = list(mine)
    for other in dict.fromkeys(
        name for arm in sorted(arms) for one in (STOPPED.get(arm, ""), arm) for name in (one, *older(one))
    ):
        there = {(one.unit.backbone, one.unit.task) for one in found}
        found += [o for o in outcomes if o.unit.arm == other and (o.unit.backbone, o.unit.task) not in there]
    return found[len(mine) :]


def _places(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row.backbone, task) for row in rows for task in row.tasks))


def _searched(
    id: str, rows: Sequence[Row], outcomes: Sequence[Outcome], backbone: str, task: str, how: str
) -> list[Panel]:
    """The panels of a figure that shows searches, on one task; ``how`` says how to run it."""
    own = [one for one in outcomes if (one.unit.backbone, one.unit.task) == (backbone, task)]
    where = backbone_title(backbone) if id in TASKLESS else place(backbone, task)
    if not own:
        return [Panel(title=where, why=f"{where}: not run; {how}.")]
    if id in MAPS:
        return distance_maps(own, task)
    if id in LAYERS:
        return [survivors_by_layer(own, where)]
    return gates(where, _lines(rows, own))


def _lines(rows: Sequence[Row], own: Sequence[Outcome]) -> list[tuple[str, list[Outcome]]]:
    """A line a row, in the order of the rows."""
    names = {row.arm: f"lambda {row.x:g}" if row.x is not None else row.name for row in rows}
    return [(name, [one for one in own if one.unit.arm == arm]) for arm, name in names.items()]


def _words(id: str, own: Sequence[Outcome]) -> str:
    """How to read a figure of searches."""
    if id in MAPS:
        return f"{WORDS['maps']} {where_stopped(own)}"
    if id in GATES:
        return WORDS["gates"]
    if not any("heads" in (one.ticket or {}) for one in own):
        return f"{WORDS['layers']} {WORDS['weights']}" if own and by_head(own) else WORDS["layers"]
    return " ".join([WORDS["layers"], WORDS["heads"], *_agreements(id, own)])


def _agreements(id: str, own: Sequence[Outcome]) -> list[str]:
    """How far the searches of each panel agree; which panel is said where there are several."""
    groups: dict[tuple[str, str], list[Survivors]] = {}
    for one in own:
        if one.unit.repeat == 0 and (told := survivors(one)) is not None:
            groups.setdefault((one.unit.backbone, one.unit.task), []).append(told)
    named = {
        key: f"{backbone_title(key[0]) if id in TASKLESS else place(*key)}: " if len(groups) > 1 else ""
        for key in groups
    }
    return [f"{named[key]}{said}" for key, shapes in groups.items() if (said := agreement(shapes))]


def _axis(id: str, row: Row) -> Axis:
    return AXES.get(id) or (NEURONS if "neuron" in f"{row.name} {row.arm}".lower() else HEADS)


def _notes(outcomes: Sequence[Outcome]) -> list[str]:
    """What the runs say against themselves: a shortened search, a part of the training rows, a stand-in for the paper's texts."""
    said = dict.fromkeys(note.removesuffix(".") for one in outcomes for note in notes_of(one))
    return [f"Of these runs: {'; '.join(said)}."] if said else []
