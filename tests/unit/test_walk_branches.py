"""Branches of a recipe: another arm's ticket, other draws, ablations, other search tasks, and the papers' per-task tables."""

from __future__ import annotations

from typing import Any

import pytest

import robust_tickets as rt
from robust_tickets.config import counted as identity
from robust_tickets.errors import TicketsError
from robust_tickets.experiment.arms import Arm
from robust_tickets.experiment.recipe import Recipe, read_recipe, resolve
from robust_tickets.search.earlyrobust import EarlyRobust


def recipe(arms: dict[str, dict[str, Any]], *, chosen: list[str] | None = None, **top: Any) -> Recipe:
    return resolve("mine", {"title": "Mine", "search": {"name": "earlyrobust"}, **top, "arms": arms}, chosen)


def by_name(found: Recipe) -> dict[str, Arm]:
    return {arm.name: arm for arm in found.arms}


def test_a_branch_has_the_search_it_descends_from_whatever_the_order() -> None:
    tables: dict[str, dict[str, Any]] = {
        "deep": {"ticket": "middle", "draw": {"heads": 0.5}, "without": "structure"},
        "middle": {"ticket": "found", "draw": {"neurons": 0.4}},
        "found": {"search": True},
    }
    arms = by_name(recipe(tables))
    assert arms["deep"].origin is not None
    assert arms["deep"].search == arms["middle"].search == arms["found"].search
    assert arms["deep"].origin.draw is not None
    assert arms["deep"].origin.draw.asked() == {"heads": 0.5, "neurons": 0.4}
    assert arms["deep"].branch() == {"of": "middle", "draw": {"heads": 0.5, "neurons": 0.4}, "without": "structure"}
    assert (
        arms["deep"].story()
        == "the ticket of middle, drawn with heads 0.5, neurons 0.4, whole, what it removes drawn again"
    )
    assert arms["found"].branch() == {}
    assert by_name(recipe(dict(reversed(tables.items())))) == arms


def test_a_branch_can_be_walked_without_the_arm_it_comes_from() -> None:
    found = recipe(
        {"found": {"search": True}, "branch": {"ticket": "found", "draw": {"neurons": 0.1}}}, chosen=["branch"]
    )
    assert [arm.name for arm in found.arms] == ["branch"]
    assert isinstance(found.arms[0].search, EarlyRobust)


def test_a_random_ticket_matches_another_arms() -> None:
    arms = by_name(
        recipe({"found": {"search": True}, "random": {"search": {"name": "random", "match": "layer"}, "like": "found"}})
    )
    assert arms["random"].origin is not None
    assert arms["random"].origin.like == arms["found"].origin
    assert "with the counts of found" in arms["random"].story()


def test_a_ticket_from_a_folder_and_another_search_task() -> None:
    arms = by_name(
        recipe(
            {
                "saved": {"ticket": "some/folder"},
                "moved": {"searched_on": {"task": "imdb", "max_rows": 9}},
                "here": {"search": True},
            }
        )
    )
    assert arms["saved"].origin is not None
    assert arms["saved"].origin.folder == "some/folder"
    assert arms["saved"].search is None
    assert arms["moved"].origin is not None
    assert arms["moved"].origin.searched_on is not None
    assert arms["moved"].origin.searched_on.max_rows == 9
    assert arms["moved"].story() == "searched by EarlyRobust on imdb"


def test_a_saved_ticket_may_stand_in_for_the_search() -> None:
    found = read_recipe("orticket", ["arms.orticket.search=false", "arms.orticket.ticket=saved/ticket"])
    assert {arm.origin.folder for arm in found.arms if arm.origin} == {"saved/ticket"}


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        ({"s": {"search": True}, "a": {"ticket": "b"}, "b": {"ticket": "a"}}, "depends on itself: a → b → a"),
        ({"s": {"search": True}, "a": {"ticket": "a"}}, "depends on itself"),
        ({"a": {"search": {"name": "random", "match": "layer"}, "like": "a"}}, "depends on itself"),
        ({"a": {"search": True}, "b": {"ticket": "c"}}, "no arm and no folder"),
        ({"a": {"search": True}, "b": {}, "c": {"ticket": "b"}}, "has no ticket"),
        ({"a": {"search": True}, "b": {"search": True, "ticket": "a"}}, "not both"),
        ({"a": {"search": True}, "b": {"without": "structure"}}, "has none"),
        ({"a": {"search": True}, "b": {"ticket": "a", "without": "weights"}}, "initialisation"),
        ({"a": {"search": True}, "b": {"draw": {"heads": 0.1}}}, "needs search or ticket"),
        ({"a": {"search": True}, "b": {"ticket": "a", "like": "a"}}, "like needs search"),
        ({"a": {"search": True}, "b": {"ticket": "a", "searched_on": {"task": "sst2"}}}, "not both"),
        ({"a": {"search": True}, "b": {"ticket": "a", "draw": {"head": 0.1}}}, "head"),
        ({"a": {"search": True, "searched_on": {"tsk": "sst2"}}}, "tsk"),
    ],
)
def test_what_cannot_be_meant_is_refused(arms: dict[str, Any], words: str) -> None:
    with pytest.raises(TicketsError, match=words):
        recipe(arms)


def test_a_registered_task_brings_its_row_of_the_papers_table() -> None:
    found = read_recipe("earlyrobust", ["task=imdb"])
    search = by_name(found)["earlyrobust"].search
    assert search == EarlyRobust.for_task("imdb")
    assert (search.neurons, search.head_l1, search.batch_size) == (0.4, 1e-5, 8)
    assert found.max_length == 256
    assert {arm.train.batch_size for arm in found.arms} == {8}
    assert any("neurons 0.4" in note and "imdb" in note for note in found.notes)
    assert read_recipe("earlyrobust").notes == ()


@pytest.mark.parametrize("task", sorted(rt.EarlyRobust.PER_TASK))
def test_a_random_ticket_has_the_sparsity_that_the_search_has_for_the_task(task: str) -> None:
    own, searched = (by_name(read_recipe(name, [f"task={task}"]))[name].search for name in ("random", "earlyrobust"))
    assert (own.heads, own.neurons) == (searched.heads, searched.neurons)
    assert rt.RandomTicket.for_task(task).neurons == own.neurons
    weights = read_recipe("random", [f"task={task}", "search.sparsity=0.4"])
    assert (by_name(weights)["random"].search.sparsity, any("neurons" in note for note in weights.notes)) == (
        0.4,
        False,
    )


def test_what_is_said_wins_over_the_table() -> None:
    said = ["task=sst2", "search.neurons=0.1", "search.adversary.steps=2", "train.batch_size=4", "max_length=64"]
    found = read_recipe("earlyrobust", said)
    search = by_name(found)["earlyrobust"].search
    assert search.neurons == 0.1
    assert search.head_l1 == 1e-4
    assert (search.adversary.steps, search.adversary.step_size) == (2, 0.02)
    assert found.arms[0].train.batch_size == 4
    assert found.max_length == 64
    assert not any("neurons" in note for note in found.notes if note.startswith("earlyrobust: neurons"))


@pytest.mark.parametrize("adversary", ["pgd", "none"])
def test_a_tables_step_size_is_for_the_methods_own_adversary(adversary: str) -> None:
    given = {"name": "earlyrobust", "adversary": adversary}
    found = by_name(recipe({"a": {"search": True}}, search=given, task="sst2"))["a"].search.adversary
    assert found == by_name(recipe({"a": {"search": True}}, search=given))["a"].search.adversary


def test_another_search_is_as_sparse_as_the_first_however_that_was_said() -> None:
    arms = {"a": {"search": True}, "b": {"search": "random"}, "c": {"search": {"name": "random", "neurons": 0.7}}}
    found = by_name(recipe(arms, task="imdb"))
    assert found["a"].search.neurons == found["b"].search.neurons == 0.4
    assert found["c"].search.neurons == 0.7


def test_a_search_elsewhere_has_that_tasks_row_and_this_tasks_sparsity() -> None:
    arm = by_name(recipe({"a": {"search": True, "searched_on": {"task": "imdb"}}}, task="ag_news"))["a"]
    assert (arm.search.neurons, arm.search.neuron_l1) == (0.2, 2e-4)


def test_where_a_ticket_lies_is_no_part_of_the_identity_but_its_draw_is() -> None:
    def one(**arm: Any) -> Any:
        return identity(recipe({"a": {"search": True}, "b": arm}))

    assert one(ticket="x/y") == one(ticket="z/y")
    assert len({str(one(ticket="a", **more)) for more in ({}, {"draw": {"heads": 0.2}}, {"without": "structure"})}) == 3


def test_recipes_of_sweeps_search_once() -> None:
    for name, searches in (
        ("earlyrobust_scopes", 1),
        ("earlyrobust_ablations", 4),
    ):
        assert len({str(arm.search) for arm in read_recipe(name).arms if arm.search is not None}) == searches, name


def test_an_arm_changes_one_setting_of_the_recipes_adversary_and_keeps_the_others() -> None:
    freelb = {"name": "freelb", "steps": 2, "step_size": 0.07}
    arms: dict[str, dict[str, Any]] = {
        "one": {"search": {"adversary": {"init": 0.3}}, "train": {"adversary": {"steps": 4}}},
        "another": {"search": {"adversary": "pgd"}, "train": {"adversary": {"name": "pgd", "steps": 4}}},
        "none": {"search": {"adversary": "none"}, "train": {"adversary": "none"}},
    }
    top = {"search": {"name": "earlyrobust", "adversary": freelb}, "train": {"adversary": freelb}}
    found = by_name(recipe(arms, **top))
    searched, trained = found["one"].search.adversary, found["one"].train.adversary
    assert (searched.steps, searched.step_size, searched.init) == (2, 0.07, 0.3)
    assert (trained.steps, trained.step_size) == (4, 0.07)
    assert type(found["another"].search.adversary).__name__ == type(found["another"].train.adversary).__name__ == "PGD"
    assert found["another"].train.adversary.step_size != 0.07
    assert found["none"].search.adversary is found["none"].train.adversary is None
    named = by_name(recipe({"a": arms["one"]}, search={"name": "earlyrobust"}, train={"adversary": "freelb"}))
    assert named["a"].train.adversary.steps == 4
