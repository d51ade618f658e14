"""What the papers' tables and figures hold, as published: the list of them, and one of them. It imports no torch."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from robust_tickets.cli.answer import Answer
from robust_tickets.reproduce import published as papers
from robust_tickets.reproduce.consistency import findings, summary
from robust_tickets.reproduce.names import printed_as
from robust_tickets.reproduce.published import Cell, Column, Paper, Table

SHORT = {"textfooler": "Fooler", "textbugger": "Bugger", "bertattack": "BERT-A"}
HEADS = {
    "clean": "Clean", "aua": "Aua", "suc": "Suc", "queries": "Query", "speedup_vs_pgd": "× PGD", "speedup_vs_freelb": "× FreeLB",
    "speedup_lost_to_search": "if searched", "encoder_millions": "M*", "total_millions": "M",
}  # fmt: skip


def contents(asked: list[Paper]) -> Answer:
    found = [one for one in papers.tables() if one.paper in [paper.id for paper in asked]]
    numbers = {one.id: len(papers.cells(one.id)) for one in found}
    entries = [
        {
            "id": one.id, "paper": one.paper, "title": one.title, "kind": one.kind, "source": one.source, "tasks": list(one.tasks),
            "rows": len(one.rows), "columns": len(one.columns), "numbers": numbers[one.id], "recipes": list(one.recipes),
        }
        for one in found
    ]  # fmt: skip

    def show(console: Any) -> None:
        from rich import box
        from rich.table import Table as Grid

        for paper in asked:
            grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
            grid.title, grid.title_justify = f"{paper.title} ({paper.name}, {paper.venue})", "left"
            for head in ("id", "title", "rows ×\ncolumns", "numbers", "tasks"):
                grid.add_column(
                    head, justify="right" if head in ("rows ×\ncolumns", "numbers") else "left", no_wrap=head != "title"
                )
            for one in (one for one in found if one.paper == paper.id):
                size = (
                    ("figure", "")
                    if one.kind == "figure"
                    else (f"{len(one.rows)} × {len(one.columns)}", str(numbers[one.id]))
                )
                grid.add_row(one.id, one.title, *size, _in_lines(one.tasks))
            console.print(grid)
            console.print()
        count = len([one for one in found if one.kind == "table"])
        print(
            f"{sum(numbers.values())} numbers in {count} tables; {len(found) - count} figures, whose values the texts do not give"
        )

    return Answer(
        data={"papers": [asdict(paper) for paper in asked], "tables": entries, "numbers": sum(numbers.values())},
        show=show,
    )


def as_published(table: Table) -> Answer:
    cells, paper = papers.cells(table.id), papers.paper(table.paper)
    notes = [*table.notes, *summary(table.id)]
    told = {
        **asdict(table), "source": table.source, "cells": [asdict(cell) for cell in cells], "notes": notes,
        "paper_notes": list(paper.notes), "findings": [asdict(one) for one in findings(table.id)],
        "metrics": {column.metric: papers.METRICS[column.metric] for column in table.columns},
    }  # fmt: skip

    def show(console: Any) -> None:
        from rich.text import Text

        def line(words: str) -> None:
            console.print(Text(words))

        line(f"{table.id}  {table.title}\n{table.source}: {paper.title}\n")
        if cells:
            console.print(_grid(table, cells, console), crop=False)
        else:
            line(f"{table.shows}\nIts values are not in the paper's text. To redraw it: {table.redrawn}.")
        if "encoder_millions" in told["metrics"]:
            line("* millions of parameters without embeddings")
        line(f"\nRecipes of ours: {', '.join(table.recipes)}")
        for title, lines in ((f"About {table.id}", notes), (f"About all numbers of {paper.name}", paper.notes)):
            line(f"\n{title}")
            for words in lines:
                line(
                    textwrap.fill(
                        words, console.width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
                    )
                )

    return Answer(data=told, show=show)


def _grid(table: Table, cells: Sequence[Cell], console: Any) -> Any:
    """A section a task. Where the terminal is too narrow it may wrap the lines: better than numbers cut in two."""
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table as Grid
    from rich.text import Text

    values = {(cell.task, cell.row, cell.backbone, cell.metric, cell.attack): cell.value for cell in cells}
    attacked = any(column.attack for column in table.columns)
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    grid.add_column("", no_wrap=True)
    for i, column in enumerate(table.columns):
        first = column.attack and (
            i == 0 or table.columns[i - 1].attack != column.attack
        )  # the attack stands over its first column
        over = f"{SHORT[str(column.attack)] if first else ''}\n" if attacked else ""
        grid.add_column(over + HEADS[column.metric], justify="right", no_wrap=True)
    for task in table.tasks:
        grid.add_row(Text(task, style="bold"))
        rows = [row for row in table.rows if row.task == task]
        for row in rows:
            found = [
                values.get((row.task, row.name, row.backbone, column.metric, column.attack)) for column in table.columns
            ]
            shown = [_shown(column, value) for column, value in zip(table.columns, found, strict=True)]
            grid.add_row(Text(f" {row.name}"), *shown, end_section=row is rows[-1] and task != table.tasks[-1])
    grid.width = Measurement.get(console, console.options.update(width=10_000), grid).maximum
    return grid


def _in_lines(tasks: Sequence[str], most: int = 3) -> str:
    return ",\n".join(", ".join(tasks[i : i + most]) for i in range(0, len(tasks), most)) or "–"


def _shown(column: Column, value: float | None) -> str:
    if value is None:
        return "–"
    if column.metric == "speedup_lost_to_search":
        return f"−{value}"
    return printed_as(column.metric, value)
