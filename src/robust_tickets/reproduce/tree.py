"""From a unit to the tree of a recipe: the shipped recipe cut down to the arm that is trained, with the settings of the arm, its flavour
and the protocol. Imports no torch.

In the flavour ``corrected`` a recipe's ``[train]`` does not count, and the protocol's settings are written last. In the other two the
papers' own come last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.names import recipe_tree
from robust_tickets.reproduce.arms import arm
from robust_tickets.reproduce.job import Unit


def tree(
    unit: Unit, protocol_settings: Sequence[str] = (), attacks: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """What ``walk.recipe.resolve(unit.arm, tree, [arm(unit.arm).arm])`` takes; roles such as ``@real`` are still in it."""
    from robust_tickets.experiment.recipe import tree_of

    own = arm(unit.arm, unit.flavour, unit.task)
    made = recipe_tree(own.recipe)
    made = {**made, "arms": _needed(made["arms"], own.arm, own.recipe), "title": own.title}
    made |= {"model": unit.backbone, "task": unit.task, "seed": unit.seed}
    for key in ("baseline", "attack", "about"):
        made.pop(key, None)
    if unit.flavour == "corrected":
        made.pop("train", None)
        tree_of(protocol_settings, tree_of(own.settings, made))
    else:
        common = tree_of(protocol_settings)
        made["train"] = {**common.pop("train", {}), **made.get("train", {})}
        tree_of(own.settings, _over(made, common))
    for table in made["arms"].values():
        if "searched_on" in table:
            table["searched_on"] = {**_data(table["searched_on"]["task"]), **table["searched_on"]}
    if not any(table.get(key) for table in made["arms"].values() for key in ("search", "ticket", "searched_on")):
        made.pop("search", None)
    return {**made, "attack": [dict(one) for one in attacks]} if attacks else made


def _needed(tables: Mapping[str, Any], chosen: str, recipe: str) -> dict[str, Any]:
    """The chosen arm, and those whose ticket it takes or matches."""
    if chosen not in tables:
        raise TicketsError(f"the recipe {recipe} has no arm {chosen!r}", hint=did_you_mean(chosen, tables))
    found: dict[str, Any] = {}
    wanted = [chosen]
    while wanted:
        name = wanted.pop()
        found[name] = tables[name]
        wanted += [
            tables[name][key]
            for key in ("ticket", "like")
            if tables[name].get(key) in tables and tables[name][key] not in found
        ]
    return found


def _over(made: dict[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """``common`` written into ``made`` where tables meet; of single values it wins: where the data lie, say."""
    for key, value in common.items():
        if isinstance(value, Mapping) and isinstance(made.get(key), dict):
            _over(made[key], value)
        elif isinstance(value, Mapping) and isinstance(made.get(key), str):  # search = "random"
            made[key] = {"name": made[key], **value}
        else:
            made[key] = dict(value) if isinstance(value, Mapping) else value
    return made


def _data(task: str) -> dict[str, Any]:
    """What the protocol says of the data of another task that is searched on."""
    from robust_tickets.reproduce.protocol import rules

    return rules(task).source
