"""One process of a crew: ``python -m robust_tickets.reproduce.hand``. Lines of JSON in: first the job, then unit by unit; lines out."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from robust_tickets.config import build
from robust_tickets.files import BusyError
from robust_tickets.reproduce.attacks import NamedAttack
from robust_tickets.reproduce.places import Places
from robust_tickets.reproduce.turns import clock
from robust_tickets.reproduce.unit import Unit
from robust_tickets.reproduce.work import Job, Order, alike, failure, make, numbers


def main(told: TextIO, answers: TextIO) -> None:
    """Make units until the other end closes."""
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(told, lines), daemon=True).start()
    job = _job(json.loads(lines.get()))
    lines.task_done()
    while line := lines.get():
        answer = _made(_order(json.loads(line)), job)
        lines.task_done()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _read(told: TextIO, lines: queue.Queue[str]) -> None:
    """Pass lines on. Their end in the middle of a unit: whoever asked for it is gone, and perhaps starts anew; so end at once."""
    for line in told:
        lines.put(line)
    if lines.unfinished_tasks:
        os._exit(1)
    lines.put("")


def _made(order: Order, job: Job) -> dict[str, Any]:
    began = clock()
    try:
        made = numbers(make(order, job))
        return {"state": "done", "numbers": made, "seconds": clock() - began}
    except BusyError:
        return {"state": "busy"}
    except Exception as problem:
        return {"state": "failed", "message": failure(job, order.unit, problem), "alike": alike(problem)}


def _job(told: dict[str, Any]) -> Job:
    places: dict[str, Any] = {
        name: Path(value) if isinstance(value, str) else value for name, value in told.pop("places").items()
    }
    store, results = (Path(told.pop(name)) for name in ("store", "results"))
    return Job(places=Places(**places), store=store, results=results, **told)


def _order(told: dict[str, Any]) -> Order:
    attacks = tuple(build(NamedAttack, attack) for attack in told.pop("attacks"))
    return Order(unit=Unit.of_id(told.pop("unit")), attacks=attacks, **told)


def streams() -> tuple[TextIO, TextIO]:
    """Standard input and output as streams of their own: whatever prints, prints into the log.

    Attacks fork, and a forked process closes ``sys.stdin``: it would wait for ever for the lock of the thread that reads from it.
    """
    told = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # as long as the process lives
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return told, answers


def leave(*_: Any) -> None:
    """What SIGTERM does: end as Ctrl-C would. Under CUDA MPS a process that ends with work on the device may break the others'."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def settle() -> None:
    """Wait for what the device still does for this process."""
    import torch

    if torch.cuda.is_initialized():
        with suppress(RuntimeError):
            torch.cuda.synchronize()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    signal.signal(signal.SIGTERM, leave)
    try:
        main(*streams())
    except KeyboardInterrupt:
        settle()
