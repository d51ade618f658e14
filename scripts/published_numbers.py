"""Make ``robust_tickets/reproduce/published.json`` from a transcription of the three papers' tables.

Run ``python scripts/published_numbers.py SOURCE [--out FILE]`` or, to see whether the file in the package still is what SOURCE gives,
``--check``. SOURCE is JSON: ``entries``, one a row of a table (paper, table, dataset, method, backbone, metrics), and ``hyperparameters``.
The same SOURCE gives the same bytes. Numbers are facts and are taken as they are; names become this package's.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

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
    return {"tables": tables, "settings": settings}


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
