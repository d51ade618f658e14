"""What robustness costs: accuracy under an attack against the model's size and the work of making it. Up and to the left is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from robust_tickets.report.charts import Scale, around, colour, folded, group, label, line, marker, places, svg
from robust_tickets.report.markup import Html, join, tag
from robust_tickets.reproduce.aggregate import Wanted, read_runs, timed_alone
from robust_tickets.reproduce.arms import attack_title, told_apart
from robust_tickets.reproduce.figures.beside import WIDEST, brackets, bunches
from robust_tickets.reproduce.figures.drawn import Drawn, Panel, Table
from robust_tickets.reproduce.figures.series import Point
from robust_tickets.reproduce.figures.sweeps import place
from robust_tickets.reproduce.job import BERT, Flavour
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.stats.compare_runs import FEWEST_RUNS

LEFT, TOP, BELOW, APART = 50, 36, 46, 19
LETTERS, LINES, LEADING = 34, 2, 15  # of a name: on a line, lines, and pixels from one to the next
NAMED = 16  # arms beyond are faint dots, named by their tooltip and in the table
MEASURES = {  # what is on the axis; what an arm that has none of it lacks
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
    best: bool = False  # none is both cheaper and sturdier
    named: bool = True

    @property
    def few(self) -> bool:
        """Too few runs for any claim: grey, and on no frontier."""
        return len(self.aua.values) < FEWEST_RUNS

    @property
    def lines(self) -> list[str]:
        return folded(self.title, LETTERS, LINES)

    @property
    def room(self) -> float:
        return APART + LEADING * (len(self.lines) - 1)

    @property
    def said(self) -> str:
        return f"{self.title}: {self.aua.said} at {self.x:.3g}" + (", on the frontier" if self.best else "")


def pareto(
    outcomes: Sequence[Outcome],
    folder: Path | None,
    *,
    task: str,
    attack: str,
    backbone: str = BERT,
    flavour: Flavour = "corrected",
    looks: Mapping[str, int] | None = None,
) -> Drawn:
    """All arms that were run on a task and attacked so. ``looks`` numbers arms as the page does, for equal colours and shapes."""
    where, by = place(backbone, task), attack_title(attack)
    wanted = Wanted(arm="", task=task, metric="aua", attack=attack, backbone=backbone, flavour=flavour)
    own = sorted((one for one in outcomes if replace(wanted, arm=one.unit.arm).of(one)), key=lambda one: one.unit)
    looks = looks or {arm: index for index, arm in enumerate(sorted({one.unit.arm for one in own}))}
    device, alone = _timed(own)
    panels = []
    for measure, (what, counted) in MEASURES.items():
        spots = _spots(
            looks, own, alone if measure == "seconds" else own, folder, replace(wanted, metric=measure), attack
        )
        title = f"{where}: accuracy under {by} against {what}"
        if len(spots) < 2:
            panels.append(Panel(title=title, why=f"{where}: of the arms attacked by {by} fewer than two {counted}."))
            continue
        alt = f"{title}. " + "; ".join(spot.said for spot in spots)
        drawings = [_draw(spots, what, 940, 600, 400, alt, "broad"), _draw(spots, what, 320, 306, 320, alt, "narrow")]
        sources = tuple(source for spot in spots for source in spot.aua.sources)
        panels.append(Panel(title=title, svg=join(drawings), table=_table(spots, what), sources=sources))
    timed = f" Times are of runs that had the device to themselves ({device})." if device else ""
    fewer = f", and beyond {NAMED} arms those of fewest runs are faint dots" if len(looks) > NAMED else ""
    caption = (
        f"Accuracy under {by} on {where}, mean over runs. Bars: 95 % interval of the mean, with five runs or more; arms "
        "of fewer are grey, and no line is drawn by them. Those on the line have none that is both cheaper and sturdier, by the means "
        "alone; arms of one size stand "
        f"side by side, over a bracket whose stem is at their size{fewer}. The axes do not start at zero. Plain epochs of the "
        f"whole model are reckoned by passes, tokens and FLOPs.{timed}"
    )
    return Drawn(id="Pareto", caption=caption, panels=tuple(panels))


def _timed(outcomes: Sequence[Outcome]) -> tuple[str, list[Outcome]]:
    """Runs that can be timed against one another: alone on their device, all on the one that most arms were run on."""
    alone = [one for one in outcomes if timed_alone(one)]
    devices = sorted({str(one.env.get("device", "")) for one in alone})
    most = max(
        devices, key=lambda name: len({one.unit.arm for one in alone if one.env.get("device", "") == name}), default=""
    )
    return most, [one for one in alone if one.env.get("device", "") == most]


def _spots(
    looks: Mapping[str, int],
    own: Sequence[Outcome],
    sized: Sequence[Outcome],
    folder: Path | None,
    wanted: Wanted,
    attack: str,
) -> list[Spot]:
    """Arms with both numbers; of ``sized`` the size or time is taken."""
    found = []
    for arm, index in looks.items():
        size = Point.of_reading(None, read_runs(replace(wanted, arm=arm, attack=None), sized, folder))
        aua = Point.of_reading(None, read_runs(replace(wanted, arm=arm, metric="aua", attack=attack), own, folder))
        if size is not None and aua is not None:
            found.append(Spot(index=index, title=told_apart(arm, looks), x=size.mean, aua=aua))
    enough = [spot for spot in found if not spot.few]
    found = [replace(spot, best=not spot.few and frontier(spot, enough)) for spot in found]
    ranked = sorted(
        found, key=lambda spot: (not spot.best, -len(spot.aua.values), len(spot.title), spot.index)
    )  # a sweep's have long titles
    return [*ranked[:NAMED], *(replace(spot, named=False) for spot in ranked[NAMED:])]


def frontier(spot: Spot, spots: Sequence[Spot]) -> bool:
    """Whether no other is at least as good in both and better in one."""
    return not any(
        other.x <= spot.x and other.aua.mean >= spot.aua.mean and (other.x, other.aua.mean) != (spot.x, spot.aua.mean)
        for other in spots
    )


def _draw(spots: Sequence[Spot], what: str, width: int, right: int, bottom: int, alt: str, kind: str) -> Html:
    """The plot ends at ``right`` and ``bottom``; names stand beside it on a wide page, below it on a narrow one."""
    broad, shown = kind == "broad", [spot for spot in spots if spot.named]
    below = sum(spot.room for spot in shown)
    bottom = max(bottom, TOP + ceil(below) + 10) if broad else bottom
    across, along = (
        [spot.x for spot in spots],
        [v for spot in spots for v in (spot.aua.mean, *(spot.aua.interval or ()))],
    )
    pad = max(0.12, WIDEST / (right - LEFT - 2 * WIDEST)) * (max(across) - min(across)) or 1.0
    low, high = around(along, max(2.0, 0.08 * (max(along) - min(along))))
    x = Scale(low=max(0.0, min(across) - pad), high=max(across) + pad, start=LEFT, end=right)
    y = Scale(low=low, high=high, start=bottom, end=TOP)
    parts = [label(0, 18, "accuracy under attack, %", kind="axis")]
    parts.append(tag("rect", x=LEFT, y=TOP, width=right - LEFT, height=bottom - TOP, class_="plot"))
    for t in x.ticks(5):
        parts += [
            line(x(t), TOP, x(t), bottom, "grid"),
            label(x(t), bottom + 18, f"{t:,.6g}".replace(",", "\u202f"), "middle", "tick"),
        ]
    for t in y.ticks(6):
        parts += [line(LEFT, y(t), right, y(t), "grid"), label(LEFT - 9, y(t) + 4, f"{t:g}", "end", "tick")]
    parts.append(label((LEFT + right) / 2, bottom + 38, what, "middle", "axis"))
    if best := [spot for spot in spots if spot.best]:
        parts.append(tag("path", d=_steps(best, x, y), class_="curve edge"))
    rooms = [spot.room for spot in shown]
    lowest = bottom - 4 - max(0.0, (rooms[-1] - APART) / 2) if broad else bottom + BELOW + 14 + below
    wanted = [
        y(spot.aua.mean) if broad else bottom + BELOW + 16 + sum(rooms[:k]) + (rooms[k] - APART) / 2
        for k, spot in enumerate(shown)
    ]
    heights = dict(zip((spot.index for spot in shown), places(wanted, TOP + 8, lowest, rooms), strict=True))
    groups = bunches({spot.index: x(spot.x) for spot in shown})
    beside = {index: at for group in groups for index, at in group.places.items()}
    parts += brackets(groups, bottom)
    for spot in sorted(spots, key=lambda spot: spot.named):  # names lie above
        px = beside[spot.index] if spot.named else x(spot.x)
        parts.append(
            _spot(
                spot, px, y, heights[spot.index] if spot.named else None, right + 26.0 if broad else 14.0, broad=broad
            )
        )
    return svg(width, bottom + BELOW + (0 if broad else 14 + below), parts, alt=alt, kind=kind)


def _spot(spot: Spot, px: float, y: Scale, height: float | None, start: float, *, broad: bool) -> Html:
    py = y(spot.aua.mean)
    if height is None:
        return group(tag("circle", cx=px, cy=py, r=3, class_="faint"), title=spot.said)
    drawn = []
    if spot.aua.interval:
        low, high = (min(max(end, y.low), y.high) for end in spot.aua.interval)
        drawn.append(line(px, y(low), px, y(high), f"bar {colour(spot.index)}"))
    if broad:
        drawn.append(line(px + 9, py, start - 10, height, "leader"))
    drawn += [marker(px, py, spot.index, 6.5), marker(start, height, spot.index, 5)]
    up = 4.5 - LEADING * (len(spot.lines) - 1) / 2
    names = [label(start + 13, height + up + LEADING * k, words, kind="name") for k, words in enumerate(spot.lines)]
    return group(*drawn, *names, kind="few" if spot.few else "", title=spot.said)


def _steps(best: Sequence[Spot], x: Scale, y: Scale) -> str:
    """What is to be had at most for a given cost: level from an arm to the next dearer one."""
    ranked = sorted(best, key=lambda spot: spot.x)
    path = f"M{x(ranked[0].x):.1f} {y(ranked[0].aua.mean):.1f}"
    path += "".join(f"H{x(spot.x):.1f}V{y(spot.aua.mean):.1f}" for spot in ranked[1:])
    return f"{path}H{x.end:.1f}"


def _table(spots: Sequence[Spot], what: str) -> Table:
    ranked = sorted(spots, key=lambda spot: -spot.aua.mean)
    rows = []
    for spot in ranked:
        span = f"{spot.aua.interval[0]:.1f} to {spot.aua.interval[1]:.1f}" if spot.aua.interval else "–"
        best = "yes" if spot.best else "too few runs" if spot.few else "no"
        rows.append((spot.title, f"{spot.x:.1f}", f"{spot.aua.mean:.1f}", span, str(len(spot.aua.values)), best))
    return Table(head=("Arm", what, "Under attack, %", "95 % interval", "Runs", "On the frontier"), rows=tuple(rows))
