"""How long to train: whole schedules of different lengths, fine-tuning beside tickets. No figure of the papers; campaign D asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from robust_tickets.reproduce.arms import Row, arms, sweeps, swept
from robust_tickets.reproduce.figures.drawn import Drawn
from robust_tickets.reproduce.figures.lines import Axis
from robust_tickets.reproduce.figures.sweeps import LINES, sweep
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.protocol import constants

ID, SWEEPS = "Lengths", "_epochs"  # sweeps over whole schedules end so; those along one schedule do not
AXIS = Axis(title="epochs of training")


def lengths(outcomes: Sequence[Outcome], folder: Path | None = None, looks: Mapping[str, int] | None = None) -> Drawn:
    """A line for each arm that was trained on a task at two lengths or more; of the flavour ``corrected``, where else all have one.

    ``looks`` numbers arms as the page does, for equal colours and shapes.
    """
    own = sorted((one for one in outcomes if one.unit.flavour == "corrected" and one.clean), key=lambda one: one.unit)
    places = dict.fromkeys((one.unit.backbone, one.unit.task, one.unit.arm) for one in own)
    usual = float(constants().training["epochs"])
    rows = [
        Row(table=ID, name=arms()[base].title, arm=arm, backbone=backbone, tasks=(task,), x=x)
        for base, points in _schedules().items()
        for x, arm in sorted([*points, (usual, base)])
        for backbone, task, name in places
        if name == arm
    ]
    several = Counter((row.backbone, row.tasks, row.name) for row in rows)
    shown = [row for row in rows if several[row.backbone, row.tasks, row.name] > 1]
    names = {arms()[base].title: (looks or {}).get(base, len(looks or ()) + k) for k, base in enumerate(_schedules())}
    panels = sweep(shown, own, folder, lambda _: AXIS, lambda *_: "`tickets reproduce --campaign D` runs them", names)
    return Drawn(id=ID, caption=LINES, panels=tuple(panel for panel in panels if panel.svg))


def _schedules() -> dict[str, tuple[tuple[float, str], ...]]:
    """By arm: the lengths it is trained at besides its usual one."""
    return {one.base: swept(name) for name, one in sweeps().items() if name.endswith(SWEEPS)}
