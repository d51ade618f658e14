"""Jobs in a pool of fresh processes, one job each, so that no library keeps state between jobs.

After a kill the same call resumes: stages are content-addressed and locked, outcomes are written whole. Jobs fail independently.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import check_writable, read_json
from robust_tickets.progress import duration, say, warn
from robust_tickets.reproduce import outcome
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.worker import Request, check_same, complete, found, recipe_of, write_failure

COMMAND = [sys.executable, "-P", "-m", "robust_tickets.reproduce.worker"]  # -P: nothing from the working directory
LOOK = 0.2  # seconds between two looks whether to end
GRACE = 10.0  # seconds that a process has to end by itself


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The jobs by how they ended. ``why`` has the message of each that failed, by id."""

    done: tuple[Job, ...] = ()
    found: tuple[Job, ...] = ()  # were done before
    failed: tuple[Job, ...] = ()
    refused: tuple[Job, ...] = ()  # of the failed: have a result of other settings or data
    left: tuple[Job, ...] = ()  # not run within the budget
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def line(self) -> str:
        parts = {"done": self.done, "found done": self.found, "failed": self.failed, "left": self.left}
        return ", ".join(f"{len(units)} {word}" for word, units in parts.items() if units or word == "done")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a job ended."""

    state: Literal["done", "failed", "left"]
    words: str = ""  # its numbers, or why it failed
    seconds: float = 0.0


def run_jobs(requests: Sequence[Request], *, budget: float | None = None, log: bool = False) -> Summary:
    """Run all jobs in their number of processes. Repeats of a seed come last, alone on the device.

    After ``budget`` seconds no job is started, and running ones are ended. ``log``: to files, not to the terminal.
    """
    deadline = time.monotonic() + budget if budget is not None else None
    requests = list({request.unit: request for request in requests}.values())
    known, why, waiting = _sorted(requests)
    refused, done = tuple(why), list[Job]()
    for request in waiting[:1]:
        check_writable(request.store)
        check_writable(request.results)

    def ended(request: Request, how: Ended) -> None:
        if how.state == "failed":
            why[request.unit] = how.words
            warn(f"{request.unit.id} failed: {in_a_line(how.words)}")
        elif how.state == "done":
            done.append(request.unit)
            count = f"[{len(known) + len(done) + len(why)}/{len(requests)}]"
            say(f"{count} {request.unit.id}: {how.words} ({duration(how.seconds)})")

    first = [request for request in waiting if not request.unit.repeat]
    for some in (first, [replace(request, processes=1) for request in waiting if request.unit.repeat]):
        shared = [replace(request, processes=max(1, min(request.processes, len(some)))) for request in some]
        _pool(shared, deadline, log or any(request.processes > 1 for request in requests), ended)
    left = tuple(r.unit for r in waiting if r.unit not in done and r.unit not in why)
    reasons = {unit.id: message for unit, message in why.items()}
    summary = Summary(done=tuple(done), found=known, failed=tuple(why), refused=refused, left=left, why=reasons)
    say(f"jobs: {summary.line}")
    return summary


def in_a_line(message: str) -> str:
    """A failure in a line, with its hint."""
    return message.replace("\n  hint: ", "; ").splitlines()[0]


def numbers(of: Outcome) -> str:
    """An outcome in a line: clean accuracy and accuracy under each attack."""
    clean = of.clean.get("accuracy")
    parts = [f"{clean:.1f} % clean"] if clean is not None else ["ticket found"]
    for attacked in of.attacks:
        share = attacked.share("aua")
        parts.append(f"{attacked.name} {share:.1f}" if share is not None else f"{attacked.name}: nothing counted")
    return ", ".join(parts)


def _sorted(requests: Sequence[Request]) -> tuple[tuple[Job, ...], dict[Job, str], list[Request]]:
    """Jobs that are done, those refused for a result of other settings, and those to be run."""
    known, refused, waiting = list[Job](), dict[Job, str](), list[Request]()
    for request in requests:
        try:
            there = found(request.unit, request.results)
            if there is None or not complete(there, request):
                waiting.append(request)
                continue
            check_same(there, recipe_of(request.unit, (), request.paths), request)
            known.append(request.unit)
        except TicketsError as problem:
            refused[request.unit] = write_failure(request, problem)
            warn(f"{request.unit.id}: {in_a_line(refused[request.unit])}")
    return tuple(known), refused, waiting


def _pool(
    requests: Sequence[Request], deadline: float | None, log: bool, ended: Callable[[Request, Ended], None]
) -> None:
    """Run requests in their number of processes; ``ended`` is called in this thread, in the order of their ends."""
    if not requests:
        return
    if log:
        say(f"{requests[0].processes} at a time; logs: {requests[0].store / 'logs'}")
    stop = threading.Event()
    with ThreadPoolExecutor(requests[0].processes) as pool:
        futures = {pool.submit(_run, request, deadline, stop, log): request for request in requests}
        try:
            for future in as_completed(futures):
                ended(futures[future], future.result())
        finally:
            stop.set()


def _run(request: Request, deadline: float | None, stop: threading.Event, log: bool) -> Ended:
    """One job in a process of its own."""

    def over() -> bool:
        return stop.is_set() or (deadline is not None and time.monotonic() >= deadline)

    if over():
        return Ended(state="left")
    began = time.monotonic()
    try:
        request.failure.unlink(missing_ok=True)
        process = _start(request, log)
        try:
            while (code := _code(process)) is None and not over():
                pass
        finally:
            _end(process)
        if code is None:
            return Ended(state="left")
        if code == 0:
            there = outcome.read(outcome.place(request.results, request.unit))
            return Ended(state="done", words=numbers(there), seconds=time.monotonic() - began)
        if request.failure.is_file():
            return Ended(state="failed", words=str(read_json(request.failure)["message"]))
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        hint = f"if it was killed for memory, give fewer --processes; its log: {request.log}"
        died = TicketsError(f"its process ended {how}", hint=hint, exit_code=FAILED, code="runner.died")
        return Ended(state="failed", words=write_failure(request, died))
    except Exception as problem:  # it could not be started or read: no reason to lose the other jobs
        return Ended(state="failed", words=write_failure(request, problem))


def _start(request: Request, log: bool) -> subprocess.Popen[bytes]:
    """The process, with its request; what it prints goes to its log or to standard error."""
    request.log.parent.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, **threads(request.processes)}
    with open(request.log if log else os.devnull, "ab") as lines:
        to = lines if log else 2
        process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=to, stderr=to, env=env)
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it is gone already, which its exit code says
        process.stdin.write(request.to_json().encode() + b"\n")
        process.stdin.flush()
    return process


def _code(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(LOOK)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it in the middle of its work, if it still runs; everything resumes."""
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()


def threads(processes: int) -> dict[str, str]:
    """The processors divided among the processes: libraries that take all of them would have each wait for the others."""
    share = str(max(1, len(os.sched_getaffinity(0)) // processes)) if hasattr(os, "sched_getaffinity") else "1"
    own = {"OMP_NUM_THREADS": share, "RAYON_NUM_THREADS": share, "OMP_WAIT_POLICY": "passive"}
    return {name: os.environ.get(name, value) for name, value in own.items()}
