"""Figures of searches from their outcomes: what survives in each layer, and the distances of masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import fsum
from statistics import fmean
from typing import Any

import numpy as np
from markupsafe import Markup

from robust_tickets.errors import TicketsError
from robust_tickets.report import charts
from robust_tickets.report.figures import PARTS, maps, stopped
from robust_tickets.report.format import listed
from robust_tickets.report.run_data import Distances, by_layer, distances_of, finite
from robust_tickets.report.tables import Table, plain_table
from robust_tickets.reproduce.aggregate import HINT
from robust_tickets.reproduce.arms import task_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.search.stopping import paper

NOTHING = Markup("")


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A plot with its numbers, or ``why`` there is none. ``sources``: ids of the runs it shows."""

    title: str
    svg: Markup = NOTHING
    table: Table | None = None
    why: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Survivors:
    """The kept share of each part of each layer; ``heads`` has one for every head."""

    parts: Mapping[str, tuple[float, ...]]
    heads: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if len({len(shares) for shares in self.parts.values()}) != 1 or len({len(row) for row in self.heads}) > 1:
            raise ValueError("layers differ in number or in heads")

    @property
    def depth(self) -> int:
        return len(next(iter(self.parts.values())))

    @property
    def form(self) -> tuple[int, list[str], list[int]]:
        """Layers, parts and heads of each layer: equal for tickets of one model."""
        return self.depth, list(self.parts), list(map(len, self.heads))


@contextmanager
def _from(outcome: Outcome, what: str) -> Iterator[None]:
    """Refuse a malformed value, which no run writes."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
        message = f"{outcome.unit.id}: its {what} cannot be read ({problem})"
        raise TicketsError(message, hint=HINT, code="result.traces") from None


def distances(outcome: Outcome) -> Distances | None:
    """The mask distances that the search recorded, if any."""
    given = outcome.traces.get("distances")
    if not given:
        return None
    with _from(outcome, "mask distances"):
        found = distances_of(given)
        return replace(found, rule_at=_stop(given, found)) if found.rule == "fixed" and found.groups else found


def _stop(given: Mapping[str, Any], found: Distances) -> int | None:
    """Where the paper's rule would have stopped a search that it did not stop."""
    far = np.maximum.reduce([np.array(rows) for rows in found.groups.values()])
    gamma, window = float(given["gamma"]), int(given["window"])
    return next((i for i in range(len(far)) if paper(far[: i + 1, : i + 1], gamma, window) is not None), None)


def along(outcome: Outcome, trace: str, key: str) -> tuple[tuple[float, float], ...]:
    """Epoch and value of each line of a trace that has the value."""
    with _from(outcome, trace):
        lines = outcome.traces.get(trace) or ()
        return tuple((finite(line["epoch"]), finite(line[key])) for line in lines if line.get(key) is not None)


def by_head(outcomes: Sequence[Outcome]) -> bool:
    """Whether the tickets of single weights among these were all counted by head, not by matrix alone."""
    return all("by_head" in one.ticket for one in outcomes if one.ticket and "weights" in one.ticket)


def survivors(outcome: Outcome, *, matrices: bool = False) -> Survivors | None:
    """The kept shares of its ticket, if it has one. ``matrices``: of single weights by matrix, not by head."""
    kept = outcome.ticket or {}
    with _from(outcome, "ticket"):
        if "by_head" in kept and not matrices:
            shares = tuple(tuple(map(_share, row)) for row in kept["by_head"])
            parts = {"heads": tuple(fmean(row) for row in shares), "MLPs": tuple(map(_share, kept["by_mlp"]))}
            return Survivors(parts=parts, heads=shares)
        if "heads" in kept:
            heads = tuple(tuple(map(int, row)) for row in kept["heads"])
            means = {"heads": tuple(sum(row) / max(1, len(row)) for row in heads)}
            return Survivors(parts={**means, "neurons": tuple(map(_share, kept["neurons"]))}, heads=heads)
        return Survivors(parts=_weights(kept["weights"], outcome.unit.backbone)) if "weights" in kept else None


def _share(count: Sequence[int]) -> float:
    kept, of = count
    return kept / max(1, of)


def _weights(counts: Mapping[str, Sequence[int]], backbone: str) -> dict[str, tuple[float, ...]]:
    """Matrices added up by layer and part."""
    layers = by_layer(backbone.partition("-")[0], [(name, kept, of) for name, (kept, of) in counts.items()])
    return {title: tuple(_share(layer[part]) for layer in layers) for part, title in PARTS.items()}


def survivors_by_layer(outcomes: Sequence[Outcome], title: str) -> Panel:
    """Every head as a square, every other part as a bar, over all searches; layer 1 is at the bottom."""
    matrices = not by_head(outcomes)
    found = [(one, kept) for one in outcomes if one.unit.repeat == 0 and (kept := survivors(one, matrices=matrices))]
    if not found:
        return Panel(title=title, why=f"{title}: the runs there are have no ticket.")
    shapes, sources = [kept for _, kept in found], tuple(one.unit.id for one, _ in found)
    for one, kept in found:
        if kept.form != shapes[0].form:
            raise TicketsError(
                f"the tickets of {sources[0]} and {one.unit.id} are not of one model", hint=HINT, code="result.tickets"
            )
    squares, parts = bool(shapes[0].heads), list(shapes[0].parts)
    drawn, table = [], []
    for layer in range(shapes[0].depth):
        shares = {name: [shape.parts[name][layer] for shape in shapes] for name in parts}
        bars = [own for name, own in shares.items() if not (squares and name == "heads")]
        words = [
            f"{mean_percent(own, 0)} % of {name}" + (f" ({_ends(own, 0)})" if len(own) > 1 else "")
            for name, own in shares.items()
        ]
        heads = zip(*(shape.heads[layer] for shape in shapes), strict=True) if squares else ()
        drawn.append(
            charts.Layer(
                title=str(layer + 1), summary=f"layer {layer + 1}: {', '.join(words)}", shares=[fmean(own) for own in bars],
                reach=[(min(own), max(own)) for own in bars], squares=[sum(head) / len(shapes) for head in heads],
            )
        )  # fmt: skip
        table.append(
            (str(layer + 1), *(cell for own in shares.values() for cell in (mean_percent(own), _ends(own, 1))))
        )
    searches = "1 search" if len(shapes) == 1 else f"{len(shapes)} searches"
    names = ["heads", *(name for name in parts if name != "heads")] if squares else parts
    alt = f"{title}, {searches}. " + "; ".join(one.summary for one in drawn)
    drawing = charts.bars(names, drawn, 0, alt=alt)
    columns = [words for name in parts for words in (f"{name}, mean %", f"{name}, lowest to highest %")]
    name = f"{title}: share that survives, {searches}"
    return Panel(title=name, svg=drawing, table=plain_table(name, ("Layer", *columns), table), sources=sources)


def _ends(shares: Sequence[float], digits: int) -> str:
    return f"{100 * min(shares):.{digits}f} to {100 * max(shares):.{digits}f}"


def mean_percent(shares: Sequence[float], digits: int = 1) -> str:
    """The mean of shares, by fsum: the same bits in every Python."""
    return f"{100 * fsum(shares) / len(shares):.{digits}f}"


THIRDS = ("lower", "middle", "upper")


def by_chance(first: float, second: float) -> float:
    """The expected distance of two random masks that keep these shares."""
    return first * (1 - second) + second * (1 - first)


def agreement(shapes: Sequence[Survivors]) -> str:
    """A sentence on the heads that all searches keep or remove and on thirds of the layers; empty without whole heads."""
    heads = [[head for layer in shape.heads for head in layer] for shape in shapes]
    if not heads or not heads[0] or any(share not in (0, 1) for mask in heads for share in mask):
        return ""
    sentences = []
    if len(heads) > 1:  # one search agrees with itself
        votes, pairs = [sum(kept) for kept in zip(*heads, strict=True)], list(combinations(heads, 2))
        apart = [sum(a != b for a, b in zip(one, other, strict=True)) / len(votes) for one, other in pairs]
        random = [by_chance(sum(one) / len(votes), sum(other) / len(votes)) for one, other in pairs]
        sentences.append(
            f"Of {len(votes)} heads {votes.count(len(heads))} survive in every search and {votes.count(0)} in none; two searches differ on "
            f"{mean_percent(apart)} % of them ({_ends(apart, 1)}), two random tickets of their size on {mean_percent(random)} %."
        )
    return " ".join([*sentences, *_thirds(shapes)])


def _thirds(shapes: Sequence[Survivors]) -> list[str]:
    """The share removed from each third of the layers; empty if their number is no multiple of three."""
    depth, sentences = shapes[0].depth, list[str]()
    ends = [depth * part // len(THIRDS) for part in range(len(THIRDS) + 1)]
    for name in shapes[0].parts if depth % len(THIRDS) == 0 else ():
        gone = [fsum(1 - shape.parts[name][layer] for shape in shapes) for layer in range(depth)]
        if total := fsum(gone):
            shares = [f"{100 * fsum(gone[start:end]) / total:.0f}" for start, end in pairwise(ends)]
            where = f" lie in the {listed(THIRDS)} third of the layers" if not sentences else ""
            sentences.append(f"of the {name} that are removed {listed(shares)} %{where}")
    return [f"{'; '.join(sentences).capitalize()}."] if sentences else []


def distance_maps(outcomes: Sequence[Outcome], task: str) -> list[Panel]:
    """A map for heads and one for neurons, of the first seed's search; the table has every seed's."""
    found = [(one, trace) for one in outcomes if one.unit.repeat == 0 and (trace := distances(one)) is not None]
    if not found:
        return [Panel(title=task_title(task), why=f"{task_title(task)}: the runs there are kept no mask distances.")]
    first, trace = found[0]
    title, panels = f"{task_title(task)}, seed {first.unit.seed}", []
    for group, drawing in maps(trace, title).items():
        own = [(one, other) for one, other in found if group in other.groups]
        table = _neighbours(f"{title}: {group}", own, group)
        sources = tuple(one.unit.id for one, _ in own)
        panels.append(Panel(title=table.caption, svg=drawing, table=table, sources=sources))
    return panels


def where_stopped(outcomes: Sequence[Outcome]) -> str:
    """A sentence per task: where the searches stopped, or their rule would have."""
    sentences = []
    for task in dict.fromkeys(one.unit.task for one in outcomes):
        own = [one for one in outcomes if one.unit.task == task and one.unit.repeat == 0]
        traced = [(one, trace) for one in own if (trace := distances(one)) is not None]
        found = [trace for _, trace in traced]
        fixed = any(trace.rule == "fixed" for trace in found)  # searches that their rule does not stop
        ends = sorted(trace.points[point] for trace in found if (point := _marked(trace)) is not None)
        if found:
            never = " The paper's rule would not have stopped it by then." if fixed and found[0].rule_at is None else ""
            sentences.append(f"{task_title(task)}:{stopped(found[0])}{never}")
        if len(ends) > 1:
            same = f"at epoch {ends[0]:.2f} each time"
            spread = same if ends[0] == ends[-1] else f"between the epochs {ends[0]:.2f} and {ends[-1]:.2f}"
            rule = f"Of {len(found)} seeds the rule would have stopped {len(ends)},"
            sentences.append(f"{rule if fixed else f'Over {len(ends)} seeds it was drawn'} {spread}.")
        sentences += _afterwards([(one, trace) for one, trace in traced if _before_end(trace) is not None])
    return " ".join(sentences)


def _afterwards(found: Sequence[tuple[Outcome, Distances]]) -> list[str]:
    """The change of masks after the rule's point, in searches that continued."""
    parts, lots = [], []
    for group in dict.fromkeys(group for _, trace in found for group in trace.groups):
        moved = [trace.groups[group][_before_end(trace) or 0][-1] for _, trace in found if group in trace.groups]
        kept = [fmean(shape.parts[group]) for one, _ in found if (shape := survivors(one)) and group in shape.parts]
        parts.append(f"{_ends(moved, 1) if len(moved) > 1 else f'{100 * moved[0]:.1f}'} % of the {group}")
        lots += [mean_percent([by_chance(share, share) for share in kept])] if kept else []
    random = f"; two random tickets of that size differ on {listed(lots)} %" if len(lots) == len(parts) else ""
    return [f"From there to the end of the search the ticket changes by {listed(parts)}{random}."] if parts else []


def _before_end(trace: Distances) -> int | None:
    """The rule's point in a search that continued; none if it is the last."""
    at = trace.rule_at
    return at if at is not None and at < len(trace.points) - 1 else None


def _marked(trace: Distances) -> int | None:
    """The rule's point: of the ticket, or of a search that continued where it would have stopped."""
    return trace.rule_at if trace.rule == "fixed" else trace.drawn_at


def _neighbours(title: str, found: Sequence[tuple[Outcome, Distances]], group: str) -> Table:
    """Distances of neighbouring points, which the stopping rule reads."""
    rows, fixed = [], any(trace.rule == "fixed" for _, trace in found)
    for one, trace in found:
        steps, marked, reached = trace.groups[group], _marked(trace), _before_end(trace)
        drawn = f"{trace.points[marked]:.2f}" if marked is not None else "–"
        near = " ".join(f"{100 * steps[i][i + 1]:.1f}" for i in range(len(steps) - 1))
        after = ["–" if reached is None else f"{100 * steps[reached][-1]:.1f}"] if fixed else []
        rows.append((f"seed {one.unit.seed}", drawn, *after, f"{100 * max(map(max, steps)):.1f}", near))
    at = ("Rule stops at epoch", "From there to the end, %") if fixed else ("Drawn at epoch",)
    return plain_table(title, ("Search", *at, "Largest distance, %", "From each point to the next, %"), rows)
