"""What a paper prints beside ours: differences held against runs of as many a side, and intervals that let a number in by scatter."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console
from scipy import stats

from judging import BASE, REAL, SUBSTITUTE, N, arm, confirmed, finetuned
from robust_tickets.reproduce import published
from robust_tickets.reproduce import tables as tell
from robust_tickets.reproduce.claims import fixed, judge, printed
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.papers import table as shown
from robust_tickets.reproduce.tables import fill

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
    assert found is not None
    assert (found.table, found.runs) == (table, (1, of))
    assert found.difference == pytest.approx(aua(table, "EarlyRobust") - aua(table, row))
    values = [[100 * count / N for count in counts] for counts in (WILD, BASE)]
    parts = [stats.tvar(own) * (1 / k + 1 / 5) for own, k in zip(values, (1, of), strict=True)]
    degrees = sum(parts) ** 2 / sum(part**2 / 4 for part in parts)
    reach = float(stats.t.ppf(0.975, degrees)) * math.sqrt(sum(parts))
    middle = 16.0 - 44.0  # means of the two
    assert found.prediction == pytest.approx((middle - reach, middle + reach))
    assert found.inside == (middle - reach <= found.difference <= middle + reach)


def test_no_paper_prints_a_claim_of_the_sturdy_recipe() -> None:
    outcomes = confirmed()
    assert {printed(one.claim, outcomes) for one in judge("B-forms", outcomes)} == {None}


def test_a_number_that_scatter_lets_in_says_so() -> None:
    """28.8 is printed; ours are 16.0 in the mean, and one run in five reaches 45."""
    wide, narrow = (
        fill("ER-T3", arm("earlyrobust_first", {SUBSTITUTE: counts})) for counts in (WILD, (56, 57, 58, 58, 59))
    )
    for filled, word in ((wide, "yes, of 66"), (narrow, "yes")):
        (cell,) = [one for one in filled.ran if one.metric == "aua"]
        assert cell.inside is True
        assert (cell.scattered is not None) == (filled is wide)
        row = next(line for line in tell.markdown(filled).splitlines() if line.startswith("| EarlyRobust | 28.8 |"))
        assert row.endswith(f"| {word} |")
    (cell,) = [one for one in wide.ran if one.metric == "aua"]
    assert cell.ours is not None
    assert cell.ours.prediction is not None
    assert cell.scattered == pytest.approx(cell.ours.prediction[1])  # as shown, cut at 0
    assert replace(cell, inside=False).scattered is None
    assert replace(cell, metric="queries").scattered is None  # the margin is of percentages
    clause = f"1 of them of an interval wider than {2 * fixed()['margin']:g} points"
    assert clause in tell.markdown(wide)
    assert "“yes, of 30”" in tell.markdown(wide)
    assert clause in str(shown(wide, []))
    assert "of them of an interval" not in tell.markdown(narrow) + str(shown(narrow, []))
    console = Console(width=80, file=io.StringIO(), record=True)
    tell.show(wide, console)
    assert "yes, of 66" in console.export_text()
