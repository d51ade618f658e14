"""What the papers printed: ids, counts, sources; nothing twice, nothing that cannot be; and the file is what its source gives."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError
from robust_tickets.experiment import recipe
from robust_tickets.reproduce import published
from robust_tickets.reproduce.arms import rows
from robust_tickets.reproduce.published import METRICS, PERCENT, Cell, cells, settings, table, tables

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
    assert spec is not None
    assert spec.loader is not None
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
    """RobustT's all are, of five trials; EarlyRobust's speed-ups are of mean times; of the rest nothing is said but for random tickets."""
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
        assert cell.metric in METRICS
        assert 0 <= cell.value <= 100 if cell.metric in PERCENT else 0 < cell.value < 10_000, cell
        assert (cell.attack is None) == (cell.metric not in ("aua", "suc", "queries"))
        assert cell.task in TASKS
    assert {cell.backbone for cell in EVERY if cell.table != "OR-T5"} == {"bert-base-uncased"}
    assert {cell.backbone for cell in cells("OR-T5")} == {"roberta-base"}


def test_an_attack_never_helps() -> None:
    clean = {(c.table, c.row, c.task): c.value for c in EVERY if c.metric == "clean"}
    assert all(c.value < clean[c.table, c.row, c.task] for c in EVERY if c.metric == "aua")


def test_a_known_number() -> None:
    (found,) = cells("ER-T1", row="EarlyRobust", task="sst2", metric="aua", attack="textfooler")
    assert (found.value, found.source) == (28.8, "EarlyRobust (EMNLP 2022), Table 1")


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


def test_filters_take_a_table_apart() -> None:
    for key in ("task", "row", "metric", "attack"):
        parts = [cells("RT-T1", **{key: value}) for value in {getattr(c, key) for c in cells("RT-T1")}]
        assert sorted(map(repr, cells("RT-T1"))) == sorted(repr(cell) for part in parts for cell in part)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: table("ER-T11"), "did you mean 'ER-T1'?"),
        (lambda: table("ER-T6"), "ER-T6 is left out: the hyper-parameters"),
        (lambda: cells("ER-T1", taks="sst2"), "did you mean 'task'?"),
        (lambda: cells("ER-T1", task="sst-2"), "did you mean 'sst2'?"),
        (lambda: settings("ER-T1"), "did you mean 'ER-T6'?"),
        (lambda: published.paper("eer"), "did you mean 'er'?"),
    ],
)
def test_what_is_not_there_is_named(call: Any, words: str) -> None:
    with pytest.raises(TicketsError) as problem:
        call()
    assert words in problem.value.hint


def test_ids_in_any_case() -> None:
    assert table("or-f2").id == "OR-F2"
    assert cells("or-f2") == cells("OR-F2", task="sst2") == ()  # a figure has no numbers
    assert cells(" er-t5") == cells("ER-T5")


def test_what_is_left_out_is_none_of_the_contents() -> None:
    left = published.left_out()
    assert not set(left) & set(COUNTS)
    assert set(published._numbers()["settings"]) <= set(left)
    assert list(published._numbers()["tables"]) == [name for name, count in COUNTS.items() if count]


def test_the_methods_defaults_are_the_published_settings() -> None:
    from robust_tickets.search.earlyrobust import EarlyRobust
    from robust_tickets.search.robustt import RobustT

    for task, told in settings("ER-T6").items():
        method = EarlyRobust.for_task(task)
        assert (method.head_l1, method.neuron_l1, method.lr) == (told["lambda_H"], told["lambda_F"], told["lr"])
        adversary = (method.adversary.step_size, method.adversary.steps, method.adversary.init)
        assert adversary == (told["adv_lr"], told["adv_steps"], told["adv_init_mag"])
    for task, told in settings("RT-T7").items():
        search = RobustT.for_task(task)
        assert (search.lr, search.penalty, search.weight_decay) == (
            told["mask_lr_beta"],
            told["lambda_"],
            told["weight_decay_w"],
        )
        adversary = (search.adversary.step_size, search.adversary.steps, search.adversary.init)
        assert adversary == (told["adv_lr_K"], told["adv_steps_m"], told["adv_init_mag_eps"])


def test_settings_may_be_changed_by_who_asked() -> None:
    settings("RT-T5")["lr"] = 1.0
    assert settings("RT-T5")["lr"] == 2e-5


def test_data_files_are_in_the_wheel() -> None:
    globs = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-data"][
        "robust_tickets"
    ]
    folder = Path(published.__file__).parent
    data = [f"reproduce/{file.name}" for file in folder.iterdir() if file.is_file() and file.suffix != ".py"]
    assert len(data) >= 2
    assert all(any(fnmatch(name, glob) for glob in globs) for name in data)


def test_the_script_names_rows_as_printed_and_keeps_empty_cells() -> None:
    entry = {"paper": "ORTicket", "table": "2", "dataset": "AG NEWS", "backbone": "b"}
    entries = [
        {**entry, "method": "RobustT_40", "metrics": {"params_M_total": 87, "textfooler": {"aua": 1.5, "query": 3}}},
        {**entry, "method": "ticket searched on IMDb", "metrics": {"clean": 9}},
    ]
    told = script().document(
        {"entries": entries, "hyperparameters": {name: {"_legend": "x"} for name in script().SETTINGS}}
    )
    assert json.loads(script().written(told))["tables"]["OR-T2"] == {
        "source": {"paper": "ORTicket", "table": "2"},
        "columns": [["total_millions", None], ["aua", "textfooler"], ["queries", "textfooler"], ["clean", None]],
        "rows": [
            ["ag_news", "RobustT 40 %", "b", [87.0, 1.5, 3.0, None]],
            ["ag_news", "searched on IMDB", "b", [None, None, None, 9.0]],
        ],
    }


@pytest.mark.shared
def test_the_file_is_what_its_source_gives(shared: Path) -> None:
    source = json.loads((shared / "papers" / "paper_tables.json").read_text("utf-8"))
    made = script()
    assert made.written(made.document(source)) == made.TARGET.read_text("utf-8")


def test_a_cell_has_the_fields_that_results_are_matched_by() -> None:
    assert [field.name for field in fields(Cell)] == [
        "table",
        "row",
        "task",
        "backbone",
        "metric",
        "attack",
        "value",
        "source",
        "runs",
    ]
