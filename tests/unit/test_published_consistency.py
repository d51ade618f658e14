"""What the numbers say against one another is found, is in the notes, and is what was found in the transcription by other means."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from robust_tickets.reproduce import published as consistency
from robust_tickets.reproduce.published import SAME, Cell, cells, findings, summary, table, tables

NAMES = {"EarlyRobust": "ER", "RobustT": "RT", "ORTicket": "OR"}
TASKS = {"IMDB": "imdb", "SST-2": "sst2", "AG NEWS": "ag_news", "QNLI": "qnli", "QQP": "qqp", "MNLI": "mnli"}
EVERY = [one for t in tables() for one in findings(t.id)]


def of_500(id: str) -> dict[str, tuple[int, int]]:
    """For each task: how many accuracies under attack are multiples of 0.2, as 500 examples give, and how many there are."""
    counts: dict[str, tuple[int, int]] = {}
    for cell in (one for one in cells(id) if one.metric == "aua"):
        even, count = counts.get(cell.task, (0, 0))
        counts[cell.task] = even + (round(cell.value * 10) % 2 == 0), count + 1
    return counts


@pytest.fixture
def source(shared: Path) -> dict[str, Any]:
    return dict(json.loads((shared / "papers" / "paper_tables.json").read_text("utf-8"))["consistency"])


def test_kinds_and_their_numbers() -> None:
    assert Counter(one.kind for one in EVERY) == {"equal": 75, "disagrees": 18, "granularity": 5, "success": 2}
    assert all(findings(one.id) == () for one in tables() if one.kind == "figure")


def test_a_finding_is_about_a_cell() -> None:
    for one in EVERY:
        assert len(cells(one.table, task=one.task, row=one.row, metric=one.metric, attack=one.attack)) == 1
        assert one.table not in one.others


def test_equal_rows_are_found_from_both_sides() -> None:
    pairs = Counter((one.table, other) for one in EVERY if one.kind == "equal" for other in one.others)
    assert all(pairs[b, a] == count for (a, b), count in pairs.items())
    assert all(a[:2] != b[:2] for a, b in pairs)
    assert pairs["OR-T1", "ER-T1"] == 27


def test_equal_needs_equal_queries_where_both_have_them() -> None:
    def row(name: str, queries: float) -> list[Cell]:
        told: dict[str, Any] = {"table": name, "row": "x", "task": "imdb", "backbone": "b", "source": "s"}
        numbers = (("clean", None, 90.0), ("aua", "pwws", 10.0), ("queries", "pwws", queries))
        return [Cell(**told, metric=metric, attack=attack, value=value) for metric, attack, value in numbers]

    assert len(list(consistency._equal([*row("ER-T1", 5.0), *row("OR-T1", 5.0)]))) == 2
    assert list(consistency._equal([*row("ER-T1", 5.0), *row("OR-T1", 6.0)])) == []
    assert len(list(consistency._equal([*row("ER-T1", 5.0), *row("OR-T1", 6.0)[:2]]))) == 2
    assert list(consistency._equal([*row("ER-T1", 5.0), *row("ER-T3", 5.0)])) == []


def test_impossible_shares_of_872() -> None:
    told = {(one.table, one.row, one.metric, one.attack) for one in EVERY if one.kind == "granularity"}
    assert told == {
        ("ER-T1", "FreeLB", "aua", "bertattack"),
        ("OR-T1", "FreeLB", "clean", None),
        ("OR-T1", "FreeLB", "aua", "bertattack"),
        ("OR-T5", "ORTicket", "aua", "textfooler"),
        ("OR-T5", "ORTicket", "aua", "bertattack"),
    }


def test_counts_that_the_notes_tell() -> None:
    assert of_500("RT-T1")["imdb"] == (18, 18)
    assert of_500("OR-T5")["sst2"] == (9, 9)
    rows = [
        c for c in cells("OR-T1", metric="aua") if c.task in ("qnli", "qqp") and c.row in ("PGD", "FreeLB", "RobustT")
    ]
    assert [round(c.value * 10) % 2 for c in rows] == [0] * 18
    told = " ".join((*table("RT-T1").notes, *table("OR-T5").notes, *table("OR-T1").notes))
    assert all(
        words in told
        for words in ("All 18 values under attack on IMDB", "All 9 values", "all 18 values under attack of PGD")
    )


def test_the_column_that_is_not_to_be_relied_on() -> None:
    def sst2(id: str) -> list[bool]:
        fooler, bert = (
            {c.row: c.value for c in cells(id, task="sst2", metric="aua", attack=a)}
            for a in ("textfooler", "bertattack")
        )
        return [bert[row] > fooler[row] for row in fooler]

    assert all(sst2("OR-T1"))
    assert not any(sst2("ER-T1") + sst2("RT-T1") + sst2("OR-T5"))


def test_a_summary_is_short_and_forgets_nothing() -> None:
    for one in tables():
        told = " ".join(summary(one.id))
        for found in findings(one.id):
            assert found.task in told
            assert found.row in told
            assert all(other in told for other in found.others)
        assert len(summary(one.id)) <= max(8, len(findings(one.id)) // 3)


@pytest.mark.shared
def test_issues_of_the_transcription_are_all_found(source: dict[str, Any]) -> None:
    for issue in source["issues"]:
        kind = {"suc_mismatch": "success", "within_paper_disagreement": "disagrees"}[issue["kind"]]
        method = issue["method"].replace("_", " ") + (" %" if "_" in issue["method"] else "")
        asked = issue.get("metric", "suc").rpartition(".")[2]
        hits = [
            one for one in EVERY if (one.kind, one.table[:2], one.task, one.metric) == (kind, *_where(issue), asked)
        ]
        assert [one for one in hits if SAME.get(one.row, one.row) == method], issue
    kinds = Counter(issue["kind"] for issue in source["issues"])
    groups = {
        (one.table[:2], one.task, SAME.get(one.row, one.row), one.metric) for one in EVERY if one.kind == "disagrees"
    }
    assert len(groups) == kinds["within_paper_disagreement"]
    assert len([one for one in EVERY if one.kind == "success"]) == kinds["suc_mismatch"]


@pytest.mark.shared
def test_rows_equal_across_papers_are_those_of_the_transcription(source: dict[str, Any]) -> None:
    theirs = Counter()
    for group in source["clean+aua_identical_across_papers"]:
        for paper, number, _ in group["where"]:
            theirs[f"{NAMES[paper]}-T{number}", TASKS[group["dataset"]], group["attack"]] += 1
    ours = Counter((one.table, one.task, one.attack) for one in EVERY if one.kind == "equal")
    assert ours == theirs


@pytest.mark.shared
def test_granularity_is_counted_alike(source: dict[str, Any]) -> None:
    theirs = {
        (f"{NAMES[row['paper']]}-T{row['table']}", TASKS[row["dataset"]]): (row["even"], row["total"])
        for row in source["granularity"]["by_table_dataset"]
    }
    assert {(one.id, task): counts for one in tables() for task, counts in of_500(one.id).items()} == theirs


def _where(issue: dict[str, Any]) -> tuple[str, str]:
    return NAMES[issue["paper"]], TASKS[issue["dataset"]]
