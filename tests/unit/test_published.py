"""What the papers printed: ids, counts, sources; nothing twice, nothing that cannot be; and the file is what its source gives."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.experiment import recipe
from robust_tickets.reproduce import published
from robust_tickets.reproduce.arms import TITLES, rows
from robust_tickets.reproduce.published import PERCENT, cells, findings, settings, table, tables

ROOT = Path(__file__).resolve().parents[2]
# numbers in each table; all agree with what was counted by hand, so that no exception is needed
COUNTS = {
    "ER-T1": 189, "ER-T2": 32, "ER-T3": 24, "ER-T4": 18, "ER-T5": 8, "ER-T7": 8, "ER-T8": 8,
    "ER-F2": 0, "ER-F3": 0, "ER-F4": 0, "ER-F5": 0,
    "RT-T1": 180, "RT-T2": 36, "RT-T3": 18, "RT-T4": 24, "RT-F1": 0, "RT-F2": 0, "RT-F3": 0, "RT-F4": 0, "RT-F5": 0,
    "OR-T1": 300, "OR-T2": 25, "OR-T3": 48, "OR-T4": 70, "OR-T5": 60, "OR-T6": 18, "OR-F1": 0, "OR-F2": 0,
}  # fmt: skip
EVERY = [cell for one in tables() for cell in cells(one.id)]


def script() -> Any:
    spec = importlib.util.spec_from_file_location("published_numbers", ROOT / "scripts" / "published_numbers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ids_in_the_papers_order_with_their_counts() -> None:
    assert {one.id: len(cells(one.id)) for one in tables()} == COUNTS
    assert [one.id for one in tables()] == list(COUNTS)
    assert len(EVERY) == 1066


def test_every_cell_has_a_source() -> None:
    for cell in EVERY:
        name, _, place = cell.source.partition(", ")
        paper = published.paper(cell.table[:2].lower())
        assert name == f"{paper.name} ({paper.venue})"
        assert place == f"Table {cell.table[4:]}"


def test_a_number_is_a_mean_where_the_paper_says_so() -> None:
    """RobustT's all are, of five trials; EarlyRobust's speed-ups are of mean times; of the rest nothing is stated but for random tickets."""
    means = {cell for cell in EVERY if cell.runs > 1}
    assert {cell.runs for cell in means} == {5}
    assert means == {
        cell
        for cell in EVERY
        if cell.table.startswith("RT")
        or (cell.table.startswith("ER") and cell.metric.startswith("speedup"))
        or (cell.table, cell.row) == ("ER-T3", "Random Tickets")
    }
    for one in tables():  # a row that is misspelt would be of one run
        assert set(one.runs) <= {row.name for row in one.rows}
    assert {row.name: row.seeds for row in rows("ER-T3") if row.seeds} == table("ER-T3").runs


def test_no_cell_twice() -> None:
    keys = [(c.table, c.row, c.task, c.backbone, c.metric, c.attack) for c in EVERY]
    assert len(set(keys)) == len(keys)


def test_values_can_be() -> None:
    for cell in EVERY:
        assert cell.metric in TITLES["metrics"]
        assert 0 <= cell.value <= 100 if cell.metric in PERCENT else 0 < cell.value < 10_000, cell
        assert (cell.attack is None) == (cell.metric not in ("aua", "suc", "queries"))
        assert cell.task in TASKS
    assert {cell.backbone for cell in EVERY if cell.table != "OR-T5"} == {"bert-base-uncased"}
    assert {cell.backbone for cell in cells("OR-T5")} == {"roberta-base"}


@pytest.mark.parametrize("one", tables(), ids=lambda one: one.id)
def test_a_table_says_what_it_is(one: published.Table) -> None:
    assert one.title
    assert one.notes
    assert one.paper == one.id[:2].lower()
    assert set(one.recipes) <= set(recipe.recipes())
    assert one.recipes
    assert set(one.tasks) <= set(TASKS)
    assert (one.kind == "figure") == bool(one.shows) == bool(one.redrawn) == (not one.rows) == (not one.columns)
    if one.kind == "table":
        empty = 5 if one.id == "OR-T2" else 0  # Vanilla searches nothing
        assert len(one.rows) * len(one.columns) - empty == COUNTS[one.id]


def test_the_methods_defaults_are_the_published_settings() -> None:
    from robust_tickets.search.earlyrobust import EarlyRobust
    from robust_tickets.search.robustt import RobustT

    for task, given in settings("ER-T6").items():
        method = EarlyRobust.for_task(task)
        assert (method.head_l1, method.neuron_l1, method.lr) == (given["lambda_H"], given["lambda_F"], given["lr"])
        adversary = (method.adversary.step_size, method.adversary.steps, method.adversary.init)
        assert adversary == (given["adv_lr"], given["adv_steps"], given["adv_init_mag"])
    for task, given in settings("RT-T7").items():
        search = RobustT.for_task(task)
        assert (search.lr, search.penalty, search.weight_decay) == (
            given["mask_lr_beta"],
            given["lambda_"],
            given["weight_decay_w"],
        )
        adversary = (search.adversary.step_size, search.adversary.steps, search.adversary.init)
        assert adversary == (given["adv_lr_K"], given["adv_steps_m"], given["adv_init_mag_eps"])


@pytest.mark.shared
def test_the_file_is_what_its_source_gives(shared: Path) -> None:
    source = json.loads((shared / "papers" / "paper_tables.json").read_text("utf-8"))
    made = script()
    assert made.written(made.document(source)) == made.TARGET.read_text("utf-8")


FOUND = [one for t in tables() for one in findings(t.id)]


def test_kinds_and_their_numbers() -> None:
    assert Counter(one.kind for one in FOUND) == {
        "equal": 75,
        "disagrees": 18,
        "granularity": 5,
        "success": 2,
    }
    assert all(findings(one.id) == () for one in tables() if one.kind == "figure")


def test_a_finding_is_about_a_cell() -> None:
    for one in FOUND:
        assert len(cells(one.table, task=one.task, row=one.row, metric=one.metric, attack=one.attack)) == 1
        assert one.table not in one.others


def test_impossible_shares_of_872() -> None:
    given = {(one.table, one.row, one.metric, one.attack) for one in FOUND if one.kind == "granularity"}
    assert given == {
        ("ER-T1", "FreeLB", "aua", "bertattack"),
        ("OR-T1", "FreeLB", "clean", None),
        ("OR-T1", "FreeLB", "aua", "bertattack"),
        ("OR-T5", "ORTicket", "aua", "textfooler"),
        ("OR-T5", "ORTicket", "aua", "bertattack"),
    }
