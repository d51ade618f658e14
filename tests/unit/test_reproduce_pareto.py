"""What robustness costs, drawn: the frontier, how arms look, and where those of one size stand."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

import outcomes as made_up
from drawings import cells, corners, marks, well_formed
from robust_tickets.report.charts import SHAPES, look, marker, outline
from robust_tickets.reproduce.aggregate import standings
from robust_tickets.reproduce.figures import Point
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.page import board
from robust_tickets.reproduce.pareto import Spot, frontier, pareto
from sweeping import run


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Outcome, ...]]:
    folder = made_up.outcomes(tmp_path_factory.mktemp("results"))
    return folder, read_all(folder)


def test_the_frontier_has_arms_that_none_beats_in_both(campaign: tuple[Path, tuple[Outcome, ...]]) -> None:
    folder, every = campaign
    drawn = pareto(every, folder, task="sst2", attack="textfooler-real")
    well_formed(drawn)
    size, work, time = drawn.panels
    assert len(cells(work.table)) == 4, "what can be reckoned needs no run alone"
    assert {line[0]: line[-1] for line in cells(size.table)} == {
        "FreeLB-3": "yes", "EarlyRobust (drawn at the last point)": "yes", "Random ticket": "no", "Fine-tuning": "no",
    }  # fmt: skip
    assert len(cells(time.table)) == 2, "the others shared their device"
    assert "NVIDIA H200" in drawn.caption


def test_an_arm_is_beaten_by_an_equal_one_that_is_cheaper() -> None:
    aua = Point(x=None, values=(40.0,), sources=("run",))
    cheap, dear, twin = (Spot(index=i, title=str(i), x=x, aua=aua) for i, x in enumerate((50.0, 80.0, 50.0)))
    assert frontier(cheap, [cheap, dear, twin])
    assert not frontier(dear, [cheap, dear])
    assert frontier(replace(dear, aua=replace(aua, values=(41.0,))), [cheap, dear])


def test_few_runs_are_grey_and_make_no_frontier() -> None:
    sizes = {"few": 40, "sturdy_a_ticket": 60, "finetune": 80}
    held = {"few": 0.9, "sturdy_a_ticket": 0.5, "finetune": 0.4}
    every = [
        run(arm, seed=seed, held=held[arm], cost={"encoder_parameters": 1e6 * size, "processes": 2})
        for arm, size in sizes.items()
        for seed in range(4 if arm == "few" else 5)
    ]
    drawn = pareto(every, None, task="sst2", attack="textfooler-real")
    assert "arms of fewer are grey, and no line is drawn by them" in drawn.caption
    table = drawn.panels[0].table
    assert [line[-1] for line in cells(table)] == ["too few runs", "yes", "no"]
    for drawing in well_formed(drawn):
        groups = {
            one.findtext("title", "").partition(" at ")[0]: one
            for one in drawing.iter("g")
            if one.find("title") is not None
        }
        assert [name.partition(":")[0] for name, one in groups.items() if one.get("class") == "few"] == ["few"]
        names = [" ".join(text.text or "" for text in one.iter("text")) for one in groups.values()]
        assert "ASCC on the real lists: EarlyRobust ticket" in names
    none = pareto([one for one in every if one.unit.seed < 2], None, task="sst2", attack="textfooler-real")
    assert "edge" not in "".join(panel.svg for panel in none.panels)


def test_one_recipe_that_stands_twice_says_which_runs_are_which() -> None:
    every = [
        run(arm, seed=seed, held=0.4 + 0.01 * seed)
        for arm in ("sturdy_a", "sturdy_a_ticket", "sturdy_f")
        for seed in (0, 1)
    ]
    table = pareto(every, None, task="sst2", attack="textfooler-real").panels[0].table
    shown = {row[0] for row in cells(table)}
    chose, fresh = (
        "ASCC on the real lists: screened ticket, runs that chose it",
        "ASCC on the real lists: EarlyRobust ticket, fresh runs",
    )
    assert {name for name in shown if "runs" in name} == {chose, fresh}
    found = standings(every)
    assert {one.title for one in found} == shown
    assert "are one recipe; they are not counted together" in board(found[0].key, found)
    alone = standings([one for one in every if one.unit.arm != "sturdy_a"])
    assert not [one.title for one in alone if "runs" in one.title]
    assert "one recipe" not in board(alone[0].key, alone)


def test_of_many_arms_those_of_fewest_runs_are_faint_dots() -> None:
    sizes = {f"arm{i}": {"encoder_parameters": 1e6 * (40 + i % 3), "processes": 2} for i in range(20)}
    every = [
        run(arm, seed=seed, held=0.4 - 0.01 * i, cost=sizes[arm])
        for i, arm in enumerate(sizes)
        for seed in range(1 + (i < 15))
    ]
    drawn = pareto(
        every, None, task="sst2", attack="textfooler-real", looks={arm: 3 * i for i, arm in enumerate(sizes)}
    )
    drawing, *_ = well_formed(drawn)
    assert sum(one.get("class") == "name" for one in drawing.iter("text")) == 16
    assert sum(one.get("class") == "faint" for one in drawing.iter("circle")) == 4
    looks = marks(drawn.panels[0].svg)
    assert len(looks) == 2 * 16
    assert len(set(looks)) == 16  # no two alike, though the page numbers arms beyond sixteen
    named = [one.find("title").text.partition(":")[0] for one in drawing.iter("g") if one.find("text") is not None]  # type: ignore[union-attr]
    assert looks[::2] == [marks(marker(0, 0, 3 * int(name.removeprefix("arm")), 20))[0] for name in named]
    table = drawn.panels[0].table
    assert len(cells(table)) == 20


def test_arms_of_one_size_stand_side_by_side_inside_the_plot() -> None:
    sizes = {f"arm{i}": {"encoder_parameters": 1e6 * (60 if i < 8 else 80), "processes": 2} for i in range(16)}
    every = [run(arm, held=0.2 + 0.01 * i, cost=sizes[arm]) for i, arm in enumerate(sizes)]
    for drawing in well_formed(pareto(every, None, task="sst2", attack="textfooler-real")):
        (plot,) = [one for one in drawing.iter("rect") if one.get("class") == "plot"]
        left, right = float(plot.get("x") or 0), float(plot.get("x") or 0) + float(plot.get("width") or 0)
        places = [_middle(one) for one in drawing.iter("g") if one.find("title") is not None]
        assert len({round(place) for place in places}) == 16
        assert left < min(places) < max(places) < right


def _middle(group: ElementTree.Element) -> float:
    """Of the first mark in it: a circle, a rectangle or a path that closes."""
    mark = next(one for one in group if one.tag in ("circle", "rect") or (one.get("d") or "").endswith("z"))
    if mark.tag == "path":
        across = [x for x, _ in corners(mark.get("d") or "")]
        return (min(across) + max(across)) / 2
    return (
        float(mark.get("cx") or 0)
        if mark.tag == "circle"
        else float(mark.get("x") or 0) + float(mark.get("width") or 0) / 2
    )


def test_no_two_arms_look_alike() -> None:
    assert len({look(place) for place in range(128)}) == 128
    assert len({marks(marker(50, 50, place, 20))[0] for place in range(128)}) == 128


@pytest.mark.parametrize("shape", SHAPES[2:], ids=len)
@pytest.mark.parametrize(("x", "y", "size"), [(706.38, 21.55, 6.5), (0.04, 7, 2.6), (-3.25, 0.5, 20)])
def test_steps_from_corner_to_corner_lead_to_every_corner(
    shape: tuple[tuple[float, float], ...], x: float, y: float, size: float
) -> None:
    wanted = [(x + size * dx, y + size * dy) for dx, dy in shape]
    found = corners(outline(wanted))
    assert found == [pytest.approx((round(px, 1), round(py, 1)), abs=1e-9) for px, py in wanted]


def test_times_of_two_devices_are_not_compared(campaign: tuple[Path, tuple[Outcome, ...]]) -> None:
    folder, every = campaign
    moved = [replace(one, env={"device": "cpu"}) if one.unit.arm == "finetune" else one for one in every]
    drawn = pareto(moved, folder, task="sst2", attack="textfooler-real")
    assert "fewer than two were timed alone" in drawn.why
