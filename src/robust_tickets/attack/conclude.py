"""From the outcomes of all examples to a result, in memory or in its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from robust_tickets.attack.chosen import by_class
from robust_tickets.attack.failures import too_many
from robust_tickets.attack.flags import FAILED_EXAMPLES, Answers, flags_of
from robust_tickets.attack.plan import Plan
from robust_tickets.attack.precision import unconfirmed
from robust_tickets.attack.result import AttackResult
from robust_tickets.attack.store import FINAL, PART, RESULT, Memory, OnDisk, whole_lines
from robust_tickets.attack.tally import Tally
from robust_tickets.classifier import Classifier
from robust_tickets.errors import DamagedError, TicketsError
from robust_tickets.files import DAMAGED, set_aside, write_chunks
from robust_tickets.progress import say, warn
from robust_tickets.run import made

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
