"""Tables for page, terminal and Markdown: one value, three writers; and those of a run.

A cell has its number with full precision beside what a reader sees, so that the page can be read by machine too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
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
    """A column: its header, what it means, the key of its values, and its header where room is short, of two lines at most."""

    title: str
    about: str = ""
    key: str = ""
    number: bool = True
    short: str = ""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a reader sees, the value behind it, and a second line."""

    text: str
    value: float | None = None
    below: str = ""

    @property
    def line(self) -> str:
        return f"{self.text} ({self.below})".replace("\n", " ") if self.below else self.text


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row: its name, a small text beside the name, and its cells, one a column."""

    name: str
    cells: tuple[Cell, ...]
    small: str = ""
    notes: tuple[int, ...] = ()  # numbers of the notes about it
    anchor: str = ""  # of the part of the page that has them


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
        return self._of(
            [k for k in range(len(self.columns)) if any(row.cells[k].value is not None for row in self.rows)]
        )

    def only(self, *keys: str) -> Table:
        """These columns."""
        numbered = {column.key: k for k, column in enumerate(self.columns)}
        return self._of([numbered[key] for key in keys])

    def _of(self, kept: Sequence[int]) -> Table:
        rows = tuple(replace(row, cells=tuple(row.cells[k] for k in kept)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[k] for k in kept), rows=rows)


def plain_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of texts; the first of each row names it."""
    columns = tuple(Column(title=head) for head in heads[1:])
    made = tuple(Row(name=name, cells=tuple(Cell(text=text) for text in texts)) for name, *texts in rows)
    return Table(caption=caption, label=caption, first=heads[0], columns=columns, rows=made)


def to_markdown(table: Table) -> str:
    """A pipe table; second lines are in brackets."""
    rule = ["---", *("--:" if column.number else "---" for column in table.columns)]
    rows = [[row.name, *(cell.line for cell in row.cells)] for row in table.rows]
    lines = [[table.first, *(column.title for column in table.columns)], rule, *rows]
    written = [[clean(cell).replace("\n", " ").replace("|", "\\|") for cell in cells] for cells in lines]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in written)


def to_terminal(table: Table, console: Console, options: ConsoleOptions) -> RenderableType:
    """A table if every cell fits whole, a name on at most two lines, else the same as lines."""
    from rich.cells import cell_len
    from rich.measure import Measurement
    from rich.text import Text

    unnamed = rich_table(table, [""] * len(table.rows))
    wide = Measurement.get(console, options.update(width=10_000), unnamed).maximum
    room = options.max_width - wide + len(table.first)
    names = [wrapped(row.name, max(room, 1)) for row in table.rows]
    if all(name.count("\n") < 2 and cell_len(line) <= room for name in names for line in name.split("\n")):
        return rich_table(table, names)
    lines = []
    for row in table.rows:
        lines.append(wrapped(row.name, options.max_width))
        heads = [plain(column.short or column.title).replace("\n", " ") for column in table.columns]
        lines += [f"  {head}: {plain(cell.line)}" for head, cell in zip(heads, row.cells, strict=True)]
    return Text("\n".join(lines))


def rich_table(table: Table, names: Sequence[str]) -> RichTable:
    """What rich prints of a table under these names of its rows. No text becomes markup or an escape."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    made.add_column(table.first, no_wrap=True)
    for column in table.columns:
        made.add_column(column.short or column.title, justify="right", no_wrap=True)
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
    Column(key=key, title=title, short=short, about=about)
    for key, title, short, about in (
        ("clean", "clean, all texts", "clean,\nall texts", "accuracy on the whole evaluated split, unattacked"),
        ("clean_attacked", "clean, attacked texts", "before\nattack", "accuracy before the attack on the texts that were then attacked"),
        ("aua", "under attack", "under\nattack", "accuracy after the attack on the same texts; one that was wrong before counts as wrong"),
        ("suc", "attack wins", "attack\nwins", "share of the texts that were right before that the attack turned; below it how many there were"),
        ("queries", "queries", "", "how often the attack asked the model per text that was right before; the mean"),
        ("perturbed", "words changed", "words\nchanged", "mean share of a text's words that were changed where the attack won"),
        ("similarity", "similarity", "", "mean cosine that the attack's own constraint measured where it won, of the whole text or of a window; "
         "others have none"),
        ("parameters", "parameters", "", "all of the model's, embeddings included"),
        ("flops", "FLOPs", "", "floating-point operations of one forward pass over one text"),
        ("seconds", "time", "", "search and training together where the search was timed, else training"),
        ("p", "p", "", "exact McNemar test against the baseline on the same texts; below it, adjusted (Holm) for all pairs of arms"),
    )
)  # fmt: skip

# a measure of an attack: how it is written, and how many decimals its interval has
MEASURED: Mapping[str, tuple[Callable[[float | None], str], int]] = {
    "clean_attacked": (numbers.percent, 1),
    "aua": (numbers.percent, 1),
    "suc": (numbers.percent, 1),
    "queries": (lambda value: numbers.count(value, 1), 1),
    "perturbed": (numbers.percent, 1),
    "similarity": (numbers.similarity, 3),
}


def arms_table(run: Run, attack: str | None, anchor: str = "") -> Table:
    """One row per arm under one attack (None: no attack was made)."""
    title = run.attack_titles[attack] if attack else "no attack"
    found = [one for arm in run.arms if (one := arm.attack(attack)) is not None]
    whole = [arm.evaluation for arm in run.arms if arm.evaluation is not None and arm.evaluation.n]
    caption = f"{run.title}: {numbers.plural(len(run.arms), 'arm')}, {title}."
    caption += f" All texts: the {whole[0].n} of {whole[0].split or 'the split'}." if whole else ""
    caption += f" Attacked texts: {found[0].n} of {found[0].split or 'the split'}." if found else ""
    caption += f" Under a number its 95{numbers.GLUE}% interval."
    caption += " A raised number is that of a note above." if any(one.flags for one in found) else ""
    tests = contest(run, attack)
    rows = tuple(
        Row(name=arm.title, cells=_cells(run, arm, attack, tests), notes=cited(run, attack, arm), anchor=anchor)
        for arm in run.arms
    )
    return Table(caption=caption, label=f"{run.title}: results, {title}", first="arm", columns=COLUMNS, rows=rows)


def joint_table(runs: Sequence[Run]) -> Table:
    """All arms of all runs, under every attack."""
    rows: list[Row] = []
    for k, run in enumerate(runs):
        for attack in run.attack_titles or (None,):
            where = f"{run.title} · {run.attack_titles[attack] if attack else 'no attack'}"
            rows += [replace(row, small=where) for row in arms_table(run, attack, f"r{k + 1}").rows]
    caption = "All runs: one row per arm and attack. p compares with the baseline of the same run."
    label = f"Results of all {len(runs)} runs"
    return Table(caption=caption, label=label, first="arm, run", columns=COLUMNS, rows=tuple(rows))


def pairs_table(run: Run, attack: str) -> Table | None:
    """Every arm against every other under one attack."""
    tests, rows = contest(run, attack), []
    for arm, other in combinations(run.arms, 2):
        if (pair := tests.get((arm.name, other.name))) is None:
            continue
        shown = (
            numbers.points(pair.difference), numbers.signed_span(pair.interval), numbers.signed_span(pair.bootstrap),
            "{} : {}".format(*pair.alone), str(pair.n), numbers.p_value(pair.p), numbers.p_value(pair.adjusted),
        )  # fmt: skip
        rows.append(Row(name=arm.title, small=f"against {other.title}", cells=tuple(Cell(text=text) for text in shown)))
    caption = (
        "Accuracy under attack, first arm minus second, in points, on the texts that both met. The interval is Newcombe's for paired "
        "proportions, which holds at small n too; the bootstrap's has no width where two arms never differ. Held alone: texts that only "
        "the first, and only the second, still got right. p: exact McNemar test; adjusted for all pairs by Holm's method."
    )
    heads = ("pair", "difference", "interval", "bootstrap interval", "held alone", "n", "p", "p, adjusted")
    label = f"{run.title}: pairs of arms, {run.attack_titles[attack]}"
    return replace(plain_table(caption, heads, ()), label=label, rows=tuple(rows)) if rows else None


def per_class_table(run: Run) -> Table | None:
    """Precision, recall and F1 of every class, for every arm that was evaluated."""
    rows = [
        (arm.title, run.label(row.get("label", i)), str(row.get("n", "")),
         *(numbers.percent(number(row.get(key))) for key in ("precision", "recall", "f1")))
        for arm in run.arms
        for i, row in enumerate(arm.evaluation.per_class if arm.evaluation else ())
    ]  # fmt: skip
    found = plain_table(
        "Per class, on the whole split, unattacked.", ("arm", "class", "n", "precision", "recall", "F1"), rows
    )
    columns = tuple(replace(column, number=column.title != "class") for column in found.columns)
    return replace(found, label=f"{run.title}: classes", columns=columns) if rows else None


def _cells(run: Run, arm: Arm, attack: str | None, tests: Contest) -> tuple[Cell, ...]:
    found, pair, cost = arm.attack(attack), tests.get((arm.name, run.baseline)), arm.cost
    size, flops, dense = (cost.get(key) for key in ("parameters", "flops_per_example", "dense_flops_per_example"))
    fewer = f"{dense / flops:.2f} × fewer" if flops and dense and dense != flops else ""
    time, interval = total_seconds(arm), arm.evaluation.interval if arm.evaluation else None
    p = "baseline" if arm.name == run.baseline else numbers.p_value(pair.p if pair else None)
    adjusted = f"adj. {numbers.p_value(pair.adjusted)}" if pair and pair.of > 1 else ""
    return (
        Cell(text=numbers.percent(arm.clean), value=arm.clean, below=numbers.brief(interval)),
        *attack_cells(found),
        Cell(text=numbers.amount(size), value=size),
        Cell(text=numbers.amount(flops), value=flops, below=fewer),
        Cell(text=numbers.seconds(time), value=time),
        Cell(text=p, value=pair.p if pair else None, below=adjusted),
    )


def attack_cells(found: Attack | None) -> tuple[Cell, ...]:
    """The cells of one attack's measures."""
    cells = []
    for key, (write, digits) in MEASURED.items():
        name, below = key.removesuffix("_attacked"), ""
        if found is None or (value := getattr(found, name)) is None:
            cells.append(Cell(text=numbers.NONE))
            continue
        if (ends := found.intervals.get(name)) and name != "queries":
            below = f"{ends[0]:.{digits}f}–{ends[1]:.{digits}f}"
        if name == "suc":
            below = f"{below}\nof {found.attacked}".strip()
        cells.append(Cell(text=write(value), value=value, below=below))
    return tuple(cells)
