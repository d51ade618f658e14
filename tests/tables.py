"""Small tables on disk, for the tests of reading data."""

from __future__ import annotations

import csv
from pathlib import Path

from robust_tickets.data.task import Task

ROWS = [(f"a fine sentence number {i}", "good" if i % 2 else "bad") for i in range(200)]


def write_csv(
    path: Path, rows: list[tuple[object, ...]], header: tuple[str, ...] = ("text", "label"), **options: object
) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, **options)  # type: ignore[arg-type]
        writer.writerow(header)
        writer.writerows(rows)
    return path


def everything(task: Task) -> list[tuple[tuple[str, ...], str]]:
    return sorted((e.texts, task.labels[e.label]) for split in task.splits.values() for e in split)
