"""Run a recipe against a victim: choose the examples, drive the attacks, write the result.

The result depends on the recipe, the victim, the examples, the seed and the query budget; ``token_budget``, ``live`` and ``workers``
only decide how fast it comes. With a folder, the same call after a kill goes on where it was and ends with the same outcomes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.attack.attack import Attack, Plan, a_split, check_failed, check_numbers, failed, play
from robust_tickets.attack.calibration import CALIBRATED, calibrate, held_out
from robust_tickets.attack.cuda import HEAD, lowered, unconfirmed
from robust_tickets.attack.example import IN_FLIGHT, Steps
from robust_tickets.attack.examples import by_class, classes_of, rows_of
from robust_tickets.attack.flags import FAILED_EXAMPLES, Answers, flags_of
from robust_tickets.attack.result import FINAL, PART, RESULT, AttackResult, Memory, OnDisk, Tally, whole_lines
from robust_tickets.attack.scheduler import MAX_FAILED, Failed, Service, answers, drive, fatal, hopeless, too_many
from robust_tickets.attack.services import Gradient, Victim
from robust_tickets.attack.text import Text
from robust_tickets.attack.workers import can_fork, fan_out, how_many
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.base import a_classifier
from robust_tickets.classifier.classifier import PROBES, UNSTEADY, probed
from robust_tickets.config import describe, digest
from robust_tickets.environment import ORDER
from robust_tickets.errors import DamagedError, TicketsError
from robust_tickets.files import DAMAGED, set_aside, write_chunks
from robust_tickets.jsonl_log import to_line
from robust_tickets.progress import say, track, warn
from robust_tickets.registry import code_of
from robust_tickets.stages import made
from robust_tickets.stats.classification import ERROR

if TYPE_CHECKING:
    from robust_tickets.data.task import Split


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


SEMANTICS = "textattack-0.3.11"  # what the recipes were written from


def conclude(
    plan: Plan,
    store: Memory | OnDisk,
    ids: tuple[str, ...],
    folder: Path | None,
    seconds: float,
    clean_full: float | None,
    unsteady: tuple[int, int],
    max_failed: float,
) -> AttackResult:
    tally = Tally.of(json.loads(line) for line in store.lines())
    clf = plan.clf
    doubted = None if plan.precision is None else unconfirmed(clf, store.lines(), plan.target)
    flags = flags_of(
        n=tally.n,
        attacked=tally.attacked,
        ended=tally.ended,
        errors=tally.errors,
        limit=max_failed if too_many(tally.errors, len(ids), max_failed) else None,
        often=tally.reasons.often,
        below=Answers(
            tally.given, tally.attacked, clf.labels, plan.classes or range(len(clf.labels)), plan.called
        ).below_chance(),
        classes=len(tally.classes),
        answer=None if (answer := tally.only_answer) is None else plan.labels[answer],
        confidence=tally.mean_confidence(),
        hard=clf.function is not None and tally.mean_confidence() == 1,
        blind=tally.blind,
        unmoved=tally.unmoved,
        unsteady=unsteady,
        stuck=tally.stuck,
        seen=plan.seen,
        subset=plan.subset,
        scoring=plan.scoring,
        compat=plan.rules.name,
        temperature=plan.temperature,
        calibration=plan.calibration,
        resources=plan.resources,
        dropped=plan.prepared.dropped,
        cut=(plan.cut, clf.cut_at),
        query_budget=plan.query_budget,
        precision=plan.precision,
        unconfirmed=doubted,
    )
    result = AttackResult(
        attack=plan.prepared.title,
        digest=plan.digest,
        semantics=SEMANTICS,
        compat=plan.rules.name,
        constraints=plan.prepared.constraints,
        resources=plan.resources,
        model=about_model(clf),
        task=about_task(plan),
        ids=ids,
        subset=plan.subset,
        seed=plan.seed,
        scoring=plan.scoring,
        query_budget=plan.query_budget,
        temperature=plan.temperature,
        calibration=plan.calibration,
        seen=plan.seen,
        precision=plan.precision,
        unconfirmed=doubted,
        flags=tuple(flag.text for flag in flags),
        flag_codes=tuple(flag.code for flag in flags),
        clean_full=clean_full,
        seconds=round(seconds, 3),
        env=made(plan.split.table.files),
        folder=folder,
        lines=tuple(store.lines()) if folder is None else (),
        **tally.metrics(plan.query_budget),
    )
    if folder is not None and isinstance(store, OnDisk):
        write_chunks(folder / FINAL, store.lines())
        result.save(folder)
        store.remove()
    return result


def about_task(plan: Plan) -> dict[str, Any]:
    """The data of a result: which split, and how many of its rows were attacked, of each class."""
    split = plan.split
    return {
        "split": split.name,
        "digest": split.digest,
        "columns": list(split.columns),
        "labels": list(plan.labels),
        "rows": len(split),
        "asked": plan.asked,
        "by_class": by_class(split.labels[plan.rows], len(plan.labels)),
    }


def about_model(clf: Classifier) -> dict[str, Any]:
    """What a result says of the model behind its numbers."""
    return {
        "identity": clf.identity,
        "digest": clf.digest,
        "labels": list(clf.labels),
        "dtype": None if clf.model is None else str(clf.model.dtype).removeprefix("torch."),
        "max_length": clf.cut_at,
    }


def to_repeat(folder: Path, max_failed: float) -> bool:
    """Whether the result that lies there has too many failed examples, now or when it was made."""
    return _failed(AttackResult.load(folder), max_failed)


def _failed(result: AttackResult, max_failed: float) -> bool:
    return result.failed(max_failed) or FAILED_EXAMPLES in result.flag_codes


def finished(folder: Path, digest: str, max_failed: float, store: Memory | OnDisk | None = None) -> AttackResult | None:
    """The result an earlier call left, if it is whole; refused if it is of another attack. A damaged one makes room for a new one, and is
    kept: of which attack it is nobody can tell. Of one with too many failed examples the others are taken over into the store. Only who
    holds the folder, and has a ``store``, does either; another may be writing a new one by now.
    """
    if not (folder / RESULT).is_file():
        return None
    try:
        result = AttackResult.load(folder)
    except DamagedError as problem:
        why = problem.message
    else:
        if result.digest != digest:
            raise TicketsError(
                f"{folder} holds the result of another attack (other settings, victim or examples)",
                hint=f"give another folder, or remove {folder / RESULT} and {folder / FINAL} to start anew",
            )
        if (lines := whole_lines(folder / FINAL)) == len(result.ids):
            if _failed(result, max_failed):
                if isinstance(store, OnDisk):
                    say(f"attack: {result.errors} of {len(result.ids)} examples failed and are attacked again")
                    store.take_over(folder / FINAL, result.seconds)
                return None
            (folder / PART).unlink(missing_ok=True)
            return result
        why = f"{folder / FINAL} has {lines} whole lines, expected {len(result.ids)}"
    if store is not None:
        warn(f"{why}: the attack is made anew, and what was there is kept in {folder / DAMAGED}")
        for name in (FINAL, RESULT):  # after a kill in between, what is left is still no whole result
            set_aside(folder / name, folder)
    return None


def run_attack(
    recipe: Attack,
    clf: Classifier,
    split: Split,
    *,
    n: int = 200,
    seed: int = 0,
    folder: str | Path | None = None,
    ids: Sequence[str | int] | None = None,
    subset: str = "balanced",
    labels: Sequence[str] | None = None,
    label_map: Mapping[str, int | str] | None = None,
    temperature: float | str = 1.0,
    calibration: Split | None = None,
    seen: Split | None = None,
    clean_full: float | None = None,
    token_budget: int | None = None,
    live: int | None = None,
    workers: int | None = None,
    query_budget: int | None = None,
    precision: str | None = None,
    max_failed: float = MAX_FAILED,
    called: Mapping[str, int] | None = None,
) -> AttackResult:
    """Attack ``n`` examples of ``split``, or those with the given ids (or row numbers); ``n=0`` takes all rows.

    ``subset`` says which: "balanced" (seeded, as even over the classes as the rows allow), "random" (seeded), the "first" rows as the
    papers' code takes them, or the "first-of-each" class.
    ``labels`` are the task's label names; they are matched to the classifier's by name, or by ``label_map`` (a
    name of the task to a class number or name of the classifier). Without them the split's labels must be the classifier's class numbers.
    ``temperature`` divides the logits; "calibrated" fits it on ``calibration``, or on the rows of ``split`` that are not attacked.
    ``workers`` are the processes that look words up for a victim on a GPU (0: none besides this one; left out: as the machine has cores).
    ``precision`` ("bfloat16", "float16") attacks a copy in fewer bits, which is faster on a GPU; how many outcomes the victim itself does
    not confirm goes into the result.
    ``seen`` is what the victim was trained on: how many of the attacked texts are in it goes into the result.
    ``clean_full`` is passed on into the result: the accuracy on the whole split, if it is known.
    Where more than two examples and more than ``max_failed`` percent of them failed, the result has the flag ``failed-examples``; the
    same call attacks those again. ``called``: what the data calls each class number of the task, where those are not its ``labels``.
    """
    a_classifier(clf, "to attack")
    a_split(split, "what is attacked")
    for name, other in (("seen", seen), ("calibration", calibration)):
        if other is not None:
            a_split(other, name)
    clf.check_columns(split.columns, "the split to attack")
    check_numbers(
        {"token_budget": token_budget, "live": live, "query_budget": query_budget, "n": n, "workers": workers}
    )
    check_failed(max_failed)
    if recipe.white_box and clf.model is None:
        raise TicketsError(
            f"{type(recipe).__name__} reads the victim's gradients, and {clf.identity} answers with probabilities only",
            hint="attack the model itself, loaded by load_classifier, or take an attack that only asks, such as PWWS or TextFooler",
        )
    victim = lowered(clf, precision)
    classes = classes_of(labels, clf.labels, label_map)
    rows = rows_of(split, ids, n, seed, len(labels or clf.labels), subset)
    held = held_out(temperature, split, rows, calibration)
    subset = subset if ids is None else "ids"
    resources = recipe.resources()
    names = tuple(split[int(row)].id for row in rows)
    probes = _probes(clf, split, rows)
    key = {
        "recipe": describe(recipe),
        # where a resource came from does not matter
        "resources": {kind: {k: v for k, v in about.items() if k != "origin"} for kind, about in resources.items()},
        "victim": [clf.digest, probes],
        "split": split.digest,
        "columns": split.columns,
        "ids": names,
        "classes": classes,
        "seed": seed,
        "query_budget": query_budget,
        "temperature": float(temperature) if held is None else [CALIBRATED, held.name, held.digest],
        "subset": subset,
        "precision": precision and [precision, HEAD, ORDER],
        "seen": None if seen is None else [seen.name, seen.digest],
        "clean_full": clean_full,
    }
    if code := code_of(recipe):
        key["code"] = code
    name, place = digest(key), None if folder is None else Path(folder)
    if place is not None and (found := finished(place, name, max_failed)) is not None:
        return found
    store = Memory(len(rows)) if place is None else OnDisk(place, len(rows), name)
    try:
        if place is not None and (found := finished(place, name, max_failed, store)) is not None:
            return found  # by a process that held the folder a moment ago
        heat, calibrated = (float(temperature), None) if held is None else calibrate(clf, held, classes)
        plan = Plan(
            clf=clf,
            split=split,
            rows=rows,
            labels=tuple(labels or clf.labels),
            called=called or {name: i for i, name in enumerate(labels or clf.labels)},
            classes=classes,
            resources=resources,
            prepared=recipe.prepare(str(clf.device)),
            rules=recipe.rules(),
            scoring=recipe.scoring,
            white_box=recipe.white_box,
            seed=seed,
            query_budget=query_budget,
            temperature=heat,
            calibration=calibrated,
            subset=subset,
            asked=n if ids is None else None,
            seen=None if seen is None else _seen(seen, split, rows),
            cut=_cut(clf, split, rows),
            precision=precision,
            digest=name,
        )
        if plan.cut:
            say(
                f"attack: {plan.cut} of {len(rows)} texts are longer than the {clf.cut_at} tokens that the victim reads (max_length)"
            )
        seconds = carry_out(plan, store, Victim(victim, token_budget, heat), live, workers)
        moved = _unsteady(plan, probes, store.lines()) if heat == 1 else 0
        if moved:
            warn(
                f"the victim gave {moved} of {len(probes)} texts another answer when it was asked again: one that draws at random has no "
                "robustness to measure, and the same command does not know it again"
            )
        return conclude(plan, store, names, place, seconds, clean_full, (moved, len(probes)), max_failed)
    finally:
        store.close()


def _probes(clf: Classifier, split: Split, rows: np.ndarray) -> list[Any]:
    """What tells a callable from others of its name. They are not counted as queries."""
    found, problem = probed(clf, (split[int(row)].texts for row in rows[:PROBES]))
    if problem is not None and not any(found) and not answers(clf, len(split.columns)):
        raise fatal(problem) or hopeless(problem, len(found))
    return found


def _unsteady(plan: Plan, probes: Sequence[Any], lines: Iterable[bytes]) -> int:
    """To how many of the texts that it was asked about beforehand a callable gave another answer in the attack; costs no query."""
    moved = 0
    for probe, line in zip(probes, map(json.loads, lines), strict=False):
        if probe is not None and line["status"] != ERROR:
            right = plan.target(line["label"])
            before, told = (max(probe), 1 - probe[right]), (line["confidence"], line["score_before"])
            moved += any(abs(a - b) > UNSTEADY for a, b in zip(before, told, strict=True))
    return moved


def _seen(trained: Split, split: Split, rows: np.ndarray) -> dict[str, Any]:
    count = int(np.isin(split.keys[rows], trained.keys).sum())
    return {"split": trained.name, "rows": len(trained), "digest": trained.digest, "count": count}


def _cut(clf: Classifier, split: Split, rows: np.ndarray) -> int:
    """How many of the texts have more tokens than the victim reads; of a callable nobody knows."""
    found = 0
    for row in rows if clf.tokenizer is not None else ():
        with suppress(Exception):  # a text that the tokenizer cannot read is its example's own error
            found += clf.cuts(split[int(row)].texts)
    return found
