"""Many attacks at once: keep up to ``live`` examples going, answer their questions together.

Each example is a generator. In every round the questions of all live examples are collected, each service answers its own in one call,
and the answers are sent back; a finished example makes room for the next, which is only then read. What comes out for an example
depends on that example alone. A failure stays with the example that caused it: a call that fails is cut in halves until the culprit is
found. Only what the service itself blames on the run (a ``TicketsError`` of exit code 3) ends all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from robust_tickets.attack.example import Steps
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.base import LESS, in_halves, out_of_memory, reason_of
from robust_tickets.errors import FAILED, TicketsError

HOPELESS = 20  # examples that failed in a row: the cause may not be in the examples


class Service(Protocol):
    """Answers the questions of one kind, one answer each."""

    def answer(self, questions: Sequence[Any]) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class Failed:
    """An exception in the place of an answer or a result."""

    problem: Exception
    known: Any = None  # of a result: what is known all the same


def drive(
    jobs: Iterable[tuple[int, Steps]], services: Mapping[str, Service], live: int, groups: int = 1
) -> Iterator[tuple[int, Any]]:
    """Run the jobs; yields (number, result) as they finish, in no particular order; a job that raised gives a ``Failed``.

    With two groups, the services answer one half in a thread of their own while the other half takes its steps here.
    """
    source = iter(jobs)
    pool = ThreadPoolExecutor(1) if groups > 1 else None
    asked: list[list[tuple[int, Steps, Any]]] = [[] for _ in range(groups)]  # number, generator, its open question
    answers: list[Callable[[], list[Any]]] = [list] * groups
    try:
        while True:
            for group in range(groups):
                waiting: list[tuple[int, Steps, Any]] = []
                for (number, steps, _), answer in zip(asked[group], answers[group](), strict=True):
                    yield from _step(number, steps, answer, waiting)
                while len(waiting) < -(-live // groups) and (job := next(source, None)) is not None:
                    yield from _step(*job, None, waiting)
                asked[group] = waiting
                ask = partial(_answers, services, [question for _, _, question in waiting])
                answers[group] = pool.submit(ask).result if pool is not None and waiting else ask
            if not any(asked):
                return
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _step(number: int, steps: Steps, answer: Any, waiting: list[tuple[int, Steps, Any]]) -> Iterator[tuple[int, Any]]:
    """Send one answer; keep the next question, or give the result back."""
    try:
        question = steps.throw(answer.problem) if isinstance(answer, Failed) else steps.send(answer)
    except StopIteration as end:
        result = end.value
    except Exception as problem:
        result = Failed(problem)
    else:
        waiting.append((number, steps, question))
        return
    yield number, result


def _answers(services: Mapping[str, Service], questions: Sequence[Any]) -> list[Any]:
    found: list[Any] = [None] * len(questions)
    for name, service in services.items():
        mine = [i for i, question in enumerate(questions) if question.service == name]
        if mine:
            answered = in_halves(
                service.answer, [questions[i] for i in mine], lambda _, problem: Failed(problem), ends=_ends
            )
            for i, answer in zip(mine, answered, strict=True):
                found[i] = answer
    return found


def _ends(problem: Exception) -> Exception | None:
    return problem if isinstance(problem, TicketsError) and problem.exit_code == FAILED else None


def fatal(problem: Exception) -> TicketsError | None:
    """The error that ends the run: a victim that is broken (exit code 3) or a machine too small, which no other example would escape."""
    if isinstance(problem, TicketsError):
        return problem if problem.exit_code == FAILED else None
    if not out_of_memory(problem):
        return None
    return TicketsError(f"out of memory: {reason_of(problem)}", hint=LESS, exit_code=FAILED, code="attack.memory")


def answers(clf: Classifier, columns: int) -> bool:
    """Whether the victim still answers an ordinary text; then examples that fail one after another are themselves at fault."""
    try:
        clf.fresh().logits([("a good film",) * columns])
    except Exception:
        return False
    return True


@dataclass
class Failures:
    """Counts the examples that fail, and ends a run whose failures are not its examples' own."""

    victim: Classifier
    columns: int  # of a text
    total: int  # examples
    in_a_row: int = 0
    known: int = 0  # failed, but for their clean text

    def check(self, outcome: object) -> None:
        """Raise where no other example would do better."""
        if not isinstance(outcome, Failed):
            self.in_a_row = 0
            return
        if end := fatal(outcome.problem):
            raise end
        self.in_a_row += 1
        self.known += outcome.known is not None
        all_failed = self.in_a_row == self.total and not self.known
        if all_failed or (self.in_a_row % HOPELESS == 0 and not answers(self.victim, self.columns)):
            raise hopeless(outcome.problem, self.in_a_row)


def hopeless(problem: Exception, count: int) -> TicketsError:
    """The error of a run in which one example after another fails: the cause is not in the examples."""
    hint, code = (problem.hint, problem.exit_code) if isinstance(problem, TicketsError) else ("", FAILED)
    return TicketsError(
        f"the attack failed on {count} example(s) in a row: {reason_of(problem)}",
        hint=hint or "see that the victim answers one of the texts",
        exit_code=code,
        code="attack.failing",
    )
