"""How far searches agree: against masks that are counted by hand, and against lots that are drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import outcomes as made_up
from drawings import cells, heads
from robust_tickets.reproduce.aggregate import standings
from robust_tickets.reproduce.arms import arm
from robust_tickets.reproduce.figures import Drawn, figure
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.page import make, origins
from robust_tickets.reproduce.ticket_figures import Survivors, agreement, by_chance
from sweeping import run

CORPUS = {"recipe": {"arms": [{"origin": {"search": {"name": "orticket", "corpus": "@data/wiki_en"}}}]}}


def shape(heads: list[list[int]], neurons: tuple[float, ...] | None = None) -> Survivors:
    kept = tuple(sum(row) / len(row) for row in heads)
    return Survivors(parts={"heads": kept, "neurons": neurons or (1.0,) * len(heads)}, heads=tuple(map(tuple, heads)))


def searched(found: Outcome) -> Outcome:
    """Of which nothing was trained."""
    return replace(found, clean={}, attacks=(), cost={"search_seconds": 3.0})


def whole(seed: int = 0, far: float = 0.4, **changed: object) -> Outcome:
    """A search that goes on where its rule would stop it, at the sixth of ten points: only the last point lies further off."""
    away = np.zeros((10, 10))
    away[0, 1:] = away[1:, 0] = far
    away[-1, :-1] = away[:-1, -1] = 0.03 * (seed + 1)
    rows = away.tolist()
    told = {
        "points": [i / 10 for i in range(1, 11)],
        "heads": rows,
        "neurons": rows,
        "gamma": 0.1,
        "window": 4,
        "rule": "fixed",
    }
    traces = {"distances": {**told, "stopped_at": 9, "drawn_at": 9, "converged": True}}
    return searched(run("earlyrobust_whole", seed=seed, traces=traces, **changed))


def test_what_searches_share_is_counted() -> None:
    first, second = [[0, 0], [1, 1], [1, 1]], [[0, 0], [1, 0], [1, 1]]
    said = agreement([shape(first, (1.0, 0.5, 0.0)), shape(second, (1.0, 0.5, 0.0))])
    assert (
        "Of 6 heads 3 survive in every search and 2 in none; two searches differ on 16.7 % of them (16.7 to 16.7)"
        in said
    )
    lot = 100 * (4 / 6 * 3 / 6 + 3 / 6 * 2 / 6)
    assert f"two random tickets of their size on {lot:.1f} %" in said
    assert "Of the heads that are removed 80, 20 and 0 % lie in the lower, middle and upper third of the layers" in said
    assert said.endswith("of the neurons that are removed 0, 33 and 67 %.")


def test_one_search_agrees_with_nobody() -> None:
    assert "survive in every" not in agreement([shape([[0, 1], [1, 1], [1, 1]])])
    assert agreement([]) == ""
    assert agreement([Survivors(parts={"weights": (0.5, 0.5)})]) == ""


@pytest.mark.parametrize(("depth", "told"), [(1, False), (2, False), (3, True), (4, False), (6, True), (8, False)])
def test_thirds_are_told_where_layers_have_three_equal_parts(depth: int, told: bool) -> None:
    """Else evenly removed heads of four layers would lie at 25, 50 and 25 %, and the only layer would be a middle one."""
    said = agreement([shape([[0, 1]] * depth), shape([[1, 0]] * depth)])
    assert "two searches differ on 100.0 %" in said
    assert ("33, 33 and 33 % lie in the lower, middle and upper third" in said) is told
    assert ("third" in said) is told


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 2**32 - 1))
def test_lots_lie_as_far_apart_as_is_said(first: int, second: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    masks = [draw.permuted(np.tile(np.arange(20) < kept, (4000, 1)), axis=1) for kept in (first, second)]
    assert (masks[0] != masks[1]).mean() == pytest.approx(by_chance(first / 20, second / 20), abs=0.01)


def test_how_far_masks_move_after_the_rule_is_told() -> None:
    drawn = figure("ER-F2", [whole(seed) for seed in range(3)])
    assert (
        "From there to the end of the search the ticket changes by 3.0 to 9.0 % of the heads and 3.0 to 9.0 % of the neu"
        in drawn.caption
    )
    assert "neurons; two random tickets of that size differ on 27.8 and 4" in drawn.caption
    head, *rows = _table(drawn)
    place = head.index("From there to the end, %")
    assert [row[place] for row in rows] == ["3.0", "6.0", "9.0"]
    restless = figure("ER-F2", [replace(whole(), traces=_never(whole()))])
    assert "From there to the end of the search" not in restless.caption
    assert _table(restless)[1][place] == "–"


def test_a_rule_that_stops_at_the_last_point_leaves_no_afterwards() -> None:
    late, told = whole(), whole().traces["distances"]
    rows = [row[:6] for row in told["heads"][:6]]
    cut = {**told, "points": told["points"][:6], "heads": rows, "neurons": rows, "stopped_at": 5, "drawn_at": 5}
    drawn = figure("ER-F2", [replace(late, traces={"distances": cut})])
    head, row = _table(drawn)
    assert row[head.index("Rule stops at epoch")] == "0.60"
    assert row[head.index("From there to the end, %")] == "–"
    assert "From there to the end of the search" not in drawn.caption


def test_a_search_without_a_part_stands_in_the_table_of_the_other_part() -> None:
    without = whole(1)
    kept = {name: value for name, value in without.traces["distances"].items() if name != "heads"}
    drawn = figure("ER-F2", [whole(), replace(without, traces={"distances": kept})])
    rows = {
        panel.title.rpartition(": ")[2]: [row[0] for row in cells(panel.table)]
        for panel in drawn.panels
        if panel.table is not None
    }
    assert rows == {"heads": ["seed 0"], "neurons": ["seed 0", "seed 1"]}


def test_a_caption_speaks_of_what_is_drawn_alone() -> None:
    """ORTicket's searches for other tasks are not in its figure; nor are tasks that are not asked for."""
    alike = [searched(run("orticket", seed=seed)) for seed in range(2)]
    elsewhere = [searched(run("orticket", task="qnli", seed=seed, notes=("Of another task.",))) for seed in range(2)]
    assert figure("OR-F1", [*alike, *elsewhere]).caption == figure("OR-F1", alike).caption
    own, others = (
        [searched(run("earlyrobust", task=task, seed=seed)) for seed in range(2)] for task in ("sst2", "imdb")
    )
    assert "IMDB: Of" in figure("ER-F5", [*own, *others]).caption
    asked = figure("ER-F5", [*own, *others], pairs={("bert-base-uncased", "sst2")})
    assert asked.caption == figure("ER-F5", own).caption
    maps = figure(
        "ER-F2",
        [whole(), replace(whole(), unit=replace(whole().unit, task="imdb"))],
        pairs={("bert-base-uncased", "sst2")},
    )
    assert maps.caption == figure("ER-F2", [whole()]).caption


def _table(drawn: Drawn) -> list[tuple[str, ...]]:
    table = next(panel.table for panel in drawn.panels if panel.table is not None)
    return [heads(table), *cells(table)]


def _never(found: Outcome) -> dict[str, object]:
    return {"distances": {**found.traces["distances"], "gamma": -1.0}}


def test_a_figure_names_the_texts_that_stand_in() -> None:
    found = [searched(run("orticket", seed=seed, config=CORPUS, notes=("A note.",))) for seed in range(2)]
    drawn = figure("OR-F1", found)
    assert "searched on the texts of wiki_en, which stand in for wikitext-2-raw-v1" in drawn.caption
    assert "A note;" in drawn.caption
    assert "stand in for" in origins(standings(found))


def test_searches_alone_are_no_ways_to_train(tmp_path: Path) -> None:
    found = [run("earlyrobust"), searched(run("earlyrobust", seed=1)), *(whole(seed) for seed in range(2))]
    said = re.sub("<[^>]+>", "", origins(standings(found)))
    assert "1 run and 1 search alone" in said
    assert "2 searches alone" in said
    page = make(made_up.outcomes(tmp_path, seeds=1, repeats=1), found)
    assert re.search(r"<b>1</b><span>way to train</span>", page)


def test_shares_are_told_in_percent() -> None:
    assert arm("earlyrobust_first_heads_1_12").title == "EarlyRobust, 8.33 % of the heads removed"
    assert arm("robustt_sparsity_30").title == "RobustT, 30 % of the weights removed"
