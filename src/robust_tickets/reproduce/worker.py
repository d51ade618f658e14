"""A process of its own for one job: the request comes as JSON on standard input, the outcome lies in the results.

It ends when the process that started it does, however that ends. Why a job failed is written to ``failures/<id>.json`` in the store.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robust_tickets.config import build, to_plain
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import write_json
from robust_tickets.progress import printed, warn
from robust_tickets.reproduce.job import Unit
from robust_tickets.reproduce.one import one
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.protocol import NamedAttack


@dataclass(frozen=True, kw_only=True)
class Request:
    """One job, and where everything lies. ``processes`` share the device."""

    unit: Unit
    attacks: tuple[NamedAttack, ...]
    paths: Paths
    store: Path
    results: Path
    processes: int = 1
    search_only: bool = False
    drop_models: bool = False

    @property
    def failure(self) -> Path:
        return self.store / "failures" / f"{self.unit.id}.json"

    @property
    def log(self) -> Path:
        return self.store / "logs" / f"{self.unit.id}.log"

    def to_json(self) -> str:
        return json.dumps({**to_plain(self), "unit": self.unit.id})

    @classmethod
    def of_json(cls, text: str) -> Request:
        given: dict[str, Any] = json.loads(text)
        named: dict[str, Any] = given.pop("paths")
        paths: dict[str, Any] = {name: Path(one) if isinstance(one, str) else one for name, one in named.items()}
        return cls(
            unit=Unit.of_id(given.pop("unit")),
            attacks=tuple(build(NamedAttack, attack) for attack in given.pop("attacks")),
            paths=Paths(**paths),
            store=Path(given.pop("store")),
            results=Path(given.pop("results")),
            **given,
        )


def main() -> int:
    """Run the job that standard input names; the exit code."""
    request = Request.of_json(sys.stdin.readline())
    threading.Thread(target=_end_with_starter, daemon=True).start()
    try:
        with printed():  # into the job's log
            one(
                request.unit, request.attacks, request.paths, request.store, request.results, request.processes,
                search_only=request.search_only, drop_models=request.drop_models,
            )  # fmt: skip
    except Exception as problem:
        write_failure(request, problem)
        return FAILED
    return 0


def write_failure(request: Request, problem: BaseException) -> str:
    """Write down why a job failed; the message, with what to do."""
    known = isinstance(problem, TicketsError)
    message = str(problem) if known else f"{type(problem).__name__}: {problem}"  # never empty
    lines = [] if known else traceback.format_exception(problem)
    try:
        write_json(request.failure, {"unit": request.unit.id, "message": message, "traceback": "".join(lines)})
    except TicketsError as unwritten:  # a full disk may be why it failed
        warn(f"{request.unit.id}: {message}; {unwritten.message}")
    return message


def _end_with_starter() -> None:
    """End at once when standard input closes. It is read without a lock, which a forked process would wait for."""
    while os.read(0, 1):
        pass
    os._exit(1)


def leave(*_: Any) -> None:
    """End on SIGTERM as Ctrl-C would: under CUDA MPS a process that ends with work on the device may break the others."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def synchronize() -> None:
    """Wait for what the device still does for this process."""
    import torch

    if torch.cuda.is_initialized():
        with suppress(RuntimeError):
            torch.cuda.synchronize()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    signal.signal(signal.SIGTERM, leave)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        synchronize()
        sys.exit(130)
