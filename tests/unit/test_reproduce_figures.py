"""Figures redrawn from outcomes: what is drawn, what is said beside it, and what cannot be drawn says why."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

import outcomes as made_up
from drawings import cells, heads, marks, well_formed
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.errors import TicketsError
from robust_tickets.report.charts import marker
from robust_tickets.reproduce import published
from robust_tickets.reproduce.arms import rows
from robust_tickets.reproduce.figures import draw, figure, lengths
from robust_tickets.reproduce.html import PARTS
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.plan import plan, read_only
from robust_tickets.reproduce.ticket_figures import distances, survivors
from robust_tickets.search.earlyrobust import EarlyRobust
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
    folder, every = campaign
    for one in published.tables():
        if one.kind == "figure":
            drawn = figure(one.id, every, folder)
            assert drawn.svg or drawn.why, one.id
            well_formed(drawn)
            assert PARTS.drawn(drawn)
    assert "SST-2" in figure("er-f5", every, folder).svg
    assert "only 1 of 19 points are run" in figure("RT-F2", every, folder).why  # the full model alone is no sweep


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


@pytest.mark.parametrize("id", [one.id for one in published.tables() if one.kind == "figure"])
def test_each_panel_that_was_not_run_has_its_own_command(id: str) -> None:
    """It asks for what the panel lacks, and draws no other."""
    every = figure(id, []).panels
    commands = [shlex.split(re.findall(r"`tickets reproduce ([^`]+)`", panel.why)[0]) for panel in every]
    places = [(one.backbone, task) for one in rows(id) for task in one.tasks]
    assert len(set(map(tuple, commands))) == len(every) == len(set(places))
    for panel, (named, flag, *only) in zip(every, commands, strict=True):
        assert (named, flag) == (id, "--only")
        asked = {
            (cell.backbone, cell.task)
            for cell in plan([named], seeds=1, only=read_only(only), paths=Paths(counted=True)).cells
        }
        assert figure(id, [], pairs=asked).panels == (panel,)


def test_an_unknown_figure_is_refused() -> None:
    with pytest.raises(TicketsError):
        figure("ER-F9", [])


def test_a_sweep_shows_means_bands_and_single_runs() -> None:
    drawn = draw("ER-F3", SWEEP, swept())
    clean, real, substitute = drawn.panels
    assert "real lists" in real.title
    assert "substitute" in substitute.title
    assert "haze thin arm0" in clean.svg
    assert real.svg.count('r="2"') == 15
    name, x, mean, interval, n, each = cells(real.table)[0]
    values = [float(value) for value in each.split()]
    assert (name, x, n) == ("EarlyRobust", "0.02", "5")
    assert float(mean) == pytest.approx(sum(values) / 5, abs=0.06)
    low, high = map(float, interval.split(" to "))
    assert low < float(mean) < high
    assert set(drawn.sources) == {one.unit.id for one in swept()}


def test_with_four_runs_no_band_and_no_interval_is_shown() -> None:
    drawn = draw("ER-F3", SWEEP, swept(seeds=4))
    assert "haze thin arm0" not in drawn.svg
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


def test_missing_points_and_tasks_are_named() -> None:
    wide = [replace(one, tasks=("sst2", "imdb")) for one in SWEEP]
    drawn = draw("ER-F3", wide, [one for one in swept() if one.unit.arm != "gamma2"])
    assert "SST-2, not run: EarlyRobust at 0.3" in drawn.why
    assert "IMDB: not run; `tickets reproduce ER-F3 --only task=imdb`" in drawn.why
    assert "<code>tickets reproduce ER-F3 --only task=imdb</code>" in PARTS.drawn(drawn)
    unattacked = draw("ER-F3", SWEEP, [replace(one, attacks=()) for one in swept()])
    assert len([panel for panel in unattacked.panels if panel.svg]) == 1
    assert "not attacked by TextFooler" in unattacked.why
    searched = draw(
        "ER-F3", SWEEP, [replace(one, clean={}, attacks=()) for one in swept()]
    )  # searches without a trained model
    assert not searched.svg
    assert "not run" in searched.why


def test_a_panel_that_was_not_run_says_what_no_run_had() -> None:
    wide = [replace(one, tasks=("sst2", "qnli")) for one in SWEEP]
    assert (
        "QNLI: not run; `tickets reproduce ER-F3 --only task=qnli` runs them, and needs data of QNLI (104,743 training rows)."
        in (draw("ER-F3", wide, swept()).why)
    )
    other = [replace(swept()[0], unit=replace(swept()[0].unit, task="qnli", arm="another", flavour="as-released"))]
    assert "`tickets reproduce ER-F3 --only task=qnli` runs them." in draw("ER-F3", wide, [*swept(), *other]).why
    foreign = figure("OR-F1", [run("earlyrobust")]).why
    assert (
        "RoBERTa-base: not run; `tickets reproduce OR-F1 --only backbone=roberta-base` runs it, and needs weights of RoBERTa-base."
        in foreign
    )
    assert "BERT-base: not run; `tickets reproduce OR-F1 --only backbone=bert-base-uncased` runs it." in foreign


def test_a_row_that_cannot_be_made_says_why() -> None:
    drawn = draw("ER-F3", [*SWEEP, row("Lost", "", why="no code path")], swept())
    assert "Lost: no code path" in drawn.why


def test_what_runs_say_against_themselves_is_in_the_caption() -> None:
    assert "the search was shortened" in draw("ER-F3", SWEEP, swept(notes=("the search was shortened",))).caption


def test_heads_and_neurons_have_panels_of_their_own_on_one_scale() -> None:
    both = [row(part, f"{part}{i}", x) for part in ("heads", "neurons") for i, x in enumerate((0.1, 0.5))]
    drawn = draw("ER-F4", both, [run(one.arm, held=0.5 - 0.4 * (one.x or 0) * (one.name == "neurons")) for one in both])
    titles = [re.findall(r'class="axis">([^<]*)<', panel.svg)[-1] for panel in drawn.panels]
    assert titles == ["heads removed, %"] * 3 + ["neurons removed, %"] * 3
    ticks = [re.findall(r'text-anchor="end" class="tick">([^<]*)<', panel.svg) for panel in drawn.panels]
    assert ticks[1] == ticks[4]
    assert ticks[0] != ticks[1]  # clean accuracy has its own


def test_lengths_are_whole_schedules_beside_the_usual_one() -> None:
    arms = {"finetune": 10, "finetune_epochs_5": 5, "finetune_epochs_25": 25, "random": 10}
    arms |= {"earlyrobust_first": 10, "earlyrobust_first_epochs_25": 25}
    every = [run(arm, seed=seed, held=0.3 + epochs / 100) for arm, epochs in arms.items() for seed in range(3)]
    every += [
        run("finetune_along_5", held=0.1),
        run("freelb3_epochs_7", held=0.1),
    ]  # a look at one schedule; one length alone
    drawn = lengths(every)
    assert well_formed(drawn)
    assert drawn.why == ""
    clean, *_ = [panel.table for panel in drawn.panels]
    assert clean is not None
    assert [row[:2] for row in cells(clean)] == [
        ("Fine-tuning", "5"), ("Fine-tuning", "10"), ("Fine-tuning", "25"), ("EarlyRobust", "10"), ("EarlyRobust", "25"),
    ]  # fmt: skip
    assert len(drawn.sources) == 15
    looks = {"finetune": 8, "earlyrobust_first": 2}
    shown = lengths(every, None, looks).panels[0].svg
    assert list(dict.fromkeys(marks(shown))) == [marks(marker(0, 0, place, 20))[0] for place in looks.values()]
    assert not lengths([one for one in every if "epochs" not in one.unit.arm]).panels
    elsewhere = [
        run("random_epochs_5", task="imdb", held=0.1),
        replace(every[0], unit=replace(every[0].unit, backbone="roberta-base")),
    ]
    assert [panel.table for panel in lengths([*every, *elsewhere]).panels] == [panel.table for panel in drawn.panels]
    assert not lengths([replace(one, unit=replace(one.unit, flavour="as-published")) for one in every]).panels


def test_the_full_model_is_level_and_lines_have_their_names() -> None:
    sparse = [row("RobustT", f"rt{i}", x) for i, x in enumerate((0.1, 0.5, 0.9))] + [row("Full model", "finetune", 0)]
    drawn = draw("RT-F2", sparse, [run(one.arm, held=0.4) for one in sparse])
    ((first, *_),) = [drawn.panels[:1]]
    assert ">Full model<" in first.svg
    assert ">RobustT<" in first.svg
    assert re.search(r'd="M52.0 ([\d.]+)L446.0 \1" class="curve arm1', first.svg)
    assert "Full model, throughout" in first.svg


def test_gates_have_a_line_for_each_penalty() -> None:
    lambdas = [row("RobustT", f"lambda{i}", x) for i, x in enumerate((0.1, 1.0))]
    drawn = draw("RT-F1", lambdas, [run(one.arm, traces=gates(one.x or 0)) for one in lambdas])
    r, exact = drawn.panels
    assert r.title.startswith("SST-2: R,")
    assert "exactly 0 or 1" in exact.title
    assert all(f">lambda {x}<" in panel.svg for panel in (r, exact) for x in ("0.1", "1"))
    assert len(cells(r.table)) <= 2 * 60  # a long trace is thinned
    last = gates(0.1)["gates"][-1]["R"]
    assert ("RobustT" not in r.svg, cells(r.table)[59][:3]) == (True, ("lambda 0.1", "20", f"{100 * last:.1f}"))
    again = [replace(run(one.arm, traces=gates(0)), unit=replace(run(one.arm).unit, repeat=1)) for one in lambdas]
    assert (
        draw("RT-F1", lambdas, [*again, *[run(one.arm, traces=gates(one.x or 0)) for one in lambdas]]).svg == drawn.svg
    )
    assert "traced no gates" in draw("RT-F1", lambdas, [run(one.arm) for one in lambdas]).why


def test_survivors_are_means_over_searches() -> None:
    found = [run("earlyrobust", seed=seed) for seed in range(4)]
    (panel,) = draw("ER-F5", [row("EarlyRobust", "earlyrobust")], found).panels
    shapes = [shape for one in found if (shape := survivors(one)) is not None]
    assert len(cells(panel.table)) == 12
    mean = sum(shape.parts["neurons"][0] for shape in shapes) / 4
    assert cells(panel.table)[0][3] == f"{100 * mean:.1f}"
    assert "share that survives, 4 searches" in panel.title
    assert f">{100 * mean:.0f} %<" in panel.svg
    again = [replace(one, unit=replace(one.unit, repeat=1)) for one in found]
    assert draw("ER-F5", [row("EarlyRobust", "earlyrobust")], [*found, *again]).panels == (panel,)
    assert "no ticket" in draw("ER-F5", [row("Whole", "finetune")], [run("finetune", base="finetune")]).why


def test_searches_that_were_drawn_otherwise_stand_for_those_that_are_to_come() -> None:
    old = [run("earlyrobust", seed=seed) for seed in range(3)]
    panel = next(panel for panel in figure("ER-F5", old).panels if panel.sources)
    assert panel.sources == tuple(one.unit.id for one in old)
    assert "drawn at the last" in figure("ER-F5", old).caption
    new = run("earlyrobust_first")
    drawn = figure("ER-F5", [*old, new])
    assert drawn.sources == (new.unit.id,)
    assert "drawn at the last" not in drawn.caption


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
    assert trace is not None
    assert trace.drawn_at == 12
    assert f"drawn there. Over 2 seeds it was drawn at epoch {trace.points[12]:.2f} each time" in drawn.caption
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
    assert "The search went on to epoch 1.00; its rule would have stopped it at epoch 0.50." in drawn.caption
    assert "Of 2 seeds the rule would have stopped 2, between the epochs 0.50 and 0.55." in drawn.caption
    for panel in drawn.panels:
        assert ">rule stops<" in panel.svg
        assert "drawn here" not in panel.svg
        assert heads(panel.table)[1] == "Rule stops at epoch"
        assert [line[1] for line in cells(panel.table)] == ["0.50", "0.55"]
    never = draw(
        "ER-F2", [row("EarlyRobust", "earlyrobust_whole")], [run("earlyrobust_whole", traces=_moves(*[0.2] * 19))]
    )
    assert "The paper's rule would not have stopped it by then." in never.caption
    assert cells(never.panels[0].table)[0][1] == "–"


def test_until_a_search_goes_on_those_that_stopped_are_drawn() -> None:
    stopped, whole = run("earlyrobust", traces=_moves(*[0.1] * 8)), run("earlyrobust_whole", traces=_moves(*[0.2] * 19))
    asked, said = [row("EarlyRobust", "earlyrobust_whole")], "what masks do afterwards is not run"
    short, long = draw("ER-F2", asked, [stopped]), draw("ER-F2", asked, [stopped, whole])
    assert said in short.caption
    assert {panel.sources for panel in short.panels} == {(stopped.unit.id,)}
    assert said not in long.caption
    assert {panel.sources for panel in long.panels} == {(whole.unit.id,)}


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
    assert stopped is not None
    assert whole is not None
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
    with pytest.raises(TicketsError, match=r"bert-base-uncased/sst2/one/corrected/seed-0: its .* cannot be read"):
        draw(id, [row("One", "one")], [run("one", **changed)])


def test_tickets_of_two_models_are_not_averaged() -> None:
    small = run("one", seed=1, ticket={"heads": [[1, 0]], "neurons": [[1, 2]]})
    with pytest.raises(TicketsError, match="not of one model"):
        draw("ER-F5", [row("One", "one")], [run("one"), small])
