"""Claims beside a filled table: told of what is asked for, adjusted as the whole family that was fixed."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from judging import BASE, REAL, SUBSTITUTE, arm, finetuned
from robust_tickets.reproduce import tables as tell
from robust_tickets.reproduce.claims import families_of, judge
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.plan import campaign, plan
from robust_tickets.reproduce.tables import Filled, fill, fill_all


def claimed(
    *only: tuple[str, str], runs: Sequence[Outcome], id: str = "ER-T1"
) -> tuple[Filled, set[tuple[str, str, str]]]:
    """A table of which a part is asked for, and its claims: task, other arm, attack."""
    (filled,) = fill_all(plan([id], seeds=1, only=only, paths=Paths(counted=True)), runs)
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
        assert ("all claims of this table on a task, run or not, shown or not" in shown) == bool(filled.aside), only
    assert {one.comparison.of for one in whole.claims if one.comparison} == {12}


def test_a_campaign_s_claims_are_told_of_what_is_asked_for() -> None:
    (whole,), (part,) = (
        fill_all(campaign("A", Paths(counted=True), only=only), finetuned())
        for only in ((), (("method", "finetune"), ("method", "random")))
    )
    assert len(whole.claims) == part.aside == 4
    assert (part.claims, whole.aside) == ((), 0)
    console = Console(width=200, file=io.StringIO(), record=True)
    tell.show(part, console)
    assert (
        "Holm counts the claims of a question as they were fixed beforehand, run or not, shown or not"
        in console.export_text()
    )


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_what_leaves_nothing_out_tells_all_claims(name: str) -> None:
    """Seed 2 is run of every arm: of those that took part in a choice it is the first."""
    for only in (), (("seed", "2"),), (("task", "sst2"),):
        (filled,) = fill_all(campaign(name, Paths(counted=True), only=only), finetuned())
        assert filled.aside == 0
        assert len(filled.claims) == sum(len(judge(one, finetuned())) for one in families_of(f"campaign {name}"))
