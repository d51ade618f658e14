"""Run the experiment of a recipe: data, search, ticket, compact, train, attack, report.

Running the same command again resumes or finds everything done. Two arms that share a stage (the same key) do its work once.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import counted, describe, digest, to_plain
from robust_tickets.data import diagnostics
from robust_tickets.data.source import TaskSource
from robust_tickets.errors import inside
from robust_tickets.experiment import execute
from robust_tickets.experiment.arms import Arm, Origin, check
from robust_tickets.experiment.jobs import Failed, Local
from robust_tickets.experiment.recipe import AttackPlan, Recipe
from robust_tickets.files import locked, read_json, write_json
from robust_tickets.progress import say
from robust_tickets.stages import RunFolder, Stage, made, resources_of, with_earlier

if TYPE_CHECKING:
    from robust_tickets.classifier import ModelClassifier
    from robust_tickets.data.task import Task
    from robust_tickets.ticket.ticket import Ticket

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
    """A recipe with its task and theta_0 loaded, and its run folder."""

    recipe: Recipe
    task: Task
    start: ModelClassifier  # theta_0; never changed
    inputs: Mapping[str, Any]  # what theta_0 and the task are, for the stages' keys
    elsewhere: Mapping[TaskSource, Task]  # other tasks that arms search on
    run: RunFolder
    jobs: Local
    command: str
    resumed_by: str = ""  # the command with its folder, where that is not the usual one

    @property
    def config(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "recipe": to_plain(self.recipe), **self.inputs}

    def done(self) -> bool:
        """Whether the run folder holds this experiment, finished; with other settings there, it does not."""
        return self.run.done() and read_json(self.run.folder / "config.json") == self.config

    def go(self) -> Path:
        """Run the experiment to its end and return the run folder."""
        from robust_tickets.report.html import write_report

        folder, tasks = self.run.folder, [self.task, *self.elsewhere.values()]
        with locked(folder):
            self.run.begin(self.config)
            self.run.resumed_by(self.resumed_by)
            env = made(file for task in tasks for file in task.files)
            write_json(folder / "env.json", with_earlier(env, folder / "env.json"))
            diagnostics.write_bad_rows(folder, tasks)
            for arm in self.recipe.arms:
                self.train_job(arm)
            write_json(folder / "arms.json", self._summary([self._arm(arm) for arm in self.recipe.arms]))
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
        given = {"basis": to_plain(execute.Basis.of(self.recipe)), "inputs": dict(self.inputs)}
        return {"stage": stage, "run": str(self.run.folder), "processes": self.run.processes, **given, **values}

    def finished(self, job: str) -> Stage:
        """The stage of a job, once it is finished."""
        found = self.jobs.wait(job)
        if isinstance(found, Failed):
            raise found.error
        return self.run.made(found.result)

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
        subnetwork = None
        if (ticket := made.ticket) is not None:
            subnetwork = {name: getattr(ticket, name) for name in ("kind", "digest", "sparsity", "removed")}
            subnetwork["provenance"] = dict(ticket.provenance)
        return {
            "name": arm.name,
            "title": arm.title,
            "search": made.searched.name if made.searched else None,
            "ticket": made.lies.name if made.lies else None,
            "subnetwork": subnetwork,
            "branch": arm.branch(),
            "story": arm.story(),
            "train": made.trained.name,
            "attacks": [self.attacked(made, plan).name for plan in self.recipe.attacks],
        }

    def _summary(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
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
        about = {name: getattr(self.recipe, name) for name in ("title", "baseline", "model")}
        about |= {"about": self.recipe.about.strip(), "command": self.command}
        return {"schema": SCHEMA, **about, "arms": rows, "task": task}


def ticket_of(experiment: Experiment, origin: Origin) -> tuple[Ticket, Stage | None, Stage]:
    """The ticket, the stage that searched it (none: it came from a folder), and the stage where the ticket itself lies."""
    from robust_tickets.ticket.ticket import Ticket

    searched, ticket = experiment.ticket_jobs(origin)
    lies = experiment.finished(ticket)
    return Ticket.load(lies.folder), experiment.finished(searched) if searched else None, lies


def prepare(recipe: Recipe, *, out: Path | None = None, command: str = "", processes: int | None = None) -> Experiment:
    """Load what the recipe names and decide its run folder; trains nothing. ``processes`` as :class:`RunFolder` has it."""
    for note in recipe.notes:
        say(note)
    check(recipe)
    origins = list(_origins(arm.origin for arm in recipe.arms))
    for key, method in (
        *((arm.key, arm.train) for arm in recipe.arms),
        *((origin.key, origin.search) for origin in origins if origin.search is not None),  # not of a saved ticket
    ):
        with inside(key):  # what is missing is found missing here, not after hours of search
            resources_of(method)
    loaded = execute.Loaded()
    basis = execute.Basis.of(recipe)
    task, start, inputs = loaded.task(basis), loaded.start(basis), loaded.inputs(basis)
    sources = [origin.searched_on for origin in origins if origin.searched_on]
    elsewhere = {source: loaded.task(replace(basis, source=source)) for source in sources}
    others = [
        [
            elsewhere[o.searched_on].digest if o.searched_on else None,
            execute.fingerprint(o.folder) if o.folder else None,
        ]
        for o in origins
    ]
    name = f"{recipe.name}-{digest([counted(recipe), *(inputs[k] for k in ('task', 'model', 'version')), *others])[:8]}"
    return Experiment(
        recipe=recipe, task=task, start=start, inputs=inputs, elsewhere=elsewhere, jobs=Local(loaded), command=command,
        run=RunFolder(folder=out or Path("runs") / name, processes=processes),
        resumed_by=f"{command} --out {shlex.quote(str(out))}" if command and out else command,
    )  # fmt: skip


def _origins(origins: Iterable[Origin | None]) -> Iterator[Origin]:
    """Each origin, and those of the tickets they match."""
    for origin in origins:
        while origin is not None:
            yield origin
            origin = origin.like


def look_for_attacks(recipe: Recipe) -> None:
    """Refuse a recipe of whose attacks a resource is missing."""
    for plan in recipe.attacks:
        with inside("attack"):
            plan.attack.resources()


def plan_of(experiment: Experiment) -> list[str]:
    """What will be done, a line an arm and a line an attack."""
    from robust_tickets.attack.examples import by_class, how, rows_of

    lines, labels = [], experiment.task.labels
    for arm in experiment.recipe.arms:
        adversary = f" under {type(arm.train.adversary).__name__}" if arm.train.adversary else ""
        first = f"{arm.story()}, " if arm.origin is not None else ""
        work = f"{arm.train.run_epochs or arm.train.epochs} epoch(s){adversary}"
        lines.append(f"  {arm.title}: {first}{work}, lr {arm.train.lr:g}, batch {arm.train.batch_size}")
    for plan in experiment.recipe.attacks:
        split = execute.attacked(plan, experiment.task)
        rows = rows_of(split, plan, len(labels))
        which = how(plan.subset, plan.seed, labels, by_class(split.labels[rows], len(labels)), len(split))
        lines.append(f"  attack {type(plan.attack).__name__} on {len(rows)} examples, {which}")
    return lines
