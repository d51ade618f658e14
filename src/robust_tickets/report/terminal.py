"""The same numbers for a terminal: one table per attack, nothing interpreted as markup or as an escape sequence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.report import numbers
from robust_tickets.report.compare import compare
from robust_tickets.report.markup import clean
from robust_tickets.report.model import Arm, Run
from robust_tickets.report.read import read_run
from robust_tickets.report.verdict import attack_title, total_seconds, verdicts

if TYPE_CHECKING:
    from rich.table import Table


def summary(folder: str | Path) -> Table:
    """The table of a run folder, as something rich prints; several attacks follow one another."""
    from rich.table import Table
    from rich.text import Text

    run = read_run(folder)
    several = len(run.attack_names) > 1
    table = Table(
        title=Text(clean(run.title)),
        caption=Text(clean(" ".join(v.headline for v in verdicts(run)))),
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("arm", no_wrap=False)
    for name in ("clean", "under attack", "attack wins", "queries", "words changed", "parameters", "FLOPs", "time", "p"):
        table.add_column(name, justify="right")
    for attack in run.attack_names or (None,):
        for arm in run.arms:
            title = f"{arm.title} · {attack_title(attack)}" if several and attack else arm.title
            table.add_row(Text(clean(title)), *(Text(cell) for cell in _cells(run, arm, attack)))
    return table


def _cells(run: Run, arm: Arm, attack: str | None) -> list[str]:
    found = arm.attack(attack) if attack else None
    base = run.base
    is_base = base is not None and base.name == arm.name
    pair = compare(arm, base, attack) if base is not None and attack and not is_base else None
    across = arm.evaluation.interval if arm.evaluation else None
    along = found.intervals.get("aua") if found else None
    return [
        numbers.percent(arm.clean) + (f"\n{numbers.span(across)}" if across else ""),
        numbers.percent(found.aua if found else None) + (f"\n{numbers.span(along)}" if along else ""),
        numbers.percent(found.suc if found else None),
        numbers.count(found.queries if found else None, 1),
        numbers.percent(found.perturbed if found else None),
        numbers.amount(arm.cost.get("parameters")),
        numbers.amount(arm.cost.get("flops_per_example")),
        numbers.seconds(total_seconds(arm)),
        "baseline" if is_base else numbers.p_value(pair.p if pair else None),
    ]


def figures(folder: str | Path) -> list[dict[str, object]]:
    """The run's numbers as JSON: one entry an arm."""
    run = read_run(folder)
    return [
        {
            "name": arm.name,
            "title": arm.title,
            "clean": arm.clean,
            "attacks": {name: _attack_figures(arm, name) for name in run.attack_names},
            "cost": dict(arm.cost),
        }
        for arm in run.arms
    ]


def _attack_figures(arm: Arm, name: str) -> dict[str, object] | None:
    found = arm.attack(name)
    if found is None:
        return None
    intervals = {key: list(value) for key, value in found.intervals.items()}
    return {"aua": found.aua, "suc": found.suc, "queries": found.queries, "n": found.n, "intervals": intervals}


def attack_table(result: Mapping[str, Any]) -> Table:
    """One attack's result.json."""
    from rich.table import Table
    from rich.text import Text

    flags = "; ".join(str(flag) for flag in result["flags"])
    table = Table(title=Text(clean(f"{result['attack']} on {result['n']} examples, seed {result['seed']}")), title_justify="left")
    if flags:
        table.caption, table.caption_justify = Text(clean(f"flags: {flags}")), "left"
    for name in ("clean", "under attack", "attack wins", "queries"):
        table.add_column(name, justify="right")
    shown = []
    for name in ("clean", "aua", "suc"):
        interval = result["intervals"].get(name)
        shown.append(numbers.percent(result[name]) + (f"\n{numbers.span(tuple(interval))}" if interval else ""))
    table.add_row(*(Text(cell) for cell in shown), numbers.count(result["queries"], 1))
    return table
