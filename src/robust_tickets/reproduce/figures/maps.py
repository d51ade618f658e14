"""Mask distances of a search (ER-F2): how much the tickets drawn at any two of its points differ."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from robust_tickets.report.figures import maps, stopped
from robust_tickets.report.run_data import Distances
from robust_tickets.reproduce.arms import task_title
from robust_tickets.reproduce.figures.agreement import by_chance, mean_percent
from robust_tickets.reproduce.figures.drawn import Panel, Table
from robust_tickets.reproduce.figures.traces import distances, survivors
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.wording import listed


def distance_maps(outcomes: Sequence[Outcome], task: str) -> list[Panel]:
    """A map for heads and one for neurons, of the first seed's search; the table has every seed's."""
    found = [(one, trace) for one in outcomes if one.unit.repeat == 0 and (trace := distances(one)) is not None]
    if not found:
        return [Panel(title=task_title(task), why=f"{task_title(task)}: the runs there are kept no mask distances.")]
    first, trace = found[0]
    title = f"{task_title(task)}, seed {first.unit.seed}"
    panels = []
    for group, drawing in maps(trace, title, heading=title).items():
        own = [(one, other) for one, other in found if group in other.groups]
        sources = tuple(one.unit.id for one, _ in own)
        panels.append(Panel(title=f"{title}: {group}", svg=drawing, table=_table(own, group), sources=sources))
    return panels


def where_stopped(outcomes: Sequence[Outcome]) -> str:
    """For every task, where the search that is shown stopped, or its rule would have; and at which epochs the other seeds' did."""
    said = []
    for task in dict.fromkeys(one.unit.task for one in outcomes):
        own = [one for one in outcomes if one.unit.task == task and one.unit.repeat == 0]
        traced = [(one, trace) for one in own if (trace := distances(one)) is not None]
        found = [trace for _, trace in traced]
        on = any(trace.rule == "fixed" for trace in found)  # searches that their rule does not stop
        ends = sorted(trace.points[place] for trace in found if (place := _marked(trace)) is not None)
        if found:
            never = " The paper's rule would not have stopped it by then." if on and found[0].settled_at is None else ""
            said.append(f"{task_title(task)}:{stopped(found[0])}{never}")
        if len(ends) > 1:
            spread = (
                f"between the epochs {ends[0]:.2f} and {ends[-1]:.2f}"
                if ends[0] < ends[-1]
                else f"at epoch {ends[0]:.2f} each time"
            )
            what = (
                f"Of {len(found)} seeds the rule would have stopped {len(ends)},"
                if on
                else f"Over {len(ends)} seeds it was drawn"
            )
            said.append(f"{what} {spread}.")
        said += _afterwards([(one, trace) for one, trace in traced if _went_on(trace)])
    return " ".join(said)


def _afterwards(found: Sequence[tuple[Outcome, Distances]]) -> list[str]:
    """How far the masks of searches that went on moved after the rule's point: what the rule is trusted not to miss."""
    parts, lots = [], []
    for group in dict.fromkeys(group for _, trace in found for group in trace.groups):
        moved = [rest for _, trace in found if (rest := _to_the_end(trace, group)) is not None]
        span = f"{100 * min(moved):.1f}" + (f" to {100 * max(moved):.1f}" if len(moved) > 1 else "")
        kept = [fmean(shape.parts[group]) for one, _ in found if (shape := survivors(one)) and group in shape.parts]
        parts.append(f"{span} % of the {group}")
        lots += [mean_percent([by_chance(share, share) for share in kept])] if kept else []
    random = f"; two random tickets of that size differ on {listed(lots)} %" if len(lots) == len(parts) else ""
    return [f"From there to the end of the search the ticket changes by {listed(parts)}{random}."] if parts else []


def _to_the_end(trace: Distances, group: str) -> float | None:
    """From where the rule would have stopped a search that went on to its last point."""
    rows, settled = trace.groups.get(group), trace.settled_at
    return None if rows is None or settled is None or not _went_on(trace) else rows[settled][-1]


def _went_on(trace: Distances) -> bool:
    """Past the point where the rule would have stopped it: at its last point there is no afterwards."""
    return trace.settled_at is not None and trace.settled_at < len(trace.points) - 1


def _marked(trace: Distances) -> int | None:
    """The point that the rule names: where it drew the ticket, or would have stopped a search that went on."""
    return trace.settled_at if trace.rule == "fixed" else trace.drawn_at


def _table(found: Sequence[tuple[Outcome, Distances]], group: str) -> Table:
    """Neighbours' distances: what the rule that stops a search looks at."""
    rows, on = [], any(trace.rule == "fixed" for _, trace in found)
    for one, trace in found:
        steps = trace.groups[group]
        marked = _marked(trace)
        drawn = f"{trace.points[marked]:.2f}" if marked is not None else "–"
        near = " ".join(f"{100 * steps[i][i + 1]:.1f}" for i in range(len(steps) - 1))
        rest = _to_the_end(trace, group)
        after = [f"{100 * rest:.1f}" if rest is not None else "–"] if on else []
        rows.append((f"seed {one.unit.seed}", drawn, *after, f"{100 * max(map(max, steps)):.1f}", near))
    place = ("Rule stops at epoch", "From there to the end, %") if on else ("Drawn at epoch",)
    return Table(head=("Search", *place, "Largest distance, %", "From each point to the next, %"), rows=tuple(rows))
