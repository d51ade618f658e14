"""Run a recipe against a victim: choose the examples, drive the attacks, write the result.

The result depends on the recipe, the victim, the examples, the seed and the query budget; ``token_budget``, ``live`` and ``workers``
only decide how fast it comes. With a folder, the same call after a kill goes on where it was and ends with the same outcomes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.attack.base import Attack
from robust_tickets.attack.calibration import CALIBRATED, calibrate, held_out
from robust_tickets.attack.carry import carry_out
from robust_tickets.attack.choose import classes_of, rows_of
from robust_tickets.attack.conclude import conclude, finished
from robust_tickets.attack.failures import MAX_FAILED, answers, fatal, hopeless
from robust_tickets.attack.given import a_split
from robust_tickets.attack.limits import check_failed, check_numbers
from robust_tickets.attack.plan import Plan
from robust_tickets.attack.precision import HEAD, lowered
from robust_tickets.attack.result import AttackResult
from robust_tickets.attack.store import Memory, OnDisk
from robust_tickets.attack.victim import Victim
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.given import a_classifier
from robust_tickets.classifier.probing import PROBES, UNSTEADY, probed
from robust_tickets.config import describe, digest
from robust_tickets.errors import TicketsError
from robust_tickets.kernels import ORDER
from robust_tickets.progress import say, warn
from robust_tickets.registry import code_of
from robust_tickets.stats.metrics import ERROR

if TYPE_CHECKING:
    from robust_tickets.data.task import Split


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
