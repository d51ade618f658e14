"""Run the experiment of a recipe: data, search, ticket, compact, train, attack, report.

Running the same command again resumes or finds everything done. Two arms that share a stage (the same key) do its work once.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import counted, describe, digest, to_plain
from robust_tickets.data import diagnostics
from robust_tickets.data.source import TaskSource
from robust_tickets.errors import in_table, inside
from robust_tickets.experiment import arms as allowed
from robust_tickets.experiment import execute
from robust_tickets.experiment.arms import Arm, Origin
from robust_tickets.experiment.jobs import Failed, Local
from robust_tickets.experiment.recipe import AttackPlan, Recipe
from robust_tickets.files import locked, read_json, write_json
from robust_tickets.progress import say
from robust_tickets.registry import name_of
from robust_tickets.stages import RunFolder, Stage, made, resources_of, with_earlier

if TYPE_CHECKING:
    from robust_tickets.classifier import ModelClassifier
    from robust_tickets.data.task import Split, Task
    from robust_tickets.experiment.arms import Origin
    from robust_tickets.ticket.ticket import Ticket


def ticket_of(experiment: Experiment, origin: Origin) -> tuple[Ticket, Stage | None, Stage]:
    """The ticket, the stage that searched it (none: it came from a folder), and the stage where the ticket itself lies."""
    from robust_tickets.ticket.ticket import Ticket

    searched, ticket = experiment.ticket_jobs(origin)
    lies = experiment.finished(ticket)
    return Ticket.load(lies.folder), experiment.finished(searched) if searched else None, lies


SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Made:
    """A trained model, its ticket if it has one, and the stages: of the search, of the ticket itself, of the training."""

    model: ModelClassifier
    ticket: Ticket | None
    searched: Stage | None
    lies: Stage | None
    trained: Stage
    job: str  # of the training


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One recipe on its way: the task and theta_0 loaded, the run folder known."""

    recipe: Recipe
    task: Task
    start: ModelClassifier  # theta_0; never changed
    inputs: Mapping[str, Any]  # what theta_0 and the task are, for the stages' keys
    elsewhere: Mapping[TaskSource, Task]  # other tasks that arms search on
    run: RunFolder
    jobs: Local
    command: str
    goes_on: str = ""  # the command with its folder, where that is not the usual one

    @property
    def config(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "recipe": to_plain(self.recipe), **self.inputs}

    def done(self) -> bool:
        """Whether the run folder holds this experiment, finished; with other settings there, it does not."""
        return self.run.done() and read_json(self.run.folder / "config.json") == self.config

    def go(self) -> Path:
        """Experiment to the end and return the run folder."""
        from robust_tickets.report.html import write_report

        folder = self.run.folder
        with locked(folder):
            self.run.begin(self.config)
            self.run.resumed_by(self.goes_on)
            env = made(file for task in (self.task, *self.elsewhere.values()) for file in task.files)
            write_json(folder / "env.json", with_earlier(env, folder / "env.json"))
            diagnostics.write_bad_rows(folder, [self.task, *self.elsewhere.values()])
            for arm in self.recipe.arms:
                self.train_job(arm)
            rows = [self._arm(arm) for arm in self.recipe.arms]
            write_json(folder / "arms.json", self._arms(rows))
            write_report(folder / "report.html", [folder])
            self.run.finish(self.jobs.finished())
        return folder

    def ticket_jobs(self, origin: Origin) -> tuple[str | None, str]:
        """The jobs of a ticket's search, if it is searched, and of the ticket itself."""
        searched = None
        if origin.search is not None:
            after = {"like": self.ticket_jobs(origin.like)[1]} if origin.like else {}
            elsewhere = to_plain(origin.searched_on) if origin.searched_on else None
            request = self._request("search", method=describe(origin.search), searched_on=elsewhere)
            searched = self.jobs.submit(request, after)
            if origin.draw is None:
                return searched, searched
        asked = origin.draw.asked() if origin.draw else None
        request = self._request("ticket", folder=None if searched else str(origin.folder), draw=asked)
        return searched, self.jobs.submit(request, {"search": searched} if searched else {})

    def train_job(self, arm: Arm) -> str:
        after = {"ticket": self.ticket_jobs(arm.origin)[1]} if arm.origin else {}
        return self.jobs.submit(self._request("train", train=to_plain(arm.train), without=arm.without), after)

    def _request(self, stage: str, **values: Any) -> dict[str, Any]:
        recipe = self.recipe
        start = {"model": recipe.model, "max_length": recipe.max_length, "seed": recipe.seed}
        given = {"source": to_plain(recipe.source), "inputs": dict(self.inputs), **start, **values}
        return {"stage": stage, "run": str(self.run.folder), "processes": self.run.processes, **given}

    def finished(self, job: str) -> Stage:
        """The stage of a job, once it is finished."""
        found = self.jobs.wait(job)
        if isinstance(found, Failed):
            raise found.error
        return self.run.made(found.stage)

    def made(self, arm: Arm) -> Made:
        """The arm's model, trained or found done, and what it was made from."""
        say(f"— {arm.title} —")
        ticket, searched, lies = ticket_of(self, arm.origin) if arm.origin else (None, None, None)
        job = self.train_job(arm)
        trained = self.finished(job)
        with self.run.alone(trained):
            model = self.jobs.loaded.victim(trained.folder)
        return Made(model=model, ticket=ticket, searched=searched, lies=lies, trained=trained, job=job)

    def attacked(self, made: Made, plan: AttackPlan, workers: int | None = None) -> Stage:
        """The stage with the result of an attack; ``workers`` as in ``Speed``."""
        request = self._request("attack", plan=to_plain(plan), workers=workers)
        return self.finished(self.jobs.submit(request, {"trained": made.job}))

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


def prepare(recipe: Recipe, *, out: Path | None = None, command: str = "", processes: int | None = None) -> Experiment:
    """Load what the recipe names and decide its run folder; trains nothing. ``processes`` as :class:`RunFolder` has it."""
    for note in recipe.notes:
        say(note)
    allowed.check(recipe)
    origins = list(_origins([arm.origin for arm in recipe.arms]))
    _look_for_resources(recipe, origins)
    loaded = execute.Loaded()
    about = {
        "model": recipe.model,
        "max_length": recipe.max_length,
        "seed": recipe.seed,
        "source": to_plain(recipe.source),
    }
    task, start, given = (
        loaded.task(about["source"], recipe.seed),
        loaded.start(about, about["source"]),
        loaded.inputs(about),
    )
    elsewhere = {o.searched_on: loaded.task(to_plain(o.searched_on), recipe.seed) for o in origins if o.searched_on}
    others = [
        [
            elsewhere[o.searched_on].digest if o.searched_on else None,
            execute.fingerprint(o.folder) if o.folder else None,
        ]
        for o in origins
    ]
    parts = [counted(recipe), given["task"], given["model"], given["version"], *others]
    run = RunFolder(folder=out or Path("runs") / f"{recipe.name}-{digest(parts)[:8]}", processes=processes)
    goes_on = f"{command} --out {shlex.quote(str(out))}" if command and out else command
    return Experiment(
        recipe=recipe,
        task=task,
        start=start,
        inputs=given,
        elsewhere=elsewhere,
        run=run,
        jobs=Local(loaded),
        command=command,
        goes_on=goes_on,
    )


def plan_of(experiment: Experiment) -> list[str]:
    """What will be done, a line an arm and a line an attack."""
    lines = []
    for arm in experiment.recipe.arms:
        searches = arm.search is not None and arm.branch_of is None
        passes = f" ({_passes(arm.search):g} passes a step)" if searches and _passes(arm.search) > 1 else ""
        first = f"{arm.story()}{passes}, " if arm.origin is not None else ""
        adversary = f" under {type(arm.train.adversary).__name__}" if arm.train.adversary else ""
        epochs = arm.train.run_epochs or arm.train.epochs
        lines.append(
            f"  {arm.title}: {first}{epochs} epoch(s){adversary}, lr {arm.train.lr:g}, batch {arm.train.batch_size}"
        )
    for plan in experiment.recipe.attacks:
        lines.append(
            f"  attack {type(plan.attack).__name__} on {chosen(plan, execute.attacked(plan, experiment.task), experiment.task.labels)}"
        )
    return lines


def chosen(plan: AttackPlan, split: Split, labels: tuple[str, ...]) -> str:
    """How many examples, which, and how many of each class: a small split cannot give what was asked for."""
    from robust_tickets.attack.examples import by_class, how, rows_of, short_of

    rows = rows_of(split, plan, len(labels))
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
        *((origin.key, origin.search) for origin in origins if origin.search is not None),  # not of a saved ticket
    ):
        with inside(key):
            resources_of(method)


def look_for_attacks(recipe: Recipe) -> None:
    """The same for what the attacks need. It is not asked of a experiment that makes do with some of its attacks."""
    for plan in recipe.attacks:
        with inside("attack") if len(recipe.attacks) == 1 else in_table(f"[[attack]] of {name_of(plan.attack)}"):
            plan.attack.resources()


def _origins(origins: Iterable[Origin | None]) -> Iterator[Origin]:
    """Each origin, and those of the tickets they match."""
    for origin in origins:
        if origin is not None:
            yield origin
            yield from _origins([origin.like])


def _subnetwork(ticket: Ticket) -> dict[str, Any]:
    about = {"kind": ticket.kind, "digest": ticket.digest, "sparsity": ticket.sparsity, "removed": ticket.removed}
    return {**about, "provenance": dict(ticket.provenance)}
