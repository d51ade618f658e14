"""What robustness costs: accuracy under an attack against the size of a model and the work of making it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from robust_tickets.report import charts
from robust_tickets.report.charts import around
from robust_tickets.report.tables import Table, plain_table
from robust_tickets.reproduce.aggregate import Wanted, timed_alone
from robust_tickets.reproduce.arms import attack_title, distinct_title
from robust_tickets.reproduce.figures import Drawn, Point, place, point_of
from robust_tickets.reproduce.job import BERT
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.ticket_figures import Panel
from robust_tickets.stats.compare_runs import FEWEST_RUNS

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
    best: bool = False  # none is both cheaper and more robust

    @property
    def few(self) -> bool:
        """Too few runs for any claim: grey, and on no frontier."""
        return len(self.aua.values) < FEWEST_RUNS

    @property
    def summary(self) -> str:
        return f"{self.title}: {self.aua.summary} at {self.x:.3g}" + (", on the frontier" if self.best else "")


def pareto(
    outcomes: Sequence[Outcome],
    folder: Path | None,
    *,
    task: str,
    attack: str,
    backbone: str = BERT,
    looks: Mapping[str, int] | None = None,
) -> Drawn:
    """Accuracy under an attack against size and work, of all arms run on a task. Up and to the left is better.

    ``looks`` numbers arms as the page does, for equal colours and shapes.
    """
    where, by = place(backbone, task), attack_title(attack)
    wanted = Wanted(arm="", task=task, metric="aua", attack=attack, backbone=backbone)
    own = sorted((one for one in outcomes if wanted.beside(one)), key=lambda one: one.unit)
    looks = looks or {arm: index for index, arm in enumerate(sorted({one.unit.arm for one in own}))}
    device, alone = _timed(own)
    panels = []
    for measure, (what, counted) in COSTS.items():
        spots = _spots(looks, own, alone if measure == "seconds" else own, folder, wanted, measure)
        title = f"{where}: accuracy under {by} against {what}"
        if len(spots) < 2:
            panels.append(Panel(title=title, why=f"{where}: of the arms attacked by {by} fewer than two {counted}."))
            continue
        sources = tuple(source for spot in spots for source in spot.aua.sources)
        panels.append(
            Panel(title=title, svg=_pareto(spots, what, title), table=_spot_table(spots, what, title), sources=sources)
        )
    timed = f" Times are of runs that had the device to themselves ({device})." if device else ""
    fewer = f"; beyond {NAMED} arms those of fewest runs are faint dots" if len(looks) > NAMED else ""
    caption = (
        f"Accuracy under {by} on {where}, mean over runs. Bars: 95 % interval of the mean, with five runs or more; arms of fewer are grey, "
        "and no line is drawn by them. Those on the line have none that is both cheaper and more robust, by the means alone. Arms of one "
        f"size are side by side{fewer}. The axes do not start at zero. Plain epochs of the whole model are reckoned by passes, tokens "
        f"and FLOPs.{timed}"
    )
    return Drawn(id="Pareto", caption=caption, panels=tuple(panels))


def _timed(outcomes: Sequence[Outcome]) -> tuple[str, list[Outcome]]:
    """Runs that can be timed against one another: alone on their device, all on the one that most arms were run on."""
    on: dict[str, list[Outcome]] = {}
    for one in filter(timed_alone, outcomes):
        on.setdefault(str(one.env.get("device", "")), []).append(one)
    most = max(sorted(on), key=lambda name: len({one.unit.arm for one in on[name]}), default="")
    return most, on.get(most, [])


def _spots(
    looks: Mapping[str, int], own: Sequence[Outcome], sized: Sequence[Outcome], folder: Path | None, wanted: Wanted, measure: str
) -> list[Spot]:  # fmt: skip
    """Arms with both numbers, those to be named first; of ``sized`` the size or time is taken."""
    found = []
    for arm, index in looks.items():
        size = point_of(None, replace(wanted, arm=arm, metric=measure, attack=None), sized, folder)
        aua = point_of(None, replace(wanted, arm=arm), own, folder)
        if size is not None and aua is not None:
            found.append(Spot(index=index, title=distinct_title(arm, looks), x=size.mean, aua=aua))
    enough = [spot for spot in found if not spot.few]
    found = [replace(spot, best=not spot.few and frontier(spot, enough)) for spot in found]
    # a sweep's arms have long titles
    return sorted(found, key=lambda spot: (not spot.best, -len(spot.aua.values), len(spot.title), spot.index))


def frontier(spot: Spot, spots: Sequence[Spot]) -> bool:
    """Whether no other is at least as good in both and better in one."""
    own = (spot.x, spot.aua.mean)
    return not any(o.x <= own[0] and o.aua.mean >= own[1] and (o.x, o.aua.mean) != own for o in spots)


def _pareto(spots: Sequence[Spot], what: str, title: str) -> Markup:
    points = [
        charts.Point(
            index=spot.index, title=spot.title, x=spot.x, y=spot.aua.mean, summary=spot.summary, along=spot.aua.interval, few=spot.few,
            named=k < NAMED,
        )
        for k, spot in enumerate(spots)
    ]  # fmt: skip
    across = [point.x for point in points]
    along = [v for point in points for v in (point.y, *(point.along or ()))]
    pad = 0.12 * (max(across) - min(across)) or 1.0
    x = charts.Axis.linear(what, max(0.0, min(across) - pad), max(across) + pad)
    y = charts.Axis.linear("accuracy under attack, %", *around(along, max(2.0, 0.08 * (max(along) - min(along)))), 6)
    # what is to be had at most for a given cost: level from an arm to the next dearer one
    steps = sorted((spot.x, spot.aua.mean) for spot in spots if spot.best)
    return charts.scatter(points, x, y, alt=f"{title}. " + "; ".join(spot.summary for spot in spots), steps=steps)


def _spot_table(spots: Sequence[Spot], what: str, title: str) -> Table:
    rows = [
        (spot.title, f"{spot.x:.1f}", *spot.aua.cells, "yes" if spot.best else "too few runs" if spot.few else "no")
        for spot in sorted(spots, key=lambda spot: -spot.aua.mean)
    ]
    return plain_table(title, ("Arm", what, "Under attack, %", "95 % interval", "Runs", "On the frontier"), rows)
