"""What a recipe asks of a ticket that it cannot get is refused before anything is loaded or searched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from robust_tickets.errors import TicketsError
from robust_tickets.experiment.arms import check
from robust_tickets.experiment.recipe import Recipe, read_recipe, resolve
from robust_tickets.search.random import RandomTicket
from tiny import tiny_classifier


def recipe(arms: dict[str, dict[str, Any]], search: str = "earlyrobust", **top: Any) -> Recipe:
    return resolve("mine", {"title": "Mine", "search": {"name": search}, **top, "arms": arms})


FOUND: dict[str, Any] = {"found": {"search": True}}


@pytest.mark.parametrize(
    ("search", "arms", "words"),
    [
        (
            "earlyrobust",
            {"a": {"search": True, "draw": {"sparsity": 0.3}}},
            r"mine\.arms\.a\.draw: sparsity .* structured",
        ),
        (
            "robustt",
            {**FOUND, "a": {"ticket": "found", "draw": {"neurons": 0.3}}},
            r"mine\.arms\.a\.draw: neurons .* unstructured",
        ),
        ("prasanna", {"a": {"search": True, "draw": {"heads": 0.3}}}, "Prasanna has no scores"),
        (
            "earlyrobust",
            {**FOUND, "a": {"search": {"gamma": 0.2}, "like": "found"}},
            "EarlyRobust matches no other ticket",
        ),
        ("earlyrobust", {**FOUND, "a": {"search": "random", "like": "found"}}, "does not look at a ticket"),
        (
            "earlyrobust",
            {**FOUND, "a": {"search": {"name": "random", "match": "matrix"}, "like": "found"}},
            "single weights",
        ),
        ("earlyrobust", {"a": {"search": {"name": "random", "match": "layer"}}}, "got none"),
        (
            "robustt",
            {**FOUND, "a": {"search": {"name": "random", "match": "matrix"}, "like": "found", "draw": {"heads": 0.1}}},
            "heads .* unstructured",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_before_the_search(search: str, arms: dict[str, Any], words: str) -> None:
    with pytest.raises(TicketsError, match=words):
        check(recipe(arms, search))


def test_a_ticket_in_a_folder_is_looked_at(tmp_path: Path) -> None:
    RandomTicket(sparsity=0.4)(tiny_classifier(), folder=tmp_path)
    check(recipe({"a": {"ticket": str(tmp_path), "draw": {"sparsity": 0.3}}}))
    with pytest.raises(TicketsError, match="heads cannot be drawn from an unstructured ticket"):
        check(recipe({"a": {"ticket": str(tmp_path), "draw": {"heads": 0.3}}}))


@pytest.mark.parametrize("draw", [{"neurons": 1.0}, {"heads": -0.1}, {"sparsity": float("nan")}])
def test_a_draw_of_no_fraction_is_refused(draw: dict[str, float]) -> None:
    with pytest.raises(TicketsError, match="fraction to remove"):
        recipe({"a": {"search": True, "draw": draw}})


def test_every_shipped_recipe_is_allowed() -> None:
    from robust_tickets.experiment.recipe import recipes

    for name in recipes():
        check(read_recipe(name))


def test_arms_are_chosen_once_and_at_least_one() -> None:
    assert [arm.name for arm in read_recipe("earlyrobust", ["arms=finetune,finetune"]).arms] == ["finetune"]
    with pytest.raises(TicketsError, match="no arm is chosen") as refused:
        read_recipe("earlyrobust", ["arms="])
    assert "earlyrobust,finetune" in refused.value.hint


def test_settings_go_into_a_search_that_is_only_switched_on() -> None:
    changed = read_recipe("earlyrobust", ["arms.earlyrobust.search.gamma=0.2"]).arms[0].search
    assert changed.gamma == 0.2
    assert changed.heads == read_recipe("earlyrobust").arms[0].search.heads
    assert recipe({"a": {"search": {}}}).arms[0].search == recipe(FOUND).arms[0].search


def test_a_misspelt_key_of_an_attack_is_told_all_keys_it_has() -> None:
    with pytest.raises(TicketsError, match=r"earlyrobust\.attack: unknown key 'querybudget'") as refused:
        read_recipe("earlyrobust", ["attack.querybudget=9"])
    assert "query_budget" in refused.value.hint


def test_gates_of_heads_find_heads() -> None:
    search = {"name": "robustt", "granularity": "head"}
    check(recipe({"a": {"search": search, "draw": {"heads": 0.5}}}, "robustt"))
    with pytest.raises(TicketsError, match=r"draw: sparsity .* a structured"):
        check(recipe({"a": {"search": search, "draw": {"sparsity": 0.5}}}, "robustt"))
