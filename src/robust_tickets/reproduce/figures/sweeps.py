"""Accuracy, clean and under TextFooler, against what is swept: a threshold, a share removed, the epoch of training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from robust_tickets.reproduce.aggregate import Wanted, attacks_of, read_runs
from robust_tickets.reproduce.arms import Row, attack_title, backbone_title, task_title
from robust_tickets.reproduce.figures.drawn import Panel
from robust_tickets.reproduce.figures.lines import Axis, lines, span_of
from robust_tickets.reproduce.figures.series import Point, Series
from robust_tickets.reproduce.job import BERT
from robust_tickets.reproduce.outcome import Outcome

MAIN = ("textfooler-real", "textfooler-substitute")
LINES = (
    "Lines are means over runs, small dots single runs; a band is the 95 % interval of the mean, drawn where there are five runs or more. "
    "The axis of accuracies does not start at zero."
)


def sweep(
    rows: Sequence[Row],
    outcomes: Sequence[Outcome],
    folder: Path | None,
    axis_of: Callable[[Row], Axis],
    how: Callable[[str, str], str],
    looks: Mapping[str, int] | None = None,
) -> list[Panel]:
    """For every task a panel of each measure and each thing that is swept; ``how`` says of a backbone and a task what runs what is missing.

    ``looks`` numbers lines by their names, where they are methods that the page shows elsewhere too; else they are numbered as they come.
    """
    panels: list[Panel] = []
    for backbone, task in dict.fromkeys((row.backbone, task) for row in rows for task in row.tasks):
        here = _levelled([row for row in rows if row.backbone == backbone and task in row.tasks])
        arms = {row.arm for row in here}
        own = [
            one for one in outcomes if (one.unit.backbone, one.unit.task) == (backbone, task) and one.unit.arm in arms
        ]
        found = _Sweep(
            where=place(backbone, task), rows=here, own=own, folder=folder, axis_of=axis_of, looks=looks or {}
        )
        panels += found.panels() if found.enough else []
        panels += found.missing(how(backbone, task))
    return panels


def place(backbone: str, task: str) -> str:
    """A task in words, with the backbone where that is not BERT-base."""
    return task_title(task) if backbone == BERT else f"{task_title(task)}, {backbone_title(backbone)}"


def textfoolers(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """The main comparison's two candidate sets, where they were run; else whatever TextFooler was."""
    found = attacks_of(outcomes, "textfooler")
    return tuple(name for name in MAIN if name in found) or found[:1]


@dataclass(frozen=True, kw_only=True)
class _Sweep:
    """All that a task's panels are drawn from."""

    where: str
    rows: Sequence[Row]
    own: Sequence[Outcome]
    folder: Path | None
    axis_of: Callable[[Row], Axis]
    looks: Mapping[str, int]

    @property
    def done(self) -> set[str]:
        """Arms that were trained; of some there is only a search."""
        return {one.unit.arm for one in self.own if one.unit.repeat == 0 and one.clean}

    @property
    def enough(self) -> bool:
        """Whether anything is to be seen: two points of one line."""
        return any(
            n > 1 for n in Counter(row.name for row in self.rows if row.arm in self.done and row.x is not None).values()
        )

    def panels(self) -> list[Panel]:
        panels = []
        axes = dict.fromkeys(self.axis_of(row) for row in self.rows if row.x is not None)
        measures: dict[str | None, str] = {None: "clean accuracy, %"}
        measures |= {name: f"accuracy under {attack_title(name)}, %" for name in textfoolers(self.own)}
        found = {(axis, attack): self.series(axis, attack) for axis in axes for attack in measures}
        for (axis, attack), series in found.items():
            low, high = span_of(
                [one for (_, other), every in found.items() if other == attack for one in every]
            )  # equal over the axes
            panels += [lines(self.where, measures[attack], axis, series, low=low, high=high)] if series else []
        return panels

    def series(self, axis: Axis, attack: str | None) -> list[Series]:
        """The lines over one axis."""
        found = []
        for index, name in enumerate(dict.fromkeys(row.name for row in self.rows)):
            rows = [row for row in self.rows if row.name == name and (row.x is None or self.axis_of(row) == axis)]
            points = tuple(point for row in rows if (point := self._point(row, attack)) is not None)
            found += [Series(name=name, index=self.looks.get(name, index), points=points)] if points else []
        return found

    def _point(self, row: Row, attack: str | None) -> Point | None:
        unit, metric = self.own[0].unit, "aua" if attack else "clean"
        wanted = Wanted(
            arm=row.arm, task=unit.task, metric=metric, attack=attack, backbone=unit.backbone, flavour=unit.flavour
        )
        return Point.of_reading(row.x, read_runs(wanted, self.own, self.folder))

    def missing(self, how: str) -> list[Panel]:
        """What was not trained, and whether what was trained was attacked."""
        said, done = [], self.done
        unrun = [row for row in self.rows if row.arm not in done]
        if unrun and not self.enough:
            some = (
                f"only {len(self.rows) - len(unrun)} of {len(self.rows)} points are run"
                if len(unrun) < len(self.rows)
                else "not run"
            )
            said.append(f"{self.where}: {some}; {how}.")
        elif unrun:
            points = [row.name if row.x is None else f"{row.name} at {self.axis_of(row).words(row.x)}" for row in unrun]
            said.append(f"{self.where}, not run: {', '.join(points)}; {how}.")
        if self.enough and not textfoolers(self.own):
            said.append(f"{self.where}: trained, not attacked by TextFooler.")
        return [Panel(title=self.where, why=words) for words in said]


def _levelled(rows: Sequence[Row]) -> list[Row]:
    """A line of one point beside swept ones (the full model) is level all the way."""
    points = Counter(row.name for row in rows)
    return [replace(row, x=None) if points[row.name] == 1 and max(points.values()) > 1 else row for row in rows]
