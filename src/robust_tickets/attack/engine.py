"""The attack engine: run examples, answer their questions, log each outcome, write the result.

The result depends on the ``AttackRun`` alone; ``Speed`` only decides how fast it comes. With a folder, the same run after a kill resumes
and ends with the same outcomes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from robust_tickets.attack.attack import AttackRun
from robust_tickets.attack.example import IN_FLIGHT, ExampleState, Scored, Steps
from robust_tickets.attack.flags import UNSTEADY
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.options import Speed
from robust_tickets.attack.result import FINAL, PART, RESULT, AttackResult, ExampleLog, ExampleOutcome, read_lines
from robust_tickets.attack.scheduler import Failed, Failures, Service, drive
from robust_tickets.attack.services import Gradient, Victim
from robust_tickets.attack.text import Text, marks, words_changed
from robust_tickets.attack.workers import can_fork, fan_out, how_many
from robust_tickets.classifier.base import reason_of
from robust_tickets.errors import DamagedError
from robust_tickets.files import DAMAGED, set_aside, write_chunks
from robust_tickets.progress import say, track, warn
from robust_tickets.seeds import derive
from robust_tickets.stages import same_work
from robust_tickets.stats.classification import ERROR, UNKNOWN

FIRST = 3  # examples that give the first estimate: one may be a text that is wrong already


def run(job: AttackRun, folder: Path | None = None, speed: Speed = Speed()) -> AttackResult:  # noqa: B008
    """Attack the examples of ``job`` that are not done yet, and write the result to ``folder``."""
    attacked = job.attacked  # a precision that the victim cannot have is refused before its result is looked for
    if folder is not None and (found := finished(job, folder)) is not None:
        return found
    with ExampleLog(folder, len(job.rows), job.digest) as log:
        if folder is not None and (found := finished(job, folder, log)) is not None:
            return found  # by a process that held the folder a moment ago
        victim = Victim(attacked, speed.token_budget, job.temperature)
        services: dict[str, Service] = {"victim": victim, **job.search.services()}
        if job.recipe.white_box:
            services["gradient"] = Gradient(victim)
        if job.cut:
            read = f"the {job.victim.cut_at} tokens that the victim reads (max_length)"
            say(f"attack: {job.cut} of {len(job.rows)} texts are longer than {read}")
        _attack_missing(job, log, services, speed)
        result = AttackResult.of(job, log)
        if UNSTEADY in result.flag_codes:
            warn(f"{result.flags[result.flag_codes.index(UNSTEADY)]}, and the same command does not know it again")
        if folder is not None:
            write_chunks(folder / FINAL, log.lines())
            result.save(folder)
            log.remove()
        return result


def _attack_missing(job: AttackRun, log: ExampleLog, services: Mapping[str, Service], speed: Speed) -> None:
    """Attack what is not in the log yet, with progress and an estimate."""
    start, missing, total = time.monotonic() - log.spent, log.missing(), len(job.rows)
    if missing:
        # with all rows, so that a resumed attack finds what the first one looked up
        job.search.warm(word for row in job.rows for word in Text.of(job.split[int(row)].texts).words)
    failures = Failures(job.victim, len(job.split.columns), total)
    with track(job.search.title, total, total - len(missing), FIRST) as bar:
        for number, outcome in answered(job, missing, services, speed):
            failures.check(outcome)
            if isinstance(outcome, Failed):
                outcome = outcome.known or _unanswered(job, number, outcome.problem)
            log.add(number, outcome.to_json(), time.monotonic() - start)
            bar.advance(1)


def answered(
    job: AttackRun, numbers: Sequence[int], services: Mapping[str, Service], speed: Speed
) -> Iterator[tuple[int, ExampleOutcome | Failed]]:
    """The outcomes of these examples as they finish, in this process or shared by worker processes."""
    victim = services["victim"]
    assert isinstance(victim, Victim)
    live = min(speed.live or victim.live, max(1, len(numbers)))

    def steps(number: int) -> Steps:
        return attack_one(job, number, victim, IN_FLIGHT // live)

    workers = 0
    if victim.divisible:  # its forward passes are a function of token ids alone, as on a GPU
        wanted = speed.workers
        workers = how_many(len(numbers) if live > 1 else 0) if wanted is None else can_fork(min(wanted, len(numbers)))
    elif speed.workers:
        say("workers: only an attack on a model on a GPU is shared by worker processes; this one runs in one process")
    if workers:
        return fan_out(numbers, steps, services, live, workers)
    return drive(((number, steps(number)) for number in numbers), services, live, victim.groups)


def attack_one(job: AttackRun, number: int, victim: Victim, in_flight: int) -> Steps:
    """The attack on one example; reads it only when its turn has come."""
    example = job.split[int(job.rows[number])]
    target = job.class_of(example.label)
    state = ExampleState(
        original=Text.of(example.texts, job.rules),
        goal=Untargeted(target, odds=job.recipe.scoring == "log-odds"),
        column_names=tuple(job.split.columns),
        noise=victim.noise,
        slope_noise=victim.rounding,
        in_flight=in_flight,
        budget=float("inf") if job.options.query_budget is None else job.options.query_budget,
        seed=derive(job.options.seed, "attack", example.id),
    )

    def outcome(status: str, first: Scored, **more: object) -> ExampleOutcome:
        before = first.row.probabilities
        return ExampleOutcome(
            id=example.id,
            label=example.label,
            status=status,
            original=example.texts,
            queries=state.queries,
            words=len(state.original),
            predicted_before=job.label_of(first.row.predicted),
            score_before=1 - float(before[target]),
            confidence=float(before.max()),
            forward_passes=state.passes,
            **more,  # type: ignore[arg-type]
        )

    try:
        status, final, first, last = yield from job.search.attack(state)
    except Exception as problem:
        if state.first is None or state.goal.reached(state.first.row):
            return Failed(problem)
        return Failed(problem, outcome(UNKNOWN, state.first, error=reason_of(problem)))
    return outcome(
        status,
        first,
        perturbed=None if status == "skipped" else final.columns,
        fell_at=state.fell_at,
        words_changed=words_changed(state.original, final),
        changed=tuple(marks(state.original, final)),
        predicted_after=job.label_of(last.row.predicted),
        score_after=1 - float(last.row.probabilities[target]),
        similarity=last.similarity,
        candidates=state.tried,
        blind=state.blind,
    )


def _unanswered(job: AttackRun, number: int, problem: Exception) -> ExampleOutcome:
    """What is kept of an example whose clean text was not answered."""
    example, error = job.split[int(job.rows[number])], reason_of(problem)
    return ExampleOutcome(id=example.id, label=example.label, status=ERROR, original=example.texts, error=error)


def finished(job: AttackRun, folder: Path, log: ExampleLog | None = None) -> AttackResult | None:
    """The result an earlier call left, if it is whole; refused if it is of another attack.

    A damaged one makes room for a new one, and is kept: of which attack it is nobody can tell. Of one with too many failed examples the
    others are taken over into the log. Only who holds the folder, and has a ``log``, does either; another may be writing by now.
    """
    if not (folder / RESULT).is_file():
        return None
    try:
        result = AttackResult.load(folder)
        same_work(folder, result.digest, job.digest)
        lines = sum(line.endswith(b"\n") for line in read_lines(folder / FINAL)) if (folder / FINAL).is_file() else 0
        if lines != len(result.ids):
            raise DamagedError(
                f"{folder / FINAL} has {lines} whole lines, expected {len(result.ids)}", code="attack.damaged"
            )
    except DamagedError as problem:
        if log is not None:
            warn(f"{problem.message}: the attack is made again, and what was there is kept in {folder / DAMAGED}")
            for name in (FINAL, RESULT):  # after a kill in between, what is left is still no whole result
                set_aside(folder / name, folder)
        return None
    if not result.to_repeat(job.options.max_failed):
        (folder / PART).unlink(missing_ok=True)
        return result
    if log is not None:
        say(f"attack: {result.errors} of {len(result.ids)} examples failed and are attacked again")
        log.take_over(result)
    return None
