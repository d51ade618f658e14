"""One job from its name to its outcome, and the process of its own that makes it.

Search, training and attacks are stages of one store, which jobs share. The outcome is written when the model is trained and again after
every attack, so that it is complete whenever the process ends. All attacks of an outcome are on one model: where that model is gone
and training again gave another (on a GPU it may), they are run again, and the earlier outcome stays until they are done.

The process gets its request as JSON on standard input and ends when the process that started it does, however that ends. The reason of a failure
is written to ``failures/<id>.json`` in the store.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from robust_tickets.config import build, to_plain
from robust_tickets.environment import code, environment
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import locked, read_json, write_json
from robust_tickets.progress import printed, say, warn
from robust_tickets.reproduce import arms, outcome, protocol
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Outcome, foreign
from robust_tickets.reproduce.paths import CORPORA, Paths
from robust_tickets.reproduce.protocol import GROUPS, NamedAttack

if TYPE_CHECKING:
    from robust_tickets.experiment.recipe import AttackPlan, Recipe
    from robust_tickets.experiment.runner import Experiment, Made
    from robust_tickets.stages import Stage
    from robust_tickets.ticket.ticket import Ticket

# settings that do not make another job: names and titles, paths, precision, attacks
OPEN = ("name", "title", "about", "notes", "branch_of", "folder", "source", "model", "baseline", "attacks", "precision")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One job and its paths. ``processes`` share the device.

    ``search_only``: only the ticket is made.
    ``drop_models``: delete the trained model after the attacks; a later attack trains it again.
    """

    unit: Job
    attacks: tuple[NamedAttack, ...]
    paths: Paths
    store: Path
    results: Path
    processes: int = 1
    search_only: bool = False
    drop_models: bool = False

    @property
    def failure(self) -> Path:
        return self.store / "failures" / f"{self.unit.id}.json"

    @property
    def log(self) -> Path:
        return self.store / "logs" / f"{self.unit.id}.log"

    def to_json(self) -> str:
        return json.dumps(to_plain(self))

    @classmethod
    def of_json(cls, text: str) -> Request:
        request: Request = build(cls, json.loads(text), "request")
        return request


def run_job(request: Request) -> Outcome:
    """Make what is missing of the job's outcome, and write it."""
    with locked(request.store / "units" / request.unit.id, wait=True):
        known = found(request.unit, request.results)
        recipe = recipe_of(request.unit, request.attacks, request.paths)
        if known is not None:
            check_same(known, recipe, request)
            if complete(known, request):
                return known
        return _make(request, recipe, known)


def found(unit: Job, results: Path) -> Outcome | None:
    """The outcome of the job, if there is one."""
    path = outcome.place(results, unit)
    return outcome.read(path) if path.is_file() else None


def complete(known: Outcome, request: Request) -> bool:
    """Whether an outcome has all that is asked for."""
    whole = bool(known.clean) and all(known.attacked(attack.name) for attack in request.attacks)
    return request.search_only or whole


def recipe_of(unit: Job, attacks: Sequence[NamedAttack], paths: Paths) -> Recipe:
    """The job as a recipe of one arm, with its attacks in their order; refused where it breaks the protocol."""
    from robust_tickets.experiment.recipe import resolve

    tables = [attack.placed(paths, cuda=protocol.on_cuda()) for attack in attacks]
    tree = arms.tree(unit, (*protocol.settings(unit), *paths.settings(unit)), tables)
    recipe = resolve(unit.arm, paths.placed(tree), [arms.arm(unit.arm).arm])
    protocol.check(recipe, unit)
    return recipe


def check_same(known: Outcome, recipe: Recipe, request: Request) -> None:
    """Refuse to add to an outcome of other settings or data, or to take it or an attack of it for this one."""
    file = f"units/{request.unit.id}.json"
    if why := foreign(known, request.paths):
        hint = f"give another folder as --results, or move {file} out of this one; --subset takes results of a part"
        raise TicketsError(why, hint=hint, code="worker.other_data")
    differs = _differs(known.config.get("recipe", {}), _plain(recipe))
    tables = known.config.get("attacks", {})
    for attack in request.attacks:
        differs = differs or _differs(tables.get(attack.name, {}), to_plain(attack.table), attack.name)
    if differs:
        name, before, now = differs
        message = f"there is a result with other settings: {name} {before!r} there, {now!r} now"
        hint = f"move {file} out of the results to run it again, or undo the change"
        raise TicketsError(message, hint=hint, code="worker.other_settings")


def _make(request: Request, recipe: Recipe, known: Outcome | None) -> Outcome:
    from robust_tickets.experiment.runner import prepare, ticket_of

    unit, attacks = request.unit, list(request.attacks)
    folder = request.store / f"repeat-{unit.repeat}" if unit.repeat else request.store
    experiment = prepare(recipe, out=folder, processes=request.processes)
    results = _Results(request, experiment, protocol.check_task(experiment.task, unit, subset=request.paths.subset))
    (arm,) = recipe.arms
    if request.search_only:
        if arm.origin is None:
            message = f"{unit.id} has no search, and only the search is asked for"
            raise TicketsError(message, hint="ask for the trained model", code="worker.no_search")
        ticket, searched, _ = ticket_of(experiment, arm.origin)
        return results.write(known or results.begun(ticket, searched, None))
    made = experiment.made(arm)
    current = results.trained(made)
    if known is not None and known.inputs.get("trained") == current.inputs["trained"]:
        config = {**current.config, "attacks": known.config.get("attacks", {})}
        current = replace(current, attacks=known.attacks, config=config)
    elif known is not None and known.attacks:
        say(f"{unit.id} is another model than the one that was attacked: its attacks are run again")
        named = {attack.name for attack in attacks}
        others = [one for one in protocol.attacks(unit.task, GROUPS, unit.flavour) if one.name not in named]
        attacks += [
            one for one in others if known.attacked(one.name)
        ]  # an attack that the protocol no longer has is dropped
        recipe = recipe_of(unit, attacks, request.paths)
        results.owed = {attack.name for attack in attacks if known.attacked(attack.name)}
    results.write(current)
    problems = []
    for attack, plan in zip(attacks, recipe.attacks, strict=True):
        if current.attacked(attack.name) is None:
            try:
                current = results.write(results.attacked(current, attack, made, plan))
            except Exception as problem:  # the other attacks do not depend on it
                warn(f"{unit.id}: {attack.name} failed: {problem}")
                problems.append(problem)
    if problems:
        raise problems[0]
    if request.drop_models:
        with experiment.run.alone(made.trained):
            shutil.rmtree(made.trained.folder / "model", ignore_errors=True)
    return current


class _Results:
    """Writes the outcome of one job, step by step."""

    def __init__(self, request: Request, experiment: Experiment, notes: Sequence[str]) -> None:
        self.request, self.experiment, self.notes = request, experiment, notes
        self.paths = {name: path for name, path in vars(request.paths).items() if isinstance(path, Path)}
        self.ids: dict[str, Sequence[str]] = {}
        self.ticket: Ticket | None = None  # written beside the outcome
        self.owed: set[str] = (
            set()
        )  # attacks of an outcome of another model, which is not overwritten by one with fewer

    def begun(
        self,
        ticket: Ticket | None,
        searched: Stage | None,
        trained: Stage | None,
        inputs: Mapping[str, Any] = MappingProxyType({}),
    ) -> Outcome:
        """The outcome without attacks; of a search alone nothing is ``trained``."""
        from robust_tickets.reproduce import gather

        task, recipe, unit = self.experiment.task, self.experiment.recipe, self.request.unit
        splits = {name: split for name, split in task.splits.items() if len(split)}
        known = {
            "task": {name: split.digest for name, split in splits.items()},
            "rows": {name: len(split) for name, split in splits.items()},
            "theta0": self.experiment.inputs["model"],
            "version": self.experiment.inputs["version"],
            "code": code(),
            "said": [*task.notes, *recipe.notes],
        }
        shape = None
        if ticket is not None:
            shape = gather.shape(ticket, self.experiment.start.model)
            if ticket.kind == "structured":
                self.ticket = replace(ticket, provenance=self._clear(ticket.provenance))
            else:
                shape["again"] = f"tickets reproduce --job {unit.id} --search-only --results NEW --out NEW"
        notes = [*arms.arm(unit.arm, unit.flavour, unit.task).notes, *self.notes, *task.warnings]
        return Outcome(
            unit=unit,
            config={"recipe": self._clear(_plain(recipe)), "attacks": {}},
            inputs=self._clear({**known, **inputs}),
            env=dict(environment()),
            clean=read_json(trained.folder / "evaluation.json") if trained is not None else {},
            cost=gather.cost(searched, trained),
            ticket=shape,
            traces=gather.traces(searched, trained),
            notes=tuple(self._clear(notes)),
        )

    def trained(self, made: Made) -> Outcome:
        adversary = made.trained.folder / "adversary.json"
        inputs = {"adversary": read_json(adversary)} if adversary.is_file() else {}
        return self.begun(made.ticket, made.searched, made.trained, {"trained": made.model.digest, **inputs})

    def attacked(self, current: Outcome, attack: NamedAttack, made: Made, plan: AttackPlan) -> Outcome:
        from robust_tickets.reproduce import gather

        stage = self.experiment.attacked(made, plan, workers(self.request.processes))
        result, ids = gather.attacked(attack.name, stage)
        result = replace(result, resources=self._clear(result.resources), flags=self._clear(result.flags))
        self.ids[result.examples] = ids
        tables = {**current.config["attacks"], attack.name: to_plain(attack.table)}
        others = [one for one in current.attacks if one.name != attack.name]
        return replace(current, attacks=(*others, result), config={**current.config, "attacks": tables})

    def write(self, current: Outcome) -> Outcome:
        if self.owed <= {attacked.name for attacked in current.attacks}:
            outcome.write(self.request.results, current, self.ids, self.ticket)
        return current

    def _clear(self, value: Any) -> Any:
        from robust_tickets.reproduce import gather

        return gather.without_paths(value, self.paths)


def _plain(recipe: Recipe) -> dict[str, Any]:
    return {name: value for name, value in to_plain(recipe).items() if name not in ("attacks", "about", "notes")}


def _differs(before: Any, now: Any, name: str = "recipe") -> tuple[str, Any, Any] | None:
    """The first setting that both have and that is not the same: one that only one has came or went with a version."""
    pairs: list[tuple[Any, Any, str]] | None = None
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        pairs = [(before[key], now[key], f"{name}.{key}") for key in before if key in now and key not in OPEN]
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = [(a, b, f"{name}.{i}") for i, (a, b) in enumerate(zip(before, now, strict=True))]
    if pairs is not None:
        return next(filter(None, (_differs(*pair) for pair in pairs)), None)
    if isinstance(before, str) and before.startswith("@"):  # a path, different on every machine
        before, now = (str(path).rpartition("/")[2] for path in (before, now))
        return (name, before, now) if before != now and {before, now} <= set(CORPORA) else None
    return None if before == now else (name, before, now)


def workers(processes: int) -> int | None:
    """Worker processes of an attack on a GPU that others share: most of their time jobs train, with one core each."""
    import torch

    if processes == 1 or not torch.cuda.is_available():
        return None
    from robust_tickets.attack.workers import MOST

    return max(2, min(MOST, 2 * len(os.sched_getaffinity(0)) // processes))


def main() -> int:
    """Run the job that standard input names; the exit code."""
    request = Request.of_json(sys.stdin.readline())
    threading.Thread(target=_end_with_starter, daemon=True).start()
    try:
        with printed():  # into the job's log
            run_job(request)
    except Exception as problem:
        write_failure(request, problem)
        return FAILED
    return 0


def write_failure(request: Request, problem: BaseException) -> str:
    """Write why a job failed to its file; return the message with its hint."""
    known = isinstance(problem, TicketsError)
    message = str(problem) if known else f"{type(problem).__name__}: {problem}"  # never empty
    lines = [] if known else traceback.format_exception(problem)
    try:
        write_json(request.failure, {"unit": request.unit.id, "message": message, "traceback": "".join(lines)})
    except TicketsError as unwritten:  # a full disk may be why it failed
        warn(f"{request.unit.id}: {message}; {unwritten.message}")
    return message


def _end_with_starter() -> None:
    """End at once when standard input closes. It is read without a lock, which a forked process would wait for."""
    while os.read(0, 1):
        pass
    os._exit(1)


def leave(*_: Any) -> None:
    """End on SIGTERM as Ctrl-C would: under CUDA MPS a process that ends with work on the device may break the others."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def synchronize() -> None:
    """Wait for what the device still does for this process."""
    import torch

    if torch.cuda.is_initialized():
        with suppress(RuntimeError):
            torch.cuda.synchronize()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    signal.signal(signal.SIGTERM, leave)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        synchronize()
        sys.exit(130)
