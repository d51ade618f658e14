"""Worker processes: each runs a share of the examples; one process holds the models and answers them all.

On a GPU the words, spans and candidates of an attack cost more time than the forward passes, and Python computes on one core. So the
process is forked: a worker inherits the recipe and its tables, looks words up, cuts texts, tokenises, and sends what is left, token ids,
through a pipe; the models stay where they are. A service may be divided: ``half(send)`` is the part that runs in a worker and sends its
requests, ``together(requests)`` answers those of all workers at once. Any other service is asked as it is. What comes out for an example
depends on that example alone, so the number of workers changes nothing but the time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from robust_tickets.attack.example import Steps
from robust_tickets.attack.scheduler import Failed, Service, drive
from robust_tickets.errors import FAILED, TicketsError

MOST = 12  # workers: more bring an H200 nothing on text of 25 words
EACH = 16  # examples a worker should have at least; a fork and its pages cost about 0.1 s
SPARE = 1  # cores for the process with the models


def how_many(examples: int) -> int:
    """Workers for so many examples on this machine; 0 where there is no fork, or too little to share."""
    count = can_fork(min(MOST, examples // EACH))
    count = min(count, len(os.sched_getaffinity(0)) - SPARE) if count else 0
    return count if count > 1 else 0


def can_fork(count: int) -> int:
    """``count``, or 0 on a system where a process with threads is not to be forked."""
    return count if sys.platform.startswith("linux") else 0


def fan_out(
    numbers: Sequence[int], job: Callable[[int], Steps], services: Mapping[str, Service], live: int, workers: int
) -> Iterator[tuple[int, Any]]:
    """As ``scheduler.drive``: (number, result) as they finish; ``job`` makes the steps of one number, in the worker that has it."""
    fork = multiprocessing.get_context("fork")
    processes: dict[Connection, Any] = {}
    try:
        for place in range(workers):
            ours, theirs = fork.Pipe()
            inherited = [*processes, ours]
            process = fork.Process(
                target=_work,
                args=(theirs, inherited, numbers[place::workers], job, services, -(-live // workers)),
                daemon=True,
            )
            with warnings.catch_warnings():  # from Python 3.12 on: threads of the parent, which the child never touches
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            theirs.close()
            processes[ours] = process
        yield from _serve(processes, services)
    finally:
        for pipe, process in processes.items():
            process.terminate()
            process.join()
            pipe.close()


def _serve(processes: Mapping[Connection, Any], services: Mapping[str, Service]) -> Iterator[tuple[int, Any]]:
    open_pipes = set(processes)
    while open_pipes:
        asked: dict[str, list[tuple[Connection, Any]]] = {}
        for pipe in wait(list(open_pipes)):
            assert isinstance(pipe, Connection)
            try:
                kind, content = pipe.recv()
            except EOFError:
                processes[pipe].join()
                raise TicketsError(
                    f"a worker process of the attack died (exit code {processes[pipe].exitcode})",
                    hint="the same command resumes; if it was killed for memory, give a lower --live, or --workers 0 for one process",
                    exit_code=FAILED,
                    code="attack.worker_died",
                ) from None
            if kind == "end":
                open_pipes.discard(pipe)
            elif kind == "done":
                yield content
            elif kind == "lost":
                number, problem, known = content
                yield number, Failed(_problem(problem), known)
            elif kind == "broken":
                raise _problem(content)
            else:
                asked.setdefault(kind, []).append((pipe, content))
        for name, requests in asked.items():
            for (pipe, _), answer in zip(
                requests, _answers(services[name], [content for _, content in requests]), strict=True
            ):
                pipe.send(answer)


def _answers(service: Any, requests: list[Any]) -> list[tuple[bool, Any]]:
    """An answer or a failure each; a failure of all together is looked for one by one, and a broken service ends the run."""
    try:
        return [(True, answer) for answer in _together(service, requests)]
    except Exception as problem:
        if isinstance(problem, TicketsError) and problem.exit_code == FAILED:
            raise
        if len(requests) == 1:
            return [(False, _plain(problem))]
    return [answer for request in requests for answer in _answers(service, [request])]


def _together(service: Any, requests: list[Any]) -> list[Any]:
    if hasattr(service, "together"):
        return service.together(requests)
    found = iter(service.answer([question for request in requests for question in request]))
    return [[next(found) for _ in request] for request in requests]


def _work(
    pipe: Connection,
    others: list[Connection],
    numbers: Sequence[int],
    job: Callable[[int], Steps],
    services: Mapping[str, Service],
    live: int,
) -> None:
    """What a worker does, from the fork to its end."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it …
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # … in this way, whatever the parent itself does then
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a pool of threads does not survive a fork
    torch.set_num_threads(1)
    for other in others:
        other.close()
    try:
        halves = {name: _half(service, name, pipe) for name, service in services.items()}
        for number, result in drive(((number, job(number)) for number in numbers), halves, live):
            if isinstance(result, Failed):
                pipe.send(("lost", (number, _plain(result.problem), result.known)))
            else:
                pipe.send(("done", (number, result)))
        pipe.send(("end", None))
    except (BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    except Exception as problem:
        pipe.send(("broken", _plain(problem)))


def _half(service: Any, name: str, pipe: Connection) -> Service:
    def send(request: Any) -> Any:
        pipe.send((name, request))
        fine, answer = pipe.recv()
        if not fine:
            raise _problem(answer)
        return answer

    if hasattr(service, "half"):
        return service.half(send)
    return _Asked(send)


class _Asked:
    def __init__(self, send: Callable[[Any], Any]) -> None:
        self.send = send

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        return self.send(list(questions))


def _plain(problem: Exception) -> TicketsError | tuple[str, str]:
    """An exception as what can be sent: not every one can, but the name and the message."""
    return problem if isinstance(problem, TicketsError) else (type(problem).__name__, str(problem))


def _problem(sent: TicketsError | tuple[str, str]) -> Exception:
    if isinstance(sent, TicketsError):
        return sent
    name, message = sent
    return MemoryError(message) if name == "MemoryError" else type(name, (RuntimeError,), {})(message)
