"""Jobs in fresh processes, one each, so that no library keeps state between jobs.

After a kill the same call resumes: stages are content-addressed and locked, outcomes are written whole. Jobs fail independently.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robust_tickets.config import to_plain
from robust_tickets.errors import TicketsError
from robust_tickets.experiment.jobs import Done, Local
from robust_tickets.files import check_writable
from robust_tickets.progress import say, warn
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.worker import Request, check_same, complete, found, recipe_of

COMMAND = [sys.executable, "-P", "-m", "robust_tickets.reproduce.worker"]  # -P: nothing from the working directory


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The jobs by how they ended. ``why`` has the message of each that failed, by id."""

    done: tuple[Job, ...]
    found: tuple[Job, ...]  # were done before
    failed: tuple[Job, ...]
    refused: tuple[Job, ...]  # of the failed: have a result of other settings or data
    left: tuple[Job, ...]  # not run within the budget
    why: Mapping[str, str]


class Engine(Local):
    """Whole jobs instead of stages; what they print goes into their logs where ``log`` is set."""

    def __init__(self, processes: int, *, log: bool) -> None:
        super().__init__(processes=processes)
        self.log, self.environment = log, environment_of(processes)

    def start(self, request: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        log = Path(request["store"]) / "logs" / f"{Job(**request['unit']).id}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as lines:
            pipe, to = subprocess.PIPE, lines if self.log else None
            return subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=to, env=self.environment)


def environment_of(processes: int) -> dict[str, str]:
    """The processors divided among the processes: libraries that take all of them would have each wait for the others."""
    share = str(max(1, len(os.sched_getaffinity(0)) // processes)) if hasattr(os, "sched_getaffinity") else "1"
    return {"OMP_NUM_THREADS": share, "RAYON_NUM_THREADS": share, "OMP_WAIT_POLICY": "passive", **os.environ}


def run_jobs(requests: Sequence[Request], *, budget: float | None = None, log: bool = False) -> Summary:
    """Run all jobs in their number of processes. Repeats of a seed come last, alone on the device.

    After ``budget`` seconds no job is started, and running ones are ended. ``log``: to files, not to the terminal.
    """
    deadline = time.monotonic() + (threading.TIMEOUT_MAX if budget is None else budget)
    requests = list({request.unit: request for request in requests}.values())
    known, why, waiting = _sorted(requests)
    refused, done, left = tuple(why), list[Job](), list[Job]()
    for request in waiting[:1]:
        check_writable(request.store)
        check_writable(request.results)
    for repeats in (False, True):
        some = [request for request in waiting if bool(request.unit.repeat) == repeats]
        if not some:
            continue
        processes = 1 if repeats else min(some[0].processes, len(some))
        to_files = log or some[0].processes > 1
        engine = Engine(processes, log=to_files)
        if to_files:
            say(f"{processes} at a time; logs: {some[0].store / 'logs'}")
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), engine.cancel)
        timer.start()
        try:
            jobs = {engine.submit(to_plain(replace(request, processes=processes))): request.unit for request in some}
            for job, unit in jobs.items():
                result = engine.wait(job)
                if isinstance(result, Done):
                    done.append(unit)
                    say(f"[{len(known) + len(done) + len(why)}/{len(requests)}] {unit.id}: {result.result}")
                elif getattr(result.error, "code", "") == "job.cancelled":
                    left.append(unit)
                else:
                    why[unit] = str(result.error)
                    warn(f"{unit.id} failed: {in_a_line(why[unit])}")
        finally:
            timer.cancel()
            engine.cancel()
    summary = Summary(
        done=tuple(done),
        found=known,
        failed=tuple(why),
        refused=refused,
        left=tuple(left),
        why={unit.id: message for unit, message in why.items()},
    )
    counts = {"done": summary.done, "found done": known, "failed": summary.failed, "left": summary.left}
    say("jobs: " + ", ".join(f"{len(units)} {word}" for word, units in counts.items()))
    return summary


def in_a_line(message: str) -> str:
    """A failure in a line, with its hint."""
    return message.replace("\n  hint: ", "; ").splitlines()[0]


def _sorted(requests: Sequence[Request]) -> tuple[tuple[Job, ...], dict[Job, str], list[Request]]:
    """Jobs that are done, those refused for a result of other settings, and those to be run."""
    known, refused, waiting = list[Job](), dict[Job, str](), list[Request]()
    for request in requests:
        try:
            there = found(request)
            if there is None or not complete(there, request):
                waiting.append(request)
                continue
            check_same(there, recipe_of(request.unit, request.paths), request)
            known.append(request.unit)
        except TicketsError as problem:
            refused[request.unit] = str(problem)
            warn(f"{request.unit.id}: {in_a_line(refused[request.unit])}")
    return tuple(known), refused, waiting
