"""Recipes: what is said on the command line reaches the field it is for, and what cannot be meant is refused."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import robust_tickets as rt
from refusing import refused
from robust_tickets.config import counted as identity
from robust_tickets.errors import TicketsError, inside
from robust_tickets.experiment import arms
from robust_tickets.experiment import recipe as recipe_module
from robust_tickets.experiment.arms import Arm, check
from robust_tickets.experiment.recipe import Recipe, read_recipe, recipes, resolve
from robust_tickets.registry import adversaries, methods, name_of
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.search.random import RandomTicket
from tiny import tiny_classifier


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_reads(name: str) -> None:
    recipe = read_recipe(name)
    check(recipe)
    assert recipe.arms
    assert recipe.baseline in [arm.name for arm in recipe.arms]


@pytest.mark.parametrize("method", methods())
def test_every_method_has_a_recipe_of_its_name(method: str) -> None:
    assert any(arm.search is not None for arm in read_recipe(method).arms)


@pytest.mark.parametrize("adversary", adversaries())
def test_every_adversary_has_a_recipe_of_its_name(adversary: str) -> None:
    trained = {name_of(arm.train.adversary) for arm in read_recipe(adversary).arms if arm.train.adversary is not None}
    assert trained == {adversary}


@pytest.mark.parametrize("name", sorted(set(recipes()) - {"demo"}))
def test_every_recipe_stands_beside_plain_fine_tuning_trained_alike(name: str) -> None:
    recipe = read_recipe(name)
    base = next(arm for arm in recipe.arms if arm.name == recipe.baseline)
    assert base.origin is None
    assert base.train.adversary is None
    alike = [arm for arm in recipe.arms if arm.name != "longer"]
    trained = {replace(arm.train, adversary=None, run_epochs=0) for arm in alike}
    assert trained == {base.train}, "arms differ in nothing but ticket, adversary and where their training is left"
    left = [arm for arm in recipe.arms if arm.train.run_epochs]
    assert all(f"after {arm.train.run_epochs}" in arm.title for arm in left)


def test_text_stays_text_and_numbers_become_numbers() -> None:
    recipe = read_recipe(
        "earlyrobust",
        [
            "task=a,b.csv",
            "label=1",
            "text=premise,hypothesis",
            "data=2024-01-01",
            "train.lr=1e-3",
            "train.epochs=2",
            "max_rows=none",
        ],
    )
    assert recipe.source.task == "a,b.csv"
    assert recipe.source.label == "1"
    assert recipe.source.text == ("premise", "hypothesis")
    assert recipe.source.data == "2024-01-01"
    assert recipe.source.max_rows is None
    assert recipe.arms[0].train.lr == 1e-3
    assert recipe.arms[0].train.epochs == 2


def test_a_setting_reaches_every_arm_and_a_random_arm_takes_the_sparsity_over() -> None:
    recipe = read_recipe(
        "demo", ["search.neurons=0.4", "search.adversary.steps=3", "seed=7", "arms.random.train.epochs=2"]
    )
    by_name = {arm.name: arm for arm in recipe.arms}
    assert by_name["earlyrobust"].search.neurons == by_name["random"].search.neurons == 0.4
    assert by_name["earlyrobust"].search.adversary.steps == 3
    assert {arm.train.seed for arm in recipe.arms} == {7}
    assert by_name["random"].train.epochs == 2
    assert recipe.attacks[0].seed == 7


def test_arms_can_be_chosen_and_attacks_switched_off() -> None:
    recipe = read_recipe("demo", ["arms=random", "attack=none"])
    assert [arm.name for arm in recipe.arms] == ["random"]
    assert recipe.baseline == "random"
    assert recipe.attacks == ()
    assert read_recipe("demo", ["arms.random.search=false"]).arms[2].search is None


@pytest.mark.parametrize(
    "setting", ["attack.token_budget=512", "train.checkpoint_every=5", "title=Another", "task=elsewhere.csv"]
)
def test_what_changes_no_result_changes_no_identity(setting: str) -> None:
    assert identity(read_recipe("demo", [setting])) == identity(read_recipe("demo"))


@pytest.mark.parametrize("setting", ["train.epochs=9", "search.gamma=0.2", "attack.n=7", "seed=1", "max_length=32"])
def test_what_changes_a_result_changes_the_identity(setting: str) -> None:
    assert identity(read_recipe("demo", [setting])) != identity(read_recipe("demo"))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("title = 'x'", "recipe.no_arms"),
        ("title = 'x'\nfoo = 1\n[arms.a]", "config.unknown_key"),
        ("title = 'x'\n[arms.a]\nserch = true", "config.unknown_key"),
        ("[arms.a]", "recipe.no_title"),
        ("title = 'x'\nbaseline = 'b'\n[arms.a]", "recipe.unknown_arm"),
        ("title = 'x'\n[search]\nneurons = 0.3\n[arms.a]", "arms.no_search"),
        ("title = 'x'\n[arms.a]\nsearch = {name = 'nothing'}", "registry.unknown"),
        ("title = 'x'\nattack = 3\n[arms.a]", "config.component"),
        ("title = ", "config.toml"),
    ],
)
def test_a_recipe_that_cannot_be_meant_is_refused(text: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with refused(code):
        read_recipe(str(path))


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
    ("arms", "code"),
    [
        ({"s": {"search": True}, "a": {"ticket": "b"}, "b": {"ticket": "a"}}, "arms.cycle"),
        ({"s": {"search": True}, "a": {"ticket": "a"}}, "arms.cycle"),
        ({"a": {"search": {"name": "random", "match": "layer"}, "like": "a"}}, "arms.cycle"),
        ({"a": {"search": True}, "b": {"ticket": "c"}}, "arms.unknown_ticket"),
        ({"a": {"search": True}, "b": {}, "c": {"ticket": "b"}}, "arms.no_ticket"),
        ({"a": {"search": True}, "b": {"search": True, "ticket": "a"}}, "arms.two_tickets"),
        ({"a": {"search": True}, "b": {"without": "structure"}}, "arms.without"),
        ({"a": {"search": True}, "b": {"ticket": "a", "without": "weights"}}, "config.type"),
        ({"a": {"search": True}, "b": {"draw": {"heads": 0.1}}}, "arms.needs"),
        ({"a": {"search": True}, "b": {"ticket": "a", "like": "a"}}, "arms.needs"),
        ({"a": {"search": True}, "b": {"ticket": "a", "searched_on": {"task": "sst2"}}}, "arms.two_tickets"),
        ({"a": {"search": True}, "b": {"ticket": "a", "draw": {"head": 0.1}}}, "config.unknown_key"),
        ({"a": {"search": True}, "b": {"ticket": "a", "draw": {"heads": 1.0}}}, "settings.limit"),
        ({"a": {"search": True, "searched_on": {"tsk": "sst2"}}}, "config.unknown_key"),
    ],
)
def test_what_cannot_be_meant_is_refused(arms: dict[str, Any], code: str) -> None:
    with refused(code):
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
    for name, searches in (("earlyrobust_scopes", 1), ("earlyrobust_ablations", 4)):
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


def searching(arms: dict[str, dict[str, Any]], search: str = "earlyrobust", **top: Any) -> Recipe:
    return resolve("mine", {"title": "Mine", "search": {"name": search}, **top, "arms": arms})


FOUND: dict[str, Any] = {"found": {"search": True}}


def random(match: str) -> dict[str, str]:
    return {"name": "random", "match": match}


@pytest.mark.parametrize(
    ("search", "arms", "code"),
    [
        ("earlyrobust", {"a": {"search": True, "draw": {"sparsity": 0.3}}}, "arms.draw"),
        ("robustt", {**FOUND, "a": {"ticket": "found", "draw": {"neurons": 0.3}}}, "arms.draw"),
        ("prasanna", {"a": {"search": True, "draw": {"heads": 0.3}}}, "arms.draw"),
        ("earlyrobust", {**FOUND, "a": {"search": {"gamma": 0.2}, "like": "found"}}, "arms.like"),
        ("earlyrobust", {**FOUND, "a": {"search": "random", "like": "found"}}, ""),
        ("earlyrobust", {**FOUND, "a": {"search": random("matrix"), "like": "found"}}, ""),
        ("earlyrobust", {"a": {"search": random("layer")}}, ""),
        ("robustt", {**FOUND, "a": {"search": random("matrix"), "like": "found", "draw": {"heads": 0.1}}}, "arms.draw"),
    ],
)
def test_what_cannot_be_had_is_refused_before_the_search(search: str, arms: dict[str, Any], code: str) -> None:
    with pytest.raises(TicketsError) as caught:
        check(searching(arms, search))
    assert caught.value.code == code or not code  # the method's own


def test_a_ticket_in_a_folder_is_looked_at(tmp_path: Path) -> None:
    RandomTicket(sparsity=0.4)(tiny_classifier(), folder=tmp_path)
    check(searching({"a": {"ticket": str(tmp_path), "draw": {"sparsity": 0.3}}}))
    with refused("arms.draw"):
        check(searching({"a": {"ticket": str(tmp_path), "draw": {"heads": 0.3}}}))


def test_arms_are_chosen_once_and_at_least_one() -> None:
    assert [arm.name for arm in read_recipe("earlyrobust", ["arms=finetune,finetune"]).arms] == ["finetune"]
    with refused("recipe.no_arms"):
        read_recipe("earlyrobust", ["arms="])


def test_settings_go_into_a_search_that_is_only_switched_on() -> None:
    changed = read_recipe("earlyrobust", ["arms.earlyrobust.search.gamma=0.2"]).arms[0].search
    assert changed.gamma == 0.2
    assert changed.heads == read_recipe("earlyrobust").arms[0].search.heads
    assert searching({"a": {"search": {}}}).arms[0].search == searching(FOUND).arms[0].search


def test_gates_of_heads_find_heads() -> None:
    search = {"name": "robustt", "granularity": "head"}
    check(searching({"a": {"search": search, "draw": {"heads": 0.5}}}, "robustt"))
    with refused("arms.draw"):
        check(searching({"a": {"search": search, "draw": {"sparsity": 0.5}}}, "robustt"))


def test_components_inside_components_add_their_keys() -> None:
    with pytest.raises(TicketsError) as caught, inside("arms.one"), inside("train"):
        raise TicketsError("no", hint="a=1 in Python, --set a=1 or --set b=2")
    assert caught.value.hint == "a=1 in Python, --set arms.one.train.a=1 or --set arms.one.train.b=2"


PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "recipes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[tomllib.loads(block)["title"] for block in BLOCKS])
def test_every_example_resolves(block: str) -> None:
    found = recipe_module.resolve("example", tomllib.loads(block))
    assert len(found.arms) == block.count("[arms.")


def test_every_key_is_told_and_every_told_key_is_one() -> None:
    top, arm = (set(re.findall(r"`([^`]+)`", rows)) for rows in re.findall(r"(?:\n\|[^|]+\|)+", _first_column(PAGE)))
    keys = {f.name for f in dataclasses.fields(recipe_module.Tables)}
    assert {name.strip("[]").partition(".")[0] for name in top} == keys - {"strict"}  # a flag of its own
    assert arm == {f.name for f in dataclasses.fields(arms._Table)}


def test_recipes_named_are_shipped() -> None:
    shipped = PAGE.split("Shipped:")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", shipped)) <= set(recipes())


def _first_column(page: str) -> str:
    """Every table of the page, cut to its first column; headings and rules left out."""
    lines = [f"|{line.split('|')[1]}|" if line.startswith("|") else "" for line in page.splitlines()]
    return "\n".join(line for line in lines if line not in ("| key |", "|---|"))
