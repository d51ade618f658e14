"""How long a walk will take, from a few measured steps, told before anything that takes over a minute.

A training step and a forward pass are timed on the real model and real batches; the rest is arithmetic. A ticket is taken to cost what the
whole model costs, and a search that watches its masks to run half its epoch, so the estimate errs towards too long. A search of several
phases offers ``work(task)``: how many rows of a plain training step it comes to. Where few rows are trained on, what takes the time is
evaluating on all the others, and an epoch of few updates ends before a rule has seen enough to stop the search: both are counted. What is
done already is not, down to the examples of an attack.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import digest
from robust_tickets.errors import TicketsError
from robust_tickets.progress import duration, say
from robust_tickets.train.finetune import updates_per_epoch
from robust_tickets.walk import stages
from robust_tickets.walk.origins import known, known_key

if TYPE_CHECKING:
    from robust_tickets.classifier import Classifier
    from robust_tickets.data.task import Split
    from robust_tickets.walk.arms import Arm, Origin
    from robust_tickets.walk.recipe import AttackPlan
    from robust_tickets.walk.runner import Walk

    Plans = list[tuple[AttackPlan, Split]]  # an attack, and what it attacks

TIMED = 4  # batches, the first of which warms up
COUNTED = 64  # batches whose tokens are counted: three are too few, one may have five times the tokens of another
FORWARD = 1 / 3  # of a training step: a row that is evaluated; 0.31 to 0.36 were measured with MiniLM on two cores
QUERIES_A_WORD = 9  # PWWS on review sentences: 170 queries for 19 words
SEARCH_SHARE = 0.5  # of an epoch; EarlyRobust's masks settle within it


def tell(walk: Walk) -> None:
    """Say what will be done and how long it may take."""
    for line in _plan(walk):
        say(line)
    seconds = estimate(walk)
    total = sum(seconds.values())
    parts = ", ".join(f"{name} {duration(value)}" for name, value in seconds.items() if value >= 1)
    parts = f" ({parts})" if parts else ""
    rows = len(walk.task.train)
    if total >= 1:
        arms = f"{len(walk.recipe.arms)} arm{'s' * (len(walk.recipe.arms) != 1)}"
        most = (
            "at most " if walk.start.device.type == "cuda" else ""
        )  # graphs and bf16 take a fraction of the eager steps timed here
        say(f"estimate: {most}about {duration(total)} on this machine for {arms} and {rows} training rows{parts}")
    say(f"run folder: {walk.run.folder} (stop at any time; the same command goes on)")


def estimate(walk: Walk) -> dict[str, float]:
    """Seconds for searching, training and attacking; stages that are known to be done are left out."""
    arms = walk.recipe.arms
    to_search = list(_open(walk, [arm.origin for arm in arms]))
    models = [_trained(walk, arm) for arm in arms]
    to_train = [arm for arm, model in zip(arms, models, strict=True) if model is None]
    step = _seconds_a_row(walk) if to_search or to_train else 0.0
    searching = sum(
        work(o.search, walk.elsewhere[o.searched_on] if o.searched_on else walk.task) * step for o in to_search
    )
    training = sum((work(arm.train, walk.task) + FORWARD * evaluated(arm.train, walk.task)) * step for arm in to_train)
    plans = [(plan, stages.attacked(plan, walk.task)) for plan in walk.recipe.attacks]
    left = [examples(plan, split) * len(to_train) for plan, split in plans]
    for model in (model for model in models if model is not None and plans):
        left = [sum(pair) for pair in zip(left, _left(walk, plans, model), strict=True)]
    attacking = sum(
        number * _seconds_an_example(walk, split) for number, (_, split) in zip(left, plans, strict=True) if number
    )
    return {"search": searching, "training": training, "attacks": attacking}


def examples(plan: AttackPlan, split: Split) -> int:
    """How many examples a plan attacks; 0 asks for all of them."""
    return min(plan.n or len(split), len(split))


def work(method: Any, task: Any) -> float:
    """Rows of a plain training step that a search or a training comes to; a random ticket takes none."""
    rows = float(method.work(task)) if hasattr(method, "work") else 0.0
    if getattr(method, "stop", "fixed") == "fixed":
        return rows
    soonest = method.soonest(task) / method.steps(task) if hasattr(method, "soonest") else 0.0
    return rows * max(SEARCH_SHARE, soonest)


def evaluated(trainer: Any, task: Any) -> int:
    """Rows that a training only looks at: for validation at the start and after every epoch, and the attacked split in the end."""
    if trainer.evaluate == "never":
        return len(task.test)
    epochs = math.ceil(trainer.steps(task) / updates_per_epoch(task, trainer.batch_size, trainer.accumulate))
    return (1 + epochs) * min(trainer.evaluation_rows or len(task.validation), len(task.validation)) + len(task.test)


def _open(walk: Walk, origins: list[Origin | None]) -> Iterator[Origin]:
    """Searches that are not done yet, each once."""
    seen: set[str] = set()
    for origin in origins:
        while origin is not None:
            key = known_key(walk, origin) if origin.search is not None else None
            name = digest(key) if key else digest(origin)
            done = origin.search is None or (key is not None and walk.run.has("search", key))
            if not done and name not in seen:
                seen.add(name)
                yield origin
            origin = origin.like


def _trained(walk: Walk, arm: Arm) -> Path | None:
    """Where the arm's model lies. Known only where the ticket is: the training of an arm whose search is open is open too."""
    ticket = known(walk, arm.origin) if arm.origin is not None else None
    if arm.origin is not None and ticket is None:
        return None
    key = stages.train_key(arm.train, walk.inputs, ticket, arm.without)
    return walk.run.stage_folder("train", key) / "model" if walk.run.has("train", key) else None


def _seconds_an_example(walk: Walk, split: Split) -> float:
    text, words = _typical(split)
    return words * QUERIES_A_WORD * _seconds_a_query(walk, text)


def _victim(model: Path) -> Classifier:
    from robust_tickets.classifier import Classifier

    return Classifier.from_pretrained(model, device="cpu")


def _left(walk: Walk, plans: Plans, model: Path) -> list[int]:
    """Examples that each attack on a trained model has still to go through, after what an earlier call of it did.

    Models are loaded one at a time: ten of them may be more than the memory.
    """
    from robust_tickets.attack.store import PART, whole_lines

    try:
        victim, found = _victim(model), []
    except TicketsError:  # damaged: the run says so, and trains it again
        return [examples(plan, split) for plan, split in plans]
    for plan, split in plans:
        key = stages.attack_key(plan, victim, split)
        done = whole_lines(walk.run.stage_folder("attack", key) / PART) - 1  # the first says which attack
        number = examples(plan, split)
        found.append(0 if walk.run.has("attack", key) else number - min(max(done, 0), number))
    return found


def _plan(walk: Walk) -> list[str]:
    lines = []
    for arm in walk.recipe.arms:
        searches = arm.search is not None and arm.branch_of is None
        passes = f" ({_passes(arm.search):g} passes a step)" if searches and _passes(arm.search) > 1 else ""
        first = f"{arm.story()}{passes}, " if arm.origin is not None else ""
        adversary = f" under {type(arm.train.adversary).__name__}" if arm.train.adversary else ""
        epochs = arm.train.run_epochs or arm.train.epochs
        lines.append(
            f"  {arm.title}: {first}{epochs} epoch(s){adversary}, lr {arm.train.lr:g}, batch {arm.train.batch_size}"
        )
    for plan in walk.recipe.attacks:
        lines.append(
            f"  attack {type(plan.attack).__name__} on {_chosen(plan, stages.attacked(plan, walk.task), walk.task.labels)}"
        )
    return lines


def _chosen(plan: AttackPlan, split: Split, labels: tuple[str, ...]) -> str:
    """How many examples, which, and how many of each class: a small split cannot give what was asked for."""
    from robust_tickets.attack.choose import rows_of
    from robust_tickets.attack.chosen import by_class, how, short_of

    rows = rows_of(split, None, plan.n, plan.seed, len(labels), plan.subset)
    which = how(plan.subset, plan.seed, labels, by_class(split.labels[rows], len(labels)), len(split))
    short = short_of(plan.n, len(rows))
    return f"{len(rows)} examples, {which}" + (f"; {short}" if short else "")


def _passes(method: Any) -> float:
    """Forward-backward passes of a step."""
    own = getattr(method, "passes", None)
    return float(own if own is not None else getattr(getattr(method, "adversary", None), "passes", 1))


def _seconds_a_row(walk: Walk) -> float:
    """Forward and backward of one training row, of as many tokens as rows have in the first ``COUNTED`` batches."""
    from robust_tickets.train.feed import batches_of

    model = walk.start.copy()
    model.model.train()
    size = walk.recipe.arms[0].train.batch_size
    spent, timed, rows, tokens = 0.0, 0, 0, 0
    for i, batch in zip(range(COUNTED), batches_of(model, walk.task, size, 0).epoch(0), strict=False):
        rows, tokens = rows + len(batch["labels"]), tokens + batch["input_ids"].numel()
        if i >= TIMED:
            continue
        batch = {name: value.to(model.device) for name, value in batch.items()}
        begun = time.monotonic()
        model.model(**batch).loss.backward()
        _wait(model)
        if i or len(walk.task.train) <= size:
            spent, timed = spent + time.monotonic() - begun, timed + batch["input_ids"].numel()
    return spent / max(timed, 1) * tokens / max(rows, 1)


def _typical(split: Split) -> tuple[tuple[str, ...], float]:
    some = sorted(
        (split[i].texts for i in range(0, len(split), max(1, len(split) // 100))),
        key=lambda texts: sum(map(len, texts)),
    )
    words = sum(len(text.split()) for texts in some for text in texts) / len(some)
    return some[len(some) // 2], words


def _seconds_a_query(walk: Walk, text: tuple[str, ...]) -> float:
    count = 64
    walk.start.logits([text] * count)
    begun = time.monotonic()
    walk.start.logits([text] * count)
    return (time.monotonic() - begun) / count


def _wait(model: Any) -> None:
    if model.device.type == "cuda":
        import torch

        torch.cuda.synchronize()
