"""Filled tables: our number is the mean over runs of the arm that makes the row, and an empty cell says why."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy import stats

from judging import BASE, REAL, SUBSTITUTE, N, arm, finetuned, keep, made
from robust_tickets.reproduce import published
from robust_tickets.reproduce import tables as tell
from robust_tickets.reproduce.aggregate import Wanted, read_runs
from robust_tickets.reproduce.claims import families_of, judge, printed
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.plan import TICKET, Cell, Plan, campaign, plan
from robust_tickets.reproduce.tables import Filled, FilledCell, fill
from robust_tickets.stats.intervals import prediction_interval


def one(filled: Filled, row: str, metric: str, by: str | None = None, task: str = "sst2") -> FilledCell:
    (cell,) = [c for c in filled.cells if (c.row, c.metric, c.by, c.task) == (row, metric, by, task)]
    return cell


def planned(of: Plan, runs: Sequence[Outcome]) -> Filled:
    (id,) = of.tables
    return fill(id, runs, of=of)


def test_a_cell_is_the_mean_over_runs_beside_the_published_number(tmp_path: Path) -> None:
    filled = fill("ER-T1", read_all(keep(tmp_path, finetuned())), tmp_path)
    cell = one(filled, "Fine-tune", "aua", REAL)
    values = [100 * c / N for c in BASE]
    assert (cell.ours.mean, cell.ours.n, cell.reading.values) == (pytest.approx(np.mean(values)), 5, tuple(values))
    assert cell.ours.prediction == pytest.approx(prediction_interval(values))
    assert cell.reading.sources == tuple(Job(task="sst2", arm="finetune", seed=s).id for s in range(5))
    assert (
        cell.published
        == published.cells("ER-T1", task="sst2", row="Fine-tune", metric="aua", attack="textfooler")[0].value
    )
    assert cell.difference == pytest.approx(cell.ours.mean - cell.published)
    assert (cell.inside, cell.reading.substituted, cell.reading.split) == (False, (), "validation")
    other = one(filled, "Fine-tune", "aua", SUBSTITUTE)
    assert other.reading.substituted == ("made-up vectors",)
    assert other.ours
    assert other.ours.mean == pytest.approx(np.mean([100 * (c // 4) / N for c in BASE]))
    clean = one(filled, "Fine-tune", "clean")
    assert (clean.ours.mean, clean.ours.interval) == (92.0, None)  # equal runs show no noise


def test_inside_is_said_with_five_runs_only() -> None:
    near = tuple(round(N * share) for share in (0.17, 0.18, 0.185, 0.175, 0.18))  # 17.9 is published
    five = one(fill("ER-T1", arm("finetune", {REAL: near})), "Fine-tune", "aua", REAL)
    four = one(fill("ER-T1", arm("finetune", {REAL: near[:4]})), "Fine-tune", "aua", REAL)
    assert (five.inside, four.inside) == (True, None)
    assert four.ours is not None
    assert four.difference is not None


def test_a_printed_number_counts_once_by_the_nearest_attack() -> None:
    """The substitute lists before the real ones, which are shorter than the papers'; what these ran as BERT-Attack before that itself."""
    near, far = (34, 36, 37, 35, 36), (100, 101, 102, 101, 99)  # 17.9 is published
    more = f"{REAL}-encoder50"
    both = {"bertattack": far, "bertattack_papers-real": near}
    filled = fill(
        "ER-T1",
        [
            *arm("finetune", {REAL: far, more: far, SUBSTITUTE: near, **both}),
            *arm("earlyrobust_first", {more: near, REAL: far}),
        ],
    )
    (paper,) = [
        cell
        for cell in filled.numbers
        if (cell.row, cell.metric, cell.attack) == ("Fine-tune", "aua", "bertattack") and cell.ours
    ]
    assert paper.by == "bertattack_papers-real"
    counted = [cell for cell in filled.numbers if cell.ours is not None and cell.attack == "textfooler"]
    assert [(cell.row, cell.metric, cell.by) for cell in counted if cell.metric == "aua"] == [
        ("Fine-tune", "aua", SUBSTITUTE), ("EarlyRobust", "aua", REAL),  # of the second the nearest was not run
    ]  # fmt: skip
    told = filled.counts()
    assert told["numbers"] == len(published.cells("ER-T1")) < len(filled.cells)
    assert told["filled"] == sum(cell.ours is not None for cell in filled.numbers) < len(filled.ran)
    judged = [cell.inside for cell in filled.numbers if cell.inside is not None]
    assert (told["inside"], told["outside"]) == (judged.count(True), judged.count(False))
    assert one(filled, "Fine-tune", "aua", SUBSTITUTE).inside


def test_a_mean_of_five_is_held_against_the_mean_of_five_further_runs() -> None:
    values = [100 * c / N for c in BASE]
    cell = one(fill("RT-T1", finetuned()), "Fine-tune", "aua", REAL)
    assert (cell.ours.prediction, cell.ours.further) == (pytest.approx(prediction_interval(values, further=5)), 5)
    low, high = cell.ours.prediction or (0.0, 0.0)
    assert low < cell.ours.mean < high
    lines = csv.DictReader(io.StringIO(tell.as_csv(fill("RT-T1", finetuned()))))
    assert {line["prediction_of"] for line in lines if line["mean"]} == {"5"}


def test_a_plan_holds_a_published_mean_against_the_same() -> None:
    filled = planned(plan(["RT-T1"], seeds=1, only=(("task", "sst2"),), paths=Paths(counted=True)), finetuned())
    assert {cell.ours.further for cell in filled.ran if cell.ours} == {5}
    filled = planned(campaign("A", Paths(counted=True)), finetuned())
    assert {cell.ours.further for cell in filled.ran if cell.ours} == {1}


def test_repeats_of_a_seed_weigh_nothing() -> None:
    again = [made("finetune", 0, {REAL: 10}, repeat=r) for r in (1, 2)]
    both, alone = (one(fill("ER-T1", some), "Fine-tune", "aua", REAL) for some in ([*finetuned(), *again], finetuned()))
    assert (both.ours, both.reading.values) == (alone.ours, alone.reading.values)
    lonely = one(fill("ER-T1", again), "Fine-tune", "aua", REAL)
    assert (lonely.ours, lonely.why) == (None, "only repeats of a seed were run")


def test_every_published_number_has_a_cell_and_an_empty_one_a_reason() -> None:
    for table in published.tables():
        filled = fill(table.id, ())
        assert filled.counts()["filled"] == 0
        assert all(cell.why for cell in filled.cells)
        printed = [(c.row, c.task, c.metric, c.attack, c.published) for c in filled.cells if c.published is not None]
        assert printed == [(c.row, c.task, c.metric, c.attack, c.value) for c in published.cells(table.id)]


def test_reasons_differ() -> None:
    filled = fill("ER-T1", finetuned())
    assert one(filled, "EarlyRobust", "aua", REAL).why == "not run"
    told = {cell.why for cell in filled.cells if cell.row == "Fine-tune" and cell.task == "sst2"}
    assert "trained, not attacked by TextBugger" in told
    assert any("not run" in why and "timed" in why for why in told)
    apart = [
        *finetuned(4),
        replace(finetuned()[4], attacks=tuple(replace(a, examples="f" * 64) for a in finetuned()[4].attacks)),
    ]
    assert one(fill("ER-T1", apart), "Fine-tune", "aua", REAL).why == "its runs were attacked on different examples"
    for other in ({"resources": {"vectors": {"digest": "f" * 64}}}, {"scoring": "other"}, {"recipe": "other"}):
        mixed = [
            *finetuned(4),
            replace(finetuned()[4], attacks=tuple(replace(a, **other) for a in finetuned()[4].attacks)),
        ]
        told_why = one(fill("ER-T1", mixed), "Fine-tune", "aua", REAL).why
        assert told_why == "its runs were attacked by different rules, or with different words"
    searched = [replace(finetuned()[0], clean={}, attacks=())]
    assert one(fill("ER-T1", searched), "Fine-tune", "clean").why == "searched only, not trained"


def test_another_split_is_another_number() -> None:
    both = [
        replace(o, attacks=(*o.attacks, *(replace(a, split="test", statuses="k" * N) for a in o.attacks)))
        for o in finetuned()
    ]
    assert fill("ER-T1", both) == fill("ER-T1", finetuned())
    asked = Wanted(arm="finetune", task="sst2", metric="aua", attack=REAL, split="test")
    assert read_runs(asked, both, None).values == (0.0,) * 5
    assert read_runs(asked, finetuned(), None).why == "trained, not attacked by TextFooler (real lists) on test"


def test_a_text_that_stood_in_for_the_paper_s_is_noted_beside_every_number() -> None:
    def noted(corpus: str | None) -> set[str]:
        config = {
            "recipe": {"arms": [{"origin": {"search": {"name": "orticket", "corpus": corpus}}}, {"origin": None}]}
        }
        filled = fill("OR-T1", arm("orticket_first", {REAL: BASE}, config=config))
        return {note for cell in filled.ran if cell.row.startswith("ORTicket") for note in cell.reading.notes or ("",)}

    assert noted("@data/wiki_en") == {"searched on the texts of wiki_en, which stand in for wikitext-2-raw-v1"}
    assert noted("@data/wikitext-2-raw-v1") == noted("task") == noted(None) == {""}


def test_speed_ups_are_of_runs_timed_alone_on_one_device() -> None:
    pgd = [made("pgd", s, train_seconds=800.0 + 100 * s) for s in range(3)]  # 900 on average
    ticket = [made("earlyrobust_first", s, train_seconds=80.0, search_seconds=10.0) for s in range(2)]
    cell = one(fill("ER-T1", [*pgd, *ticket]), "EarlyRobust", "speedup_vs_pgd")
    assert cell.ours
    assert cell.ours.mean == pytest.approx(10.0)
    again = [
        made("pgd", 0, repeat=1, train_seconds=1700.0),
        made("earlyrobust_first", 1, repeat=1, train_seconds=40.0, search_seconds=10.0),
    ]
    both = one(
        fill("ER-T1", [*pgd, *ticket, *again]), "EarlyRobust", "speedup_vs_pgd"
    )  # what a run takes does not hang on its seed
    assert both.ours
    assert both.reading.values == pytest.approx((1100 / 90, 1100 / 90, 1100 / 50))
    assert [unit.rpartition("/")[2] for unit in both.reading.sources] == ["seed-0", "seed-1", "seed-1-repeat-1"]
    alone = one(
        fill("ER-T1", [*(replace(o, cost={**o.cost, "processes": 9}) for o in (*pgd, *ticket)), *again]),
        "EarlyRobust",
        "speedup_vs_pgd",
    )
    assert alone.ours
    assert alone.ours.mean == pytest.approx(34.0)
    shared = [replace(o, cost={**o.cost, "processes": 3}) for o in ticket]
    assert one(fill("ER-T1", [*pgd, *shared]), "EarlyRobust", "speedup_vs_pgd").why == "not timed alone"
    elsewhere = [replace(o, env={"device": "another GPU"}) for o in pgd]
    assert (
        one(fill("ER-T1", [*elsewhere, *ticket]), "EarlyRobust", "speedup_vs_pgd").why
        == "PGD, against which it is timed on the same device: not run"
    )


def test_a_search_for_all_tasks_is_charged_apart() -> None:
    runs = [
        made("freelb", train_seconds=800.0),
        made("orticket_first", train_seconds=80.0, search_seconds=20.0, parameters=87.8e6),
    ]
    filled = fill("OR-T2", runs)
    found = {
        m: one(filled, "ORTicket", m).ours for m in ("speedup_vs_freelb", "speedup_lost_to_search", "total_millions")
    }
    assert {m: ours and round(ours.mean, 6) for m, ours in found.items()} == {
        "speedup_vs_freelb": 10.0, "speedup_lost_to_search": 2.0, "total_millions": 87.8
    }  # fmt: skip


def test_masked_weights_do_not_count_as_parameters() -> None:
    run = made("robustt", nonzero_encoder_parameters=59.5e6)
    reading = read_runs(Wanted(arm="robustt", task="sst2", metric="encoder_millions"), [run], None)
    assert reading.values == (59.5,)


def test_a_plan_s_cells_are_filled_as_the_table_s_are() -> None:
    units = tuple(Job(task="sst2", arm="finetune", seed=s) for s in range(5))
    shared: dict[str, Any] = {"row": "Fine-tune", "task": "sst2", "backbone": "bert-base-uncased", "units": units}
    own = {**shared, "arm": "finetune"}
    cells = [
        Cell(table="ER-T1", metric="aua", attack="textfooler", attacks=(REAL,), published=17.9, **own),
        Cell(table="campaign A", metric="aua", attack=SUBSTITUTE, **own),
        Cell(table="campaign A", metric="queries", attack="pwws", attacks=("pwws",), why="no", arm="random", **shared),
    ]
    asked = Plan(title="", cells=tuple(cells), units=units, attacks={})
    table, campaign = (fill(id, finetuned(), of=asked) for id in asked.tables)
    (cell,), alone = table.cells, one(fill("ER-T1", finetuned()), "Fine-tune", "aua", REAL)
    assert (cell.reading, cell.ours, cell.by, cell.inside) == (alone.reading, alone.ours, alone.by, alone.inside)
    assert campaign.cells[0].ours is not None
    assert campaign.cells[0].published is None
    assert campaign.cells[1].why == "no"


def test_a_sweep_s_points_have_their_abscissa() -> None:
    filled = fill("ER-F3", arm("earlyrobust_gamma_05", {REAL: BASE}))
    (cell,) = [c for c in filled.ran if c.metric == "aua"]
    assert (cell.x, cell.published, cell.inside, cell.difference) == (0.05, None, None, None)
    swept = fill("OR-F2", arm("orticket_heads_1_12", {REAL: BASE}) + arm("orticket_neurons_30", {REAL: BASE}))
    assert {line.split("|")[1].strip() for line in tell.markdown(swept).splitlines() if line.startswith(("| heads", "| neurons"))} >= {
        "heads, 1/12", "heads, 1/3", "heads, 0.25", "neurons, 0.3",
    }  # fmt: skip
    assert fill("ER-F2", ()).cells == ()  # a search: no number stands for it


@pytest.mark.parametrize("id", [table.id for table in published.tables() if table.kind == "figure"])
def test_a_figure_has_the_same_points_by_its_id_and_by_its_plan(id: str) -> None:
    planned = plan([id], seeds=1, paths=Paths(counted=True)).cells
    points = [(c.row, c.task, c.backbone, c.arm, c.metric, c.x) for c in planned if c.metric != TICKET]
    assert [(c.row, c.task, c.backbone, c.arm, c.metric, c.x) for c in fill(id, ()).cells] == points


def test_what_is_written_says_what_is_shown(tmp_path: Path) -> None:
    runs = [*finetuned(), *arm("earlyrobust_first", {REAL: tuple(c + 20 for c in BASE)})]
    filled = fill("ER-T1", read_all(keep(tmp_path / "results", runs)), tmp_path / "results")
    paths = {path.suffix: path for path in tell.write(filled, tmp_path / "out")}
    assert sorted(path.name for path in paths.values()) == ["ER-T1.csv", "ER-T1.json", "ER-T1.md"]
    told = json.loads(paths[".json"].read_text())
    assert len(told["cells"]) == len(filled.cells)
    kept = {"mean", "n", "deviation", "interval", "prediction", "further", "units", "values"}
    assert {name for cell in told["cells"] if cell["ours"] for name in cell["ours"]} == kept
    lines = list(csv.DictReader(io.StringIO(paths[".csv"].read_text())))
    line = next(x for x in lines if (x["row"], x["by"], x["metric"], x["task"]) == ("Fine-tune", REAL, "aua", "sst2"))
    assert (line["mean"], line["runs"], line["inside"]) == ("44.000", "5", "no")
    assert len(lines) == len(filled.cells)
    marked = paths[".md"].read_text()
    assert "| Fine-tune | 17.9 | 44.0 | 39.8–48.2 | 5 | +26.1 | 33.7–54.3 | no |" in marked
    before = {path: path.read_bytes() for path in paths.values()}
    tell.write(fill("ER-T1", runs, tmp_path / "results"), tmp_path / "out")
    assert before == {path: path.read_bytes() for path in paths.values()}


def test_a_name_with_odd_letters_is_no_path(tmp_path: Path) -> None:
    filled = replace(fill("ER-T5", ()), id="campaign A/../x")
    assert all(path.parent == tmp_path for path in tell.write(filled, tmp_path))


@given(st.lists(st.integers(0, 184), min_size=1, max_size=8), st.integers(0, 3))
def test_ours_is_inside_its_own_intervals(counts: list[int], turn: int) -> None:
    runs = arm("finetune", {REAL: tuple(counts)})
    cell = one(fill("ER-T1", runs[turn:] + runs[:turn]), "Fine-tune", "aua", REAL)
    assert cell.ours.n == len(counts)
    assert cell.ours.mean == pytest.approx(100 * sum(counts) / N / len(counts))
    for interval in filter(None, (cell.ours.interval, cell.ours.prediction)):
        assert interval[0] < cell.ours.mean < interval[1]
    if cell.inside is not None:
        assert len(counts) >= 5
        assert cell.published is not None
        assert cell.inside == (cell.ours.prediction[0] <= cell.published <= cell.ours.prediction[1])


def test_seconds_of_two_devices_are_not_mixed() -> None:
    slow = [
        replace(one, unit=replace(one.unit, seed=one.unit.seed + 5), env={"device": "a CPU"})
        for one in arm("finetune", {REAL: (80, 81)}, train_seconds=9e3)
    ]
    found = read_runs(
        Wanted(arm="finetune", task="sst2", metric="seconds"), [*slow, *arm("finetune", {REAL: (80, 81, 82)})], None
    )
    assert found.values == (100.0, 100.0, 100.0)


def test_one_attack_is_asked_for_where_it_cannot_be_run() -> None:
    for only, expected in (
        ({}, {REAL, SUBSTITUTE}),
        ({"attack": REAL}, {REAL}),
        ({"attack": "textfooler"}, {REAL, SUBSTITUTE}),
    ):
        asked = plan(
            ["ER-T1"], seeds=1, only=(("task", "sst2"), *only.items()), paths=Paths()
        )  # no word lists are at hand
        filled = planned(asked, finetuned())
        found = {
            cell.by
            for cell in filled.cells
            if (cell.row, cell.metric, cell.attack) == ("Fine-tune", "aua", "textfooler")
        }
        assert found == expected


def claimed(
    *only: tuple[str, str], runs: Sequence[Outcome], id: str = "ER-T1"
) -> tuple[Filled, set[tuple[str, str, str]]]:
    """A table of which a part is asked for, and its claims: task, other arm, attack."""
    filled = planned(plan([id], seeds=1, only=only, paths=Paths(counted=True)), runs)
    return filled, {(one.claim.task, one.claim.other, one.claim.attack) for one in filled.claims}


def test_claims_are_told_of_what_is_asked_for_and_adjusted_as_a_whole_family() -> None:
    runs = [
        run
        for name in ("finetune", "earlyrobust_first", "freelb", "pgd")
        for run in arm(name, {REAL: BASE, SUBSTITUTE: BASE[::-1]})
    ]
    whole, every = claimed(runs=runs)
    assert whole.aside == 0
    assert whole.claims == fill("ER-T1", runs).claims
    for only, expected in {
        (("task", "sst2"),): {one for one in every if one[0] == "sst2"},
        (("task", "sst2"), ("method", "EarlyRobust"), ("method", "finetune")): {
            ("sst2", "finetune", REAL),
            ("sst2", "finetune", SUBSTITUTE),
        },
        (("task", "sst2"), ("attack", REAL)): {one for one in every if (one[0], one[2]) == ("sst2", REAL)},
        (("attack", "textfooler"),): every,
        (("attack", "textbugger"),): set(),
        (("metric", "clean"),): set(),
        (("method", "earlyrobust"),): set(),  # against nothing
        (("method", "freelb"), ("method", "pgd")): set(),  # about neither
        (("seed", "0"),): every,
    }.items():
        filled, found = claimed(*only, runs=runs)
        assert found == expected, only
        assert set(filled.claims) <= set(whole.claims), only  # with the same p: the family is the same
        assert filled.aside == len(every) - len(expected)
        console = Console(width=200, file=io.StringIO(), record=True)
        tell.show(filled, console)
        shown = console.export_text()
        assert ("EarlyRobust against FreeLB, SST-2" in shown) == (("sst2", "freelb", REAL) in expected), only
        assert (f"{filled.aside} further claims about what --only leaves out" in shown) == bool(filled.aside), only
    assert {one.comparison.of for one in whole.claims if one.comparison} == {12}


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_what_leaves_nothing_out_tells_all_claims(name: str) -> None:
    """Seed 2 is run of every arm: of those that took part in a choice it is the first."""
    for only in (), (("seed", "2"),), (("task", "sst2"),):
        filled = planned(campaign(name, Paths(counted=True), only=only), finetuned())
        assert filled.aside == 0
        assert len(filled.claims) == sum(len(judge(one, finetuned())) for one in families_of(f"campaign {name}"))


WILD = (10, 15, 20, 25, 90)  # one of five stands far out


def runs(robust: tuple[int, ...] = WILD, random: tuple[int, ...] = BASE) -> list[Outcome]:
    return [
        *finetuned(),
        *arm("earlyrobust", {REAL: robust, SUBSTITUTE: robust}),
        *arm("random", {REAL: random, SUBSTITUTE: random}),
    ]


def aua(table: str, row: str) -> float:
    (cell,) = published.cells(table, task="sst2", row=row, metric="aua", attack="textfooler")
    return cell.value


@pytest.mark.parametrize(
    ("other", "row", "table", "of"), [("finetune", "Fine-tune", "ER-T1", 1), ("random", "Random Tickets", "ER-T3", 5)]
)
def test_a_printed_difference_is_held_against_as_many_runs_a_side(other: str, row: str, table: str, of: int) -> None:
    judged = next(one for one in judge("A", runs()) if (one.claim.other, one.claim.attack) == (other, REAL))
    found = printed(judged.claim, runs())
    assert (found.table, found.runs) == (table, (1, of))
    assert found.difference == pytest.approx(aua(table, "EarlyRobust") - aua(table, row))
    values = [[100 * count / N for count in counts] for counts in (WILD, BASE)]
    parts = [stats.tvar(own) * (1 / k + 1 / 5) for own, k in zip(values, (1, of), strict=True)]
    degrees = sum(parts) ** 2 / sum(part**2 / 4 for part in parts)
    reach = float(stats.t.ppf(0.975, degrees)) * math.sqrt(sum(parts))
    middle = 16.0 - 44.0  # means of the two
    assert found.prediction == pytest.approx((middle - reach, middle + reach))
    assert found.inside == (middle - reach <= found.difference <= middle + reach)
