"""One job from its name to its outcome, in a process of its own.

Search, training and attacks are stages of one store, which jobs share. The outcome is written when the model is trained and again after
every attack, so that it is complete whenever the process ends. All attacks of an outcome are on one model: where that model is gone
and training again gave another (on a GPU it may), they are run again, and the earlier outcome stays until they are done.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import build, to_plain
from robust_tickets.environment import code, environment
from robust_tickets.errors import TicketsError
from robust_tickets.files import locked, read_json
from robust_tickets.progress import say, warn
from robust_tickets.reproduce import arms, outcome, protocol
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Outcome, foreign
from robust_tickets.reproduce.paths import CORPORA, Paths
from robust_tickets.reproduce.protocol import GROUPS, NamedAttack

if TYPE_CHECKING:
    from robust_tickets.experiment.recipe import Recipe
    from robust_tickets.experiment.runner import Experiment, Made
    from robust_tickets.stages import Stage
    from robust_tickets.ticket.ticket import Ticket

# settings that do not make another job: names and titles, paths, precision, attacks
OPEN = ("name", "title", "about", "notes", "branch_of", "folder", "source", "model", "baseline", "precision")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One job and its paths. ``processes`` share the device.

    ``search_only``: only the ticket is made.
    ``drop_models``: delete the trained model after the attacks; a later attack trains it again.
    """

    unit: Job
    attacks: tuple[str, ...]  # by their names in the protocol
    paths: Paths
    store: Path
    results: Path
    processes: int = 1
    search_only: bool = False
    drop_models: bool = False

    def attack(self, name: str) -> NamedAttack:
        return protocol.attack(self.unit.task, name, self.unit.flavour)


def run_job(request: Request) -> Outcome:
    """Make what is missing of the job's outcome, and write it."""
    with locked(request.store / "units" / request.unit.id, wait=True):
        known, recipe = found(request), recipe_of(request.unit, request.paths)
        if known is not None:
            check_same(known, recipe, request)
            if complete(known, request):
                return known
        return _make(request, recipe, known)


def found(request: Request) -> Outcome | None:
    """The outcome of the job, if there is one."""
    path = outcome.place(request.results, request.unit)
    return outcome.read(path) if path.is_file() else None


def complete(known: Outcome, request: Request) -> bool:
    """Whether an outcome has all that is asked for."""
    return request.search_only or (bool(known.clean) and all(map(known.attacked, request.attacks)))


def recipe_of(unit: Job, paths: Paths) -> Recipe:
    """The job as a recipe of one arm, without attacks."""
    from robust_tickets.experiment.recipe import resolve

    tree = arms.tree(unit, (*protocol.settings(unit), *paths.settings(unit)))
    return resolve(unit.arm, paths.placed(tree), [arms.arm(unit.arm).arm])


def check_same(known: Outcome, recipe: Recipe, request: Request) -> None:
    """Refuse to add to an outcome of other settings or data, or to take it or an attack of it for this one.

    A setting that only one of them has came or went with a version.
    """
    file = f"units/{request.unit.id}.json"
    if why := foreign(known, request.paths):
        hint = f"give another folder as --results, or move {file} out of this one; --subset takes results of a part"
        raise TicketsError(why, hint=hint, code="worker.other_data")
    attacks = {name: to_plain(request.attack(name).table) for name in request.attacks}
    before, now = _flat(known.config), _flat({"recipe": _plain(recipe), "attacks": attacks})
    for name in (name for name in before if name in now):
        old, new = before[name], now[name]
        if isinstance(old, str) and old.startswith("@"):  # a path, different on every machine
            old, new = (str(path).rpartition("/")[2] for path in (old, new))
            new = new if {old, new} <= set(CORPORA) else old
        if old != new:
            message = f"there is a result with other settings: {name} {old!r} there, {new!r} now"
            hint = f"move {file} out of the results to run it again, or undo the change"
            raise TicketsError(message, hint=hint, code="worker.other_settings")


def _plain(recipe: Recipe) -> dict[str, Any]:
    return {name: value for name, value in to_plain(recipe).items() if name not in ("attacks", "about", "notes")}


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """The settings in tables of tables by their dotted names, without those in OPEN."""
    if isinstance(value, list):
        value = {"length": len(value), **dict(enumerate(value))}
    if not isinstance(value, Mapping):
        return {name: value}
    pairs = ((f"{name}.{key}".strip("."), inner) for key, inner in value.items() if key not in OPEN)
    own = {name: "a table"} if name else {}  # so that no adversary is another setting than one
    return own | {place: setting for at, inner in pairs for place, setting in _flat(inner, at).items()}


def _make(request: Request, recipe: Recipe, known: Outcome | None) -> Outcome:
    from robust_tickets.experiment.recipe import attack_plan
    from robust_tickets.experiment.runner import prepare, ticket_of
    from robust_tickets.reproduce import gather

    unit, (arm,) = request.unit, recipe.arms
    folder = request.store / f"repeat-{unit.repeat}" if unit.repeat else request.store
    experiment = prepare(recipe, out=folder, processes=request.processes)
    notes = protocol.check_task(experiment.task, unit, subset=request.paths.subset)
    clear = partial(gather.without_paths, paths={k: v for k, v in vars(request.paths).items() if isinstance(v, Path)})

    def kept(ticket: Ticket | None) -> Ticket | None:
        """The ticket beside the outcome: one of heads and neurons."""
        whole = ticket is not None and ticket.kind == "structured"
        return replace(ticket, provenance=clear(ticket.provenance)) if ticket is not None and whole else None

    if request.search_only:
        if arm.origin is None:
            message = f"{unit.id} has no search, and only the search is asked for"
            raise TicketsError(message, hint="ask for the trained model", code="worker.no_search")
        ticket, searched, _ = ticket_of(experiment, arm.origin)
        current = known or clear(_outcome(unit, experiment, notes, ticket, searched))
        outcome.write(request.results, current, {}, kept(ticket))
        return current
    made = experiment.made(arm)
    current = clear(_outcome(unit, experiment, notes, made.ticket, made.searched, made))
    owed: set[str] = set()  # attacks of an outcome of another model, which is not overwritten by one with fewer
    if known is not None and known.inputs.get("trained") == current.inputs["trained"]:
        config = {**current.config, "attacks": known.config.get("attacks", {})}
        current = replace(current, attacks=known.attacks, config=config)
    elif known is not None and known.attacks:
        say(f"{unit.id} is another model than the one that was attacked: its attacks are run again")
        owed = {one.name for one in protocol.attacks(unit.task, GROUPS, unit.flavour) if known.attacked(one.name)}
    ids: dict[str, tuple[str, ...]] = {}

    def write() -> None:
        if owed <= {attacked.name for attacked in current.attacks}:
            outcome.write(request.results, current, ids, kept(made.ticket))

    write()
    problems = []
    for name in dict.fromkeys((*request.attacks, *sorted(owed))):
        if current.attacked(name) is not None:
            continue
        try:
            attack = request.attack(name)
            plan = attack_plan(name, attack.placed(request.paths, cuda=protocol.on_cuda()), unit.seed)
            stage = experiment.attacked(made, plan, workers(request.processes))
            result, its_ids = gather.attacked(name, stage)
            ids[result.examples] = its_ids
            config = {**current.config, "attacks": {**current.config["attacks"], name: to_plain(attack.table)}}
            current = replace(current, attacks=(*current.attacks, clear(result)), config=config)
            write()
        except Exception as problem:  # the other attacks do not depend on it
            warn(f"{unit.id}: {name} failed: {problem}")
            problems.append(problem)
    if problems:
        raise problems[0]
    if request.drop_models:
        with experiment.run.alone(made.trained):
            shutil.rmtree(made.trained.folder / "model", ignore_errors=True)
    return current


def _outcome(
    unit: Job,
    experiment: Experiment,
    notes: tuple[str, ...],
    ticket: Ticket | None,
    searched: Stage | None,
    made: Made | None = None,
) -> Outcome:
    """The outcome without attacks; of a search alone nothing is ``made``."""
    from robust_tickets.reproduce import gather

    task, recipe = experiment.task, experiment.recipe
    trained, splits = made.trained if made else None, {name: own for name, own in task.splits.items() if len(own)}
    inputs = {
        "task": {name: split.digest for name, split in splits.items()},
        "rows": {name: len(split) for name, split in splits.items()},
        "theta0": experiment.inputs["model"],
        "version": experiment.inputs["version"],
        "code": code(),
        "said": [*task.notes, *recipe.notes],
    }
    if made is not None:
        inputs["trained"] = made.model.digest
        if (adversary := made.trained.folder / "adversary.json").is_file():
            inputs["adversary"] = read_json(adversary)
    shape = gather.shape(ticket, experiment.start.model) if ticket is not None else None
    if shape is not None and shape["kind"] != "structured":
        shape["again"] = f"tickets reproduce --job {unit.id} --search-only --results NEW --out NEW"
    return Outcome(
        unit=unit,
        config={"recipe": _plain(recipe), "attacks": {}},
        inputs=inputs,
        env=dict(environment()),
        clean=read_json(trained.folder / "evaluation.json") if trained is not None else {},
        cost=gather.cost(searched, trained),
        ticket=shape,
        traces=gather.traces(searched, trained),
        notes=(*arms.arm(unit.arm, unit.flavour, unit.task).notes, *notes, *task.warnings),
    )


def workers(processes: int) -> int | None:
    """Worker processes of an attack on a GPU that others share: most of their time jobs train, with one core each."""
    import torch

    if processes == 1 or not torch.cuda.is_available():
        return None
    from robust_tickets.attack.workers import MOST

    return max(2, min(MOST, 2 * len(os.sched_getaffinity(0)) // processes))


def execute(request: Mapping[str, Any]) -> str:
    """Run the job of a request of plain values; its numbers in a line."""
    made = run_job(build(Request, request, "request"))
    parts = [f"{made.clean['accuracy']:.1f} % clean"] if "accuracy" in made.clean else ["ticket found"]
    shares = {attacked.name: attacked.share("aua") for attacked in made.attacks}
    return ", ".join([*parts, *(f"{name} {share:.1f}" for name, share in shares.items() if share is not None)])


if __name__ == "__main__":
    from robust_tickets.experiment.execute import serve

    serve(execute)
