"""Accuracy against query budget from one run is what runs with these budgets find."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_attack_reference import texts

from attacking import Literal, toy_victim
from robust_tickets.attack.recipes.deepwordbug import DeepWordBug
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.result import AttackResult, ExampleOutcome, Tally, budgets
from robust_tickets.data.task import Split
from robust_tickets.stats.intervals import wilson


def attacked(salt: int, classes: int, query_budget: int | None = None, recipe: Any = PWWS()) -> AttackResult:  # noqa: B008
    clf = toy_victim(salt, classes, grid=9)
    rows = [(text,) for text in texts(salt, 12, 12)]
    labels = [Literal(clf, 0).probabilities(row).argmax() for row in rows]
    return recipe(clf, Split.of(rows, labels), n=0, query_budget=query_budget)


@cache
def whole(salt: int, classes: int) -> AttackResult:
    return attacked(salt, classes)


def broken(result: AttackResult) -> set[str]:
    return {example.id for example in result.examples() if example.status == "success"}


def within(result: AttackResult, budget: int) -> set[str]:
    return {e.id for e in result.examples() if e.fell_at is not None and e.fell_at <= budget}


@pytest.mark.parametrize("salt", range(4))
def test_with_two_classes_the_curve_is_exact(salt: int) -> None:
    one = whole(salt, 2)
    fell = sorted({e.fell_at for e in one.examples() if e.fell_at is not None})
    assert fell
    early = [e for e in one.examples() if e.fell_at is not None and e.fell_at < e.queries]
    for budget in sorted({1, 7, *fell, *(f - 1 for f in fell), *(e.queries - 1 for e in early), 10_000}):
        real = attacked(salt, 2, budget)
        assert broken(real) == within(one, budget)
        # and a curve made under a budget is the same up to it
        for less in (b for b in (5, 20, budget // 2) if 0 < b <= budget):
            assert within(real, less) == within(one, less)


@pytest.mark.parametrize("recipe", [PWWS(scoring="log-odds"), DeepWordBug(), DeepWordBug(scoring="log-odds")], ids=repr)
def test_the_curve_is_exact_whatever_the_recipe(recipe: Any) -> None:
    one = attacked(2, 2, recipe=recipe)
    fell = sorted({e.fell_at for e in one.examples() if e.fell_at is not None})
    assert fell
    for budget in sorted({fell[0], fell[0] - 1, fell[len(fell) // 2], fell[-1], fell[-1] - 1}):
        assert broken(attacked(2, 2, budget, recipe)) == within(one, budget)


@settings(max_examples=25, deadline=None)
@given(salt=st.integers(0, 5), budget=st.integers(1, 400))
def test_with_more_classes_every_larger_budget_breaks_it_too(salt: int, budget: int) -> None:
    assert within(whole(salt, 4), budget) <= broken(attacked(salt, 4, budget))


def test_the_curve_in_the_result_counts_them() -> None:
    one = whole(1, 2)
    assert one.curve
    for point in one.curve:
        count = len(within(one, point["budget"]))
        right = one.outcomes["success"] + one.outcomes["failed"] - count
        assert (point["broken"], point["accuracy"]) == (count, round(100 * right / one.n, 4))
        assert point["interval"] == [round(100 * end, 4) for end in wilson(right, one.n)]
    assert one.curve[-1]["accuracy"] == one.aua
    limited = attacked(1, 2, 70)
    assert [p["budget"] for p in limited.curve] == [1, 2, 5, 10, 20, 50, 70]
    assert limited.curve[-1]["accuracy"] == limited.aua


def test_only_a_success_has_a_query_at_which_it_fell() -> None:
    for example in (e for salt in range(3) for e in whole(salt, 3).examples()):
        assert (example.fell_at is None) == (example.status != "success")
        if example.fell_at is not None:
            assert 1 < example.fell_at <= example.queries


@given(last=st.integers(1, 10**6), most=st.none() | st.integers(1, 10**6))
def test_budgets_rise_and_end(last: int, most: int | None) -> None:
    found = list(budgets(last if most is None else min(last, most), most))
    assert found == sorted(set(found))
    assert most is None or max(found) <= most
    assert found[-1] >= (last if most is None else min(last, most))


LINES = st.builds(
    lambda status, queries, words, share, similarity: ExampleOutcome(
        id="x", label=0, status=status, original=("t",), queries=queries, words=words, words_changed=round(share * words),
        similarity=similarity, confidence=0.5, fell_at=queries if status == "success" else None, candidates=1,
    ).to_json(),
    st.sampled_from(["success", "failed", "skipped", "error"]), st.integers(1, 300), st.integers(0, 40), st.floats(0, 1),
    st.none() | st.floats(0, 1),
)  # fmt: skip


@given(st.lists(LINES, max_size=30))
def test_the_tally_by_hand(lines: list[dict[str, Any]]) -> None:
    import numpy as np

    found = Tally(lines).metrics()
    attacked_lines = [x for x in lines if x["status"] in ("success", "failed")]
    won = [x for x in lines if x["status"] == "success"]
    assert sum(found["outcomes"].values()) == len(lines)
    assert (found["spread"] is None) == (not attacked_lines)
    if attacked_lines:
        spent = np.array([x["queries"] for x in attacked_lines])
        assert found["queries"] == pytest.approx(spent.mean(), abs=1e-4)
        assert found["words"] == pytest.approx(np.mean([x["words"] for x in attacked_lines]), abs=1e-4)
        for name, share in (("min", 0), ("p25", 0.25), ("median", 0.5), ("p75", 0.75), ("p90", 0.9), ("max", 1)):
            assert found["spread"][name] == np.quantile(spent, share, method="inverted_cdf")
    similar = [x["similarity"] for x in won if x["similarity"] is not None]
    assert found["similarity"] == (pytest.approx(np.mean(similar), abs=1e-4) if similar else None)
    shares = [100 * x["words_changed"] / x["words"] for x in won if x["words"]]
    assert found["perturbed"] == (pytest.approx(np.mean(shares), abs=1e-4) if shares else None)
    if len(shares) > 1:
        half = 1.959964 * np.std(shares, ddof=1) / len(shares) ** 0.5
        wanted = (np.mean(shares) - half, np.mean(shares) + half)
        assert found["intervals"]["perturbed"] == pytest.approx(wanted, abs=2e-3)
    assert [p["broken"] for p in found["curve"]] == sorted(p["broken"] for p in found["curve"])
