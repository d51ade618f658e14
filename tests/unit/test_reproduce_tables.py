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


def real(runs: Sequence[Outcome], row: str = "Fine-tune", id: str = "ER-T1") -> FilledCell:
    """The cell of accuracy under TextFooler with the real lists."""
    return one(fill(id, runs), row, "aua", REAL)


def planned(of: Plan, runs: Sequence[Outcome]) -> Filled:
    (id,) = of.tables
    return fill(id, runs, of=of)


def test_a_cell_is_the_mean_over_runs_beside_the_published_number() -> None:
    filled, values = fill("ER-T1", finetuned()), [100 * c / N for c in BASE]
    cell = one(filled, "Fine-tune", "aua", REAL)
    assert (cell.ours.mean, cell.ours.n, cell.reading.values) == (pytest.approx(np.mean(values)), 5, tuple(values))
    assert cell.ours.prediction == pytest.approx(prediction_interval(values))
    assert cell.reading.sources == tuple(Job(task="sst2", arm="finetune", seed=s).id for s in range(5))
    (printed,) = published.cells("ER-T1", task="sst2", row="Fine-tune", metric="aua", attack="textfooler")
    assert (cell.published, cell.difference) == (printed.value, pytest.approx(cell.ours.mean - printed.value))
    assert (cell.inside, cell.reading.substituted, cell.reading.split) == (False, (), "validation")
    other, clean = one(filled, "Fine-tune", "aua", SUBSTITUTE), one(filled, "Fine-tune", "clean")
    assert other.reading.substituted == ("made-up vectors",)
    assert other.ours.mean == pytest.approx(np.mean([100 * (c // 4) / N for c in BASE]))
    assert (clean.ours.mean, clean.ours.interval) == (92.0, None)  # equal runs show no noise


def test_inside_needs_five_runs() -> None:
    near = tuple(round(N * share) for share in (0.17, 0.18, 0.185, 0.175, 0.18))  # 17.9 is published
    five, four = (real(arm("finetune", {REAL: near[:n]})) for n in (5, 4))
    assert (five.inside, four.inside) == (True, None)
    assert four.difference is not None


def test_a_printed_number_counts_once_by_the_nearest_attack() -> None:
    """The substitute lists before the real ones, which are shorter than the papers'; what these ran as BERT-Attack before that itself."""
    near, far = (34, 36, 37, 35, 36), (100, 101, 102, 101, 99)  # 17.9 is published
    more = f"{REAL}-encoder50"
    both = {"bertattack": far, "bertattack_papers-real": near}
    first = arm("finetune", {REAL: far, more: far, SUBSTITUTE: near, **both})
    filled = fill("ER-T1", [*first, *arm("earlyrobust_first", {more: near, REAL: far})])
    nearest = {(c.row, c.attack): c.by for c in filled.numbers if c.metric == "aua" and c.ours}
    assert nearest == {
        ("Fine-tune", "bertattack"): "bertattack_papers-real", ("Fine-tune", "textfooler"): SUBSTITUTE,
        ("EarlyRobust", "textfooler"): REAL,  # of which the nearest was not run
    }  # fmt: skip
    counts, inside = filled.counts(), [cell.inside for cell in filled.numbers]
    assert counts["numbers"] == len(published.cells("ER-T1")) < len(filled.cells)
    assert counts["filled"] == sum(cell.ours is not None for cell in filled.numbers) < len(filled.ran)
    assert (counts["inside"], counts["outside"]) == (inside.count(True), inside.count(False))
    assert one(filled, "Fine-tune", "aua", SUBSTITUTE).inside


def test_a_mean_of_five_is_held_against_the_mean_of_five_further_runs() -> None:
    cell = real(finetuned(), id="RT-T1")
    assert cell.ours.further == 5
    assert cell.ours.prediction == pytest.approx(prediction_interval([100 * c / N for c in BASE], further=5))
    lines = csv.DictReader(io.StringIO(tell.as_csv(fill("RT-T1", finetuned()))))
    assert {line["prediction_of"] for line in lines if line["mean"]} == {"5"}
    of_plan = planned(plan(["RT-T1"], seeds=1, only=(("task", "sst2"),), paths=Paths(counted=True)), finetuned())
    of_campaign = planned(campaign("A", Paths(counted=True)), finetuned())
    assert [{cell.ours.further for cell in filled.ran} for filled in (of_plan, of_campaign)] == [{5}, {1}]


def test_repeats_of_a_seed_weigh_nothing() -> None:
    again = [made("finetune", 0, {REAL: 10}, repeat=r) for r in (1, 2)]
    both, alone, lonely = real([*finetuned(), *again]), real(finetuned()), real(again)
    assert (both.ours, both.reading.values) == (alone.ours, alone.reading.values)
    assert (lonely.ours, lonely.why) == (None, "only repeats of a seed were run")


def test_every_published_number_has_a_cell_and_an_empty_one_a_reason() -> None:
    for table in published.tables():
        filled = fill(table.id, ())
        assert filled.counts()["filled"] == 0
        assert all(cell.why for cell in filled.cells)
        printed = [(c.row, c.task, c.metric, c.attack, c.published) for c in filled.cells if c.published is not None]
        assert printed == [(c.row, c.task, c.metric, c.attack, c.value) for c in published.cells(table.id)]


def test_reasons_differ() -> None:
    def last(**changed: Any) -> str:
        """Four runs as they are, and a fifth whose attacks differ."""
        *some, other = finetuned()
        return real([*some, replace(other, attacks=tuple(replace(a, **changed) for a in other.attacks))]).why

    filled = fill("ER-T1", finetuned())
    assert one(filled, "EarlyRobust", "aua", REAL).why == "not run"
    whys = {cell.why for cell in filled.cells if cell.row == "Fine-tune" and cell.task == "sst2"}
    assert "trained, not attacked by TextBugger" in whys
    assert any("not run" in why and "timed" in why for why in whys)
    assert last(examples="f" * 64) == "its runs were attacked on different examples"
    rules = "its runs were attacked by different rules, or with different words"
    assert {last(scoring="other"), last(recipe="other"), last(resources={"vectors": {"digest": "f" * 64}})} == {rules}
    searched = [replace(finetuned()[0], clean={}, attacks=())]
    assert one(fill("ER-T1", searched), "Fine-tune", "clean").why == "searched only, not trained"


def test_another_split_is_another_number() -> None:
    both = [
        replace(o, attacks=(*o.attacks, *(replace(a, split="test", statuses="k" * N) for a in o.attacks)))
        for o in finetuned()
    ]
    assert fill("ER-T1", both) == fill("ER-T1", finetuned())
    asked = Wanted(arm="finetune", task="sst2", metric="aua", attack=REAL, split="test")
    assert read_runs(asked, both).values == (0.0,) * 5
    assert read_runs(asked, finetuned()).why == "trained, not attacked by TextFooler (real lists) on test"


def test_a_text_that_stood_in_for_the_paper_s_is_noted_beside_every_number() -> None:
    def noted(corpus: str | None) -> set[str]:
        origins = [{"origin": {"search": {"name": "orticket", "corpus": corpus}}}, {"origin": None}]
        filled = fill("OR-T1", arm("orticket_first", {REAL: BASE}, config={"recipe": {"arms": origins}}))
        return {note for cell in filled.ran if cell.row.startswith("ORTicket") for note in cell.reading.notes or ("",)}

    assert noted("@data/wiki_en") == {"searched on the texts of wiki_en, which stand in for wikitext-2-raw-v1"}
    assert noted("@data/wikitext-2-raw-v1") == noted("task") == noted(None) == {""}


def test_speed_ups_are_of_runs_timed_alone_on_one_device() -> None:
    def speedup(*runs: Outcome) -> FilledCell:
        return one(fill("ER-T1", runs), "EarlyRobust", "speedup_vs_pgd")

    pgd = [made("pgd", s, train_seconds=800.0 + 100 * s) for s in range(3)]  # 900 on average
    ticket = [made("earlyrobust_first", s, train_seconds=80.0, search_seconds=10.0) for s in range(2)]
    assert speedup(*pgd, *ticket).ours.mean == pytest.approx(10.0)
    repeats = [
        ("pgd", 0, 1700.0, 0.0),
        ("earlyrobust_first", 1, 40.0, 10.0),
    ]  # the seed does not fix how long a run takes
    again = [made(a, s, repeat=1, train_seconds=train, search_seconds=search) for a, s, train, search in repeats]
    both = speedup(*pgd, *ticket, *again)
    assert both.reading.values == pytest.approx((1100 / 90, 1100 / 90, 1100 / 50))
    assert [unit.rpartition("/")[2] for unit in both.reading.sources] == ["seed-0", "seed-1", "seed-1-repeat-1"]
    shared = [replace(o, cost={**o.cost, "processes": 9}) for o in (*pgd, *ticket)]
    assert speedup(*shared, *again).ours.mean == pytest.approx(34.0)
    assert speedup(*pgd, *shared[3:]).why == "not timed alone"
    assert "same device" in speedup(*(replace(o, env={"device": "another GPU"}) for o in pgd), *ticket).why


def test_seconds_of_two_devices_are_not_mixed() -> None:
    slow = [made("finetune", s, train_seconds=9e3) for s in (5, 6)]
    runs = [*(replace(one, env={"device": "a CPU"}) for one in slow), *arm("finetune", {REAL: (80, 81, 82)})]
    assert read_runs(Wanted(arm="finetune", task="sst2", metric="seconds"), runs).values == (100.0, 100.0, 100.0)


def test_a_search_for_all_tasks_is_charged_apart() -> None:
    ticket = made("orticket_first", train_seconds=80.0, search_seconds=20.0, parameters=87.8e6)
    filled = fill("OR-T2", [made("freelb", train_seconds=800.0), ticket])
    expected = {"speedup_vs_freelb": 10.0, "speedup_lost_to_search": 2.0, "total_millions": 87.8}
    assert {m: one(filled, "ORTicket", m).ours.mean for m in expected} == pytest.approx(expected)


def test_masked_weights_do_not_count_as_parameters() -> None:
    run = made("robustt", nonzero_encoder_parameters=59.5e6)
    assert read_runs(Wanted(arm="robustt", task="sst2", metric="encoder_millions"), [run]).values == (59.5,)


def test_a_plan_s_cells_are_filled_as_the_table_s_are() -> None:
    units = tuple(Job(task="sst2", arm="finetune", seed=s) for s in range(5))
    shared: dict[str, Any] = {"row": "Fine-tune", "task": "sst2", "backbone": "bert-base-uncased", "units": units}
    own = {**shared, "arm": "finetune"}
    cells = (
        Cell(table="ER-T1", metric="aua", attack="textfooler", attacks=(REAL,), published=17.9, **own),
        Cell(table="campaign A", metric="aua", attack=SUBSTITUTE, **own),
        Cell(table="campaign A", metric="queries", attack="pwws", attacks=("pwws",), why="no", arm="random", **shared),
    )
    asked, alone = Plan(title="", cells=cells, units=units, attacks={}), real(finetuned())
    table, of_campaign = (fill(id, finetuned(), of=asked) for id in asked.tables)
    (cell,), (first, second) = table.cells, of_campaign.cells
    assert (cell.reading, cell.ours, cell.by, cell.inside) == (alone.reading, alone.ours, alone.by, alone.inside)
    assert (first.ours.n, first.published, second.why) == (5, None, "no")


def test_a_sweep_s_points_have_their_abscissa() -> None:
    filled = fill("ER-F3", arm("earlyrobust_gamma_05", {REAL: BASE}))
    (cell,) = [c for c in filled.ran if c.metric == "aua"]
    assert (cell.x, cell.published, cell.inside, cell.difference) == (0.05, None, None, None)
    swept = fill("OR-F2", arm("orticket_heads_1_12", {REAL: BASE}) + arm("orticket_neurons_30", {REAL: BASE}))
    names = {line.split("|")[1].strip() for line in tell.markdown(swept).splitlines() if line.startswith("| ")}
    assert names >= {"heads, 1/12", "heads, 1/3", "heads, 0.25", "neurons, 0.3"}
    assert fill("ER-F2", ()).cells == ()  # a search: no number stands for it


@pytest.mark.parametrize("id", [table.id for table in published.tables() if table.kind == "figure"])
def test_a_figure_has_the_same_points_by_its_id_and_by_its_plan(id: str) -> None:
    cells = plan([id], seeds=1, paths=Paths(counted=True)).cells
    points = [(c.row, c.task, c.backbone, c.arm, c.metric, c.x) for c in cells if c.metric != TICKET]
    assert [(c.row, c.task, c.backbone, c.arm, c.metric, c.x) for c in fill(id, ()).cells] == points


def test_what_is_written_is_what_is_shown(tmp_path: Path) -> None:
    runs = [*finetuned(), *arm("earlyrobust_first", {REAL: tuple(c + 20 for c in BASE)})]
    filled = fill("ER-T1", read_all(keep(tmp_path / "results", runs)), tmp_path / "results")
    paths = {path.name: path for path in tell.write(filled, tmp_path / "out")}
    data, lines = (
        json.loads(paths["ER-T1.json"].read_text()),
        list(csv.DictReader(paths["ER-T1.csv"].read_text().splitlines())),
    )
    kept = {"mean", "n", "deviation", "interval", "prediction", "further", "units", "values"}
    assert {name for cell in data["cells"] if cell["ours"] for name in cell["ours"]} == kept
    assert len(data["cells"]) == len(lines) == len(filled.cells)
    line = next(x for x in lines if (x["row"], x["by"], x["metric"], x["task"]) == ("Fine-tune", REAL, "aua", "sst2"))
    assert (line["mean"], line["runs"], line["inside"]) == ("44.000", "5", "no")
    shown = "| Fine-tune | 17.9 | 44.0 | 39.8–48.2 | 5 | +26.1 | 33.7–54.3 | no |"
    assert shown in paths["ER-T1.md"].read_text()
    before = {path: path.read_bytes() for path in paths.values()}
    tell.write(fill("ER-T1", runs, tmp_path / "results"), tmp_path / "out")
    assert before == {path: path.read_bytes() for path in paths.values()}


def test_a_name_with_odd_letters_is_no_path(tmp_path: Path) -> None:
    filled = replace(fill("ER-T5", ()), id="campaign A/../x")
    assert all(path.parent == tmp_path for path in tell.write(filled, tmp_path))


@given(st.lists(st.integers(0, 184), min_size=1, max_size=8), st.integers(0, 3))
def test_ours_is_inside_its_own_intervals(counts: list[int], turn: int) -> None:
    runs = arm("finetune", {REAL: tuple(counts)})
    cell = real(runs[turn:] + runs[:turn])
    assert (cell.ours.n, cell.ours.mean) == (len(counts), pytest.approx(100 * sum(counts) / N / len(counts)))
    for interval in filter(None, (cell.ours.interval, cell.ours.prediction)):
        assert interval[0] < cell.ours.mean < interval[1]
    if cell.inside is not None:
        assert len(counts) >= 5
        assert cell.inside == (cell.ours.prediction[0] <= cell.published <= cell.ours.prediction[1])


def test_one_attack_is_asked_for_where_it_cannot_be_run() -> None:
    for attack, expected in ((None, {REAL, SUBSTITUTE}), (REAL, {REAL}), ("textfooler", {REAL, SUBSTITUTE})):
        only = (("task", "sst2"), *([("attack", attack)] if attack else []))
        filled = planned(plan(["ER-T1"], seeds=1, only=only, paths=Paths()), finetuned())  # without word lists
        cells = [cell for cell in filled.cells if (cell.row, cell.metric) == ("Fine-tune", "aua")]
        assert {cell.by for cell in cells if cell.attack == "textfooler"} == expected


def claimed(
    *only: tuple[str, str], runs: Sequence[Outcome], id: str = "ER-T1"
) -> tuple[Filled, set[tuple[str, str, str]]]:
    """A table of which a part is asked for, and its claims: task, other arm, attack."""
    filled = planned(plan([id], seeds=1, only=only, paths=Paths(counted=True)), runs)
    return filled, {(one.claim.task, one.claim.other, one.claim.attack) for one in filled.claims}


def test_claims_about_what_is_asked_for_are_adjusted_as_a_whole_family() -> None:
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
def test_what_leaves_nothing_out_has_all_claims(name: str) -> None:
    """Seed 2 is run of every arm: of those that took part in a choice it is the first."""
    for only in (), (("seed", "2"),), (("task", "sst2"),):
        filled = planned(campaign(name, Paths(counted=True), only=only), finetuned())
        assert filled.aside == 0
        assert len(filled.claims) == sum(len(judge(one, finetuned())) for one in families_of(f"campaign {name}"))


@pytest.mark.parametrize(
    ("other", "row", "table", "of"), [("finetune", "Fine-tune", "ER-T1", 1), ("random", "Random Tickets", "ER-T3", 5)]
)
def test_a_printed_difference_is_held_against_as_many_runs_a_side(other: str, row: str, table: str, of: int) -> None:
    wild = (10, 15, 20, 25, 90)  # one of five is far from the others
    runs = [*finetuned(), *arm("earlyrobust", {REAL: wild}), *arm("random", {REAL: BASE})]
    judged = next(one for one in judge("A", runs) if (one.claim.other, one.claim.attack) == (other, REAL))
    found = printed(judged.claim, runs)
    asked = {"task": "sst2", "metric": "aua", "attack": "textfooler"}
    first, second = (published.cells(table, row=name, **asked)[0].value for name in ("EarlyRobust", row))
    assert (found.table, found.runs, found.difference) == (table, (1, of), pytest.approx(first - second))
    values = [[100 * count / N for count in counts] for counts in (wild, BASE)]
    parts = [stats.tvar(own) * (1 / k + 1 / 5) for own, k in zip(values, (1, of), strict=True)]
    degrees = sum(parts) ** 2 / sum(part**2 / 4 for part in parts)
    reach = float(stats.t.ppf(0.975, degrees)) * math.sqrt(sum(parts))
    middle = 16.0 - 44.0  # means of the two
    assert found.prediction == pytest.approx((middle - reach, middle + reach))
    assert found.inside == (middle - reach <= found.difference <= middle + reach)
