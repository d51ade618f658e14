"""Tables for page, terminal, Markdown and machine: one value, four writers; and those of a run.

A cell has its number with full precision beside what a reader sees, so that the page can be read by machine too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from robust_tickets.progress import clean
from robust_tickets.report import format as numbers
from robust_tickets.report.run_data import Arm, Attack, Run, number
from robust_tickets.report.verdict import Contest, cited, contest, total_seconds

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table as RichTable


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column: its header, what it means, and the key of its values. A header may have two lines on a terminal."""

    title: str
    about: str = ""
    key: str = ""
    number: bool = True


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a reader sees, the value behind it, a second line, and the numbers of the notes about it."""

    text: str
    value: float | None = None
    below: str = ""
    notes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row: its name, a small text beside the name, and its cells, one a column."""

    name: str
    cells: tuple[Cell, ...]
    small: str = ""
    anchor: str = ""  # of the part of the page that has its notes


@dataclass(frozen=True, kw_only=True)
class Table:
    """``label`` names the table to a screen reader, ``first`` is the header of the rows' names."""

    caption: str
    label: str
    first: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def filled(self) -> Table:
        """Without the columns in which no row has a value."""
        kept = [k for k in range(len(self.columns)) if any(row.cells[k].value is not None for row in self.rows)]
        rows = tuple(replace(row, cells=tuple(row.cells[k] for k in kept)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[k] for k in kept), rows=rows)


def plain_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of texts; the first of each row names it."""
    columns = tuple(Column(title=head) for head in heads[1:])
    made = tuple(Row(name=name, cells=tuple(Cell(text=text) for text in texts)) for name, *texts in rows)
    return Table(caption=caption, label=caption, first=heads[0], columns=columns, rows=made)


def to_markdown(table: Table) -> str:
    """A pipe table; second lines are in brackets."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(clean(cell).replace("\n", " ").replace("|", "\\|") for cell in cells) + " |"

    rule = ["---", *("--:" if column.number else "---" for column in table.columns)]
    rows = [
        [row.name, *(f"{cell.text} ({cell.below})" if cell.below else cell.text for cell in row.cells)]
        for row in table.rows
    ]
    return "\n".join([line([table.first, *(c.title for c in table.columns)]), line(rule), *map(line, rows)]) + "\n"


def to_terminal(table: Table, console: Console, options: ConsoleOptions) -> RenderableType:
    """A table if every cell fits whole, a name on at most two lines, else the same as lines."""
    from rich.cells import cell_len
    from rich.measure import Measurement
    from rich.text import Text

    unnamed = rich_table(table, [""] * len(table.rows))
    room = (
        options.max_width - Measurement.get(console, options.update(width=10_000), unnamed).maximum + len(table.first)
    )
    names = [wrapped(row.name, max(room, 1)) for row in table.rows]
    if all(name.count("\n") < 2 and cell_len(line) <= room for name in names for line in name.split("\n")):
        return rich_table(table, names)
    lines = []
    for row in table.rows:
        lines.append(wrapped(row.name, options.max_width))
        for column, cell in zip(table.columns, row.cells, strict=True):
            below = f" ({plain(cell.below)})" if cell.below else ""
            lines.append(f"  {plain(column.title).replace(chr(10), ' ')}: {plain(cell.text)}{below}")
    return Text("\n".join(lines))


def rich_table(table: Table, names: Sequence[str]) -> RichTable:
    """What rich prints of a table under these names of its rows. No text becomes markup or an escape."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    made.add_column(table.first, no_wrap=True)
    for column in table.columns:
        made.add_column(column.title, justify="right", no_wrap=True)
    for name, row in zip(names, table.rows, strict=True):
        cells = [f"{cell.text}\n{cell.below}" if cell.below else cell.text for cell in row.cells]
        made.add_row(Text(plain(name)), *(Text(plain(cell)) for cell in cells))
    return made


def plain(words: str) -> str:
    """Without escapes, and with usual spaces, at which nothing is left to break."""
    return clean(words).replace(numbers.GLUE, " ")


def wrapped(words: str, width: int) -> str:
    """Broken at spaces, but not at those that glue a number to its unit."""
    lines = [textwrap.wrap(line, width, break_on_hyphens=False) or [""] for line in clean(words).split("\n")]
    return "\n".join(plain(part) for line in lines for part in line)


# --- the tables of a run

COLUMNS = tuple(
    Column(key=key, title=title, about=about)
    for key, title, about in (
        ("clean", "clean, all texts", "accuracy on the whole evaluated split, unattacked"),
        ("clean_attacked", "clean, attacked texts", "accuracy before the attack on the texts that were then attacked"),
        ("aua", "under attack", "accuracy after the attack on the same texts; one that was wrong before counts as wrong"),
        ("suc", "attack wins", "of the texts that were right before, the share that the attack turned; below it how many there were"),
        ("queries", "queries", "how often the attack asked the model per text that was right before; the mean"),
        ("perturbed", "words changed", "mean share of a text's words that were changed where the attack won"),
        ("similarity", "similarity", "mean cosine that the attack's own constraint measured where it won, of the whole text or of a window; "
         "others have none"),
        ("parameters", "parameters", "all of the model's, embeddings included"),
        ("flops", "FLOPs", "floating-point operations of one forward pass over one text"),
        ("seconds", "time", "search and training together where the search was timed, else training"),
        ("p", "p", "exact McNemar test against the baseline on the same texts; below it, adjusted (Holm) for all pairs of arms"),
    )
)  # fmt: skip

# a measured value: how it is written, and how many decimals its interval has
SHOWN: Mapping[str, tuple[Callable[[float | None], str], int]] = {
    "clean": (numbers.percent, 1),
    "aua": (numbers.percent, 1),
    "suc": (numbers.percent, 1),
    "queries": (lambda value: numbers.count(value, 1), 1),
    "perturbed": (numbers.percent, 1),
    "similarity": (numbers.similarity, 3),
}


def arms_table(run: Run, attack: str | None, anchor: str) -> Table:
    """One row per arm under one attack (None: no attack was made)."""
    title = run.attack_titles[attack] if attack else "no attack"
    counts = f"{run.title}: {numbers.plural(len(run.arms), 'arm')}, {title}.{_counts(run, attack)}"
    noted = attack is not None and any(found.flags for arm in run.arms if (found := arm.attack(attack)) is not None)
    caption = f"{counts} Under a number its 95{numbers.GLUE}% interval{'; a raised number is that of a note above' if noted else ''}."
    tests = contest(run, attack)
    rows = tuple(Row(name=arm.title, cells=_cells(run, arm, attack, tests), anchor=anchor) for arm in run.arms)
    return Table(
        caption=caption, label=f"{run.title}: results, {title}", first="arm", columns=COLUMNS, rows=rows
    ).filled()


def joint_table(runs: Sequence[Run]) -> Table:
    """All arms of all runs, under every attack."""
    rows = []
    for k, run in enumerate(runs):
        for attack in run.attack_keys or (None,):
            tests = contest(run, attack)
            where = f"{run.title} · {run.attack_titles[attack] if attack else 'no attack'}"
            rows += [
                Row(name=arm.title, small=where, cells=_cells(run, arm, attack, tests), anchor=f"r{k + 1}")
                for arm in run.arms
            ]
    caption = "All runs: one row per arm and attack. p compares with the baseline of the same run."
    label = f"Results of all {len(runs)} runs"
    return Table(caption=caption, label=label, first="arm, run", columns=COLUMNS, rows=tuple(rows)).filled()


def pairs_table(run: Run, attack: str) -> Table | None:
    """Every arm against every other under one attack."""
    rows = []
    for pair in contest(run, attack).pairs:
        alone = [sum(a and not b for a, b in outcomes) for outcomes in (pair.outcomes, pair.turned().outcomes)]
        shown = [
            numbers.points(pair.difference), numbers.signed_span((pair.low, pair.high)), numbers.signed_span(pair.bootstrap),
            f"{alone[0]} : {alone[1]}", str(pair.n), numbers.p_value(pair.p), numbers.p_value(pair.adjusted),
        ]  # fmt: skip
        cells = tuple(Cell(text=text) for text in shown)
        rows.append(Row(name=pair.arm.title, small=f"against {pair.other.title}", cells=cells))
    if not rows:
        return None
    caption = (
        "Accuracy under attack, first arm minus second, in points, on the texts that both met. The interval is Newcombe's for paired "
        "proportions, which holds at small n too; the bootstrap's has no width where two arms never differ. Held alone: texts that only "
        "the first, and only the second, still got right. p: exact McNemar test; adjusted for all pairs by Holm's method."
    )
    heads = ("pair", "difference", "interval", "bootstrap interval", "held alone", "n", "p", "p, adjusted")
    label = f"{run.title}: pairs of arms, {run.attack_titles[attack]}"
    return replace(plain_table(caption, heads, ()), label=label, rows=tuple(rows))


def per_class_table(run: Run) -> Table | None:
    """Precision, recall and F1 of every class, for every arm that was evaluated."""
    rows = []
    for arm in run.arms:
        for i, row in enumerate(arm.evaluation.per_class if arm.evaluation else ()):
            shown = [numbers.percent(number(row.get(key))) for key in ("precision", "recall", "f1")]
            rows.append((arm.title, run.label(row.get("label", i)), str(row.get("n", "")), *shown))
    if not rows:
        return None
    heads = ("arm", "class", "n", "precision", "recall", "F1")
    found = plain_table("Per class, on the whole split, unattacked.", heads, rows)
    columns = tuple(replace(column, number=column.title != "class") for column in found.columns)
    return replace(found, label=f"{run.title}: classes", columns=columns)


def attacked_table(run: Run, attack: str) -> Table:
    """One attack on every arm, for a terminal."""
    heads = ("arm", "before\nattack", "under\nattack", "attack\nwins", "words\nchanged", "queries", "p")
    tests, rows = contest(run, attack), []
    for arm in run.arms:
        found, pair = arm.attack(attack), tests.between(arm, run.base)
        if found is None:
            rows.append(Row(name=arm.title, cells=(Cell(text=numbers.NONE),) * (len(heads) - 1)))
            continue
        cells = (
            Cell(text=numbers.percent(found.clean), below=numbers.brief(found.intervals.get("clean"))),
            Cell(text=numbers.percent(found.aua), below=numbers.brief(found.intervals.get("aua"))),
            Cell(text=numbers.percent(found.suc), below=f"of {found.attacked}" if found.attacked is not None else ""),
            Cell(text=numbers.percent(found.perturbed)),
            Cell(text=numbers.count(found.queries, 1)),
            Cell(text="baseline" if arm is run.base else numbers.p_value(pair.p if pair else None)),
        )
        rows.append(Row(name=arm.title, cells=cells))
    return replace(plain_table("", heads, ()), rows=tuple(rows))


def models_table(run: Run) -> Table:
    """The models of a run and what they cost, for a terminal."""
    rows = []
    for arm in run.arms:
        interval = arm.evaluation.interval if arm.evaluation else None
        cells = (
            Cell(text=numbers.percent(arm.clean), below=numbers.brief(interval)),
            Cell(text=numbers.amount(arm.cost.get("parameters"))),
            Cell(text=numbers.amount(arm.cost.get("flops_per_example"))),
            Cell(text=numbers.seconds(total_seconds(arm))),
        )
        rows.append(Row(name=arm.title, cells=cells))
    return replace(plain_table("", ("arm", "clean,\nall texts", "parameters", "FLOPs", "time"), ()), rows=tuple(rows))


def _cells(run: Run, arm: Arm, attack: str | None, tests: Contest) -> tuple[Cell, ...]:
    notes, found, pair, cost = cited(run, attack, arm), arm.attack(attack), tests.between(arm, run.base), arm.cost
    interval, p = arm.evaluation.interval if arm.evaluation else None, pair.p if pair else None
    size, flops, time = cost.get("parameters"), cost.get("flops_per_example"), total_seconds(arm)
    adjusted = f"adj. {numbers.p_value(pair.adjusted)}" if pair and pair.of > 1 else ""
    return (
        Cell(text=numbers.percent(arm.clean), value=arm.clean, below=numbers.brief(interval)),
        _measured("clean", found, notes.get("clean_attacked", ())),
        *(_measured(key, found, notes.get(key, ())) for key in SHOWN if key != "clean"),
        Cell(text=numbers.amount(size), value=size),
        Cell(text=numbers.amount(flops), value=flops, below=_ratio(arm)),
        Cell(text=numbers.seconds(time), value=time),
        Cell(text="baseline" if arm is run.base else numbers.p_value(p), value=p, below=adjusted),
    )


def _measured(key: str, found: Attack | None, notes: tuple[int, ...]) -> Cell:
    value = getattr(found, key) if found else None
    interval = found.intervals.get(key) if found and value is not None else None
    written, digits = SHOWN[key]
    below = f"{interval[0]:.{digits}f}–{interval[1]:.{digits}f}" if interval and key != "queries" else ""
    if key == "suc" and found and found.attacked is not None:
        below = f"{below} of {found.attacked}".strip()
    return Cell(text=written(value), value=value, below=below, notes=notes if value is not None else ())


def _ratio(arm: Arm) -> str:
    mine, dense = arm.cost.get("flops_per_example"), arm.cost.get("dense_flops_per_example")
    return f"{dense / mine:.2f} × fewer" if mine and dense and dense != mine else ""


def _counts(run: Run, attack: str | None) -> str:
    """How many texts the two kinds of clean accuracy are of."""
    found = next((f for arm in run.arms if (f := arm.attack(attack)) is not None), None)
    whole = next((arm.evaluation for arm in run.arms if arm.evaluation is not None and arm.evaluation.n), None)
    parts = [f"All texts: the {whole.n} of {whole.split or 'the split'}" if whole else ""]
    parts.append(f"attacked texts: {found.n} of {found.split or 'the split'}" if found else "")
    text = "; ".join(filter(None, parts))
    return f" {text[0].upper()}{text[1:]}." if text else ""
