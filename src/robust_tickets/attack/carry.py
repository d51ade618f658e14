"""Attack the examples that are not done yet, with progress and an estimate, and keep each outcome as soon as it is known."""

from __future__ import annotations

import time

from robust_tickets.attack.asking import Steps
from robust_tickets.attack.failures import answers, fatal, hopeless
from robust_tickets.attack.game import IN_FLIGHT
from robust_tickets.attack.gradient import Gradient
from robust_tickets.attack.plan import Plan, failed, play
from robust_tickets.attack.scheduler import Failed, Service, drive
from robust_tickets.attack.store import Memory, OnDisk
from robust_tickets.attack.text import Text
from robust_tickets.attack.victim import Victim
from robust_tickets.attack.workers import can_fork, fan_out, how_many
from robust_tickets.jsonl_log import to_line
from robust_tickets.progress import say, track

HOPELESS = 20  # examples that failed in a row: the cause may not be in the examples
FIRST = 3  # examples that give the first estimate: one may be a text that is wrong already


def carry_out(
    plan: Plan, store: Memory | OnDisk, victim: Victim, live: int | None, workers: int | None = None
) -> float:
    """Attack what is not done yet; returns the seconds spent, by earlier calls too."""
    services: dict[str, Service] = {"victim": victim, **plan.prepared.services}
    if plan.white_box:
        services["gradient"] = Gradient(victim)
    numbers = [i for i in range(len(plan.rows)) if not store.done(i)]
    done, total = len(plan.rows) - len(numbers), len(plan.rows)
    live = min(live or victim.live, max(1, len(numbers)))
    crew = _crew(workers, victim, len(numbers), live)

    def job(number: int) -> Steps:
        return play(plan, int(plan.rows[number]), victim, IN_FLIGHT // live)

    start = time.monotonic() - store.spent
    if (
        plan.prepared.warm is not None and numbers
    ):  # with all rows, so that a resumed attack finds what the first one looked up
        plan.prepared.warm(word for row in plan.rows for word in Text.of(plan.split[int(row)].texts).words)
    wrong = known = 0  # failed in a row; failed, but for their clean text
    with track(plan.prepared.title, total, done, FIRST) as bar:
        found = (
            fan_out(numbers, job, services, live, crew)
            if crew
            else drive(((i, job(i)) for i in numbers), services, live, victim.groups)
        )
        for number, outcome in found:
            wrong = wrong + 1 if isinstance(outcome, Failed) else 0
            if isinstance(outcome, Failed):
                if end := fatal(outcome.problem):
                    raise end
                known += outcome.known is not None
                if (wrong == total and not known) or (
                    wrong % HOPELESS == 0 and not answers(victim.clf, len(plan.split.columns))
                ):
                    raise hopeless(outcome.problem, wrong)
                outcome = outcome.known or failed(plan, int(plan.rows[number]), outcome.problem)
            store.add(number, to_line(outcome.to_json()), time.monotonic() - start)
            bar.advance(1)
    return time.monotonic() - start


def _crew(asked: int | None, victim: Victim, examples: int, live: int) -> int:
    """How many worker processes; none unless the victim's forward passes are a function of token ids alone, as on a GPU."""
    if not victim.divisible:
        if asked:
            say(
                "workers: only an attack on a model on a GPU is shared by worker processes; this one runs in one process"
            )
        return 0
    return how_many(examples if live > 1 else 0) if asked is None else can_fork(min(asked, examples))
