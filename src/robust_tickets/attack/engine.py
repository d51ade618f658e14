"""Run a recipe against a victim: choose the examples, drive the attacks, write the result.

The result depends on the recipe, the victim, the examples, the seed and the query budget; ``token_budget`` and ``live`` only decide how
fast it comes. With a folder, the same call after a kill goes on where it was and writes the same files.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from robust_tickets.attack.asking import Steps
from robust_tickets.attack.choose import classes_of, rows_of
from robust_tickets.attack.flags import flags_of
from robust_tickets.attack.game import Game
from robust_tickets.attack.greedy import Greedy
from robust_tickets.attack.result import AttackResult, ExampleOutcome, Tally, digest_of
from robust_tickets.attack.scheduler import Failed, Service, drive
from robust_tickets.attack.store import FINAL, PART, RESULT, Memory, OnDisk, to_line, write_lines
from robust_tickets.attack.text import Text, marks, words_changed
from robust_tickets.attack.victim import Victim
from robust_tickets.classifier import Classifier
from robust_tickets.config import describe
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.progress import duration, say, track
from robust_tickets.run import environment
from robust_tickets.seeds import derive

if TYPE_CHECKING:
    from robust_tickets.data.task import Example, Split

HOPELESS = 20  # examples that failed, none that did not: the cause is not in the examples
SAID_FROM = 60.0  # seconds; work longer than this is announced
LOOKED_AT = 400  # texts that decide whether the attacked ones are English


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A recipe with its resources found."""

    title: str
    kit: Greedy
    resources: Mapping[str, Mapping[str, Any]]
    constraints: tuple[str, ...]
    encoder: Service | None = None
    vector_noise: float = 0.0
    dropped: tuple[str, ...] = ()
    english: bool = True  # whether a resource knows English only
    warm: Callable[[Iterable[str]], object] | None = None  # told all words of the attacked texts beforehand, to look them up at once


class Recipe(Protocol):
    def prepare(self) -> Prepared: ...


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one attack is: everything that decides its result."""

    clf: Classifier
    split: Split
    rows: np.ndarray
    classes: tuple[int, ...] | None  # the classifier's class for each of the task's, where they are matched by name
    prepared: Prepared
    seed: int
    query_budget: int | None
    digest: str = field(default="")

    def target(self, label: int) -> int:
        """The classifier's class for a label of the split."""
        count = len(self.classes) if self.classes is not None else len(self.clf.labels)
        if not 0 <= label < count:
            raise TicketsError(f"label {label} is none of the {count} classes", hint="check the labels of the data")
        return self.classes[label] if self.classes is not None else label

    def shown(self, predicted: int) -> int | None:
        """The task's label for a class of the classifier; none where the task has no such label."""
        if self.classes is None:
            return predicted
        return self.classes.index(predicted) if predicted in self.classes else None


def run_attack(
    recipe: Any,
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
    classifier's class numbers. ``clean_full`` is passed on into the result: the accuracy on the whole split, if it is known.
    """
    for name, value in (("token_budget", token_budget), ("live", live), ("query_budget", query_budget)):
        if value is not None and value < 1:
            raise TicketsError(f"{name} must be at least 1, got {value}", hint="leave it out for the default")
    classes = classes_of(labels, clf.labels)
    rows = rows_of(split, ids, n, seed, len(labels or clf.labels))
    prepared = recipe.prepare()
    plan = Plan(clf=clf, split=split, rows=rows, classes=classes, prepared=prepared, seed=seed, query_budget=query_budget)
    names = tuple(split[int(row)].id for row in rows)
    key = {
        "recipe": describe(recipe),
        "resources": prepared.resources,
        "victim": clf.digest,
        "split": split.digest,
        "columns": split.columns,
        "ids": names,
        "classes": classes,
        "seed": seed,
        "query_budget": query_budget,
        "clean_full": clean_full,
    }
    plan = Plan(**{**vars(plan), "digest": digest_of(**key)})
    place = None if folder is None else Path(folder)
    if place is not None and (place / RESULT).is_file():
        return _finished(place, plan.digest)
    store = Memory(len(rows)) if place is None else OnDisk(place, len(rows), plan.digest)
    try:
        seconds = _drive(plan, store, Victim(clf, token_budget), live)
        return _conclude(plan, store, names, place, seconds, clean_full)
    finally:
        store.close()


def _drive(plan: Plan, store: Memory | OnDisk, victim: Victim, live: int | None) -> float:
    """Attack what is not done yet; returns the seconds spent, by earlier calls too."""
    services: dict[str, Service] = {"victim": victim}
    if plan.prepared.encoder is not None:
        services["encoder"] = plan.prepared.encoder
    numbers = [i for i in range(len(plan.rows)) if not store.done(i)]
    done, total = len(plan.rows) - len(numbers), len(plan.rows)
    begun = 0

    def jobs() -> Iterator[tuple[int, Steps]]:
        nonlocal begun
        for i in numbers:
            begun += 1
            yield i, _play(plan, victim, int(plan.rows[i]))

    start = time.monotonic() - store.spent
    if plan.prepared.warm is not None and numbers:
        plan.prepared.warm(word for i in numbers for word in Text.of(plan.split[int(plan.rows[i])].texts).words)
    began = time.monotonic()
    announced = failed = finished = 0
    with track(plan.prepared.title, total, done) as bar:
        for number, outcome in drive(jobs(), services, live or victim.live):
            finished += 1
            if isinstance(outcome, Failed):
                failed += 1
                if failed == finished >= min(HOPELESS, len(numbers)) and done == 0:
                    raise _hopeless(outcome.problem, failed)
                outcome = _error(plan, int(plan.rows[number]), outcome.problem)
            store.add(number, to_line(outcome.to_json()), time.monotonic() - start)
            bar.advance(1)
            spent = time.monotonic() - began
            if not announced and finished < len(numbers) and (finished >= max(3, len(numbers) // 20) or spent > 10):
                announced = 1
                whole = spent / ((begun + finished) / 2) * len(numbers)  # those under way count as half done
                if whole > SAID_FROM:
                    say(f"{plan.prepared.title}: about {duration(whole)} for {len(numbers)} examples, going by the first {begun}")
    return time.monotonic() - start


def _play(plan: Plan, victim: Victim, row: int) -> Steps:
    """The attack on one row; reads it only when its turn has come."""
    example: Example = plan.split[row]
    game = Game(
        original=Text.of(example.texts),
        label=plan.target(example.label),
        column_names=tuple(plan.split.columns),
        noise=victim.noise,
        vector_noise=plan.prepared.vector_noise,
        budget=float("inf") if plan.query_budget is None else plan.query_budget,
        seed=derive(plan.seed, "attack", example.id),
    )
    status, final, first, last = yield from plan.prepared.kit.attack(game)
    before, after = first.row.probabilities, last.row.probabilities
    skipped = status == "skipped"
    return ExampleOutcome(
        id=example.id,
        label=example.label,
        status=status,
        original=example.texts,
        perturbed=None if skipped else final.columns,
        queries=game.queries,
        words=len(game.original),
        words_changed=words_changed(game.original, final),
        changed=tuple(marks(game.original, final)),
        predicted_before=plan.shown(int(before.argmax())),
        predicted_after=plan.shown(int(after.argmax())),
        score_before=first.score,
        score_after=last.score,
        confidence=float(before.max()),
        forward_passes=game.passes,
    )


def _error(plan: Plan, row: int, problem: Exception) -> ExampleOutcome:
    message = problem.message if isinstance(problem, TicketsError) else f"{type(problem).__name__}: {problem}"
    example = plan.split[row]
    return ExampleOutcome(id=example.id, label=example.label, status="error", original=example.texts, error=message)


def _hopeless(problem: Exception, count: int) -> TicketsError:
    said = problem.message if isinstance(problem, TicketsError) else f"{type(problem).__name__}: {problem}"
    hint = (problem.hint if isinstance(problem, TicketsError) else "") or "see that the victim answers one of the texts"
    return TicketsError(f"the attack failed on all of the first {count} example(s): {said}", hint=hint, exit_code=FAILED)


def _conclude(
    plan: Plan, store: Memory | OnDisk, ids: tuple[str, ...], folder: Path | None, seconds: float, clean_full: float | None
) -> AttackResult:
    tally = Tally.of(json.loads(line) for line in store.lines())
    prepared = plan.prepared
    result = AttackResult(
        attack=prepared.title,
        digest=plan.digest,
        compat=None,
        constraints=prepared.constraints,
        resources=prepared.resources,
        model={"identity": plan.clf.identity, "digest": plan.clf.digest, "labels": list(plan.clf.labels)},
        task={"split": plan.split.name, "digest": plan.split.digest, "columns": list(plan.split.columns)},
        ids=ids,
        seed=plan.seed,
        temperature=1.0,
        flags=tuple(
            flags_of(
                n=tally.n,
                errors=tally.statuses["error"],
                classes=len(tally.classes),
                confidence=tally.mean_confidence(),
                resources=prepared.resources,
                dropped=prepared.dropped,
                foreign=prepared.english and not _english(plan),
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
    if folder is not None:
        write_lines(folder / FINAL, store.lines())
        result.save(folder)
        store.close()
        (folder / PART).unlink()
    return result


def _finished(folder: Path, digest: str) -> AttackResult:
    """The result an earlier call left; refused if it is of another attack."""
    result = AttackResult.load(folder)
    if result.digest != digest:
        raise TicketsError(
            f"{folder} holds the result of another attack (other settings, victim or examples)",
            hint="give another folder, or remove this one to start anew",
        )
    (folder / PART).unlink(missing_ok=True)
    return result


def _english(plan: Plan) -> bool:
    from robust_tickets.lexicon.english import mostly_english

    return mostly_english(text for row in islice(plan.rows, LOOKED_AT) for text in plan.split[int(row)].texts)
