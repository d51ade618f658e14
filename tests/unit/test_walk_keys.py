"""What is wrong with a file that a component names is told with the key that names it, as a user would type it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from robust_tickets.config import to_plain
from robust_tickets.errors import TicketsError, inside
from robust_tickets.experiment.recipe import read_recipe, resolve
from robust_tickets.experiment.runner import look_for_attacks, prepare
from robust_tickets.resources.synonyms import source_of

PLAIN = "word,count\ngood,3\n"
WRONG = {
    "plain.csv": PLAIN,
    "lists.json": '["good"]',
    "broken.json": "{",
    "nowhere.json": None,
    "counterfitted_neighbors.json": None,
}


@pytest.fixture(params=WRONG)
def wrong(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A source of synonyms that is none."""
    path = tmp_path / request.param
    if (text := WRONG[request.param]) is not None:
        path.write_text(text)
    return path


def test_the_source_of_synonyms_is_named_by_its_own_setting(wrong: Path) -> None:
    with pytest.raises(TicketsError, match=wrong.name) as caught:
        source_of(str(wrong))
    assert "--set source=" in caught.value.hint
    assert "--set vectors=" not in caught.value.hint


def test_vectors_that_are_not_installed_are_named_by_the_source_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ROBUST_TICKETS_CACHE", "TA_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(TicketsError) as caught:
        source_of("vectors")
    assert "--set source=PATH" in caught.value.hint


def test_in_a_recipe_it_is_the_key_that_works_there(wrong: Path) -> None:
    with pytest.raises(TicketsError) as caught:
        prepare(read_recipe("ascc", [f"arms.ascc.train.adversary.source={wrong}"]))
    assert "--set arms.ascc.train.adversary.source=" in caught.value.hint


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"train": {"adversary": "SWAP"}, "arms": {"one": {}}}, "train.adversary.source"),
        ({"train": {"adversary": "SWAP"}, "arms": {"one": {"train": {"epochs": 1}}}}, "train.adversary.source"),
        (
            {"train": {"adversary": "ascc"}, "arms": {"one": {"train": {"adversary": "SWAP"}}}},
            "arms.one.train.adversary.source",
        ),
        (
            {"search": {"name": "earlyrobust", "adversary": "SWAP"}, "arms": {"one": {"search": True}}},
            "search.adversary.source",
        ),
        (
            {"search": {"name": "earlyrobust"}, "arms": {"one": {"search": {"adversary": "SWAP"}}}},
            "arms.one.search.adversary.source",
        ),
        (
            {"search": {"name": "robustt", "tuning": {"adversary": "SWAP"}}, "arms": {"one": {"search": True}}},
            "search.tuning.adversary.source",
        ),
    ],
)
def test_the_key_is_that_of_the_table_which_names_the_adversary(
    table: dict[str, object], key: str, tmp_path: Path
) -> None:
    swap = {"name": "synonymswap", "source": str(tmp_path / "nowhere.json")}
    filled = json.loads(
        json.dumps({"title": "mine", "task": "nothing.csv", **table}).replace('"SWAP"', json.dumps(swap))
    )
    with pytest.raises(TicketsError, match=r"nowhere\.json") as caught:
        prepare(resolve("mine", filled))
    assert f"--set {key}=" in caught.value.hint


def test_where_a_setting_stands_is_no_setting() -> None:
    """A run of an earlier version has no such field in its config.json, and is found done all the same."""
    arm = to_plain(read_recipe("earlyrobust"))["arms"][0]
    assert "key" not in arm
    assert "key" not in arm["origin"]


def test_components_inside_components_add_their_keys() -> None:
    with pytest.raises(TicketsError) as caught, inside("arms.one"), inside("train"):
        raise TicketsError("no", hint="a=1 in Python, --set a=1 or --set b=2")
    assert caught.value.hint == "a=1 in Python, --set arms.one.train.a=1 or --set arms.one.train.b=2"


def test_of_several_attacks_the_table_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--set attack.vectors`` names a table, and there are two."""
    for name in ("ROBUST_TICKETS_CACHE", "TA_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    table = {"title": "r", "task": "reviews", "model": "minilm", "train": {"epochs": 1}, "arms": {"one": {}}}
    one, two = ([{"name": "textfooler"}], [{"name": "pwws"}, {"name": "textfooler"}])
    for attacks, words in ((one, "--set attack."), (two, "in the recipe's [[attack]] of textfooler: ")):
        with pytest.raises(TicketsError) as caught:
            look_for_attacks(resolve("r", {**table, "attack": attacks}, None))
        assert words in caught.value.hint
