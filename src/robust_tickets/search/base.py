"""Found: what a search returns. The ticket, how the search went, and the distances between its masks."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from robust_tickets import progress
from robust_tickets.config import build, uncounted
from robust_tickets.data.registered_tasks import TASKS, task_named
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import write_json, write_text
from robust_tickets.stages import record
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.finetune import FineTune, identity_of


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

    def __repr__(self) -> str:
        """One line: the ticket, how sparse it is and where the search stopped; ``trace`` and ``distances`` are for figures."""
        parts = [repr(self.ticket), f"{self.ticket.sparsity:.1%} of the prunable weights removed"]
        told = self.ticket.provenance
        if "epoch" in told:
            settled = told.get("converged")  # None: a fixed point claims nothing
            parts.append(
                f"drawn at epoch {told['epoch']}"
                + ("" if settled is None else f", masks {'' if settled else 'not '}settled")
            )
            parts += ["near random"] if told.get("near_random") else []
        parts += [f"{told[key]} {key}" for key in ("rounds", "iterations") if key in told]
        if "steps_run" in told:
            parts.append(f"{told['steps_run']} updates")
        return f"Found({', '.join(parts)})"


def told(ticket: Ticket) -> Ticket:
    """``ticket``, after saying what rounding made of its neurons, where they were rounded."""
    if ticket.rounding:
        progress.say(f"search: {ticket.rounding}")
    return ticket


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
            )
        return dataclasses.replace(build(cls, cls.PER_TASK.get(task, {}), task), **changes)


def tuned(tuning: FineTune, clf: Any, task: Any, folder: Path | None) -> Any:
    """A copy of ``clf`` fine-tuned on ``task``. In ``folder`` an interrupted training goes on, and a finished one is read back.

    Read back are the weights alone, into a copy of ``clf``: how it attends, say, is in no file, and the search must go on in the same way.
    """
    from robust_tickets.classifier import Classifier
    from robust_tickets.train.update import full_precision

    if folder is None:
        return tuning(clf.copy(), task)
    at = folder / "tuned"
    identity = identity_of(tuning, clf, task)
    if told := record(at / "done.json"):
        if told.get("identity") != identity:
            raise TicketsError(
                f"{at} holds a model of another run (other settings, data or starting weights)",
                hint="give another folder, or remove this one to start anew",
            )
        if (
            at / "model" / "tickets.json"
        ).is_file():  # else it was removed, as from a finished stage, and is trained again
            shutil.rmtree(at / "checkpoint", ignore_errors=True)
            ready = clf.copy()
            full_precision(ready.model)
            ready.model.load_state_dict(Classifier.from_pretrained(at / "model", device="cpu").model.state_dict())
            return ready
    ready = tuning(clf.copy(), task, folder=at)
    ready.save_pretrained(at / "model")
    write_json(at / "done.json", {"identity": identity})
    shutil.rmtree(at / "checkpoint", ignore_errors=True)  # three times the model, and needed no more
    return ready


def determining(tuning: FineTune, seed: int) -> FineTune:
    """``tuning`` as the search runs it, without what does not change the model: when checkpoints are taken, and the engine."""
    usual = FineTune()
    return replace(tuning, seed=seed, **{name: getattr(usual, name) for name in uncounted(FineTune)})


def origin(method: Mapping[str, Any], clf: Any, task: Any) -> dict[str, Any]:
    """Where a ticket came from, for its provenance."""
    about: dict[str, Any] = {"method": dict(method), "model": {"identity": clf.identity, "digest": clf.digest}}
    return about if task is None else {**about, "task": {"name": task.name, "digest": task.digest}}
