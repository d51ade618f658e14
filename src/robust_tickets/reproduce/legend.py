"""What is to be said beside a filled table: which further runs of ours the published numbers are held against, and its intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from robust_tickets.reproduce.claims import told
from robust_tickets.reproduce.fill import Filled, FilledCell
from robust_tickets.reproduce.published import PERCENT
from robust_tickets.reproduce.wording import MEASURES, listed
from robust_tickets.stats.runs import FEWEST_SHOWN
from robust_tickets.stats.student import Interval


def legend(filled: Filled) -> str:
    """How to read the numbers."""
    said = "ours: mean over training runs and its 95 % interval on these examples."
    if filled.printed:
        said += f" prediction: where {expected(filled)} would lie, at 95 %."
        said += " inside: whether the published number does, said with five runs or more."
    if any(map(scattered, filled.ran)):
        said += f" “yes, of 30”: of an interval that is 30 points wide, said of more than {_most():g}: that may be scatter, no agreement."
    cut = any(shown(cell, ends) != ends for cell in filled.ran for ends in intervals(cell) if ends)
    return said + (" Intervals are shown cut at 0, and at 100 %: the CSV and the JSON have them whole." if cut else "")


def intervals(cell: FilledCell) -> tuple[Interval | None, Interval | None]:
    """Of the mean, and where the published number is to lie; ``None`` where there is none that tells something."""
    ours = cell.ours
    if ours is None:
        return None, None
    return ours.shown, ours.prediction if ours.n >= FEWEST_SHOWN and cell.published is not None else None


def shown(cell: FilledCell, ends: Interval) -> Interval:
    """An interval as far as the measure goes: none is below 0, and a percentage not above 100."""
    most = 100.0 if cell.metric in PERCENT else math.inf
    low, high = (min(max(end, 0.0), most) for end in ends)
    return low, high


def broad(ends: Interval) -> float | None:
    """Points from end to end, where that is more than what a claim calls equivalent, to both sides."""
    return ends[1] - ends[0] if ends[1] - ends[0] > _most() else None


def scattered(cell: FilledCell) -> float | None:
    """How wide the interval is that a published percentage lies inside of, as it is shown, where so wide a one says little."""
    if not cell.inside or cell.metric not in PERCENT or cell.ours is None or cell.ours.prediction is None:
        return None
    return broad(shown(cell, cell.ours.prediction))


def of_them_scattered(cells: Sequence[FilledCell]) -> str:
    """What is to be added to how many lie inside."""
    wide = sum(scattered(cell) is not None for cell in cells)
    return f", {wide} of them of an interval wider than {_most():g} points" if wide else ""


def _most() -> float:
    return 2 * float(told()["margin"])


def further(runs: int) -> str:
    """What is held against a number that is the mean of so many runs."""
    return "one further run" if runs == 1 else f"the mean of {runs} further runs"


def expected(filled: Filled) -> str:
    """The same for a table: where the paper says of some of its numbers only that they are means, of which."""
    groups: dict[int, list[FilledCell]] = {}
    for cell in filled.ran:
        if cell.ours and cell.published is not None:
            groups.setdefault(cell.ours.further, []).append(cell)
    if len(groups) == 1 and 1 not in groups:
        (runs,) = groups
        return f"{further(runs)} of ours (the paper's numbers are means of {runs})"
    means = [
        f"{further(runs)} for {_about(found, filled)} (a mean of {runs} in the paper)"
        for runs, found in groups.items()
        if runs > 1
    ]
    return " or ".join(["one further run of ours", *means] if 1 in groups or not groups else means)


def _about(found: Sequence[FilledCell], filled: Filled) -> str:
    """The measures that these cells have to themselves, or else their rows."""
    others = {cell.metric for cell in filled.ran if cell not in found}
    metrics = {cell.metric for cell in found}
    names = (
        [MEASURES[name] for name in MEASURES if name in metrics]
        if not metrics & others
        else [cell.row for cell in found]
    )
    return listed(list(dict.fromkeys(names)))
