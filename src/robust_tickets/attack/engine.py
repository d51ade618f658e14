"""Run a recipe against a victim: choose the examples, drive the attacks, write the result.

The result depends on the recipe, the victim, the examples, the seed and the query budget; ``token_budget`` and ``live`` only decide how
fast it comes. With a folder, the same call after a kill goes on where it was and writes the same files.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.attack.asking import Steps
from robust_tickets.attack.choose import classes_of, rows_of
from robust_tickets.attack.failures import fatal, hopeless
from robust_tickets.attack.flags import flags_of
from robust_tickets.attack.game import IN_FLIGHT
from robust_tickets.attack.plan import Plan, Recipe, failed, play
from robust_tickets.attack.result import AttackResult, Tally
from robust_tickets.attack.scheduler import Failed, Service, drive
from robust_tickets.attack.store import FINAL, PART, RESULT, Memory, OnDisk, to_line
from robust_tickets.attack.text import Text
from robust_tickets.attack.victim import Victim
from robust_tickets.classifier import Classifier
from robust_tickets.config import describe, digest
from robust_tickets.errors import TicketsError
from robust_tickets.files import write_chunks
from robust_tickets.progress import duration, say, track, warn
from robust_tickets.run import environment

if TYPE_CHECKING:
    from robust_tickets.data.task import Split

SEMANTICS = "textattack-0.3.11"  # what the recipes were written from; equality with its own runs has not been verified
HOPELESS = 20  # examples that failed in a row: the cause is not in the examples
SAID_FROM = 60.0  # seconds; work longer than this is announced
LOOKED_AT = 400  # texts that decide whether the attacked ones are English
PROBES = 8  # texts a callable is asked about, to tell it from others of the same name


def run_attack(
    recipe: Recipe,
    clf: Classifier,
    split: Split,
    *,
    n: int = 200,
    seed: int = 0,
    folder: str | Path | None = None,
    ids: Sequence[str | int] | None = None,
    labels: Sequence[str] | None = None,
    clean_full: float | None = None,
    token_budget: int | None = None,
    live: int | None = None,
    query_budget: int | None = None,
) -> AttackResult:
    """Attack ``n`` examples of ``split`` (seeded, class-balanced), or those with the given ids (or row numbers).

    ``labels`` are the task's label names; they are matched to the classifier's by name. Without them the split's labels must be the
    classifier's class numbers. ``n=0`` takes all rows. ``clean_full`` is passed on into the result: the
    accuracy on the whole split, if it is known.
    """
    for name, value in (("token_budget", token_budget), ("live", live), ("query_budget", query_budget)):
        if value is not None and value < 1:
            raise TicketsError(f"{name} must be at least 1, got {value}", hint="leave it out for the default")
    if n < 0:
        raise TicketsError(f"n must be at least 0, got {n}", hint="0 attacks all rows")
    classes = classes_of(labels, clf.labels)
    rows = rows_of(split, ids, n, seed, len(labels or clf.labels))
    resources = recipe.resources()
    names = tuple(split[int(row)].id for row in rows)
    key = {
        "recipe": describe(recipe),
        # where a resource came from does not matter
        "resources": {kind: {k: v for k, v in about.items() if k != "origin"} for kind, about in resources.items()},
        "victim": [clf.digest, _probes(clf, split, rows)],
        "split": split.digest,
        "columns": split.columns,
        "ids": names,
        "classes": classes,
        "seed": seed,
        "query_budget": query_budget,
        "clean_full": clean_full,
    }
    name, place = digest(key), None if folder is None else Path(folder)
    if place is not None and (found := _finished(place, name)) is not None:
        return found
    store = Memory(len(rows)) if place is None else OnDisk(place, len(rows), name)
    try:
        if place is not None and (found := _finished(place, name)) is not None:
            return found  # by a process that held the folder a moment ago
        plan = Plan(
            clf=clf,
            split=split,
            rows=rows,
            classes=classes,
            resources=resources,
            prepared=recipe.prepare(str(clf.device)),
            seed=seed,
            query_budget=query_budget,
            digest=name,
        )
        foreign = plan.prepared.english and not _english(split, rows)
        if foreign:
            warn(
                "most of the texts to attack do not look English, but the attack's words are: it finds little, and any victim looks robust"
            )
        seconds = _drive(plan, store, Victim(clf, token_budget), live)
        return _conclude(plan, store, names, place, seconds, clean_full, foreign)
    finally:
        store.close()


def _probes(clf: Classifier, split: Split, rows: np.ndarray) -> list[Any]:
    """A callable's name says little of what it computes: its answers to a few texts do. They are not counted as queries."""
    if not clf.identity.startswith("callable:"):
        return []
    found: list[Any] = []
    problem: Exception | None = None
    for row in rows[:PROBES]:
        try:
            found.append(np.exp(clf.logits([split[int(row)].texts])[0].astype(np.float64)).round(4).tolist())
        except Exception as failure:  # this example's own, unless all fail
            problem = failure
            found.append(None)
    if problem is not None and not any(found):
        raise fatal(problem) or hopeless(problem, len(found))
    return found


def _drive(plan: Plan, store: Memory | OnDisk, victim: Victim, live: int | None) -> float:
    """Attack what is not done yet; returns the seconds spent, by earlier calls too."""
    services: dict[str, Service] = {"victim": victim}
    if plan.prepared.encoder is not None:
        services["encoder"] = plan.prepared.encoder
    numbers = [i for i in range(len(plan.rows)) if not store.done(i)]
    done, total = len(plan.rows) - len(numbers), len(plan.rows)
    live = min(live or victim.live, max(1, len(numbers)))
    begun = 0

    def jobs() -> Iterator[tuple[int, Steps]]:
        nonlocal begun
        for i in numbers:
            begun += 1
            yield i, play(plan, int(plan.rows[i]), victim.noise, IN_FLIGHT // live)

    start = time.monotonic() - store.spent
    if plan.prepared.warm is not None and numbers:  # with all rows, so that a resumed attack finds what the first one looked up
        plan.prepared.warm(word for row in plan.rows for word in Text.of(plan.split[int(row)].texts).words)
    began = time.monotonic()
    announced = wrong = finished = 0
    with track(plan.prepared.title, total, done) as bar:
        for number, outcome in drive(jobs(), services, live):
            finished += 1
            wrong = wrong + 1 if isinstance(outcome, Failed) else 0
            if isinstance(outcome, Failed):
                if end := fatal(outcome.problem):
                    raise end
                if wrong >= HOPELESS or wrong == total:
                    raise hopeless(outcome.problem, wrong)
                outcome = failed(plan, int(plan.rows[number]), outcome.problem)
            store.add(number, to_line(outcome.to_json()), time.monotonic() - start)
            bar.advance(1)
            spent = time.monotonic() - began
            if not announced and finished < len(numbers) and (finished >= max(3, len(numbers) // 20) or spent > 10):
                announced = 1
                whole = spent / ((begun + finished) / 2) * len(numbers)  # those under way count as half done
                if whole > SAID_FROM:
                    say(f"{plan.prepared.title}: about {duration(whole)} for {len(numbers)} examples, going by the first {begun}")
    return time.monotonic() - start


def _conclude(
    plan: Plan, store: Memory | OnDisk, ids: tuple[str, ...], folder: Path | None, seconds: float, clean_full: float | None, foreign: bool
) -> AttackResult:
    tally = Tally.of(json.loads(line) for line in store.lines())
    clf, split = plan.clf, plan.split
    result = AttackResult(
        attack=plan.prepared.title,
        digest=plan.digest,
        semantics=SEMANTICS,
        compat=None,
        constraints=plan.prepared.constraints,
        resources=plan.resources,
        model={
            "identity": clf.identity,
            "digest": clf.digest,
            "labels": list(clf.labels),
            "dtype": None if clf.model is None else str(clf.model.dtype).removeprefix("torch."),
            "max_length": None if clf.model is None else clf.max_length,  # a callable cuts texts as it likes
        },
        task={"split": split.name, "digest": split.digest, "columns": list(split.columns)},
        ids=ids,
        seed=plan.seed,
        query_budget=plan.query_budget,
        temperature=1.0,
        flags=tuple(
            flags_of(
                n=tally.n,
                errors=tally.statuses["error"],
                classes=len(tally.classes),
                confidence=tally.mean_confidence(),
                resources=plan.resources,
                dropped=plan.prepared.dropped,
                foreign=foreign,
                query_budget=plan.query_budget,
            )
        ),
        clean_full=clean_full,
        seconds=round(seconds, 3),
        env=dict(environment()),
        folder=folder,
        lines=tuple(store.lines()) if folder is None else (),
        **tally.metrics(),
    )
    if folder is not None and isinstance(store, OnDisk):
        write_chunks(folder / FINAL, store.lines())
        result.save(folder)
        store.remove()
    return result


def _finished(folder: Path, digest: str) -> AttackResult | None:
    """The result an earlier call left, if it is whole; refused if it is of another attack."""
    if not (folder / RESULT).is_file():
        return None
    result = AttackResult.load(folder)
    if result.digest != digest:
        raise TicketsError(
            f"{folder} holds the result of another attack (other settings, victim or examples)",
            hint=f"give another folder, or remove {folder / RESULT} and {folder / FINAL} to start anew",
        )
    if not (folder / FINAL).is_file():
        (folder / RESULT).unlink()
        return None
    (folder / PART).unlink(missing_ok=True)
    return result


def _english(split: Split, rows: np.ndarray) -> bool:
    from robust_tickets.lexicon.english import mostly_english

    spread = np.linspace(0, len(rows) - 1, min(len(rows), max(1, LOOKED_AT // len(split.columns))), dtype=int)
    return mostly_english(text for place in spread for text in split[int(rows[place])].texts)
