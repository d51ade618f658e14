"""Work: many units, one after the other or by several processes that share the device, within a budget.

The order of the units is kept as far as it goes. A unit that fails is written down (``failures/<id>.json`` in the store) and passed over;
the same call again tries it again. Killed at any moment, the same call goes on: stages resume, outcomes are whole.
"""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import check_writable, write_json
from robust_tickets.progress import say, warn
from robust_tickets.reproduce.one import InputError, check_same, complete, found, one, recipe_of
from robust_tickets.reproduce.places import Places
from robust_tickets.reproduce.queue import Alike, Queue
from robust_tickets.reproduce.turns import clock, turn
from robust_tickets.reproduce.unit import Unit

if TYPE_CHECKING:
    from robust_tickets.reproduce.outcome import Outcome
    from robust_tickets.reproduce.protocol import NamedAttack


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What became of the units. ``failed`` says why, by unit."""

    done: tuple[Unit, ...] = ()
    found: tuple[Unit, ...] = ()  # were done before
    failed: tuple[Unit, ...] = ()
    refused: tuple[Unit, ...] = ()  # of the failed: have a result of other settings or data, which is not taken
    left: tuple[Unit, ...] = ()  # the budget did not reach so far
    why: Mapping[str, str] = field(default_factory=dict)  # unit id -> message, of those that failed

    @property
    def told(self) -> str:
        parts = {"done": self.done, "found done": self.found, "failed": self.failed, "left": self.left}
        return ", ".join(f"{len(units)} {word}" for word, units in parts.items() if units or word == "done")


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all units of a call have in common; a process is told it once."""

    places: Places
    store: Path
    results: Path
    processes: int = 1
    at_once: int | None = None  # how many of them may search or train
    drop_models: bool = False
    graphs_only: bool = False  # what cannot be recorded as CUDA graphs fails


@dataclass(frozen=True, kw_only=True)
class Order:
    """One unit to be made."""

    unit: Unit
    attacks: tuple[NamedAttack, ...] = ()
    search_only: bool = False
    wait: bool = True
    latest: float | None = None  # a turn to train that comes later (``time.time()``) is not taken


def work(
    units: Sequence[Unit],
    attacks: Mapping[Unit, Sequence[NamedAttack]] | Sequence[NamedAttack],
    places: Places,
    store: Path,
    results: Path,
    *,
    processes: int = 1,
    at_once: int | None = None,
    budget: float | None = None,
    drop_models: bool = False,
    graphs_only: bool = False,
    searches: frozenset[Unit] = frozenset(),
    expected: Mapping[Unit, float] | None = None,
) -> Summary:
    """Make all units, each with its attacks; of ``searches`` the ticket alone. Of the processes ``at_once`` may search or train.
    Repeats of a seed come last, one after the other, with the device to themselves.

    ``budget`` seconds are kept: what is not ended by then is left, and what would not end in them (going by ``expected`` seconds and by
    what the units so far took) is not begun.
    """
    if processes < 1:
        raise TicketsError(f"processes is at least 1, got {processes}", hint="1 runs one unit after the other")
    if at_once is not None and at_once < 1:
        raise TicketsError(f"at least 1 process has to train, got {at_once}", hint="without a number all of them may")
    store, results = store.absolute(), results.absolute()
    job = Job(
        places=places, store=store, results=results, processes=processes, at_once=at_once, drop_models=drop_models, graphs_only=graphs_only
    )  # fmt: skip
    orders = {
        unit: Order(unit=unit, attacks=tuple(_of(attacks, unit)), search_only=unit in searches)
        for unit in dict.fromkeys(units)
    }
    queue = Queue(budget=budget, expected=expected or {}, total=len(orders))
    for order in orders.values():
        _sort(order, job, queue)
    for folder in (store, results) if queue.waiting else ():
        check_writable(folder)
    repeats = [unit for unit in queue.waiting if unit.repeat]
    queue.waiting = [unit for unit in queue.waiting if not unit.repeat]
    side_by_side = max(1, min(processes, len(queue.waiting)))
    queue.crowd = min(side_by_side, at_once or side_by_side)
    _all(orders, replace(job, processes=side_by_side), queue, apart=False)
    queue.others |= set(queue.done)  # what was learned in a crowd may be too long for one alone
    queue.crowd = 1
    queue.dropped += queue.waiting  # they did not fit
    queue.waiting = repeats
    _all(orders, replace(job, processes=1), queue, apart=processes > 1)
    summary = Summary(
        done=tuple(queue.done), found=tuple(queue.found), failed=tuple(queue.failed), refused=tuple(queue.refused), left=tuple(queue.left),
        why={unit.id: message for unit, message in queue.failed.items()},
    )  # fmt: skip
    say(f"units: {summary.told}")
    return summary


def make(order: Order, job: Job) -> Outcome:
    """One unit, in this process."""
    from robust_tickets.train.engines import graphs_only

    with graphs_only(job.graphs_only):
        return one(
            order.unit, order.attacks, job.places, job.store, job.results, job.processes,
            search_only=order.search_only, drop_models=job.drop_models, wait=order.wait,
            training=turn(job.store, job.at_once, order.latest),
        )  # fmt: skip


def failure(job: Job, unit: Unit, problem: BaseException) -> str:
    """Write down why a unit failed; the message, with what to do."""
    known = isinstance(problem, TicketsError)
    message = str(problem) if known else f"{type(problem).__name__}: {problem}"  # never empty
    lines = [] if known else traceback.format_exception(problem)
    try:
        write_json(failures(job, unit), {"unit": unit.id, "message": message, "traceback": "".join(lines)})
    except TicketsError as unwritten:  # a full disk may be why it failed
        warn(unwritten.message)
    return message


def alike(problem: BaseException) -> Alike:
    """Which other units fail as this one did."""
    from robust_tickets.train.engines import UnrecordedError

    return "inputs" if isinstance(problem, InputError) else "arm" if isinstance(problem, UnrecordedError) else None


def failures(job: Job, unit: Unit) -> Path:
    return job.store / "failures" / f"{unit.id}.json"


def numbers(outcome: Outcome) -> str:
    """An outcome in a line: clean accuracy and accuracy under each attack."""
    clean = outcome.clean.get("accuracy")
    told = [f"{clean:.1f} % clean"] if clean is not None else ["ticket found"]
    for attacked in outcome.attacks:
        share = attacked.share("aua")
        told.append(f"{attacked.name} {share:.1f}" if share is not None else f"{attacked.name}: nothing counted")
    return ", ".join(told)


def _sort(order: Order, job: Job, queue: Queue) -> None:
    """A unit is done, or to be done; one whose result was made with other settings is refused, not made again over it."""
    try:
        known = found(order.unit, job.results)
        if not complete(known, order.attacks, order.search_only):
            queue.waiting.append(order.unit)
            if known is not None or (job.store / "units" / order.unit.id).is_dir():
                queue.others.add(order.unit)
            return
        if known is not None:
            check_same(known, recipe_of(order.unit, (), job.places), order.unit, order.attacks, job.places)
        queue.found.append(order.unit)
    except TicketsError as problem:
        queue.failed[order.unit] = failure(job, order.unit, problem)
        queue.refused.append(order.unit)
        warn(f"{order.unit.id}: {problem.message}" + (f"; {problem.hint}" if problem.hint else ""))


def _all(orders: Mapping[Unit, Order], job: Job, queue: Queue, *, apart: bool) -> None:
    """All that waits, by ``job.processes`` processes; a single one is this process, or another one (``apart``), which may die alone."""
    if not queue.waiting or queue.over:
        return
    if job.processes == 1 and not apart:
        _here(orders, job, queue)
        return
    from robust_tickets.reproduce.crew import crew

    crew(orders, job, queue)


def _here(orders: Mapping[Unit, Order], job: Job, queue: Queue) -> None:
    """One after the other, in this process."""
    unit: Unit | None = None
    try:
        with _until(queue.deadline):
            while (taken := queue.take()) is not None:
                unit, began = taken[0], clock()
                try:
                    outcome = make(orders[unit], job)
                except Exception as problem:
                    queue.fail(unit, failure(job, unit, problem), alike(problem))
                    if broken():
                        warn("the device answers this process no more; the same command goes on with what is left")
                        return
                else:
                    failures(job, unit).unlink(missing_ok=True)
                    queue.finish(unit, clock() - began, numbers(outcome))
                unit = None
                clear()
    except TimeUp:
        if unit is not None:
            queue.give_back(unit)
        say("the budget is spent; the same command goes on with what is not ended")


def clear() -> None:
    """Hand back what a unit held: other processes may need the device's memory."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def broken() -> bool:
    """Whether the device can no longer be used by this process, as after a failure on a GPU."""
    import torch

    if not torch.cuda.is_available():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


class TimeUp(KeyboardInterrupt):  # ends the work as Ctrl-C does, wherever it is: everything resumes
    """The budget is spent."""


@contextmanager
def _until(deadline: float | None) -> Iterator[None]:
    """Raise TimeUp in the main thread when the time has come; in another thread only the beginning of a unit is watched."""
    if (
        deadline is None
        or threading.current_thread() is not threading.main_thread()
        or not hasattr(signal, "setitimer")
    ):
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, deadline - time.monotonic()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _of(attacks: Any, unit: Unit) -> Sequence[NamedAttack]:
    return attacks[unit] if isinstance(attacks, Mapping) else attacks


def died(code: int | None) -> TicketsError:
    """What is said of a unit whose process ended under it."""
    how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
    return TicketsError(
        f"its process ended {how}",
        hint="if it was killed for memory, give fewer --processes; its log lies in logs/",
        exit_code=FAILED,
    )
