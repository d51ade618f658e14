"""Recipes: what is said on the command line reaches the field it is for, and what cannot be meant is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from robust_tickets.config import counted as identity
from robust_tickets.errors import TicketsError
from robust_tickets.experiment.recipe import read_recipe, recipe_tree, recipes
from robust_tickets.registry import adversaries, methods, name_of


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_reads(name: str) -> None:
    recipe = read_recipe(name)
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


@pytest.mark.parametrize("name", recipes())
def test_a_number_in_an_arms_title_is_a_setting_of_that_arm(name: str) -> None:
    """One that comes from [train] or [search] may be set otherwise for all arms, and the title would be wrong."""
    tables = recipe_tree(name)["arms"]
    for arm in tables.values():
        own = json.dumps({key: value for key, value in arm.items() if key != "title"})
        if re.search(r"\d", arm["title"].replace("SST-2", "")):
            assert re.search(r"\d", own), arm["title"]


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
    ("text", "words"),
    [
        ("title = 'x'", "arms"),
        ("title = 'x'\nfoo = 1\n[arms.a]", "foo"),
        ("title = 'x'\n[arms.a]\nserch = true", "search"),
        ("[arms.a]", "title"),
        ("title = 'x'\n[search]\nneurons = 0.3\n[arms.a]", "no arm searches"),
        ("title = 'x'\n[arms.a]\nsearch = {name = 'nothing'}", "nothing"),
        ("title = 'x'\nattack = 3\n[arms.a]", "attack"),
        ("title = ", "TOML"),
    ],
)
def test_a_recipe_that_cannot_be_meant_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(TicketsError, match=words):
        read_recipe(str(path))
