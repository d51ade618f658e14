"""The same numbers for a terminal, whole at any width: tables where they fit, else a number a line; and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from robust_tickets.attack.examples import how, short_of
from robust_tickets.attack.result import AttackResult
from robust_tickets.progress import clean
from robust_tickets.report import format as numbers
from robust_tickets.report.run_data import Attack, Run
from robust_tickets.report.tables import (
    COLUMNS,
    MEASURED,
    Row,
    Table,
    arms_table,
    attack_cells,
    plain,
    rich_table,
    to_terminal,
    wrapped,
)
from robust_tickets.report.verdict import contest, verdict, warnings

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table as RichTable


class Summary:
    """What rich prints of a run: the arms, each attack on them, the verdicts and the warnings."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        def line(words: str, style: str = "") -> RenderableType:
            return Text(wrapped(words, options.max_width), style=style)

        run = self.run
        yield line(run.title, "bold")
        for attack, title in run.attack_titles.items():
            found = next(f for arm in run.arms if (f := arm.attack(attack)) is not None)
            yield line(f"\n{title}: {found.n} texts of {found.split or 'the split'}, 95 % intervals")
            table = arms_table(run, attack).only("clean_attacked", "aua", "suc", "perturbed", "queries", "p")
            yield to_terminal(table, console, options)
            if run.base is not None and len(run.arms) > 1:
                yield line(f"p: exact paired test against {run.base.title}; below it, adjusted for all pairs")
        yield line("\nThe models")
        yield to_terminal(arms_table(run, None).only("clean", "parameters", "flops", "seconds"), console, options)
        if any(arm.branch for arm in run.arms):
            yield line("\nWhere the tickets come from")
            for arm in run.arms:
                yield line(f"{arm.title}: {arm.story or 'the whole model'}")
        for attack in run.attack_titles:
            yield line(f"\n{verdict(run, attack).headline}", "bold")
        for words in warnings(run):
            yield line(f"note: {words}")


def figures(run: Run) -> list[dict[str, object]]:
    """The run's numbers as JSON: an entry an arm, in it one an attack, with its flags."""
    attacks = {key: _attack_figures(run, key) for key in run.attack_titles}
    return [
        {
            "name": arm.name,
            "title": arm.title,
            "baseline": arm is run.base,
            "clean": arm.clean,
            "clean_interval": list(arm.evaluation.interval or ()) or None if arm.evaluation else None,
            "attacks": {key: found[i] for key, found in attacks.items()},
            "cost": dict(arm.cost),
            "story": arm.story,
            "branch": dict(arm.branch),
            "near_random": arm.near_random,
        }
        for i, arm in enumerate(run.arms)
    ]


def _attack_figures(run: Run, key: str) -> list[dict[str, object] | None]:
    """One attack on every arm; p and the difference are against the baseline."""
    tests, headline = contest(run, key), plain(verdict(run, key).headline)
    rows: list[dict[str, object] | None] = []
    for arm in run.arms:
        found, pair = arm.attack(key), tests.get((arm.name, run.baseline))
        if found is None:
            rows.append(None)
            continue
        wanted = ("clean", "aua", "suc", "queries", "perturbed", "similarity", "n", "errors")
        rows.append(
            {name: getattr(found, name) for name in wanted}
            | {"title": run.attack_titles[key], "split": found.split, "flags": list(found.flags), "headline": headline}
            | {"intervals": {name: list(ends) for name, ends in found.intervals.items() if name != "aua_upper"}}
            | {"p": pair.p if pair else None, "p_adjusted": pair.adjusted if pair else None}
            | {"difference": pair.difference if pair else None}
            | {"difference_interval": list(pair.interval) if pair else None}
        )
    return rows


def attack_table(result: AttackResult) -> RichTable:
    """One attack."""
    from rich.text import Text

    found, task = Attack(**{f.name: getattr(result, f.name) for f in fields(result)}), result.task
    columns = tuple(column for column in COLUMNS if column.key in MEASURED)
    row = Row(name=found.attack, cells=attack_cells(found))
    table = rich_table(Table(caption="", label="", first="attack", columns=columns, rows=(row,)), [row.name])
    table.columns[0].no_wrap = False  # a long name is folded, numbers never are
    many = [
        numbers.plural(len(found.ids), "example"),
        f"{found.attacked} of them attacked",
        f"{found.errors} failed" if found.errors else "",
        how(found.subset, found.seed, task["labels"], task["by_class"], task["rows"]),
        short_of(task.get("asked"), len(found.ids)),
    ]
    table.title, table.title_justify = Text(clean("\n".join([*found.before, ", ".join(filter(None, many))]))), "left"
    if flags := "; ".join(flag for flag in found.flags if flag not in found.before):
        table.caption, table.caption_justify = Text(clean(f"flags: {flags}")), "left"
    return table
