"""Tables, claims and figures made of the committed results give the numbers that they gave when `tables.json` was written.

`python tests/oracles/test_tables.py` writes it again. Each of the functions below is the one place that knows where something lives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
FROZEN = HERE / "tables.json"
NUMBER = re.compile(r"[+\u2212]?\d+(?:\.\d+)?")


@cache
def outcomes() -> tuple[Any, ...]:
    from robust_tickets.reproduce.outcome import read_all

    return read_all(RESULTS)


def tables() -> dict[str, Any]:
    """By table and by row: every cell, its published number, ours, and why there is none."""
    from robust_tickets.reproduce.published import tables as published
    from robust_tickets.reproduce.tables import fill

    found: dict[str, Any] = {}
    for table in published():
        rows = found[table.id] = {}
        filled = fill(table.id, outcomes(), RESULTS)
        for cell in filled.cells:
            row = " / ".join([cell.task, cell.backbone, cell.row, cell.arm or "no arm", *["beside"] * cell.beside])
            rows.setdefault(row, []).append(_cell(cell))
        rows["counts"] = filled.counts()
    return found


def _cell(cell: Any) -> list[Any]:
    head = [cell.metric, cell.attack, cell.by, _round(cell.x), _round(cell.published)]
    if cell.ours is None:
        return [*head, _code(cell.why)]
    ours = cell.ours
    numbers = [ours.n, ours.mean, ours.interval, ours.prediction, cell.difference, cell.inside]
    return [
        *head,
        *map(_round, numbers),
        cell.reading.split,
        len(cell.reading.units),
        len(cell.reading.notes),
        len(cell.reading.substituted),
    ]


def _code(why: str) -> str:
    """A kind of reason, however it is worded."""
    for words, code in {
        "not attacked": "not attacked",
        "timed": "not timed",
        "no arm": "no arm",
        "not run": "not run",
    }.items():
        if words in why:
            return code
    raise AssertionError(f"no code for {why!r}")


def claims() -> dict[str, Any]:
    """By family: every claim with its verdict, its numbers, and whether its arms are known."""
    from robust_tickets.reproduce.claims import judge, names

    found: dict[str, Any] = {}
    for family in names():
        lines = found[family] = {}
        for one in judge(family, outcomes(), RESULTS):
            claim, c = one.claim, one.comparison
            key = " / ".join([claim.task, claim.backbone, f"{claim.arm} - {claim.other}", claim.attack])
            numbers = [c.n, c.difference, c.interval, c.over_examples, c.p, c.adjusted_p, c.equivalence_p] if c else []
            numbers += [c.adjusted_equivalence_p, c.permutation_p, c.of, c.margin] if c else []
            lines[key] = [one.verdict, *map(_round, numbers)]
    return found


def figures() -> dict[str, Any]:
    """By figure and panel: the numbers that are drawn and of how many runs; of an undrawn panel nothing."""
    from robust_tickets.reproduce.figures import figure, lengths, pareto
    from robust_tickets.reproduce.published import tables as published

    found = {one.id: figure(one.id, outcomes()) for one in published() if one.kind == "figure"}
    found["Lengths"] = lengths(outcomes())
    found["Pareto"] = pareto(outcomes(), task="sst2", attack="textfooler-real")
    return {id: {f"panel {i}": _numbers(panel) for i, panel in enumerate(drawn.panels)} for id, drawn in found.items()}


def _numbers(panel: Any) -> list[Any]:
    """How many runs are drawn, and the rows behind them without their names."""
    rows = panel.table.rows if panel.table else ()
    named = [([row.name] if row.name.isdecimal() else [], [cell.text for cell in row.cells]) for row in rows]
    return [len(panel.sources), *([*first, *rest] for first, rest in named)]


def arms() -> dict[str, Any]:
    """By arm: what the leaderboard shows, and how far runs of one seed lie apart."""
    from robust_tickets.reproduce.aggregate import attacks_on, standings
    from robust_tickets.reproduce.claims import spreads

    found: dict[str, Any] = {}
    every = standings(outcomes())
    for one in every:
        values = {name: one.read(name) for name in ("clean", "encoder_millions", "total_millions", "seconds", "work")}
        values |= {f"aua {by.name} {by.split}".strip(): one.read("aua", by) for by in one.attacks}
        values["flops"] = one.read("flops")
        found[f"{one.task} / {one.backbone} / {one.arm}"] = {
            "runs": [one.units, one.repeated],
            **{
                name: _round([len(value.units), value.mean, value.summary.interval])
                for name, value in values.items()
                if value.units
            },
        }
    for attack in attacks_on(every):
        for spread in spreads(outcomes(), task="sst2", attack=attack.name, split=attack.split or None):
            found[f"seeds / {spread.name} / {attack.name} {attack.split}".strip()] = _round(
                [spread.seeds, spread.between_range, spread.between, spread.repeated, spread.within_range]
            )
    return found


def goals() -> dict[str, Any]:
    """By goal: whether it is reached, and the numbers that say so, in their order."""
    from robust_tickets.reproduce.claims import goals as of

    return {one.name: [one.reached, one.few, *NUMBER.findall(one.words)] for one in of(outcomes(), RESULTS)}


def printed() -> dict[str, Any]:
    """By claim of the campaigns: the difference that a paper prints, and where ours would put it."""
    from robust_tickets.reproduce.claims import judge
    from robust_tickets.reproduce.claims import printed as of

    found = {}
    for family in ("A", "C", "C-methods", "B-validation"):
        for one in judge(family, outcomes(), RESULTS):
            if one.comparison and (known := of(one.claim, outcomes())):
                key = f"{one.claim.arm} - {one.claim.other} / {one.claim.attack}"
                found[key] = _round([known.table, known.difference, known.runs, known.prediction, known.inside])
    return found


PARTS = {one.__name__: one for one in (tables, claims, figures, arms, goals, printed)}


def _round(value: Any) -> Any:
    """As JSON reads it again; the last digits of a mean may differ from one computer to another."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_round(one) for one in value]
    return round(value, 6) if isinstance(value, float) else value


@pytest.mark.parametrize("part", PARTS)
def test_the_committed_results_give_the_frozen_numbers(part: str) -> None:
    frozen = json.loads(FROZEN.read_text("utf-8"))[part]
    made = json.loads(json.dumps(PARTS[part]()))
    assert list(made) == list(frozen)
    for name, values in frozen.items():
        assert made[name] == values, name


def _write() -> None:
    """A row a line, so that a difference can be read."""
    lines = []
    for part, make in PARTS.items():
        inner = []
        for name, values in make().items():
            if part in ("tables", "claims", "figures"):
                rows = ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
                inner.append(f"  {json.dumps(name)}: {{\n{rows}\n  }}")
            else:
                inner.append(f"  {json.dumps(name)}: {json.dumps(values)}")
        lines.append(f" {json.dumps(part)}: {{\n" + ",\n".join(inner) + "\n }")
    FROZEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    _write()
