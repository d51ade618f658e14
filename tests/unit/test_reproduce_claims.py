"""Claims are fixed beforehand, judged over runs, adjusted within their family; goals say no more than the runs do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judging import BASE, CONFIRM, FAR, NEAR, REAL, SUBSTITUTE, arm, by_name, confirmed, keep, made
from robust_tickets.errors import TicketsError
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import standings
from robust_tickets.reproduce.arms import arms, rows
from robust_tickets.reproduce.claims import (
    HERE,
    families_of,
    family,
    first_seed,
    fixed,
    goals,
    judge,
    names,
    qualified,
    sentence,
    spreads,
)  # fmt: skip
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.page import seeds
from robust_tickets.reproduce.protocol import attack
from robust_tickets.stats.compare_runs import compare_runs, holm


def test_what_is_claimed_can_be_run() -> None:
    assert set(fixed()["chosen"]["arms"]) <= set(arms())
    for id in names():
        claims = family(id).claims
        assert claims, id
        for claim in claims:
            assert attack(claim.task, claim.attack).name == claim.attack
            assert {claim.arm, claim.other} <= set(arms()), id
            if claim.split is not None:
                assert (claim.split == "test") == claim.attack.endswith("-confirm")
    given = fixed()["goals"]
    assert {given["seen"], *given["unseen"]} <= {claim.attack for claim in family(given["family"]).claims}


def test_the_question_that_was_asked_is_a_family() -> None:
    pairs = {(claim.arm, claim.other, claim.attack) for claim in family("A").claims}
    assert pairs == {("earlyrobust", other, name) for other in ("finetune", "random") for name in (REAL, SUBSTITUTE)}
    given = fixed()["goals"]
    assert (family("A").margin, given["gain"], given["clean_below"], given["cost"]) == (5.0, 10.0, 0.5, 2.0)
    with pytest.raises(TicketsError) as problem:
        family("Z")
    assert problem.value.code == "claims.family"


def test_a_table_is_a_family_of_its_own_method_against_the_other_rows() -> None:
    claims = family("ER-T3").claims
    assert {claim.task for claim in claims} == set(published.table("ER-T3").tasks)
    assert {claim.arm for claim in claims} == {"earlyrobust_first"}
    assert "random" in {claim.other for claim in claims}
    assert len(set(claims)) == len(claims)
    assert families_of("ER-T3") == ("ER-T3",)
    assert families_of("campaign B") == ("B", "B-forms", "B-validation")
    assert families_of("ER-F2") == families_of("OR-T2") == ()


def test_claims_are_adjusted_together(tmp_path: Path) -> None:
    runs = [
        *arm("finetune", {REAL: BASE, SUBSTITUTE: BASE}),
        *arm("earlyrobust", {REAL: FAR, SUBSTITUTE: NEAR}),
        *arm("random", {REAL: NEAR, SUBSTITUTE: FAR}),
    ]
    judged = judge("A", read_all(keep(tmp_path, runs)), tmp_path)
    alone = [
        compare_runs([c / 2 for c in a], [c / 2 for c in b])
        for a, b in ((FAR, BASE), (FAR, NEAR), (NEAR, BASE), (NEAR, FAR))
    ]
    found = [one.comparison for one in judged]
    assert [c and c.adjusted_p for c in found] == pytest.approx(holm([c.p or 0.0 for c in alone]))
    assert [one.verdict for one in judged] == ["different", "different", "undecided", "different"]
    assert all(c is not None and c.of == 4 and c.over_examples is not None for c in found)
    assert judged[2].substituted == ("made-up vectors",)
    assert judged[3].comparison.difference < 0


def test_claims_to_come_are_counted_already() -> None:
    """Of a table those on the task: so a verdict stands when more rows come."""
    drawn = [run for name in ("earlyrobust", "earlyrobust_first") for run in arm(name, {REAL: FAR})]
    runs = [*arm("finetune", {REAL: BASE}), *drawn, *arm("freelb3", {REAL: FAR})]

    def counted(id: str) -> set[int]:
        return {one.comparison.of for one in judge(id, runs) if one.comparison}

    on_task = [claim for claim in family("ER-T1").claims if claim.task == "sst2"]
    assert len(on_task) == 12 < len(family("ER-T1").claims)
    assert (counted("A"), counted("C-methods"), counted("ER-T1")) == ({4}, {2}, {12})
    (early,) = [one.comparison for one in judge("A", runs) if one.comparison]
    assert early.p is not None
    assert early.adjusted_p == pytest.approx(4 * early.p)


def test_a_table_s_tasks_are_adjusted_apart() -> None:
    """Each is a study of its own: runs on one change nothing of what is found on another."""
    far, near = ([*arm("finetune", {REAL: BASE}), *arm("earlyrobust_first", {REAL: counts})] for counts in (FAR, NEAR))
    here, there = judge("ER-T1", far), [replace(one, unit=replace(one.unit, task="imdb")) for one in near]
    both = judge("ER-T1", [*far, *there])
    assert [one for one in both if one.claim.task == "sst2"] == [one for one in here if one.claim.task == "sst2"]
    adjusted = {one.claim.task: one.comparison for one in both if one.comparison}
    assert {task: found.of for task, found in adjusted.items()} == {"sst2": 12, "imdb": 12}
    assert all(found.p and found.adjusted_p == pytest.approx(min(1.0, 12 * found.p)) for found in adjusted.values())


def test_a_table_s_claims_are_about_the_arms_of_its_flavour() -> None:
    for flavour, expected in ("corrected", "finetune"), ("as-published", "finetune_rt"):
        assert expected in {claim.other for claim in family("RT-T1", flavour).claims}
        about = {(row.arm, task) for row in rows("RT-T1", flavour) for task in row.tasks}
        assert {
            (name, claim.task) for claim in family("RT-T1", flavour).claims for name in (claim.arm, claim.other)
        } <= about
    both = [*arm("robustt", {REAL: FAR}), *arm("finetune_rt", {REAL: BASE})]
    runs = [replace(one, unit=replace(one.unit, flavour="as-published")) for one in both]
    (made,) = [one for one in judge("RT-T1", runs, flavour="as-published") if one.comparison]
    assert (made.claim.other, made.verdict) == ("finetune_rt", "different")


def test_four_runs_make_no_claim() -> None:
    runs = [*arm("finetune", {REAL: BASE}), *arm("earlyrobust", {REAL: FAR[:4]})]
    first, *others = judge("A", runs)
    assert first.verdict == "too few runs"
    assert (first.comparison.n, first.comparison.adjusted_p) == ((4, 5), None)
    assert {one.verdict for one in others} == {"not run"}
    assert all(one.why for one in others)


def test_repeats_are_reported_and_do_not_weigh() -> None:
    again = [made("finetune", 0, {REAL: count}, repeat=r) for r, count in ((1, 60), (2, 90))]
    runs = [*arm("finetune", {REAL: BASE}), *arm("earlyrobust", {REAL: NEAR})]
    assert judge("A", [*runs, *again])[0].comparison == judge("A", runs)[0].comparison
    (spread,) = spreads([*runs, *again], task="sst2", attack=REAL)
    assert (spread.name, spread.repeated, spread.within_range) == ("finetune", 3, 15.0)
    assert spreads(runs, task="sst2", attack=REAL) == ()


def test_runs_of_one_seed_are_counted_as_models() -> None:
    def run(name: str, repeat: int, model: str, ticket: str = "") -> Outcome:
        one = made(name, 0, {REAL: BASE[0] + repeat}, repeat=repeat)
        inputs = {**one.inputs, "trained": model, "code": str(repeat % 2)}
        return replace(one, inputs=inputs, ticket={"digest": ticket} if ticket else None)

    same = [run("finetune", repeat, "a") for repeat in range(3)]
    two = [run("earlyrobust", 0, "b", "x"), run("earlyrobust", 1, "c", "y"), run("earlyrobust", 2, "b", "x")]
    later = [made(name, 1, {REAL: 80}) for name in ("finetune", "earlyrobust")]
    later = [replace(one, inputs={"trained": f"{one.unit.arm} of seed 1"}) for one in later]
    runs = [*same, *two, run("random", 0, "d", "z"), *later]
    found = seeds(standings(runs))
    assert [tuple(cell.text for cell in row.cells) for row in found["models"].rows] == [
        ("0", "3", "1", "\u2013", "2"),  # a whole model has no ticket
        ("0", "3", "2", "2", "2"),
    ]
    assert (found["again"], found["apart"], found["widest"]) == (2, 1, "1.0")
    moved = [replace(one, unit=replace(one.unit, backbone="roberta-base")) for one in runs]
    assert seeds(standings(moved))["again"] == 2
    assert seeds(standings(later)) is None


def test_the_runs_that_chose_a_recipe_are_in_no_claim_about_it() -> None:
    """Fine-tuning, over which every gain was taken, keeps all its runs."""
    took_part = ("sturdy_a", "sturdy_a_ticket", "sturdy_f", "finetune_epochs_20", "finetune_average")
    assert {first_seed(name) for name in took_part} == {2}
    assert {first_seed(name) for name in ("finetune", "sturdy_a_full", "finetune_epochs_7", "freelb3")} == {0}
    chose = arm("sturdy_a_ticket", {REAL: (150, 150)})  # better than those that follow
    judged = judge("B-validation", [*confirmed(), *chose, *arm("sturdy_a_ticket", {REAL: FAR}, first=7)])
    (one,) = [one for one in judged if one.comparison and one.claim.other == "finetune"]
    assert (one.comparison.n, one.comparison.difference) == ((5, 5), 15.0)


def test_goals_that_are_reached() -> None:
    found = by_name(confirmed())
    assert {name: goal.reached for name, goal in found.items()} == dict.fromkeys(
        ("gain", "unseen", "clean", "cost", "size"), True
    )
    assert "+15.0 points" in found["gain"].words


@pytest.mark.parametrize(
    ("changed", "goal", "reached"),
    [
        ({"held": {CONFIRM[0]: 100}}, "gain", False),  # 50.0 in every run: 6 points more
        ({"held": {CONFIRM[2]: 88}}, "unseen", False),
        ({"right": 182}, "clean", False),
        ({"train_seconds": 210.0}, "cost", False),
        ({"train_seconds": 190.0, "search_seconds": 11.0}, "cost", False),
        ({"processes": 2}, "cost", None),
        ({"parameters": 110e6}, "size", False),
    ],
)  # fmt: skip
def test_goals_that_are_not(changed: dict[str, object], goal: str, reached: bool | None) -> None:
    runs = []
    for outcome in confirmed():
        if outcome.unit.arm == "sturdy_a_ticket":
            counts = {a.name: a.statuses.count("f") for a in outcome.attacks}
            about: dict[str, object] = {"parameters": 83e6, "train_seconds": 150.0, **changed}
            held = {**counts, **about.pop("held", {})}  # type: ignore[dict-item]
            outcome = made("sturdy_a_ticket", outcome.unit.seed, held, **about)  # type: ignore[arg-type]
        runs.append(outcome)
    found = by_name(runs)
    assert found[goal].reached is reached
    assert [name for name, one in found.items() if one.reached is not True] == [goal]


def test_goals_without_runs_cannot_be_told() -> None:
    assert {goal.reached for goal in goals([])} == {None}


@settings(max_examples=25)
@given(st.lists(st.integers(0, 184), min_size=5, max_size=7), st.lists(st.integers(0, 184), min_size=5, max_size=7))
def test_a_claim_turned_round_has_the_same_verdict(a: list[int], b: list[int]) -> None:
    first = judge("A", [*arm("earlyrobust", {REAL: tuple(a)}), *arm("finetune", {REAL: tuple(b)})])[0]
    second = judge("A", [*arm("earlyrobust", {REAL: tuple(b)}), *arm("finetune", {REAL: tuple(a)})])[0]
    assert first.verdict == second.verdict
    assert first.comparison.difference == pytest.approx(-second.comparison.difference)


def test_a_verdict_says_where_other_texts_may_change_it_and_where_it_is_small() -> None:
    judged = judge("A", [*arm("finetune", {REAL: BASE}), *arm("earlyrobust", {REAL: FAR})])[0]
    large = replace(judged.comparison, adjusted_equivalence_p=0.9)
    for low, high, words in ((4.0, 26.0, ""), (-0.5, 30.0, HERE), (-30.0, 0.5, HERE), (-9.0, -1.0, "")):
        assert qualified(replace(large, over_examples=(low, high))) == f"more robust{words}"
    assert qualified(large) == "more robust"
    same = replace(large, difference=0.5, adjusted_p=0.9, adjusted_equivalence_p=0.01)
    for low, high, words in ((-4.9, 4.9, ""), (-5.1, 4.0, HERE), (-1.0, 6.0, HERE)):
        assert qualified(replace(same, over_examples=(low, high))) == f"equivalent{words}"
    assert qualified(replace(same, adjusted_equivalence_p=0.9, over_examples=(-9.0, 9.0))) == "undecided"
    close = replace(large, difference=-2.3, adjusted_equivalence_p=0.01, over_examples=(-3.7, -1.0))  # sure, and small
    assert "less robust, by less than 5 points, −2.3" in sentence(replace(judged, comparison=close))
    assert qualified(replace(close, over_examples=(-5.2, -0.4))) == "less robust"


def test_different_examples_are_not_compared() -> None:
    other = [
        replace(o, attacks=tuple(replace(a, examples="e" * 64) for a in o.attacks))
        for o in arm("earlyrobust", {REAL: FAR})
    ]
    first = judge("A", [*arm("finetune", {REAL: BASE}), *other])[0]
    assert first.comparison is None
    other = [
        replace(o, attacks=tuple(replace(a, scoring="other") for a in o.attacks))
        for o in arm("earlyrobust", {REAL: FAR})
    ]
    first = judge("A", [*arm("finetune", {REAL: BASE}), *other])[0]
    assert first.comparison is None
