"""The same numbers for a terminal, whole at any width: tables where they fit, else a number a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from robust_tickets.attack.examples import how, short_of
from robust_tickets.attack.flags import FIRST
from robust_tickets.progress import clean
from robust_tickets.report import format as numbers
from robust_tickets.report.run_data import Run
from robust_tickets.report.tables import (
    Cell,
    Row,
    attacked_table,
    models_table,
    plain,
    plain_table,
    rich_table,
    to_terminal,
    wrapped,
)
from robust_tickets.report.verdict import contest, verdict, verdicts, warnings

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table as RichTable


class Summary:
    """What rich prints of a run: the arms, each attack on them, the verdicts and the warnings."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        run = self.run
        wide = options.max_width
        yield _lines(run.title, wide, "bold")
        for attack, title in run.attack_titles.items():
            found = next(f for arm in run.arms if (f := arm.attack(attack)) is not None)
            yield _lines(f"\n{title}: {found.n} texts of {found.split or 'the split'}, 95 % intervals", wide)
            yield to_terminal(attacked_table(run, attack), console, options)
            if run.base is not None and len(run.arms) > 1:
                yield _lines(
                    f"p: exact paired test against {run.base.title}, not adjusted for several comparisons", wide
                )
        yield _lines("\nThe models", wide)
        yield to_terminal(models_table(run), console, options)
        if any(arm.branch for arm in run.arms):
            yield _lines("\nWhere the tickets come from", wide)
            for arm in run.arms:
                yield _lines(f"{arm.title}: {arm.story or 'the whole model'}", wide)
        for statement in verdicts(run):
            yield _lines(f"\n{statement.headline}", wide, "bold")
        for words in warnings(run):
            yield _lines(f"note: {words}", wide)


def _lines(words: str, width: int, style: str = "") -> RenderableType:
    from rich.text import Text

    return Text(wrapped(words, width), style=style)


def figures(run: Run) -> list[dict[str, object]]:
    """The run's numbers as JSON: an entry an arm, in it one an attack, with its flags."""
    attacks = {key: _attack_figures(run, key) for key in run.attack_keys}
    return [
        {
            "name": arm.name,
            "title": arm.title,
            "baseline": arm is run.base,
            "clean": arm.clean,
            "clean_interval": _ends(arm.evaluation.interval if arm.evaluation else None),
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
    tests, headline = contest(run, key), verdict(run, key).headline
    rows: list[dict[str, object] | None] = []
    for arm in run.arms:
        found, pair = arm.attack(key), tests.between(arm, run.base)
        if found is None:
            rows.append(None)
            continue
        wanted = ("clean", "aua", "suc", "queries", "perturbed", "similarity", "n", "errors")
        row: dict[str, object] = {name: getattr(found, name) for name in wanted}
        row |= {"title": run.attack_titles[key], "split": found.split, "flags": list(found.flags)}
        row |= {"headline": plain(headline), "intervals": {name: list(ends) for name, ends in found.intervals.items()}}
        row |= {"p": pair.p if pair else None, "p_adjusted": pair.adjusted if pair else None}
        row |= {"difference": pair.difference if pair else None}
        row |= {"difference_interval": [pair.low, pair.high] if pair else None}
        rows.append(row)
    return rows


def _ends(interval: Sequence[float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _chosen(result: Mapping[str, Any]) -> str:
    """How many examples, how they were chosen, and whether more were asked for."""
    task = result["task"]
    which = f"seed {result['seed']}"
    if "by_class" in task:
        which = how(str(result["subset"]), result["seed"], task["labels"], task["by_class"], task["rows"])
    short = short_of(task.get("asked"), len(result["ids"]))
    failed, total, outcomes = int(result.get("errors") or 0), len(result["ids"]), result["outcomes"]
    attacked = total - outcomes["skipped"] - outcomes["error"]
    many = f"{numbers.plural(total, 'example')}, {attacked} of them attacked" + (f", {failed} failed" if failed else "")
    return f"{many}, {which}" + (f"; {short}" if short else "")


def first(result: Mapping[str, Any]) -> list[str]:
    """The flags shown before the numbers of a result, or of a cell of a replay."""
    pairs = list(zip(result["flags"], result.get("flag_codes", ()), strict=False))
    return [flag for one in FIRST for flag, code in pairs if code == one]


def attack_table(result: Mapping[str, Any]) -> RichTable:
    """One attack's result.json."""
    from rich.text import Text

    intervals = {name: numbers.brief(result["intervals"].get(name)) for name in ("clean", "aua", "suc")}
    cells = [Cell(text=numbers.percent(result[name]), below=below) for name, below in intervals.items()]
    changed, similar = numbers.percent(result["perturbed"]), numbers.similarity(result.get("similarity"))
    cells += [Cell(text=text) for text in (numbers.count(result["queries"], 1), changed, similar)]
    heads = ("attack", "clean", "under\nattack", "attack\nwins", "queries", "words\nchanged", "similarity")
    row = Row(name=str(result["attack"]), cells=tuple(cells))
    table = rich_table(replace(plain_table("", heads, ()), rows=(row,)), [row.name])
    table.columns[0].no_wrap = False  # a long name is folded, numbers never are
    table.title, table.title_justify = Text(clean("\n".join([*first(result), _chosen(result)]))), "left"
    flags = "; ".join(str(flag) for flag in result["flags"] if flag not in first(result))
    if flags:
        table.caption, table.caption_justify = Text(clean(f"flags: {flags}")), "left"
    return table
