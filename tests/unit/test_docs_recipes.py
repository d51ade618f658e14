"""The examples of docs/guides/recipes.md are recipes, and its tables name the keys that there are."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from robust_tickets.experiment import arms, recipe
from robust_tickets.experiment.recipe import recipes

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "recipes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[tomllib.loads(block)["title"] for block in BLOCKS])
def test_every_example_resolves(block: str) -> None:
    found = recipe.resolve("example", tomllib.loads(block))
    assert len(found.arms) == block.count("[arms.")


def test_every_key_is_told_and_every_told_key_is_one() -> None:
    top, arm = (set(re.findall(r"`([^`]+)`", rows)) for rows in re.findall(r"(?:\n\|[^|]+\|)+", _first_column(PAGE)))
    keys = {f.name for f in dataclasses.fields(recipe._Top)}
    assert {name.strip("[]").partition(".")[0] for name in top} == keys - {"strict"}  # a flag of its own
    assert arm == {f.name for f in dataclasses.fields(arms._Table)}


def test_recipes_named_are_shipped() -> None:
    shipped = PAGE.split("Shipped:")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", shipped)) <= set(recipes())


def _first_column(page: str) -> str:
    """Every table of the page, cut to its first column; headings and rules left out."""
    lines = [f"|{line.split('|')[1]}|" if line.startswith("|") else "" for line in page.splitlines()]
    return "\n".join(line for line in lines if line not in ("| key |", "|---|"))
