"""The whole walk of a recipe: data, search, ticket, compact, train, attack, report.

Running the same command again resumes or finds everything done. Two arms that share a stage (the same key) do its work once.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import counted, digest, to_plain
from robust_tickets.data import diagnostics
from robust_tickets.data.source import TaskSource
from robust_tickets.errors import TicketsError, in_table, inside
from robust_tickets.experiment import arms as allowed
from robust_tickets.experiment import execute
from robust_tickets.experiment.arms import Arm, Origin
from robust_tickets.experiment.recipe import AttackPlan, Recipe
from robust_tickets.files import locked, read_json, sha256_file, write_json
from robust_tickets.progress import say
from robust_tickets.registry import name_of
from robust_tickets.stages import RunFolder, Stage, made, resources_of, with_earlier

if TYPE_CHECKING:
    from robust_tickets.classifier import ModelClassifier
    from robust_tickets.data.task import Split, Task
    from robust_tickets.experiment.arms import Origin
    from robust_tickets.ticket.ticket import Ticket


def ticket_of(walk: Walk, origin: Origin) -> tuple[Ticket, Stage | None, Stage]:
    """The ticket, the stage that searched it (none: it came from a folder), and the stage where the ticket itself lies."""
    from robust_tickets.ticket.ticket import Ticket

    searched = None
    if origin.search is None:
        ticket, source = Ticket.load(str(origin.folder)), fingerprint(origin.folder)
    else:
        like = ticket_of(walk, origin.like)[0] if origin.like else None
        searched = walk.run.stage("search", search_key(walk, origin, like))
        task = walk.elsewhere[origin.searched_on] if origin.searched_on else walk.task
        with walk.run.alone(searched):
            ticket = execute.search(searched, origin.search, lambda: walk.classifier(origin.searched_on), task, like)
        if origin.draw is None:
            return ticket, searched, searched
        source = digest(searched.key)
    lies = walk.run.stage("ticket", execute.draw_key(source, origin.draw))
    with walk.run.alone(lies):
        return execute.draw(lies, ticket, origin.draw), searched, lies


def search_key(walk: Walk, origin: Origin, like: Ticket | None) -> Mapping[str, Any]:
    given = dict(walk.inputs)
    if (
        origin.searched_on is not None
    ):  # theta_0 stands for the encoder; the head is another one, drawn from the recipe's seed
        other = walk.elsewhere[origin.searched_on]
        given |= {
            "task": other.digest,
            "head": {"labels": list(other.labels), "columns": list(other.columns), "seed": walk.recipe.seed},
        }
    return execute.search_key(origin.search, given, like)


def fingerprint(folder: str | Path | None) -> str:
    """Hash of a saved ticket: its masks and the scores that other draws are made from."""
    files = [Path(str(folder)) / name for name in ("ticket.safetensors", "scores.safetensors")]
    if not files[0].is_file():
        raise TicketsError(
            f"no ticket in {folder}: {files[0].name} is missing", hint="give the folder that a search wrote"
        )
    return digest([sha256_file(file) for file in files if file.is_file()])


SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Made:
    """A trained model, its ticket if it has one, and the stages: of the search, of the ticket itself, of the training."""

    model: ModelClassifier
    ticket: Ticket | None
    searched: Stage | None
    lies: Stage | None
    trained: Stage


@dataclass(frozen=True, kw_only=True)
class Walk:
    """One recipe on its way: the task and theta_0 loaded, the run folder known."""

    recipe: Recipe
    task: Task
    start: ModelClassifier  # theta_0; never changed
    inputs: Mapping[str, Any]  # what theta_0 and the task are, for the stages' keys
    elsewhere: Mapping[TaskSource, Task]  # other tasks that arms search on
    run: RunFolder
    command: str
    goes_on: str = ""  # the command with its folder, where that is not the usual one

    def classifier(self, source: TaskSource | None = None) -> ModelClassifier:
        """theta_0 for the recipe's task, or with another head for another task."""
        return self.start if source is None else _classifier(self.recipe, self.elsewhere[source])

    @property
    def config(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "recipe": to_plain(self.recipe), **self.inputs}

    def done(self) -> bool:
        """Whether the run folder holds this walk, finished; with other settings there, it does not."""
        return self.run.done() and read_json(self.run.folder / "config.json") == self.config

    def go(self) -> Path:
        """Walk to the end and return the run folder."""
        from robust_tickets.report.html import write_report

        folder = self.run.folder
        with locked(folder):
            self.run.begin(self.config)
            self.run.resumed_by(self.goes_on)
            env = made(file for task in (self.task, *self.elsewhere.values()) for file in task.files)
            write_json(folder / "env.json", with_earlier(env, folder / "env.json"))
            diagnostics.write_bad_rows(folder, [self.task, *self.elsewhere.values()])
            rows = [self._arm(arm) for arm in self.recipe.arms]
            write_json(folder / "arms.json", self._arms(rows))
            write_report(folder / "report.html", [folder])
            self.run.finish(self.run.used)
        return folder

    def made(self, arm: Arm) -> Made:
        """The arm's model, trained or found done, and what it was made from."""
        from robust_tickets.classifier import ModelClassifier

        say(f"— {arm.title} —")
        ticket, searched, lies = ticket_of(self, arm.origin) if arm.origin else (None, None, None)
        trained = self.run.stage("train", execute.train_key(arm.train, self.inputs, ticket, arm.without))
        with self.run.alone(trained):
            execute.train(trained, arm.train, self.start, self.task, ticket, arm.without)
            model = ModelClassifier.from_pretrained(trained.folder / "model")
        return Made(model=model, ticket=ticket, searched=searched, lies=lies, trained=trained)

    def attacked(self, made: Made, plan: AttackPlan, workers: int | None = None) -> Stage:
        """The stage with the result of an attack; ``workers`` as in ``Speed``."""
        split = execute.attacked(plan, self.task)
        stage = self.run.stage("attack", execute.attack_key(plan, made.model, split))
        evaluation = execute.evaluation_of(made.trained)
        clean = evaluation["accuracy"] if split.name == evaluation["split"] else None
        with self.run.alone(stage):
            execute.attack(stage, plan, made.model, self.task, clean, workers)
        return stage

    def _arm(self, arm: Arm) -> dict[str, Any]:
        made = self.made(arm)
        ticket, searched, lies, trained = made.ticket, made.searched, made.lies, made.trained
        attacks = [self.attacked(made, plan).name for plan in self.recipe.attacks]
        return {
            "name": arm.name,
            "title": arm.title,
            "search": searched.name if searched else None,
            "ticket": lies.name if lies else None,
            "subnetwork": _subnetwork(ticket) if ticket is not None else None,
            "branch": arm.branch(),
            "story": arm.story(),
            "train": trained.name,
            "attacks": attacks,
        }

    def _arms(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        task = {
            "name": self.task.name,
            "labels": list(self.task.labels),
            "train_rows": len(self.task.train),
            "attacked_split": self.task.test_split,
            "skipped_rows": len(self.task.skipped),
            "bad_rows": diagnostics.shown(self.task.skipped),
            "warnings": list(self.task.warnings),
            "notes": [*self.task.notes, *self.recipe.notes],
        }
        return {
            "schema": SCHEMA,
            "title": self.recipe.title,
            "about": self.recipe.about.strip(),
            "arms": rows,
            "baseline": self.recipe.baseline,
            "task": task,
            "model": self.recipe.model,
            "command": self.command,
        }


def prepare(recipe: Recipe, *, out: Path | None = None, command: str = "", processes: int | None = None) -> Walk:
    """Load what the recipe names and decide its run folder; trains nothing. ``processes`` as :class:`RunFolder` has it."""
    for note in recipe.notes:
        say(note)
    allowed.check(recipe)
    origins = list(_origins([arm.origin for arm in recipe.arms]))
    _look_for_resources(recipe, origins)
    task = recipe.source.load(recipe.seed)
    say(f"model: loading {recipe.model}")
    start = _classifier(recipe, task)
    given = execute.inputs(start, task)
    elsewhere = {source: source.load(recipe.seed) for source in dict.fromkeys(o.searched_on for o in origins) if source}
    others = [
        [elsewhere[o.searched_on].digest if o.searched_on else None, fingerprint(o.folder) if o.folder else None]
        for o in origins
    ]
    parts = [counted(recipe), given["task"], given["model"], given["version"], *others]
    run = RunFolder(folder=out or Path("runs") / f"{recipe.name}-{digest(parts)[:8]}", processes=processes)
    goes_on = f"{command} --out {shlex.quote(str(out))}" if command and out else command
    return Walk(
        recipe=recipe,
        task=task,
        start=start,
        inputs=given,
        elsewhere=elsewhere,
        run=run,
        command=command,
        goes_on=goes_on,
    )


def plan_of(walk: Walk) -> list[str]:
    """What will be done, a line an arm and a line an attack."""
    lines = []
    for arm in walk.recipe.arms:
        searches = arm.search is not None and arm.branch_of is None
        passes = f" ({_passes(arm.search):g} passes a step)" if searches and _passes(arm.search) > 1 else ""
        first = f"{arm.story()}{passes}, " if arm.origin is not None else ""
        adversary = f" under {type(arm.train.adversary).__name__}" if arm.train.adversary else ""
        epochs = arm.train.run_epochs or arm.train.epochs
        lines.append(
            f"  {arm.title}: {first}{epochs} epoch(s){adversary}, lr {arm.train.lr:g}, batch {arm.train.batch_size}"
        )
    for plan in walk.recipe.attacks:
        lines.append(
            f"  attack {type(plan.attack).__name__} on {chosen(plan, execute.attacked(plan, walk.task), walk.task.labels)}"
        )
    return lines


def chosen(plan: AttackPlan, split: Split, labels: tuple[str, ...]) -> str:
    """How many examples, which, and how many of each class: a small split cannot give what was asked for."""
    from robust_tickets.attack.examples import by_class, how, rows_of, short_of

    rows = rows_of(split, None, plan.n, plan.seed, len(labels), plan.subset)
    which = how(plan.subset, plan.seed, labels, by_class(split.labels[rows], len(labels)), len(split))
    short = short_of(plan.n, len(rows))
    return f"{len(rows)} examples, {which}" + (f"; {short}" if short else "")


def _passes(method: Any) -> float:
    """Forward-backward passes of a step."""
    return float(getattr(method, "passes", 1))


def _look_for_resources(recipe: Recipe, origins: Iterable[Origin]) -> None:
    """Words and models that are not there are found missing here, not after hours of search; the error names the recipe's key."""
    for key, method in (
        *((arm.key, arm.train) for arm in recipe.arms),
        *((origin.key, origin.search) for origin in origins),
    ):
        with inside(key):
            resources_of(method)


def look_for_attacks(recipe: Recipe) -> None:
    """The same for what the attacks need. It is not asked of a walk that makes do with some of its attacks."""
    for plan in recipe.attacks:
        with inside("attack") if len(recipe.attacks) == 1 else in_table(f"[[attack]] of {name_of(plan.attack)}"):
            plan.attack.resources()


def _classifier(recipe: Recipe, task: Task) -> ModelClassifier:
    from robust_tickets.classifier import load_classifier

    start = load_classifier(recipe.model, task, max_length=recipe.max_length, seed=recipe.seed)
    return start.needs_model("trained")


def _origins(origins: Iterable[Origin | None]) -> Iterator[Origin]:
    """Each origin, and those of the tickets they match."""
    for origin in origins:
        if origin is not None:
            yield origin
            yield from _origins([origin.like])


def _subnetwork(ticket: Ticket) -> dict[str, Any]:
    about = {"kind": ticket.kind, "digest": ticket.digest, "sparsity": ticket.sparsity, "removed": ticket.removed}
    return {**about, "provenance": dict(ticket.provenance)}
