"""Figures of searches from their outcomes: what survives in each layer, and the distances of masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from math import fsum
from statistics import fmean

import numpy as np
from markupsafe import Markup

from robust_tickets.errors import TicketsError
from robust_tickets.report import charts
from robust_tickets.report.figures import PARTS, maps
from robust_tickets.report.run_data import Distances, by_layer, distances_of, finite
from robust_tickets.report.tables import Table, plain_table
from robust_tickets.reproduce.aggregate import HINT, place
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

    @property
    def form(self) -> tuple[list[str], set[int], list[int]]:
        """Parts, layers and heads of each layer: equal for tickets of one model."""
        return list(self.parts), set(map(len, self.parts.values())), list(map(len, self.heads))


@contextmanager
def _from(outcome: Outcome, what: str) -> Iterator[None]:
    """Refuse a malformed value, which no run writes."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
        message = f"{outcome.unit.id}: its {what} cannot be read ({problem})"
        raise TicketsError(message, hint=HINT, code="result.traces") from None


def distances(outcome: Outcome) -> Distances | None:
    """The mask distances that the search recorded, if any; with where its rule would have stopped one that continued."""
    given = outcome.traces.get("distances")
    if not given:
        return None
    with _from(outcome, "mask distances"):
        found = distances_of(given)
        if found.rule != "fixed" or not found.groups:
            return found
        far = np.maximum.reduce([np.array(rows) for rows in found.groups.values()])
        gamma, window = float(given["gamma"]), int(given["window"])
        stops = (i for i in range(len(far)) if paper(far[: i + 1, : i + 1], gamma, window) is not None)
        return replace(found, rule_at=next(stops, None))


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
    kept, found = outcome.ticket or {}, None
    with _from(outcome, "ticket"):
        counted = "by_head" in kept and not matrices
        if counted or "heads" in kept:
            rows = kept["by_head"] if counted else [[(int(one), 1) for one in row] for row in kept["heads"]]
            heads = tuple(tuple(map(_share, row)) for row in rows)
            others = {"MLPs": kept["by_mlp"]} if counted else {"neurons": kept["neurons"]}
            parts = {
                "heads": tuple(map(fmean, heads)),
                **{name: tuple(map(_share, own)) for name, own in others.items()},
            }
            found = Survivors(parts=parts, heads=heads)
        elif "weights" in kept:
            counts = [(name, kept, of) for name, (kept, of) in kept["weights"].items()]
            layers = by_layer(outcome.unit.backbone.partition("-")[0], counts)  # matrices added up by layer and part
            found = Survivors(
                parts={title: tuple(_share(layer[part]) for layer in layers) for part, title in PARTS.items()}
            )
        if found and (len(found.form[1]) > 1 or len(set(found.form[2])) > 1):
            raise ValueError("layers differ in number or in heads")
    return found


def _share(count: Sequence[int]) -> float:
    kept, of = count
    return kept / max(1, of)


def survivors_by_layer(outcomes: Sequence[Outcome], title: str) -> Panel:
    """Every head as a square, every other part as a bar, over all searches; layer 1 is at the bottom."""
    matrices = not by_head(outcomes)
    found = {
        one.unit.id: kept for one in outcomes if one.unit.repeat == 0 and (kept := survivors(one, matrices=matrices))
    }
    if not found:
        return Panel(title=title, why=f"{title}: the runs there are have no ticket.")
    sources, shapes = tuple(found), list(found.values())
    if any(kept.form != shapes[0].form for kept in shapes):
        message = f"the tickets of {', '.join(sources)} are not of one model"
        raise TicketsError(message, hint=HINT, code="result.tickets")
    squares, parts = bool(shapes[0].heads), list(shapes[0].parts)
    layers, table = [], []
    for layer in range(len(shapes[0].parts[parts[0]])):
        shares = {name: [shape.parts[name][layer] for shape in shapes] for name in parts}
        bars = [own for name, own in shares.items() if not (squares and name == "heads")]
        heads = zip(*(shape.heads[layer] for shape in shapes), strict=True) if squares else ()
        words = ", ".join(f"{mean_percent(own, 0)} % of {name}" for name, own in shares.items())
        layers.append(
            charts.Layer(index=0,
                title=str(layer + 1), summary=f"layer {layer + 1}: {words}", shares=[fmean(own) for own in bars],
                reach=[(min(own), max(own)) for own in bars], squares=[sum(head) / len(shapes) for head in heads],
            )
        )  # fmt: skip
        table.append((str(layer + 1), *(cell for own in shares.values() for cell in (mean_percent(own), _ends(own)))))
    searches = f"{len(shapes)} search{'es' * (len(shapes) > 1)}"
    names = ["heads", *(name for name in parts if name != "heads")] if squares else parts
    drawing = charts.bars(f"{title}, {searches}", names, layers)
    columns = [words for name in parts for words in (f"{name}, mean %", f"{name}, lowest to highest %")]
    name = f"{title}: share that survives, {searches}"
    return Panel(title=name, svg=drawing, table=plain_table(name, ("Layer", *columns), table), sources=sources)


def _ends(shares: Sequence[float]) -> str:
    return f"{100 * min(shares):.1f} to {100 * max(shares):.1f}"


def mean_percent(shares: Sequence[float], digits: int = 1) -> str:
    """The mean of shares, by fsum: the same bits in every Python."""
    return f"{100 * fsum(shares) / len(shares):.{digits}f}"


def by_chance(first: float, second: float) -> float:
    """The expected distance of two random masks that keep these shares."""
    return first * (1 - second) + second * (1 - first)


def agreement(shapes: Sequence[Survivors]) -> str:
    """How far searches agree on whole heads, beside random tickets; empty without whole heads or with one search."""
    heads = [[head for layer in shape.heads for head in layer] for shape in shapes]
    if len(heads) < 2 or not heads[0] or any(share not in (0, 1) for mask in heads for share in mask):
        return ""
    votes, pairs = [sum(kept) for kept in zip(*heads, strict=True)], list(combinations(heads, 2))
    apart = [sum(a != b for a, b in zip(one, other, strict=True)) / len(votes) for one, other in pairs]
    random = [by_chance(fmean(one), fmean(other)) for one, other in pairs]
    return (
        f"Of {len(votes)} heads {votes.count(len(heads))} survive in every search and {votes.count(0)} in none; two searches differ on "
        f"{mean_percent(apart)} % of them ({_ends(apart)}), two random tickets of their size on {mean_percent(random)} %."
    )


def layers_caption(own: Sequence[Outcome], words: Mapping[str, str]) -> str:
    """How to read a figure of survivors, and how far searches of one task agree on heads."""
    if not any("heads" in (one.ticket or {}) for one in own):
        return f"{words['layers']} {words['weights']}" if own and by_head(own) else words["layers"]
    sentences = [words["layers"], words["heads"]]
    for pair in dict.fromkeys((one.unit.task, one.unit.backbone) for one in own):
        here = [one for one in own if (one.unit.task, one.unit.backbone) == pair and not one.unit.repeat]
        found = agreement([kept for one in here if (kept := survivors(one)) is not None])
        sentences += [f"{place(*pair)}: {found}"] if found else []
    return " ".join(sentences)


def distance_maps(outcomes: Sequence[Outcome], where: str) -> list[Panel]:
    """A map for heads and one for neurons, of the first seed's search; the table has every seed's."""
    found = [(one, trace) for one in outcomes if one.unit.repeat == 0 and (trace := distances(one)) is not None]
    if not found:
        return [Panel(title=where, why=f"{where}: the runs there are kept no mask distances.")]
    first, trace = found[0]
    title, panels = f"{where}, seed {first.unit.seed}", []
    for group, drawing in maps(trace, title).items():
        own = [(one, other) for one, other in found if group in other.groups]
        table = _neighbours(f"{title}: {group}", own, group)
        sources = tuple(one.unit.id for one, _ in own)
        panels.append(Panel(title=table.caption, svg=drawing, table=table, sources=sources))
    return panels


def _neighbours(title: str, found: Sequence[tuple[Outcome, Distances]], group: str) -> Table:
    """Distances of neighbouring points, which the stopping rule reads, and from its point to the end of the search."""
    rows, fixed = [], any(trace.rule == "fixed" for _, trace in found)
    for one, trace in found:
        steps, at = trace.groups[group], trace.rule_at if trace.rule == "fixed" else trace.drawn_at
        drawn = "–" if at is None else f"{trace.points[at]:.2f}"
        near = " ".join(f"{100 * steps[i][i + 1]:.1f}" for i in range(len(steps) - 1))
        rule = trace.rule_at
        after = "–" if rule is None or rule == len(trace.points) - 1 else f"{100 * steps[rule][-1]:.1f}"
        largest = f"{100 * max(map(max, steps)):.1f}"
        rows.append((f"seed {one.unit.seed}", drawn, *([after] if fixed else []), largest, near))
    at_heads = ("Rule stops at epoch", "From there to the end, %") if fixed else ("Drawn at epoch",)
    return plain_table(title, ("Search", *at_heads, "Largest distance, %", "From each point to the next, %"), rows)
