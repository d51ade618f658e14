"""A paper's table with ours beside it: in each cell the printed number, our mean with its runs, and how far apart they are.

Tasks on which nothing was run are folded away with their printed numbers; what is missing and why has a section of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from robust_tickets.report import format as numbers
from robust_tickets.report.charts import Scale, line, markers
from robust_tickets.report.markup import Html, join, scroll, tag
from robust_tickets.reproduce.arms import metric_title, printed_as, task_title, variant
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.page.claims import table_claims
from robust_tickets.reproduce.page.standing import anchor, exact
from robust_tickets.reproduce.published import Column, summary
from robust_tickets.reproduce.tables import Filled, FilledCell, expected, further, of_them_scattered
from robust_tickets.reproduce.wording import FIRST, merged
from robust_tickets.stats.compare_runs import FEWEST_SHOWN

WIDTH, HEIGHT = 104, 20  # pixels of a cell's drawing
Place = tuple[str, str, str]  # task, row, backbone
Ends = dict[tuple[str, str, str | None], tuple[float, float]]  # by task, metric and attack


def table(filled: Filled, outcomes: Sequence[Outcome]) -> Html:
    """The whole of it: what was run in sight, the rest folded."""
    of, anchors = filled.table, {one.unit.id: anchor(one) for one in outcomes}
    ran = [task for task in of.tasks if any(cell.task == task for cell in filled.ran)]
    rest = [task for task in of.tasks if task not in ran]
    parts: list[Html | None] = [tag("h3", tag("span", of.id, class_="id"), " ", of.title), _counted(filled)]
    if ran:
        parts += [_grid(filled, ran, anchors), _substituted(filled), table_claims(of.id, filled.claims)]
    if rest:
        said = (
            "As published; none of it was run"
            if not ran
            else "As published, not run: " + ", ".join(task_title(task) for task in rest)
        )
        parts.append(tag("details", tag("summary", said), _grid(filled, rest, anchors)))
    notes = (*of.notes, *summary(of.id))
    if notes:
        listed = tag("ul", *[tag("li", words) for words in notes])
        parts.append(
            tag(
                "details",
                tag("summary", f"What is known against the printed numbers ({len(notes)})"),
                listed,
                class_="against",
            )
        )
    return tag("article", join(parts), id=of.id, class_="table")


def _counted(filled: Filled) -> Html:
    """One line, and a bar of it: how much was run, and of what five runs can tell how much agrees."""
    counts = filled.counts()
    said = f"{filled.table.source}. {counts['filled']} of {counts['numbers']} printed numbers have runs of ours beside them"
    if judged := counts["inside"] + counts["outside"]:
        said += (
            f"; of {judged} with five runs or more, {FIRST}, {counts['inside']} {'lies' if counts['inside'] == 1 else 'lie'} inside what "
            f"{expected(filled)} might give{of_them_scattered(filled.numbers)}"
        )
    return tag("p", said, ".", class_="quiet")


def _grid(filled: Filled, tasks: Sequence[str], anchors: dict[str, str]) -> Html:
    of, columns = filled.table, sorted(filled.table.columns, key=_late)
    cells: dict[tuple[Place, Column], list[FilledCell]] = {}
    for cell in filled.cells:
        where = (cell.task, cell.row, cell.backbone)
        cells.setdefault((where, Column(metric=cell.metric, attack=cell.attack)), []).append(cell)
    ends, ran = _ends(filled), {(cell.task, cell.row, cell.backbone) for cell in filled.ran}
    head = [tag("th", "row", scope="col")]
    head += [tag("th", metric_title(column.metric, column.attack), scope="col", class_="number") for column in columns]
    bodies = []
    printed = [(row.task, row.name, row.backbone) for row in of.rows]
    lines = [
        *printed,
        *dict.fromkeys(where for where, _ in cells if where not in printed),
    ]  # then runs that stand beside a row's
    for task in tasks:
        group = tag("tr", tag("th", task_title(task), scope="rowgroup", colspan=str(len(columns) + 1)), class_="group")
        rows = [
            tag(
                "tr",
                tag("th", where[1], tag("small", "not run") if where not in ran else None, scope="row"),
                *[_cell(cells.get((where, column), []), ends, anchors) for column in columns],
            )
            for where in lines
            if where[0] == task
        ]
        bodies.append(tag("tbody", group, *rows))
    named = ", ".join(task_title(task) for task in tasks)
    caption = tag("caption", tag("span", f"{of.id}, {named}: printed and ours."), class_="aside")
    return scroll(
        f"{of.id}, {named}", tag("table", caption, tag("thead", tag("tr", *head)), *bodies, class_="paired numbers")
    )


def _late(column: Column) -> bool:
    """Speed and size come after accuracies, wherever the paper has them: a phone shows the first columns alone."""
    return column.metric.startswith("speedup") or column.metric.endswith("_millions")


def _ends(filled: Filled) -> Ends:
    """The axis of each column, for each task: over all that stands in it."""
    found: dict[tuple[str, str, str | None], list[float]] = {}
    for cell in filled.cells:
        values = found.setdefault((cell.task, cell.metric, cell.attack), [])
        values += [value for value in (cell.published, *(cell.ours.values if cell.ours else ())) if value is not None]
    return {key: (min(values), max(values)) for key, values in found.items() if values}


def _cell(found: Sequence[FilledCell], ends: Ends, anchors: dict[str, str]) -> Html:
    printed = next((cell.published for cell in found if cell.published is not None), None)
    if printed is None and not any(cell.ours for cell in found):
        return tag("td", tag("span", numbers.NONE, class_="none"))
    told = (
        tag("span", PRINTED, tag("data", printed_as(found[0].metric, printed), value=exact(printed)), class_="printed")
        if printed is not None
        else None
    )
    ran = [cell for cell in found if cell.ours is not None]
    folded = [
        cell for cell in ran if cell.by and cell.by.count("-") > 1
    ]  # further constrained, by an encoder or a temperature
    folded = folded if len(folded) < len(ran) else []
    drawn = {
        kind: [
            _ours(cell, ends[cell.task, cell.metric, cell.attack], anchors) for cell in ran if (cell in folded) == kind
        ]
        for kind in (False, True)
    }
    more = tag("details", tag("summary", f"{len(folded)} constrained"), *drawn[True]) if folded else None
    return tag("td", told, *drawn[False], more)


def _ours(cell: FilledCell, ends: tuple[float, float], anchors: dict[str, str]) -> Html:
    assert cell.ours is not None
    ours = cell.ours
    shown = f"{ours.mean:.1f}"
    value = tag("data", shown, value=exact(ours.mean))
    link = (
        tag("a", value, href=f"#{anchors[ours.units[0]]}", class_="origin")
        if ours.units and ours.units[0] in anchors
        else value
    )
    gap = "" if cell.difference is None else numbers.points(cell.difference)
    verdict = {True: "in", False: "out", None: "plain" if ours.enough else "few"}[cell.inside]
    below = [variant(cell.by, cell.attack)] if cell.by and cell.by != cell.attack else []
    below.append(f"{ours.n} run{'s' if ours.n != 1 else ''}")
    said = WORDS[verdict].format(further(ours.further))
    chip = tag("span", gap, tag("span", f" {said}", class_="unseen"), class_=f"gap {verdict}") if gap else None
    return tag("span", OURS, link, " ", chip, _drawing(cell, ends), tag("small", ", ".join(below)), class_="ours")


WORDS = {
    "in": "apart: printed lies inside what {} might give",
    "out": "apart: printed lies outside what {} might give",
    "few": "apart: too few runs to tell",
    "plain": "apart",
}
PRINTED, OURS = (tag("span", words, class_="unseen") for words in ("printed ", "ours "))  # for those who hear a cell


def _drawing(cell: FilledCell, ends: tuple[float, float]) -> Html:
    """Runs as dots, the prediction interval as a haze, the printed number as an upright stroke."""
    assert cell.ours is not None
    pad = 0.06 * (ends[1] - ends[0]) or 1.0
    scale = Scale(low=ends[0] - pad, high=ends[1] + pad, start=3, end=WIDTH - 3)
    middle = HEIGHT / 2
    parts = [line(0, middle, WIDTH, middle, "leader")]
    if cell.ours.prediction and cell.ours.n >= FEWEST_SHOWN:
        start, end = (min(max(scale(v), 0.0), float(WIDTH)) for v in cell.ours.prediction)
        parts.append(
            tag("rect", x=start, y=middle - 5, width=max(1.5, end - start), height=10, rx=2, class_="haze full arm0")
        )
    parts += markers([scale(value) for value in cell.ours.values], middle, 0, 2.2)
    if cell.published is not None:
        parts.append(line(scale(cell.published), 1, scale(cell.published), HEIGHT - 1, "print"))
    return tag("svg", *parts, width=WIDTH, height=HEIGHT, aria_hidden="true", class_="thumb")


def key() -> Html:
    """What stands in a cell."""
    words: list[object] = [
        "In a cell: the ", tag("span", "printed", class_="printed"), " number; our mean; ours minus printed, which is ",
        tag("span", "inside", class_="gap in"), " the prediction interval of one further run of ours (where the paper "
        "says that its number is a mean of several, of the mean of as many) or ",
        tag("span", "outside", class_="gap out"), ", or has ", tag("span", "too few runs", class_="gap few"),
        " to tell; attacks with further constraints are folded. Drawn: our runs as dots, that interval as a haze, the printed number as a ",
        "stroke. A number of ours leads to its runs. Outside is no refutation: the papers attacked other samples of texts, with word lists "
        "and a sentence encoder that others stand in for here.",
    ]  # fmt: skip
    return tag("p", *words, class_="quiet key")


def _substituted(filled: Filled) -> Html | None:
    """What stood in for something of the paper's, and what runs and attacks say against themselves."""
    found = tuple(dict.fromkeys(words for cell in filled.ran for words in cell.substituted))
    notes = merged(words for cell in filled.ran for words in cell.notes)
    parts = [tag("p", f"Substituted: {'; '.join(found)}.", class_="quiet") if found else None]
    if notes:
        items = [tag("li", words) for words in notes]
        parts.append(
            tag(
                "details",
                tag("summary", f"What our runs and attacks did otherwise ({len(notes)})"),
                tag("ul", *items),
                class_="against",
            )
        )
    return join(parts) if any(parts) else None
