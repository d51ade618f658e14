"""One: a unit from its name to its outcome. Search, training and attacks are stages of one store, which units share.

The outcome is written when the model is trained and again after every attack, so that whatever ends the process, what is there is whole.
All attacks of an outcome are on one model: where that model is gone and training again gave another (on a GPU it may), they are run anew,
and the outcome that was there stays until they are through.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import to_plain
from robust_tickets.environment import code, environment
from robust_tickets.errors import TicketsError
from robust_tickets.files import locked, read_json
from robust_tickets.progress import say, warn
from robust_tickets.reproduce import arms as rows
from robust_tickets.reproduce import gather, outcome, protocol
from robust_tickets.reproduce.gather import foreign
from robust_tickets.reproduce.job import Unit
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.paths import CORPORA, Paths
from robust_tickets.reproduce.protocol import GROUPS

if TYPE_CHECKING:
    from robust_tickets.experiment.recipe import AttackPlan, Recipe
    from robust_tickets.experiment.runner import Experiment, Made
    from robust_tickets.reproduce.protocol import NamedAttack
    from robust_tickets.ticket.ticket import Ticket

# settings that do not make another unit: how it is called and saved, where files lie, what a device calculates in, who attacks it
OPEN = ("name", "title", "about", "notes", "branch_of", "folder", "source", "model", "baseline", "attacks", "precision")


def one(
    unit: Unit,
    attacks: Sequence[NamedAttack],
    paths: Paths,
    store: Path,
    results: Path,
    processes: int = 1,
    *,
    search_only: bool = False,
    drop_models: bool = False,
) -> Outcome:
    """Make what is missing of the unit's outcome, and write it. ``processes`` share the device.

    ``search_only``: the ticket is enough.
    ``drop_models``: the trained model goes once it is attacked; a later attack trains anew.
    """
    with locked(store / "units" / unit.id, wait=True):
        known = found(unit, results)
        recipe = recipe_of(unit, attacks, paths)
        if known is not None:
            check_same(known, recipe, unit, attacks, paths)
            if complete(known, attacks, search_only):
                return known
        return _make(unit, attacks, recipe, known, paths, store, results, processes, search_only, drop_models)


def found(unit: Unit, results: Path) -> Outcome | None:
    """What there is of the unit."""
    path = outcome.place(results, unit)
    return outcome.read(path) if path.is_file() else None


def complete(known: Outcome | None, attacks: Sequence[NamedAttack], search_only: bool = False) -> bool:
    """Whether an outcome has all that is asked for."""
    return known is not None and (
        search_only or (bool(known.clean) and all(known.attacked(attack.name) for attack in attacks))
    )


def recipe_of(unit: Unit, attacks: Sequence[NamedAttack], paths: Paths) -> Recipe:
    """The unit as a recipe of one arm, with its attacks in their order; refused where it breaks the protocol."""
    from robust_tickets.experiment.recipe import resolve

    arm = rows.arm(unit.arm, unit.flavour)
    tree = rows.tree(
        unit,
        (*protocol.settings(unit), *paths.settings(unit)),
        [attack.placed(paths, cuda=protocol.on_cuda()) for attack in attacks],
    )
    recipe = resolve(unit.arm, paths.placed(tree), [arm.arm])
    protocol.check(recipe, unit)
    return recipe


def check_same(known: Outcome, recipe: Recipe, unit: Unit, attacks: Sequence[NamedAttack], paths: Paths) -> None:
    """Refuse to add to an outcome of other settings or data, or to take it or an attack of it for this one."""
    if why := foreign(known, paths):
        raise TicketsError(
            why,
            hint=f"give another folder as --results, or move units/{unit.id}.json out of this one; --subset takes results of a part",
        )
    differs = _differs(known.config.get("recipe", {}), _plain(recipe))
    tables = known.config.get("attacks", {})
    for attack in attacks:
        differs = differs or _differs(tables.get(attack.name, {}), to_plain(attack.table), attack.name)
    if differs:
        name, before, now = differs
        raise TicketsError(
            f"there is a result with other settings: {name} {before!r} there, {now!r} now",
            hint=f"move units/{unit.id}.json out of the results to run it anew, or take back the change",
        )


def _make(
    unit: Unit, attacks: Sequence[NamedAttack], recipe: Recipe, known: Outcome | None, paths: Paths, store: Path, results: Path,
    processes: int, search_only: bool, drop_models: bool,
) -> Outcome:  # fmt: skip
    from robust_tickets.experiment.runner import prepare, ticket_of

    folder = store / f"repeat-{unit.repeat}" if unit.repeat else store
    walk = prepare(recipe, out=folder, processes=processes)
    notes = protocol.check_task(walk.task, unit, subset=paths.subset)
    (arm,) = recipe.arms
    kept = _Kept(unit, walk, paths, results, notes)
    if search_only:
        if arm.origin is None:
            raise TicketsError(
                f"{unit.id} has no search, and only the search is asked for", hint="ask for the trained model"
            )
        ticket, searched, _ = ticket_of(walk, arm.origin)
        return kept.write(
            known or kept.begun(kept.shape(ticket), gather.traces(searched, None), gather.cost(searched, None))
        )
    made = walk.made(arm)
    told = kept.trained(made)
    if known is not None and known.inputs.get("trained") == told.inputs["trained"]:
        told = replace(told, attacks=known.attacks, config={**told.config, "attacks": known.config.get("attacks", {})})
    elif known is not None and known.attacks:
        say(f"{unit.id} is another model than the one that was attacked: its attacks are run anew")
        attacks = [*attacks, *_others(unit, known, attacks)]
        recipe = recipe_of(unit, attacks, paths)
        kept.owed = {attack.name for attack in attacks if known.attacked(attack.name)}
    kept.write(told)
    workers, problems = _workers(processes), []
    for attack, plan in zip(attacks, recipe.attacks, strict=True):
        if told.attacked(attack.name) is None:
            try:
                told = kept.write(kept.attacked(told, attack, made, plan, workers))
            except Exception as problem:  # the other attacks do not depend on it
                warn(f"{unit.id}: {attack.name} failed: {problem}")
                problems.append(problem)
    if problems:
        raise problems[0]
    if drop_models:
        with walk.run.alone(made.trained):
            shutil.rmtree(made.trained.folder / "model", ignore_errors=True)
    return told


class _Kept:
    """Writes the outcome of one unit, step by step."""

    def __init__(self, unit: Unit, walk: Experiment, paths: Paths, results: Path, notes: Sequence[str]) -> None:
        self.unit, self.walk, self.results, self.notes = unit, walk, results, notes
        self.paths = {name: path for name, path in vars(paths).items() if isinstance(path, Path)}
        self.ids: dict[str, Sequence[str]] = {}
        self.ticket: Ticket | None = None  # to lie beside the outcome
        self.owed: set[str] = (
            set()
        )  # attacks of an outcome that lies there, of another model: with less it is not written over

    def begun(self, ticket: Any, traces: dict[str, Any], cost: dict[str, Any], **more: Any) -> Outcome:
        task, recipe = self.walk.task, self.walk.recipe
        inputs = {
            "task": {name: split.digest for name, split in task.splits.items() if len(split)},
            "rows": {name: len(split) for name, split in task.splits.items() if len(split)},
            "theta0": self.walk.inputs["model"],
            "version": self.walk.inputs["version"],
            "code": code(),
            "said": [*task.notes, *recipe.notes],
            **more.pop("inputs", {}),
        }
        return Outcome(
            unit=self.unit,
            config={"recipe": self._clear(_plain(recipe)), "attacks": {}},
            inputs=self._clear(inputs),
            env=dict(environment()),
            clean=more.pop("clean", {}),
            cost=cost,
            ticket=ticket,
            traces=traces,
            notes=tuple(
                self._clear(
                    [*rows.arm(self.unit.arm, self.unit.flavour, self.unit.task).notes, *self.notes, *task.warnings]
                )
            ),
        )

    def trained(self, made: Made) -> Outcome:
        folder = made.trained.folder
        inputs: dict[str, Any] = {"trained": made.model.digest}
        if (folder / "adversary.json").is_file():
            inputs["adversary"] = read_json(folder / "adversary.json")
        return self.begun(
            self.shape(made.ticket) if made.ticket is not None else None,
            gather.traces(made.searched, made.trained),
            gather.cost(made.searched, made.trained),
            clean=read_json(folder / "evaluation.json"),
            inputs=inputs,
        )

    def shape(self, ticket: Ticket) -> dict[str, Any]:
        """What the outcome holds of the ticket; the ticket itself is kept to lie beside it, or how to have it again."""
        told = gather.shape(ticket, self.walk.start.model)
        if ticket.kind != "structured":
            return {
                **told,
                "again": f"tickets reproduce --job {self.unit.id} --search-only --results NEW --out NEW",
            }
        self.ticket = replace(ticket, provenance=self._clear(ticket.provenance))
        return told

    def attacked(
        self, told: Outcome, attack: NamedAttack, made: Made, plan: AttackPlan, workers: int | None
    ) -> Outcome:
        stage = self.walk.attacked(made, plan, workers)
        result, ids = gather.attacked(attack.name, stage)
        result = replace(result, resources=self._clear(result.resources), flags=self._clear(result.flags))
        self.ids[result.examples] = ids
        tables = {**told.config["attacks"], attack.name: to_plain(attack.table)}
        others = [one for one in told.attacks if one.name != attack.name]
        return replace(told, attacks=(*others, result), config={**told.config, "attacks": tables})

    def write(self, told: Outcome) -> Outcome:
        if self.owed <= {attacked.name for attacked in told.attacks}:
            outcome.write(self.results, told, self.ids, self.ticket)
        return told

    def _clear(self, value: Any) -> Any:
        return gather.without_paths(value, self.paths)


def _others(unit: Unit, known: Outcome, attacks: Sequence[NamedAttack]) -> list[NamedAttack]:
    """The attacks of an outcome that are not asked for, from the protocol; one that it knows no more is gone with its model."""
    asked = {attack.name for attack in attacks}
    return [
        attack
        for attack in protocol.attacks(unit.task, GROUPS, unit.flavour)
        if attack.name not in asked and known.attacked(attack.name)
    ]


def _plain(recipe: Recipe) -> dict[str, Any]:
    return {name: value for name, value in to_plain(recipe).items() if name not in ("attacks", "about", "notes")}


def _differs(before: Any, now: Any, name: str = "recipe") -> tuple[str, Any, Any] | None:
    """The first setting that both have and that is not the same: one that only one has came or went with a version."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        shared = [key for key in before if key in now and key not in OPEN]
        return next(filter(None, (_differs(before[key], now[key], f"{name}.{key}") for key in shared)), None)
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return next(
            filter(None, (_differs(a, b, f"{name}.{i}") for i, (a, b) in enumerate(zip(before, now, strict=True)))),
            None,
        )
    if isinstance(before, str) and before.startswith("@"):  # a place: it lies elsewhere on every machine
        text, other = (str(path).rpartition("/")[2] for path in (before, now))
        return (name, text, other) if text != other and {text, other} <= set(CORPORA) else None
    return None if before == now else (name, before, now)


def _workers(processes: int) -> int | None:
    """Worker processes of an attack on a GPU that others share: most of their time units train, with one core each."""
    import os

    import torch

    if processes == 1 or not torch.cuda.is_available():
        return None
    from robust_tickets.attack.workers import MOST

    return max(2, min(MOST, 2 * len(os.sched_getaffinity(0)) // processes))
