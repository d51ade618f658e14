"""Recipe: one TOML file that says a whole experiment.

Top level: the model, the task and where it lies, the seed. ``[search]``, ``[train]`` and ``[attack]`` are the components with their
hyper-parameters; ``[arms.NAME]`` are the models to compare (``experiment/arms.py``): each may switch the search on, bring another one or branch
from another arm's ticket, and may change ``train``. ``--set search.neurons=0.4`` writes into the same tree, so every key is a flag.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from robust_tickets.attack.attack import Attack
from robust_tickets.attack.options import AttackOptions
from robust_tickets.config import build, setting, tree_of
from robust_tickets.data.source import TaskSource
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.experiment.arms import Arm, Arms, length_for
from robust_tickets.files import read_toml
from robust_tickets.registry import ADVERSARIES, METHODS, adversaries, methods


def recipes() -> tuple[str, ...]:
    """Recipes that can be run by name: the files that ship, and one for every search and every adversary."""
    shipped = (
        file.name for file in files("robust_tickets.experiment.recipes").iterdir() if not file.name.startswith("_")
    )
    return tuple(sorted({*(n[:-5] for n in shipped if n.endswith(".toml")), *methods(), *adversaries()}))


def recipe_tree(name: str) -> dict[str, Any]:
    """The recipe called ``name`` as TOML says it: its own file, or the template of searches or adversaries filled in."""
    folder = files("robust_tickets.experiment.recipes")
    if (own := folder / f"{name}.toml").is_file():
        return tomllib.loads(own.read_text("utf-8"))
    registry, template = (METHODS, "_search.toml") if name in methods() else (ADVERSARIES, "_adversary.toml")
    filled = (folder / template).read_text("utf-8").replace("TITLE", registry.spelled(name)).replace("NAME", name)
    return tomllib.loads(filled)


@dataclass(frozen=True, kw_only=True)
class AttackPlan(AttackOptions):
    """An attack on every arm, with the same examples.

    A calibrated temperature is fitted for each victim on the rows that selected its epoch.
    """

    attack: Attack = field(metadata={"registry": "attacks"})
    token_budget: int | None = setting(None, at_least=1, hint="leave it out for the default", counts=False)

    def shown(self, name: str) -> str:
        return f"attack.{name}"


CALL = tuple(f.name for f in fields(AttackPlan) if f.name != "attack")  # keys of [attack] that the attack does not have


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A whole experiment, resolved: what is searched, trained and attacked, on what, from which seed."""

    name: str
    title: str = setting(counts=False)
    about: str = setting(counts=False)
    model: str = setting(counts=False)  # what it holds counts, and so with the source
    max_length: int
    seed: int
    source: TaskSource = setting(counts=False)
    arms: tuple[Arm, ...]
    attacks: tuple[AttackPlan, ...]
    baseline: str
    notes: tuple[str, ...] = setting((), counts=False)  # what was filled in from the papers' tables


@dataclass(frozen=True, kw_only=True)
class Tables(TaskSource):
    """The keys a recipe file may have at its top level: those of :class:`TaskSource`, and these."""

    title: str = ""
    about: str = ""
    model: str = "minilm"
    max_length: int | None = None
    seed: int = 0
    baseline: str | None = None
    search: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    attack: Any = None
    arms: dict[str, dict[str, Any]] = field(default_factory=dict)


def read_recipe(name: str, settings: Sequence[str] = ()) -> Recipe:
    """The recipe called ``name`` (shipped, or a TOML file), with ``key=value`` settings written over it."""
    if name not in recipes() and not name.endswith(".toml"):
        hint = f"{did_you_mean(name, recipes())} Or give the path of a .toml file"
        raise TicketsError(f"no recipe is called {name!r}", hint=hint, code="recipe.unknown")
    tree = recipe_tree(name) if name in recipes() else read_toml(Path(name))
    arms = [setting.partition("=")[2] for setting in settings if _chooses(setting)]
    tree_of([setting for setting in settings if not _chooses(setting)], tree)
    chosen = [part.strip() for part in arms[-1].split(",") if part.strip()] if arms else None
    return resolve(Path(name).stem, tree, chosen)


def _chooses(setting: str) -> bool:
    """Whether a setting names the arms to take."""
    return setting.partition("=")[0].strip() == "arms"


def resolve(name: str, tree: Mapping[str, Any], chosen: Sequence[str] | None = None) -> Recipe:
    """Check every key of ``tree`` and build the components."""
    top = build(Tables, tree, name)
    if not top.title:
        raise TicketsError(f"{name}: a recipe needs a title", hint='title = "…" at the top', code="recipe.no_title")
    wanted = list(top.arms) if chosen is None else list(dict.fromkeys(chosen))
    if not wanted:
        hint = f"known: {', '.join(top.arms) or 'none'}; see `tickets ls recipes` for examples of [arms.NAME] tables"
        raise TicketsError(f"{name}: a recipe needs at least one arm", hint=hint, code="recipe.no_arms")
    for arm in (*wanted, *([top.baseline] if top.baseline is not None else [])):
        if arm not in top.arms:
            hint = did_you_mean(arm, top.arms)
            raise TicketsError(f"{name}: no arm is called {arm!r}", hint=hint, code="recipe.unknown_arm")
    made = Arms(name, top)
    arms = tuple(made.arm(arm) for arm in wanted)
    length, note = length_for(top.task, top.max_length)
    plans = top.attack if isinstance(top.attack, list | tuple) else [top.attack]
    source = {key: getattr(top, key) for key in TaskSource.__dataclass_fields__}
    return Recipe(
        name=name, title=top.title, about=top.about, model=top.model, max_length=length, seed=top.seed,
        source=TaskSource(**source), arms=arms, baseline=top.baseline if top.baseline in wanted else wanted[0],
        attacks=tuple(attack_plan(name, plan, top.seed) for plan in plans if plan not in (None, False, "none")),
        notes=tuple(filter(None, (*made.notes, note))),
    )  # fmt: skip


def attack_plan(recipe: str, table: Any, seed: int = 0) -> AttackPlan:
    """An attack and how it is called, from a recipe's ``[attack]``."""
    if isinstance(table, str):
        table = {"name": table}
    if not isinstance(table, Mapping):
        message = f"{recipe}.attack: expected a name or a table, got {table!r}"
        raise TicketsError(message, hint='attack = "pwws"', code="config.component")
    call = {key: value for key, value in table.items() if key in CALL}
    attack = {key: value for key, value in table.items() if key not in CALL}
    return build(AttackPlan, {"seed": seed, **call, "attack": attack}, f"{recipe}.attack")
