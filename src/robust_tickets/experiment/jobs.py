"""Jobs: requests handed to an engine, which runs each once, after those it needs, in this process or in fresh ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from robust_tickets.config import digest
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.experiment.execute import Loaded, execute

COMMAND = [sys.executable, "-P", "-m", "robust_tickets.experiment.execute"]  # -P: nothing from the working directory
GRACE = 10.0  # seconds that a process has to end by itself


@dataclass(frozen=True)
class Done:
    """A finished job: of a stage, its name in the run folder."""

    result: str


@dataclass(frozen=True)
class Failed:
    """A job that failed, or one that needs such a job."""

    error: Exception


class Local:
    """An engine on this machine; ``processes`` fresh processes work at a time, or this one where it is 0.

    In this process a job runs when somebody waits for it or for one that needs it, and what was loaded is kept for the next.
    """

    def __init__(self, loaded: Loaded | None = None, *, processes: int = 0) -> None:
        self.loaded = loaded or Loaded()
        self._requests: dict[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {}
        self._results: dict[str, Done | Failed] = {}
        self._futures: dict[str, Future[Done | Failed]] = {}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._pool = ThreadPoolExecutor(processes, thread_name_prefix="jobs") if processes else None
        self._cancelled = False

    def submit(self, request: Mapping[str, Any], after: Mapping[str, str] | None = None) -> str:
        """Take a request, and the jobs whose stages it needs, by their role in it; the job's id. The same request is the same job."""
        job = digest({"request": request, "after": after or {}})[:16]
        if job not in self._requests:
            self._requests[job] = (request, dict(after or {}))
            if self._pool is not None:  # in order: what a job needs was begun before it
                self._futures[job] = self._pool.submit(self._run, job)
        return job

    def wait(self, job: str) -> Done | Failed:
        """What became of a job."""
        if self._pool is not None:
            return self._futures[job].result()
        if job not in self._results:
            self._results[job] = self._run(job)
        return self._results[job]

    def finished(self) -> list[str]:
        """The stages of all jobs, also of those that only others needed."""
        return [found.result for job in self._requests if isinstance(found := self.wait(job), Done)]

    def cancel(self) -> None:
        """Begin no other job and end those that run; their stages resume from what is saved."""
        self._cancelled = True
        running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._pool is not None:
            self._pool.shutdown()

    def work(self, request: Mapping[str, Any]) -> str:
        """Do a request in this process."""
        return execute(request, self.loaded)

    def start(self, request: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        """A fresh process for a request, which it gets on standard input."""
        return subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _run(self, job: str) -> Done | Failed:
        request, after = self._requests[job]
        needs = {}
        for role, other in after.items():
            found = self.wait(other)
            if isinstance(found, Failed):
                return found
            needs[role] = found.result
        whole = {**request, "needs": needs} if needs else request
        try:
            self._refuse_cancelled()
            return Done(self.work(whole) if self._pool is None else self._in_fresh_process(whole))
        except Exception as problem:  # a failure is a value: other jobs do not depend on it
            return Failed(problem)

    def _refuse_cancelled(self) -> None:
        if self._cancelled:
            raise TicketsError("cancelled", hint="submit it again", exit_code=FAILED, code="job.cancelled")

    def _in_fresh_process(self, request: Mapping[str, Any]) -> str:
        process = self.start(request)
        self._running.add(process)
        try:
            if self._cancelled:  # it was not among those that ``cancel`` ended
                process.kill()
            with suppress(BrokenPipeError):  # it is gone already, which its exit code says
                process.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
            answer = process.stdout.read()  # type: ignore[union-attr]
            process.wait()
        finally:
            self._running.discard(process)
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    pipe.close()  # type: ignore[union-attr]
        try:
            found = json.loads(answer)
        except ValueError:
            self._refuse_cancelled()
            code = process.returncode
            raise TicketsError(
                f"its process ended {f'by signal {-code}' if code < 0 else f'with exit code {code}'} and without an answer",
                hint="if it was killed for memory, let fewer work at a time; see its log; the same command resumes",
                exit_code=FAILED,
                code="job.no_answer",
            ) from None
        if "error" in found:
            error = TicketsError(found["error"].pop("message"), code="job.failed")
            vars(error).update(found["error"])
            raise error
        return str(found["result"])
