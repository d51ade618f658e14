"""Many attacks at once: keep up to ``live`` examples going, answer their questions together.

Each example is a generator. In every round the questions of all live examples are collected, each service answers its own in one call,
and the answers are sent back; a finished example makes room for the next, which is only then read. What comes out for an example
depends on that example alone. A failure stays with the example that caused it: a call that fails is cut in
halves until the culprit is found. Only what the service itself blames on the run (a ``TicketsError`` of exit code 3) ends all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from robust_tickets.attack.example import Steps
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.base import LESS, R, T, in_halves, out_of_memory, reason_of
from robust_tickets.errors import FAILED, TicketsError


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
                answered, waiting = answers[group](), list[tuple[int, Steps, Any]]()
                for (number, game, _), answer in zip(asked[group], answered, strict=True):
                    done = _step(number, game, answer, waiting)
                    if done is not None:
                        yield done
                while len(waiting) < -(-live // groups):
                    job = next(source, None)
                    if job is None:
                        break
                    done = _step(*job, None, waiting)
                    if done is not None:
                        yield done
                asked[group] = waiting
                questions = [question for _, _, question in waiting]
                if pool is None or not questions:
                    answers[group] = partial(_answers, services, questions)
                else:
                    answers[group] = pool.submit(_answers, services, questions).result
            if not any(asked):
                return
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _step(number: int, game: Steps, answer: Any, waiting: list[tuple[int, Steps, Any]]) -> tuple[int, Any] | None:
    """Send one answer; keep the next question, or give the result back."""
    try:
        question = game.throw(answer.problem) if isinstance(answer, Failed) else game.send(answer)
    except StopIteration as end:
        return number, end.value
    except Exception as problem:
        return number, Failed(problem)
    waiting.append((number, game, question))
    return None


def _answers(services: Mapping[str, Service], questions: Sequence[Any]) -> list[Any]:
    found: list[Any] = [None] * len(questions)
    for name, service in services.items():
        mine = [i for i, question in enumerate(questions) if question.service == name]
        for i, answer in zip(mine, _careful(service, [questions[i] for i in mine]), strict=True):
            found[i] = answer
    return found


def _careful(service: Service, questions: list[Any]) -> list[Any]:
    def broken(problem: Exception) -> Exception | None:
        return problem if isinstance(problem, TicketsError) and problem.exit_code == FAILED else None

    return in_halves(service.answer, questions, lambda _, problem: Failed(problem), ends=broken) if questions else []


REASON = 120  # letters of one inside a flag; examples.jsonl has it whole
HOPELESS = 20  # examples that failed in a row: the cause may not be in the examples
ALWAYS = 2  # examples that may


def in_short(reason: str) -> str:
    """A reason on one line that ends like no sentence: it is to stand inside one."""
    plain = " ".join(reason.split()).rstrip(".")
    return plain if len(plain) <= REASON else plain[: REASON - 1].rstrip() + "…"


def too_many(failed: int, of: int, most: float) -> bool:
    """Whether more than ``most`` percent of the examples failed, and more than two."""
    return failed > ALWAYS and 100 * failed > most * of


@dataclass
class Reasons:
    """Why examples failed, in short, and how often each was the reason."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, reason: str) -> None:
        self.counts[in_short(reason)] += 1

    @property
    def often(self) -> str:
        """``; most often: …`` to stand behind a number of errors; of equals the first, nothing where none has words."""
        reason = self.counts.most_common(1)[0][0] if self.counts else ""
        return f"; most often: {reason}" if reason else ""


def within_memory(
    run: Callable[[list[T]], list[R]], items: list[T], what: Callable[[T], str], smaller: Callable[[list[T], int], None]
) -> list[R]:
    """``run(items)``; a batch too large for the memory is cut in halves, after ``smaller``, for the batches to come."""
    import torch

    def alone(item: T, problem: Exception) -> R:
        raise TicketsError(
            f"not enough memory for {what(item)}: {reason_of(problem)}", hint=LESS, exit_code=FAILED
        ) from None

    def freed(some: list[T], half: int) -> None:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        smaller(some, half)

    return in_halves(run, items, alone, ends=lambda problem: None if out_of_memory(problem) else problem, smaller=freed)


def fatal(problem: Exception) -> TicketsError | None:
    """The error that ends the run: a victim that is broken (exit code 3) or a machine too small, which no other example would escape."""
    if isinstance(problem, TicketsError):
        return problem if problem.exit_code == FAILED else None
    return (
        TicketsError(f"out of memory: {reason_of(problem)}", hint=LESS, exit_code=FAILED)
        if out_of_memory(problem)
        else None
    )


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
    )
