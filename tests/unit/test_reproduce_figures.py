"""Figures redrawn from outcomes: what is drawn, the numbers beside it, and why a panel is not drawn."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import outcomes as made_up
from drawings import cells, heads, well_formed
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.errors import TicketsError
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import Reading
from robust_tickets.reproduce.arms import rows
from robust_tickets.reproduce.figures import Spot, draw, figure, frontier, pareto
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.page import PARTS
from robust_tickets.reproduce.ticket_figures import Survivors, agreement, by_chance, distances, survivors
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.stats.compare_runs import TrainedRun
from sweeping import by_head, gates, row, run, weights
from tiny import tiny_classifier
from toy import toy_task

GAMMA = (0.02, 0.1, 0.3)
SWEEP = [row("EarlyRobust", f"gamma{i}", x) for i, x in enumerate(GAMMA)]


def swept(seeds: int = 5, **changed: object) -> list[Outcome]:
    return [run(f"gamma{i}", seed=seed, held=0.5 - x, **changed) for i, x in enumerate(GAMMA) for seed in range(seeds)]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Outcome, ...]]:
    folder = made_up.outcomes(tmp_path_factory.mktemp("results"))
    return folder, read_all(folder)


def test_every_figure_of_the_papers_is_drawn_or_says_why(campaign: tuple[Path, tuple[Outcome, ...]]) -> None:
    _, every = campaign
    for one in published.tables():
        if one.kind == "figure":
            drawn = figure(one.id, every)
            assert drawn.svg or drawn.why, one.id
            well_formed(drawn)
            assert PARTS.drawn(drawn)
    assert "SST-2" in figure("er-f5", every).svg


@pytest.mark.parametrize("id", [one.id for one in published.tables() if one.kind == "figure"])
def test_every_figure_is_drawn_whole_where_all_its_rows_were_run(id: str) -> None:
    tables = ("ER-F2", "ER-F5", "OR-F1")
    every = {}
    for i, one in enumerate(rows(id)):
        changed = (
            {}
            if id in tables
            else {"ticket": weights()}
            if id == "RT-F3"
            else {"traces": gates(one.x or 0.5, epochs=2)}
        )
        for task in one.tasks:
            found = run(one.arm, task, held=0.3 + 0.001 * i, **changed)
            unit = replace(found.unit, backbone=one.backbone)
            every[unit] = replace(found, unit=unit)  # one arm may be a point of two lines
    drawn = figure(id, list(every.values()))
    assert drawn.why == ""
    assert len(well_formed(drawn)) >= len({(one.backbone, task) for one in rows(id) for task in one.tasks})


def test_an_unknown_figure_is_refused() -> None:
    with pytest.raises(TicketsError):
        figure("ER-F9", [])


def test_a_sweep_shows_means_bands_and_single_runs() -> None:
    drawn = draw("ER-F3", SWEEP, swept())
    real = drawn.panels[1]
    name, x, mean, interval, n, each = cells(real.table)[0]
    values = [float(value) for value in each.split()]
    assert (name, x, n) == ("EarlyRobust", "0.02", "5")
    assert float(mean) == pytest.approx(sum(values) / 5, abs=0.06)
    low, high = map(float, interval.split(" to "))
    assert low < float(mean) < high
    assert set(drawn.sources) == {one.unit.id for one in swept()}


def test_with_four_runs_no_band_and_no_interval_is_shown() -> None:
    drawn = draw("ER-F3", SWEEP, swept(seeds=4))
    table = drawn.panels[0].table
    assert {line[3] for line in cells(table)} == {"–"}


def test_repeats_of_a_seed_do_not_count() -> None:
    again = [replace(one, unit=replace(one.unit, repeat=1)) for one in swept(seeds=1)]
    assert draw("ER-F3", SWEEP, [*swept(), *again]).svg == draw("ER-F3", SWEEP, swept()).svg


def test_another_flavour_is_another_figure() -> None:
    every = [replace(one, unit=replace(one.unit, arm=name, flavour="as-released"))
             for one, name in zip(swept(seeds=1), [one.arm for one in rows("ER-F3")], strict=False)]  # fmt: skip
    assert not figure("ER-F3", every).svg
    assert figure("ER-F3", every, flavour="as-released").svg


def test_gates_have_a_line_for_each_penalty() -> None:
    lambdas = [row("RobustT", f"lambda{i}", x) for i, x in enumerate((0.1, 1.0))]
    drawn = draw("RT-F1", lambdas, [run(one.arm, traces=gates(one.x or 0)) for one in lambdas])
    r, exact = drawn.panels
    assert r.title.startswith("SST-2: R,")
    assert all(f">lambda {x}<" in panel.svg for panel in (r, exact) for x in ("0.1", "1"))
    assert len(cells(r.table)) <= 2 * 60  # a long trace is thinned
    last = gates(0.1)["gates"][-1]["R"]
    assert ("RobustT" not in r.svg, cells(r.table)[59][:3]) == (True, ("lambda 0.1", "20", f"{100 * last:.1f}"))
    again = [replace(run(one.arm, traces=gates(0)), unit=replace(run(one.arm).unit, repeat=1)) for one in lambdas]
    assert (
        draw("RT-F1", lambdas, [*again, *[run(one.arm, traces=gates(one.x or 0)) for one in lambdas]]).svg == drawn.svg
    )
    # an epoch that a search traced twice counts once
    twice = {name: [line for line in lines for _ in range(2)] for name, lines in gates(0.1).items()}
    assert draw("RT-F1", lambdas, [run(one.arm, traces=twice) for one in lambdas]).ran


def test_survivors_are_means_over_searches() -> None:
    found = [run("earlyrobust", seed=seed) for seed in range(4)]
    (panel,) = draw("ER-F5", [row("EarlyRobust", "earlyrobust")], found).panels
    shapes = [shape for one in found if (shape := survivors(one)) is not None]
    assert len(cells(panel.table)) == 12
    mean = sum(shape.parts["neurons"][0] for shape in shapes) / 4
    assert cells(panel.table)[0][3] == f"{100 * mean:.1f}"
    assert f">{100 * mean:.0f} %<" in panel.svg
    again = [replace(one, unit=replace(one.unit, repeat=1)) for one in found]
    assert draw("ER-F5", [row("EarlyRobust", "earlyrobust")], [*found, *again]).panels == (panel,)
    assert "no ticket" in draw("ER-F5", [row("Whole", "finetune")], [run("finetune", base="finetune")]).why


def test_weights_are_added_up_by_layer_without_the_pooler() -> None:
    (panel,) = draw("RT-F3", [row("RobustT", "robustt")], [run("robustt", ticket=weights())]).panels
    assert heads(panel.table)[1] == "attention, mean %"
    assert cells(panel.table)[0][1::2] == ("72.0", "75.0")
    assert cells(panel.table)[11][1::2] == ("50.0", "91.5")
    assert len(cells(panel.table)) == 12


def test_weights_are_shown_by_head_where_all_tickets_have_them() -> None:
    asked = [row("RobustT", "robustt")]
    made = [run("robustt", seed=seed, ticket=by_head(seed)) for seed in range(2)]
    (panel,) = draw("RT-F3", asked, made).panels
    assert cells(panel.table)[0] == ("1", "50.5", "50.0 to 51.0", "76.0", "76.0 to 76.0")
    assert cells(panel.table)[11][1::2] == ("61.5", "87.0")
    first, second = (run("robustt", seed=seed, ticket=weights(seed)) for seed in range(2))
    assert (
        draw("RT-F3", asked, [first, made[1]]).panels[0].table == draw("RT-F3", asked, [first, second]).panels[0].table
    )


def test_distances_are_those_of_the_first_seed() -> None:
    found = [run("earlyrobust", seed=seed) for seed in (3, 4)]
    drawn = draw("ER-F2", [row("EarlyRobust", "earlyrobust")], found)
    assert [panel.title for panel in drawn.panels] == ["SST-2, seed 3: heads", "SST-2, seed 3: neurons"]
    trace = distances(found[0])
    assert trace.drawn_at == 12
    assert distances(run("earlyrobust", traces={})) is None


def _moves(*moves: float, gamma: float = 0.1) -> dict[str, Any]:
    """A search that went on to its end, whose masks move so far from each point to the next."""
    at = [0.0, *accumulate(moves)]
    apart = [[abs(a - b) for b in at] for a in at]
    points = [round((i + 1) / len(at), 4) for i in range(len(at))]
    end = {"points": points, "heads": apart, "neurons": apart, "stopped_at": 1.0, "drawn_at": 1.0, "converged": None}
    return {"distances": {**end, "rule": "fixed", "gamma": gamma, "window": 5}}


def test_a_search_that_goes_on_shows_where_its_rule_would_stop() -> None:
    """Five small moves in a row, at the end of the fifth; what comes after changes nothing."""
    early = [0.2] * 4 + [0.01] * 15
    found = [
        run("earlyrobust_whole", seed=seed, traces=_moves(*moves))
        for seed, moves in enumerate((early, [0.2, *early[:-1]]))
    ]
    traces = [trace for one in found if (trace := distances(one)) is not None]
    assert [trace.rule_at for trace in traces] == [9, 10]
    assert (len(traces[0].points), traces[0].drawn_at) == (20, 19)
    drawn = draw("ER-F2", [row("EarlyRobust", "earlyrobust_whole")], found)
    for panel in drawn.panels:
        assert ">rule stops<" in panel.svg
        assert "drawn here" not in panel.svg
        assert heads(panel.table)[1] == "Rule stops at epoch"
        assert [line[1] for line in cells(panel.table)] == ["0.50", "0.55"]
    never = draw(
        "ER-F2", [row("EarlyRobust", "earlyrobust_whole")], [run("earlyrobust_whole", traces=_moves(*[0.2] * 19))]
    )
    assert cells(never.panels[0].table)[0][1] == "–"


def test_the_rule_that_is_marked_is_the_search_s_own() -> None:
    """The same toy search, stopped by its rule and left to go on: the same distances as far as both go, and the same point."""
    few: dict[str, Any] = {"batch_size": 4, "lr": 1e-3, "gamma": 0.3, "adversary": FreeLB(steps=2)}
    stopped, whole = (
        distances(
            run(
                "earlyrobust",
                traces={"distances": EarlyRobust(**few, **more)(tiny_classifier(), toy_task(800)).distances},
            )
        )
        for more in ({}, {"stop": "fixed", "at_epoch": 1.0})
    )
    assert stopped.converged
    assert len(stopped.points) < len(whole.points) == 20
    assert whole.points[whole.rule_at or 0] == stopped.points[stopped.stopped_at or 0]
    both = len(stopped.points)
    assert all(
        tuple(line[:both] for line in whole.groups[part][:both]) == stopped.groups[part]
        for part in ("heads", "neurons")
    )


def test_names_are_escaped_and_the_same_outcomes_give_the_same_bytes() -> None:
    odd = [replace(one, name="<b>&") for one in SWEEP]
    drawn = draw("ER-F3", odd, swept())
    assert "<b>&" not in PARTS.drawn(drawn)
    assert PARTS.drawn(drawn) == PARTS.drawn(draw("ER-F3", odd, list(reversed(swept()))))


@pytest.mark.parametrize(
    ("id", "changed"),
    [
        ("ER-F2", {"traces": {"distances": {"points": [0.1, 0.2], "heads": [[0.0]]}}}),
        ("ER-F2", {"traces": {"distances": {"points": [0.1], "heads": [[float("nan")]]}}}),
        ("ER-F2", {"traces": {"distances": [1]}}),
        ("RT-F1", {"traces": {"gates": [{"R": 0.5}]}}),
        ("RT-F1", {"traces": {"gates": [{"epoch": 1, "R": "<b>"}]}}),
        ("ER-F5", {"ticket": {"heads": [[1, 0], [1]], "neurons": [[1, 2], [1, 2]]}}),
        ("ER-F5", {"ticket": {"heads": [[1, 0]], "neurons": []}}),
        ("RT-F3", {"ticket": {"weights": {"encoder.layer.0.output.dense.weight": 3}}}),
    ],
)
def test_a_result_that_cannot_be_read_is_named(id: str, changed: dict[str, object]) -> None:
    with pytest.raises(TicketsError) as problem:
        draw(id, [row("One", "one")], [run("one", **changed)])
    assert problem.value.code == "result.traces"
    assert "bert-base-uncased/sst2/one/corrected/seed-0" in problem.value.message


def test_tickets_of_two_models_are_not_averaged() -> None:
    small = run("one", seed=1, ticket={"heads": [[1, 0]], "neurons": [[1, 2]]})
    with pytest.raises(TicketsError) as problem:
        draw("ER-F5", [row("One", "one")], [run("one"), small])
    assert problem.value.code == "result.tickets"


def shape(heads: list[list[int]], neurons: tuple[float, ...] | None = None) -> Survivors:
    kept = tuple(sum(row) / len(row) for row in heads)
    return Survivors(parts={"heads": kept, "neurons": neurons or (1.0,) * len(heads)}, heads=tuple(map(tuple, heads)))


def test_what_searches_share_is_counted() -> None:
    first, second = [[0, 0], [1, 1], [1, 1]], [[0, 0], [1, 0], [1, 1]]
    words = agreement([shape(first, (1.0, 0.5, 0.0)), shape(second, (1.0, 0.5, 0.0))])
    lot = 100 * (4 / 6 * 3 / 6 + 3 / 6 * 2 / 6)
    for value in ("16.7 %", f"{lot:.1f} %"):
        assert value in words


def test_one_search_agrees_with_nobody() -> None:
    assert agreement([]) == ""
    assert agreement([Survivors(parts={"weights": (0.5, 0.5)})]) == ""


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 2**32 - 1))
def test_random_masks_differ_by_as_much_as_by_chance(first: int, second: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    masks = [draw.permuted(np.tile(np.arange(20) < kept, (4000, 1)), axis=1) for kept in (first, second)]
    assert (masks[0] != masks[1]).mean() == pytest.approx(by_chance(first / 20, second / 20), abs=0.01)


def test_the_frontier_has_arms_that_none_beats_in_both(campaign: tuple[Path, tuple[Outcome, ...]]) -> None:
    _, every = campaign
    drawn = pareto(every, task="sst2", attack="textfooler-real")
    well_formed(drawn)
    size, work, time = drawn.panels
    assert len(cells(work.table)) == 4, "what can be reckoned needs no run alone"
    assert {line[0]: line[-1] for line in cells(size.table)} == {
        "FreeLB-3": "yes", "EarlyRobust (drawn at the last point)": "yes", "Random ticket": "no", "Fine-tuning": "no",
    }  # fmt: skip
    assert len(cells(time.table)) == 2, "the others shared their device"
    assert "NVIDIA H200" in drawn.caption


def test_an_arm_is_beaten_by_an_equal_one_that_is_cheaper() -> None:
    aua, better = (Reading(name="run", runs=tuple(TrainedRun(value=v, seed=i) for i in range(5))) for v in (40.0, 41.0))
    cheap, dear, twin = (Spot(look=i, title=str(i), x=x, aua=aua) for i, x in enumerate((50.0, 80.0, 50.0)))
    assert frontier(cheap, [cheap, dear, twin])
    assert not frontier(dear, [cheap, dear])
    assert frontier(dear._replace(aua=better), [cheap, dear])


def test_few_runs_are_grey_and_make_no_frontier() -> None:
    sizes = {"few": 40, "sturdy_a_ticket": 60, "finetune": 80}
    held = {"few": 0.9, "sturdy_a_ticket": 0.5, "finetune": 0.4}
    every = [
        run(arm, seed=seed, held=held[arm], cost={"encoder_parameters": 1e6 * size, "processes": 2})
        for arm, size in sizes.items()
        for seed in range(4 if arm == "few" else 5)
    ]
    drawn = pareto(every, task="sst2", attack="textfooler-real")
    table = drawn.panels[0].table
    assert [line[-1] for line in cells(table)] == ["too few runs", "yes", "no"]
    for drawing in well_formed(drawn):
        groups = {
            one.findtext("title", "").partition(" at ")[0]: one
            for one in drawing.iter("g")
            if one.find("title") is not None
        }
        assert [name.partition(":")[0] for name, one in groups.items() if one.get("class") == "few"] == ["few"]
    none = pareto([one for one in every if one.unit.seed < 2], task="sst2", attack="textfooler-real")
    assert "edge" not in "".join(panel.svg for panel in none.panels)
