"""Make ``robust_tickets/reproduce/published.json`` from a transcription of the three papers' tables.

Run ``python scripts/published_numbers.py SOURCE [--out FILE]`` or, to see whether the file in the package still is what SOURCE gives,
``--check``. SOURCE is JSON: ``entries``, one a row of a table (paper, table, dataset, method, backbone, metrics), and ``hyperparameters``.
The same SOURCE gives the same bytes. Numbers are facts and are taken as they are; names become this package's. What can be worked out
against the numbers is written beside them: equal rows of two papers, values that disagree, rates and shares that cannot be.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

TARGET = Path(__file__).resolve().parents[1] / "src" / "robust_tickets" / "reproduce" / "published.json"
PAPERS = {"EarlyRobust": "ER", "RobustT": "RT", "ORTicket": "OR"}  # in the order of the contents
TASKS = {"IMDB": "imdb", "SST-2": "sst2", "SST2": "sst2", "AG NEWS": "ag_news", "AGNEWS": "ag_news"} | {
    name: name.lower() for name in ("QNLI", "QQP", "MNLI")
}
METRICS = {  # the transcription's names to ours
    "clean": "clean",
    "aua": "aua",
    "suc": "suc",
    "query": "queries",
    "speedup_vs_pgd": "speedup_vs_pgd",
    "speedup_vs_freelb": "speedup_vs_freelb",
    "speedup_loss_if_search_counted": "speedup_lost_to_search",
    "params_M_no_embeddings": "encoder_millions",
    "params_M_total": "total_millions",
}
ATTACKS = ("textfooler", "textbugger", "bertattack")
SETTINGS = {
    "EarlyRobust_table6": "ER-T6",
    "RobustT_table5": "RT-T5",
    "RobustT_table6": "RT-T6",
    "RobustT_table7": "RT-T7",
}
ROWS = (  # a row's name as the paper prints it, where the transcription had to write it otherwise
    (r"^(LTH|Rand|RobustT)_(\d+)$", r"\1 \2 %"),
    (r"^EarlyRobust\[(Heads-[LG]),(Neurons-[LG])\]$", r"\1, \2"),
    (r"^ticket searched on BERT_BASE.*$", "BERT-base, no ticket"),
    (r"^ticket searched on IMDb$", "searched on IMDB"),
    (r"^ticket searched on ", "searched on "),
)


def table_id(entry: dict[str, Any]) -> str:
    return f"{PAPERS[entry['paper']]}-T{entry['table']}"


def row_name(method: str) -> str:
    for pattern, name in ROWS:
        method = re.sub(pattern, name, method)
    return method


def values(metrics: dict[str, Any]) -> dict[tuple[str, str | None], float]:
    """(metric, attack) -> number; the attack is none for what is measured without one."""
    found: dict[tuple[str, str | None], float] = {}
    for name, value in metrics.items():
        if name in ATTACKS:
            found |= {(METRICS[metric], name): float(number) for metric, number in value.items()}
        else:
            found[METRICS[name], None] = float(value)
    return found


def document(source: dict[str, Any]) -> dict[str, Any]:
    tables: dict[str, dict[str, Any]] = {}
    ranks = list(PAPERS)
    for entry in sorted(
        source["entries"], key=lambda e: (ranks.index(e["paper"]), int(e["table"]))
    ):  # stable: rows keep their order
        paper = {"paper": entry["paper"], "table": entry["table"]}
        table = tables.setdefault(table_id(entry), {"source": paper, "columns": [], "rows": []})
        found = values(entry["metrics"])
        table["columns"] += [column for column in found if column not in table["columns"]]
        table["rows"].append((TASKS[entry["dataset"]], row_name(entry["method"]), entry["backbone"], found))
    for table in tables.values():
        table["rows"] = [[*row[:3], [row[3].get(column) for column in table["columns"]]] for row in table["rows"]]
    settings = {}
    for name, identity in SETTINGS.items():
        told = {key: value for key, value in source["hyperparameters"][name].items() if not key.startswith("_")}
        settings[identity] = {TASKS.get(key, key): value for key, value in told.items()}
    return {"tables": tables, "settings": settings, "findings": findings(tables)}


SST2 = 872  # examples of the split that the papers attack
SLACK = 0.5  # points: Suc is counted on the attacked examples, Clean on all, so that they differ a little by rights
SAME = {  # what a paper prints under two names
    "Heads-G, Neurons-G": "EarlyRobust",
    "searched on MLM": "ORTicket",
    "BERT-base, no ticket": "Vanilla",
}


class Cell(NamedTuple):
    table: str
    task: str
    row: str
    backbone: str
    metric: str
    attack: str | None
    value: float


Found = tuple[Cell, str, list[Cell]]


def findings(tables: dict[str, Any]) -> dict[str, Any]:
    """By table: a note on each number that something is found against, and the same in a few lines."""
    every = [
        Cell(id, *row[:3], *column, value)
        for id, table in tables.items()
        for row in table["rows"]
        for column, value in zip(table["columns"], row[3], strict=True)
        if value is not None
    ]
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for kind, look in {"equal": equal, "disagrees": disagreeing, "success": success, "granularity": granular}.items():
        for cell, words, others in look(every):
            own = {"kind": kind, "task": cell.task, "row": cell.row, "metric": cell.metric, "attack": cell.attack}
            text = ", ".join(filter(None, (cell.task, cell.row, cell.attack))) + f": {words}"
            found[cell.table].append({**own, "text": text, "others": list(dict.fromkeys(o.table for o in others))})
    return {id: {"cells": found[id], "lines": in_lines(found[id])} for id in tables if id in found}


def in_lines(notes: list[dict[str, Any]]) -> list[str]:
    """Equal rows are put together by task and by the tables that have them too."""
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in notes:
        for other in one["others"] if one["kind"] == "equal" else ():
            rows[one["task"], other].append(one["row"])
    where: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (task, other), names in rows.items():
        where[task, tuple(names)].append(other)  # a row's name is there once for every attack
    equal = [
        f"{task}: accuracy, clean and under attack, is to the digit that of {', '.join(others)} for {', '.join(dict.fromkeys(who))} "
        f"(attacks: {len(who)})"
        for (task, who), others in where.items()
    ]
    return [*equal, *(one["text"] for one in notes if one["kind"] != "equal")]


def by_place(every: list[Cell]) -> dict[tuple[str, str, str, str, str | None], float]:
    return {(c.table, c.task, c.row, c.metric, c.attack): c.value for c in every}


def equal(every: list[Cell]) -> Iterator[Found]:
    """Accuracies, clean and under attack, that another paper prints too; with equal queries where both have them."""
    value, alike = by_place(every), defaultdict(list)
    for cell in every:
        if cell.metric == "aua":
            clean = value[cell.table, cell.task, cell.row, "clean", None]
            alike[cell.task, cell.backbone, cell.attack, clean, cell.value].append(cell)
    for group in alike.values():
        asked = {cell: value.get((cell.table, cell.task, cell.row, "queries", cell.attack)) for cell in group}
        for cell in group:
            others = [
                other
                for other in group
                if other.table[:2] != cell.table[:2]
                and (None in (asked[cell], asked[other]) or asked[cell] == asked[other])
            ]
            if others:
                too = {o: "" if None in (asked[cell], asked[o]) else " (queries too)" for o in others}
                where = "; ".join(f"{o.table}, {o.row}{words}" for o, words in too.items())
                yield cell, f"clean and attacked accuracy are those of {where}", others


def disagreeing(every: list[Cell]) -> Iterator[Found]:
    """Numbers of one model that a paper prints twice, and not alike."""
    groups = defaultdict(list)
    for c in every:
        groups[c.table[:2], c.task, c.backbone, SAME.get(c.row, c.row), c.metric, c.attack].append(c)
    for group in groups.values():
        for cell in group:
            others = [other for other in group if other.value != cell.value]
            if others:
                where = ", ".join(f"{other.value} in {other.table}" for other in others)
                yield cell, f"{cell.metric} is {cell.value} here, {where}", others


def success(every: list[Cell]) -> Iterator[Found]:
    """Rates of success that do not follow from the accuracies beside them."""
    value = by_place(every)
    for cell in every:
        if cell.metric == "suc":
            clean = value[cell.table, cell.task, cell.row, "clean", None]
            given = 100 * (clean - value[cell.table, cell.task, cell.row, "aua", cell.attack]) / clean
            if abs(given - cell.value) > SLACK:
                yield cell, f"suc is {cell.value}, clean and aua give {given:.1f}", []


def granular(every: list[Cell]) -> Iterator[Found]:
    """Shares that no count of SST-2's examples gives, where a number is of one run: RobustT's are means of five."""
    possible = {round(100 * count / SST2, 1) for count in range(SST2 + 1)}
    for cell in every:
        one_run = cell.table[:2] in ("ER", "OR") and cell.row != "Random Tickets" and cell.task == "sst2"
        if one_run and cell.metric in ("clean", "aua") and cell.value not in possible:
            yield cell, f"no count out of {SST2} rounds to {cell.value} (one cut off would)", []


def written(told: dict[str, Any]) -> str:
    """JSON with one row a line, so that a changed number is one changed line."""
    plain = json.dumps
    lines = ['{"tables": {']
    for i, (identity, table) in enumerate(told["tables"].items()):
        lines.append(f' {plain(identity)}: {{"source": {plain(table["source"])},')
        lines.append(f'  "columns": {plain(table["columns"])},\n  "rows": [')
        lines.append(",\n".join(f"   {plain(row, ensure_ascii=False)}" for row in table["rows"]))
        lines.append("  ]}" + ("," if i + 1 < len(told["tables"]) else ""))
    lines.append(' },\n "settings": {')
    lines.append(",\n".join(f"  {plain(identity)}: {plain(rows)}" for identity, rows in told["settings"].items()))
    lines.append(' },\n "findings": {')
    for i, (identity, found) in enumerate(told["findings"].items()):
        lines += [f" {plain(identity)}: {{", '  "lines": [']
        lines.append(",\n".join(f"   {plain(one, ensure_ascii=False)}" for one in found["lines"]))
        lines += ["  ],", '  "cells": [']
        lines.append(",\n".join(f"   {plain(one, ensure_ascii=False)}" for one in found["cells"]))
        lines.append("  ]}" + ("," if i + 1 < len(told["findings"]) else ""))
    return "\n".join([*lines, " }", "}", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the transcription")
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file differs")
    asked = parser.parse_args()
    text = written(document(json.loads(asked.source.read_text(encoding="utf-8"))))
    if asked.check:
        if asked.out.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{asked.out} is not what {asked.source} gives")
    else:
        asked.out.write_text(text, encoding="utf-8")
    told = json.loads(text)["tables"]
    count = sum(value is not None for table in told.values() for row in table["rows"] for value in row[3])
    print(f"{len(told)} tables, {sum(len(table['rows']) for table in told.values())} rows, {count} numbers")


if __name__ == "__main__":
    main()
