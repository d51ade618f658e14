"""Crew: processes that make units side by side on one device (sharing it well, by CUDA MPS say, is the user's affair).

Each is ``python -m robust_tickets.reproduce.hand``, told in lines of JSON what to make, and answers in lines of JSON. It ends when this
process does, however that ends. One that dies is replaced, and its unit counts as failed. One that has made a unit is replaced too:
what a library keeps for the life of a process (an order of kernels, docs/log.md) must not reach the next unit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from robust_tickets.config import to_plain
from robust_tickets.progress import say
from robust_tickets.reproduce.queue import Queue
from robust_tickets.reproduce.unit import Unit
from robust_tickets.reproduce.work import Job, Order, died, failure, failures

COMMAND = [
    sys.executable,
    "-P",
    "-m",
    "robust_tickets.reproduce.hand",
]  # -P: not from the working directory, which may be a stranger's
LOOK = 1.0  # seconds between two looks for a unit that fits
GRACE = 10.0  # seconds that a process is given to end by itself


class Hand:
    """One process of the crew, started when there is something to do."""

    def __init__(self, number: int, job: Job) -> None:
        self.number, self.job = number, job
        self.process: subprocess.Popen[str] | None = None
        self.log = job.store / "logs" / f"process-{number}.log"

    def ask(self, order: Order) -> dict[str, Any] | None:
        """What the process says of the unit; none if it died."""
        if self.process is None:
            self._start()
        told = {"unit": order.unit.id, "attacks": to_plain(order.attacks), "latest": order.latest}
        self._tell({**told, "search_only": order.search_only, "wait": order.wait})
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def end(self) -> int | None:
        """Let the process go; its exit code."""
        if self.process is None:
            return None
        process, self.process = self.process, None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it is gone already
            process.stdin.close()
        try:
            code = process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        process.stdout.close()
        return code

    def stop(self, *, hard: bool = False) -> None:
        """End it in the middle of its work, by itself or ``hard``; everything resumes."""
        if (process := self.process) is not None:
            process.kill() if hard else process.terminate()

    def _start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8",
                env={**os.environ, **threads(self.job.processes)},
            )  # fmt: skip
        self._tell(to_plain(self.job))

    def _tell(self, value: Any) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it died; that is seen when its answer is waited for
            self.process.stdin.write(json.dumps(value) + "\n")
            self.process.stdin.flush()


def crew(orders: Mapping[Unit, Order], job: Job, queue: Queue) -> None:
    """Make the waiting units by ``job.processes`` processes."""
    hands = [Hand(number, job) for number in range(job.processes)]
    said = (
        f"{len(hands)} processes share the device; their logs"
        if len(hands) > 1
        else "one process has the device to itself; its log"
    )
    say(f"{said}: {hands[0].log.parent}")
    stopped = threading.Event()
    threads = [threading.Thread(target=_drive, args=(hand, orders, job, queue, stopped), daemon=True) for hand in hands]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(0.2)
            if queue.over:
                say("the budget is spent; the same command goes on with what is not ended")
                break
    finally:
        stopped.set()
        for hard in (False, True):
            for hand in hands:
                hand.stop(hard=hard)
            until = time.monotonic() + GRACE
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))


def _drive(hand: Hand, orders: Mapping[Unit, Order], job: Job, queue: Queue, stopped: threading.Event) -> None:
    """Keep one process busy until nothing is left."""
    while not stopped.is_set():
        if (taken := queue.take()) is None:
            if not queue.may_change:
                break
            stopped.wait(LOOK)
            continue
        unit, wait = taken
        try:
            answer = hand.ask(replace(orders[unit], wait=wait, latest=queue.latest(unit)))
            _take_down(answer, unit, hand, job, queue, gone=stopped.is_set())
        except Exception as problem:  # it could not be started or understood: no reason to lose the other units
            hand.stop(hard=True)
            hand.end()
            if unit not in queue.done:
                queue.fail(unit, failure(job, unit, problem))
    hand.end()


def _take_down(answer: dict[str, Any] | None, unit: Unit, hand: Hand, job: Job, queue: Queue, *, gone: bool) -> None:
    """What became of a unit. ``gone``: the crew was stopped meanwhile, so that a dead process is no failure."""
    if answer is None:
        code = hand.end()
        if gone:
            queue.give_back(unit)
        else:
            queue.fail(unit, failure(job, unit, died(code)))
    elif answer["state"] == "busy":
        queue.hold_up(unit)
    else:
        if answer["state"] == "done":
            failures(job, unit).unlink(missing_ok=True)
            queue.finish(unit, answer["seconds"], answer["numbers"])
        else:
            queue.fail(unit, answer["message"], answer["alike"])
        hand.end()


def threads(processes: int) -> dict[str, str]:
    """The processors divided among the processes: libraries that take all of them would have each wait for the others."""
    share = str(max(1, len(os.sched_getaffinity(0)) // processes)) if hasattr(os, "sched_getaffinity") else "1"
    given = {
        "OMP_NUM_THREADS": share,
        "RAYON_NUM_THREADS": share,
        "OMP_WAIT_POLICY": "passive",
        "TORCHINDUCTOR_COMPILE_THREADS": share,
    }
    return {name: os.environ.get(name, value) for name, value in given.items()}
