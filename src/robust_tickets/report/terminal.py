"""The same numbers for a terminal, whole at any width: tables where they fit, else a number a line. No text becomes markup or an escape."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.attack.chosen import how, short_of
from robust_tickets.attack.flags import FIRST
from robust_tickets.progress import clean
from robust_tickets.report import format as numbers
from robust_tickets.report.compare import contest
from robust_tickets.report.run_data import Run, read_run
from robust_tickets.report.verdict import total_seconds, verdict, verdicts, warnings

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

Rows = Sequence[tuple[str, Sequence[str]]]  # an arm's title and its cells; a cell may have a second line


class Summary:
    """What rich prints of a run: the arms, each attack on them, the verdicts, and what to know before believing them."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        run = self.run
        wide = options.max_width
        yield _lines(run.title, wide, "bold")
        for attack, title in run.attack_titles.items():
            found = next(f for arm in run.arms if (f := arm.attack(attack)) is not None)
            yield _lines(f"\n{title}: {found.n} texts of {found.split or 'the split'}, 95 % intervals", wide)
            yield _fitting(console, options, ATTACKED, _attacked(run, attack))
            if run.base is not None and len(run.arms) > 1:
                yield _lines(
                    f"p: exact paired test against {run.base.title}, not adjusted for several comparisons", wide
                )
        yield _lines("\nThe models", wide)
        yield _fitting(console, options, MODELS, _models(run))
        if any(arm.branch for arm in run.arms):
            yield _lines("\nWhere the tickets come from", wide)
            for arm in run.arms:
                yield _lines(f"{arm.title}: {arm.story or 'the whole model'}", wide)
        for said in verdicts(run):
            yield _lines(f"\n{said.headline}", wide, "bold")
        for words in warnings(run):
            yield _lines(f"note: {words}", wide)


ATTACKED = ("before\nattack", "under\nattack", "attack\nwins", "words\nchanged", "queries", "p")
MODELS = ("clean,\nall texts", "parameters", "FLOPs", "time")


def summary(folder: str | Path) -> Summary:
    """A run folder, as something rich prints."""
    return Summary(read_run(folder))


def _attacked(run: Run, attack: str) -> Rows:
    tests, rows = contest(run, attack), []
    for arm in run.arms:
        found, pair = arm.attack(attack), tests.between(arm, run.base)
        if found is None:
            rows.append((arm.title, [numbers.NONE] * len(ATTACKED)))
            continue
        cells = [
            _both(numbers.percent(found.clean), found.intervals.get("clean")),
            _both(numbers.percent(found.aua), found.intervals.get("aua")),
            numbers.percent(found.suc) + (f"\nof {found.attacked}" if found.attacked is not None else ""),
            numbers.percent(found.perturbed),
            numbers.count(found.queries, 1),
            "baseline" if arm is run.base else numbers.p_value(pair.p if pair else None),
        ]
        rows.append((arm.title, cells))
    return rows


def _models(run: Run) -> Rows:
    return [
        (
            arm.title,
            [
                _both(numbers.percent(arm.clean), arm.evaluation.interval if arm.evaluation else None),
                numbers.amount(arm.cost.get("parameters")),
                numbers.amount(arm.cost.get("flops_per_example")),
                numbers.seconds(total_seconds(arm)),
            ],
        )
        for arm in run.arms
    ]


def _both(value: str, interval: Sequence[float] | None) -> str:
    return f"{value}\n{numbers.brief(interval)}" if interval else value


def _fitting(console: Console, options: ConsoleOptions, heads: Sequence[str], rows: Rows) -> RenderableType:
    """A table if every cell fits whole, a title on at most two lines, else the same as lines."""
    from rich.cells import cell_len
    from rich.measure import Measurement
    from rich.text import Text

    room = (
        options.max_width
        - Measurement.get(
            console, options.update(width=10_000), _table(heads, [("", cells) for _, cells in rows])
        ).maximum
    )
    titles = [_wrapped(title, max(room + len("arm"), 1)) for title, _ in rows]
    if all(
        title.count("\n") < 2 and cell_len(line) <= room + len("arm") for title in titles for line in title.split("\n")
    ):
        return _table(heads, [(title, cells) for title, (_, cells) in zip(titles, rows, strict=True)])
    lines = []
    for title, cells in rows:
        lines.append(_wrapped(title, options.max_width))
        for head, cell in zip(heads, cells, strict=True):
            value, _, interval = _plain(cell).partition("\n")
            lines.append(f"  {_plain(head).replace(chr(10), ' ')}: {value}" + (f" ({interval})" if interval else ""))
    return Text("\n".join(lines))


def _table(heads: Sequence[str], rows: Rows) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("arm", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for title, cells in rows:
        table.add_row(Text(_plain(title)), *(Text(_plain(cell)) for cell in cells))
    return table


def _plain(words: str) -> str:
    """Without escapes, and with usual spaces, at which nothing is left to break."""
    return clean(words).replace(numbers.GLUE, " ")


def _wrapped(words: str, width: int) -> str:
    """Broken at spaces, but not at those that glue a number to its unit."""
    lines = [textwrap.wrap(line, width, break_on_hyphens=False) or [""] for line in clean(words).split("\n")]
    return "\n".join(_plain(part) for line in lines for part in line)


def _lines(words: str, width: int, style: str = "") -> RenderableType:
    from rich.text import Text

    return Text(_wrapped(words, width), style=style)


def figures(folder: str | Path) -> list[dict[str, object]]:
    """The run's numbers as JSON: one entry an arm, in it one an attack, with what a reader must know before believing it."""
    run = read_run(folder)
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
        row |= {
            "title": run.attack_titles[key],
            "split": found.split,
            "flags": list(found.flags),
            "headline": _plain(headline),
        }
        row["intervals"] = {name: list(ends) for name, ends in found.intervals.items()}
        row |= {"p": pair.p if pair else None, "p_adjusted": pair.adjusted if pair else None}
        row |= {
            "difference": pair.difference if pair else None,
            "difference_interval": [pair.low, pair.high] if pair else None,
        }
        rows.append(row)
    return rows


def _ends(interval: Sequence[float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _chosen(result: Mapping[str, Any]) -> str:
    """How many examples, how they were chosen, and whether more were asked for."""
    task = result["task"]
    said = (
        [how(str(result["subset"]), result["seed"], task["labels"], task["by_class"], task["rows"])]
        if "by_class" in task
        else []
    )
    short = short_of(task.get("asked"), len(result["ids"]))
    failed, total, outcomes = int(result.get("errors") or 0), len(result["ids"]), result["outcomes"]
    attacked = total - outcomes["skipped"] - outcomes["error"]
    many = f"{total} example{'s' * (total != 1)}, {attacked} of them attacked" + (
        f", {failed} failed" if failed else ""
    )
    return ", ".join([many, *(said or [f"seed {result['seed']}"])]) + (f"; {short}" if short else "")


def first(told: Mapping[str, Any]) -> list[str]:
    """What stands before the numbers of a result, or of a cell of a replay."""
    return [
        flag
        for one in FIRST
        for flag, code in zip(told["flags"], told.get("flag_codes", ()), strict=False)
        if code == one
    ]


def attack_table(result: Mapping[str, Any]) -> Table:
    """One attack's result.json."""
    from rich.text import Text

    cells = [_both(numbers.percent(result[name]), result["intervals"].get(name)) for name in ("clean", "aua", "suc")]
    rest = [
        numbers.count(result["queries"], 1),
        numbers.percent(result["perturbed"]),
        numbers.similarity(result.get("similarity")),
    ]
    heads = ("clean", "under\nattack", "attack\nwins", "queries", "words\nchanged", "similarity")
    table = _table(heads, [(str(result["attack"]), [*cells, *rest])])
    table.columns[0].header, table.columns[0].no_wrap = "attack", False  # a long name is folded, numbers never are
    table.title, table.title_justify = Text(clean("\n".join([*first(result), _chosen(result)]))), "left"
    flags = "; ".join(str(flag) for flag in result["flags"] if flag not in first(result))
    if flags:
        table.caption, table.caption_justify = Text(clean(f"flags: {flags}")), "left"
    return table
