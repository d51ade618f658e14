"""Resolved settings of ten recipes, on a registered task, so that the papers' tables are read too.

``tickets run`` writes config.json before anything trains; the model's first gradient is not finite, so every run ends soon after.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import world
from record import differences, recorded

RECIPES = (
    "demo",
    "earlybert",
    "earlyrobust",
    "freelb",
    "imp",
    "orticket",
    "prasanna",
    "random_matched",
    "robustt",
    "synonymswap",
)
UNSAID = ("title", "about", "notes", "folder", "model", "source")  # sentences, and where files lie


def values(folder: Path) -> dict[str, Any]:
    model = world.model_folder(folder / "model", explodes=True)
    world.model_folder(folder / "mlm", "BertForMaskedLM", explodes=True)
    data = world.data_folder(folder / "data", rows=40)
    (folder / "corpus.txt").write_text("\n".join(world.SENTENCES))
    return {recipe: resolved(recipe, model, data, folder) for recipe in RECIPES}


def resolved(recipe: str, model: Path, data: Path, folder: Path) -> dict[str, Any]:
    """The recipe's settings by dotted key."""
    given = {"task": "sst2", "data": str(data), "model": str(model)}
    if recipe == "orticket":
        given |= {"search.corpus": str(folder / "corpus.txt"), "search.mlm": str(folder / "mlm")}
    settings = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
    code, out = world.tickets("run", recipe, *settings, "--out", str(folder / recipe), "--json")
    assert code == 3, (recipe, out)  # failed while running
    tree = json.loads((folder / recipe / "config.json").read_text())["recipe"]
    told = {k: v for k, v in flat(tree) if v is not None and not set(k.split(".")) & set(UNSAID)}
    return {k: "PATH" if str(folder) in str(v) else v for k, v in told.items()}


def flat(tree: Any, where: str = "") -> list[tuple[str, Any]]:
    if isinstance(tree, dict) and tree:
        return [line for k, v in tree.items() for line in flat(v, f"{where}.{k}" if where else k)]
    if isinstance(tree, list) and any(isinstance(v, dict) for v in tree):
        named = {str(v.get("name", i)): v for i, v in enumerate(tree)}
        return flat(named, where)
    return [(where, tree)]


@pytest.fixture(scope="module")
def got(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path_factory.mktemp("cache")))
        return values(tmp_path_factory.mktemp("recipes"))


@pytest.mark.parametrize("recipe", RECIPES)
def test_settings_are_as_recorded(got: dict[str, Any], recipe: str) -> None:
    assert differences(got[recipe], recorded("recipes")[recipe]) == []
