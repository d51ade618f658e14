"""The leaderboard and the strips of runs: what stands in them for few runs, equal runs and wide intervals."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import judging
from outcomes import ATTACKS
from robust_tickets.report.format import GLUE
from robust_tickets.reproduce.aggregate import Against, standings
from robust_tickets.reproduce.answers import answer
from robust_tickets.reproduce.arms import arms
from robust_tickets.reproduce.claims import family, judge, sentence
from robust_tickets.reproduce.page import board, strip
from sweeping import run

SPAN = f"{GLUE}to{GLUE}+"  # of an interval above 0


def test_the_first_figure_leaves_out_no_arm_for_a_weaker_one_of_as_many_runs() -> None:
    share = {name: 0.2 + 0.02 * (7 * i % 15) for i, name in enumerate(list(arms())[:15])}
    few = [run(name, held=held) for name, held in share.items()]
    weak = min(share, key=lambda name: share[name])
    drawn = strip(standings([*few, run(weak, seed=1, held=share[weak])]), Against(name=ATTACKS[0]))
    assert drawn is not None
    shown = re.findall(r"<title>([^<]*): [\d.]+\s%", unescape(drawn))
    ranked = sorted(share, key=lambda name: -share[name])
    assert shown == [arms()[name].title for name in (*ranked[:11], weak)]
    assert "12 of 15 arms, those with most runs and of as many runs the more robust" in drawn


def test_no_accuracy_is_below_zero() -> None:
    """Three runs far apart have an interval that begins there."""
    rows = standings(judging.arm("finetune", {"textfooler-real": (2, 20, 60)}))
    drawn = strip(rows, Against(name="textfooler-real"))
    assert f"0.0{GLUE}to{GLUE}50.5, 3 runs" in str(drawn)
    shown = board(rows[0].key, rows)
    assert "0.0–50.5" in shown
    assert not [part for part in (str(drawn), shown) if "−" in part]


def test_equal_runs_say_why_they_have_no_interval() -> None:
    rows = standings(judging.arm("finetune", {"textfooler-real": (80, 84, 90)}))
    assert {one.measured("clean").equal for one in rows} == {True}  # type: ignore[union-attr]
    shown = board(rows[0].key, rows)
    assert shown.count("<small>all runs equal</small>") == 1
    assert "equal" not in board(rows[0].key, standings(judging.arm("finetune", {"textfooler-real": (80, 80)}))), (
        "two have none anyway"
    )


def test_an_interval_that_leaves_its_drawing_ends_in_an_arrow() -> None:
    """Else one of 40 points, from three runs, looks like one of 20."""
    base = judging.arm("finetune", {"textfooler-real": (80, 84, 88, 90, 98)})
    for counts, arrows in (((80, 84, 160), 2), ((80, 84, 88), 0)):
        few = judging.arm("earlyrobust", {"textfooler-real": counts})
        drawn = str(answer(family("A"), judge("A", [*base, *few])))
        assert drawn.count("<polygon") == arrows
        assert ("An arrow marks an interval that is cut there." in drawn) == bool(arrows)


def test_intervals_of_two_runs_are_not_shown(tmp_path: Path) -> None:
    base, far = (80, 84, 88), (110, 114, 118)
    runs = [*judging.arm("finetune", {"textfooler-real": base}), *judging.arm("earlyrobust", {"textfooler-real": far})]
    folder = judging.keep(tmp_path, runs)
    for seeds, shown in ((3, True), (2, False)):
        judged = judge("A", [one for one in runs if one.unit.seed < seeds], folder)
        first = next(one for one in judged if one.comparison)
        assert first.comparison is not None
        assert first.comparison.interval is not None
        assert first.comparison.over_examples is not None
        row, words = str(answer(family("A"), judged)), sentence(first)
        assert [part in row for part in ("other texts: ", 'class="bar', SPAN)] == [shown] * 3
        assert [part in words for part in ("on further examples too", SPAN)] == [shown] * 2
