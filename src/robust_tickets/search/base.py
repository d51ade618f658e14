"""What every search shares: settings by task, what is searched, the run it is made in, where a ticket came from, and what is found."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from robust_tickets import progress
from robust_tickets.classifier.base import as_model
from robust_tickets.config import build, describe, uncounted
from robust_tickets.data.registered_tasks import TASKS, task_named
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import write_json, write_text
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import Feed, TrainingRun
from robust_tickets.train.settings import TrainingSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from robust_tickets.classifier import ModelClassifier
    from robust_tickets.data.task import Task


@dataclass(frozen=True, kw_only=True)
class Found:
    """``trace`` has one entry per recorded point; ``distances`` the matrices behind the heat map (empty for a random ticket)."""

    ticket: Ticket
    trace: Sequence[Mapping[str, Any]] = ()
    distances: Mapping[str, Any] = field(default_factory=dict)

    def save(self, folder: str | Path) -> Path:
        """trace.jsonl, distances.json and, last, the ticket's two files."""
        folder = Path(folder)
        write_text(
            folder / "trace.jsonl", "".join(json.dumps(dict(line), allow_nan=False) + "\n" for line in self.trace)
        )
        if self.distances:
            write_json(folder / "distances.json", dict(self.distances))
        return self.ticket.save(folder)

    def finished(self, origin: Mapping[str, Any], folder: Path | None) -> Found:
        """With ``origin`` in the ticket's provenance, and saved."""
        ticket = dataclasses.replace(self.ticket, provenance={**self.ticket.provenance, **origin})
        if ticket.rounding:
            progress.say(f"search: {ticket.rounding}")
        found = dataclasses.replace(self, ticket=ticket)
        if folder:
            found.save(folder)
        return found

    def __repr__(self) -> str:
        """One line: the ticket, how sparse it is and where the search stopped; ``trace`` and ``distances`` are for figures."""
        parts = [repr(self.ticket), f"{self.ticket.sparsity:.1%} of the prunable weights removed"]
        about = self.ticket.provenance
        if "epoch" in about:
            converged = about.get("converged")  # None: a fixed point claims nothing
            masks = "" if converged is None else f", masks {'' if converged else 'not '}settled"
            parts.append(f"drawn at epoch {about['epoch']}{masks}")
            parts += ["near random"] if about.get("near_random") else []
        parts += [f"{about[key]} {key}" for key in ("rounds", "iterations") if key in about]
        if "steps_run" in about:
            parts.append(f"{about['steps_run']} updates")
        return f"Found({', '.join(parts)})"


class PerTask:
    """``PER_TASK`` has one row a task: settings as a recipe writes them; ``{"adversary": {"step_size": .02}}`` changes one of many."""

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @classmethod
    def for_task(cls, name: str, **changes: Any) -> Self:
        """The paper's settings for a task, with ``changes``; the defaults for another registered task, a file or a Hub id."""
        task = task_named(name, cls.PER_TASK)
        if task not in {**cls.PER_TASK, **TASKS} and not (os.path.exists(name) or "/" in name or Path(name).suffix):
            raise TicketsError(
                f"{name!r} is no task with settings of {cls.__name__} ({', '.join(cls.PER_TASK)}), and no registered one",
                hint=f"{did_you_mean(name.lower(), {**cls.PER_TASK, **TASKS})}; for a task of your own, {cls.__name__}() has the defaults",
                code="search.task",
            )
        made: Self = build(cls, cls.PER_TASK.get(task, {}), task)
        return dataclasses.replace(made, **changes)  # type: ignore[type-var]


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a search begins with."""

    theta: PreTrainedModel  # what is searched: a copy, where it is trained
    classifier: ModelClassifier  # around theta
    settings: TrainingSettings  # of the training, the search's own or those of the fine-tuning before it
    batches: Feed | None = None  # none where the search trains by other means
    identity: str = ""  # hash of what determines the search
    origin: Mapping[str, Any] = field(default_factory=dict)  # for the ticket's provenance


@dataclass(kw_only=True, eq=False)
class SearchRun(TrainingRun):
    """The run that a search is made in."""

    classifier: ModelClassifier  # around theta
    given: Task | None  # some searches need none

    @property
    def task(self) -> Task:
        if self.given is None:
            raise TicketsError("the search needs a task", hint="give one: method(classifier, task)", code="search.task")
        return self.given


class Search(PerTask):
    """``Method()(classifier, task)`` finds a ticket and leaves the classifier as it was."""

    tuning: FineTune | None = None  # of the copy that a method begins with; its seed is the search's

    def __call__(
        self,
        clf: ModelClassifier,
        task: Task | None = None,
        *,
        folder: Path | str | None = None,
        tuned: ModelClassifier | None = None,
    ) -> Found:
        """Search on ``task``'s training split. ``folder`` receives what is found, and what an interrupted search is resumed from.

        ``tuned``: an already fine-tuned classifier, for a method that begins with one; else it fine-tunes a copy in ``folder/tuned``.
        """
        if tuned is not None and self.tuning is None:
            raise TicketsError(
                f"{type(self).__name__} does not begin with a fine-tuned model, got tuned=",
                hint="leave it out",
                code="search.tuned",
            )
        work = Path(folder) if folder else None
        start = self.start(clf, task, work, tuned)
        with SearchRun(
            settings=start.settings,
            model=start.theta,
            batches=start.batches,
            classifier=start.classifier,
            given=task,
            name="search",
            folder=work,
            identity=start.identity if work else "",
        ) as run:
            found = self.search(start.theta, run)
        return found.finished({"method": describe(self), **start.origin}, work)

    def start(
        self, clf: ModelClassifier, task: Task | None, folder: Path | None, tuned: ModelClassifier | None
    ) -> Start:
        """Refuse what does not fit, and make what the search begins with."""
        raise NotImplementedError

    def search(self, theta: PreTrainedModel, run: SearchRun) -> Found:
        """The method."""
        raise NotImplementedError


def checked(task: Task | None, what: str, *classifiers: ModelClassifier | None) -> Task:
    """The task, where the classifiers that are given have a model and fit it."""
    for clf in classifiers:
        if clf is not None:
            as_model(clf, what).check_task(task)
    assert task is not None  # refused above
    return task


def fine_tuned(tuning: FineTune, clf: ModelClassifier, task: Task, folder: Path | None) -> ModelClassifier:
    """A copy of ``clf``, fine-tuned in ``folder/tuned``: there an interrupted training is resumed, and a finished one read back."""
    return tuning(clf.copy(), task, folder=folder / "tuned" if folder else None)


def determining(tuning: FineTune, seed: int) -> FineTune:
    """``tuning`` as the search runs it, without what does not change the model: when checkpoints are taken, and the engine."""
    usual = FineTune()
    return dataclasses.replace(tuning, seed=seed, **{name: getattr(usual, name) for name in uncounted(FineTune)})


def named(clf: ModelClassifier | None) -> dict[str, str] | None:
    """A classifier, for a ticket's provenance."""
    return None if clf is None else {"identity": clf.identity, "digest": clf.digest}


def origin_of(clf: ModelClassifier, task: Task | None) -> dict[str, Any]:
    """The model and the task that a ticket came from."""
    about = {"model": named(clf)}
    return about if task is None else {**about, "task": {"name": task.name, "digest": task.digest}}
