"""What every search shares: settings by task, the run it is made in, where a ticket came from, and what is found."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from robust_tickets import progress
from robust_tickets.classifier.base import as_model
from robust_tickets.config import Settings, build, describe
from robust_tickets.data.registered_tasks import TASKS, task_named
from robust_tickets.errors import FAILED, TicketsError, did_you_mean
from robust_tickets.files import write_json, write_text
from robust_tickets.stages import identity_of
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from robust_tickets.classifier import ModelClassifier
    from robust_tickets.data.task import Task


@dataclass(frozen=True, kw_only=True)
class Found:
    """``trace`` has one entry per recorded point; ``distances`` the matrices behind the heat map (empty for a random ticket)."""

    ticket: Ticket
    trace: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    distances: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def save(self, folder: str | Path) -> Path:
        """trace.jsonl, distances.json and, last, the ticket's two files."""
        folder = Path(folder)
        lines = (json.dumps(dict(line), allow_nan=False) + "\n" for line in self.trace)
        write_text(folder / "trace.jsonl", "".join(lines))
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


@dataclass(kw_only=True, eq=False)
class SearchRun(TrainingRun):
    """The run that a search is made in. ``model`` is what is searched: a copy, where it is trained."""

    classifier: ModelClassifier  # around the model
    given: Task | None = None  # some searches need none
    name: Literal["finetune", "search"] = field(default="search", init=False)
    origin: Mapping[str, Any] = field(default_factory=dict)  # for the ticket's provenance

    @property
    def task(self) -> Task:
        assert self.given is not None
        return self.given


class Search(Settings):
    """``Method()(classifier, task)`` finds a ticket and leaves the classifier as it was.

    ``PER_TASK`` has one row a task: settings as a recipe writes them; ``{"adversary": {"step_size": .02}}`` changes one of many.
    """

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    tuning: FineTune | None = None  # of the copy that a method begins with; its seed is the search's
    seed: int

    @classmethod
    def for_task(cls, name: str, **changes: Any) -> Self:
        """The paper's settings for a task, with ``changes``; the defaults for another registered task, a file or a Hub id."""
        task, known = task_named(name, cls.PER_TASK), {**cls.PER_TASK, **TASKS}
        if task not in known and not (os.path.exists(name) or "/" in name or Path(name).suffix):
            hint = f"{did_you_mean(name.lower(), known)}; for a task of your own, {cls.__name__}() has the defaults"
            raise TicketsError(f"{name!r} is no registered task", hint=hint, code="search.task")
        made: Self = build(cls, cls.PER_TASK.get(task, {}), task)
        return dataclasses.replace(made, **changes)  # type: ignore[type-var]

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
            message = f"{type(self).__name__} does not begin with a fine-tuned model, got tuned="
            raise TicketsError(message, hint="leave it out", code="search.tuned")
        work = Path(folder) if folder else None
        with self.start(clf, task, work, tuned) as run:
            found = self.search(run.model, run)
        return found.finished({"method": describe(self), **run.origin}, work)

    def start(
        self, clf: ModelClassifier, task: Task | None, folder: Path | None, tuned: ModelClassifier | None
    ) -> SearchRun:
        """Refuse what does not fit, and open the run with what the search begins with."""
        raise NotImplementedError

    def search(self, theta: PreTrainedModel, run: SearchRun) -> Found:
        """The method."""
        raise NotImplementedError

    def identity(self, clf: ModelClassifier, task: Task, tuned: ModelClassifier | None = None, **unseen: Any) -> str:
        """Hash of what determines the search; ``unseen`` are settings that change no step of it, at some fixed value."""
        if self.tuning is not None:
            unseen["tuning"] = dataclasses.replace(self.tuning, seed=self.seed) if tuned is None else type(self).tuning
        searched: Any = dataclasses.replace(self, **unseen)  # type: ignore[type-var]
        return identity_of(searched, clf if tuned is None else tuned, task)


class Trace:
    """What a search records as it goes, with the mean loss since the last record; a run's memory."""

    def __init__(self) -> None:
        self._sum: Tensor | None = None  # of losses; stays on the device
        self._count = 0

    def add(self, loss: Tensor) -> None:
        self._sum = loss if self._sum is None else self._sum.to(loss.device) + loss
        self._count += 1

    def mean_loss(self, step: int, numbers: Any) -> float | None:
        """The mean loss since the last call, none before the first update; refuses it or other ``numbers`` that are not finite."""
        mean = None if self._sum is None else float(self._sum) / self._count
        if not np.isfinite(np.append(numbers, mean or 0.0)).all():
            message, hint = f"the search diverged by step {step}: loss {mean}", "lower its learning rate or step size"
            raise TicketsError(message, hint=hint, exit_code=FAILED, code="search.diverged")
        self._sum, self._count = None, 0
        return mean

    def tensors(self) -> dict[str, Tensor]:
        return {} if self._sum is None else {"loss": self._sum}

    def values(self) -> dict[str, Any]:
        return {"loss_count": self._count}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self._sum, self._count = tensors.get("loss"), int(values["loss_count"])


def checked(task: Task | None, *classifiers: ModelClassifier | None) -> Task:
    """The task, where the classifiers that are given have a model and fit it."""
    for clf in classifiers:
        if clf is not None:
            as_model(clf, "searched").check_task(task)
    assert task is not None  # refused above
    return task


def fine_tuned(tuning: FineTune, clf: ModelClassifier, task: Task, folder: Path | None) -> ModelClassifier:
    """A copy of ``clf``, fine-tuned in ``folder/tuned``: there an interrupted training is resumed, and a finished one read back."""
    return tuning(clf.copy(), task, folder=folder / "tuned" if folder else None)


def named(clf: ModelClassifier | None) -> dict[str, str] | None:
    """A classifier, for a ticket's provenance."""
    return None if clf is None else {"identity": clf.identity, "digest": clf.digest}


def origin_of(clf: ModelClassifier, task: Task | None) -> dict[str, Any]:
    """The model and the task that a ticket came from."""
    about = {"model": named(clf)}
    return about if task is None else {**about, "task": {"name": task.name, "digest": task.digest}}
