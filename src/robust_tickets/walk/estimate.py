"""How long a walk will take, from a few measured steps, told before anything that takes over a minute.

A training step and a forward pass are timed on the real model and real batches; the rest is arithmetic. A ticket is taken to cost what the
whole model costs, and a search to run half its epoch, so the estimate errs towards too long.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from robust_tickets.progress import duration, say

if TYPE_CHECKING:
    from robust_tickets.walk.runner import Walk

TIMED = 4  # batches, the first of which warms up
QUERIES_A_WORD = 9  # PWWS on review sentences: 170 queries for 19 words
SEARCH_SHARE = 0.5  # of an epoch; EarlyRobust's masks settle within it


def tell(walk: Walk) -> None:
    """Say what will be done and how long it may take."""
    seconds = estimate(walk)
    rows, arms = len(walk.task.train), walk.recipe.arms
    for line in _plan(walk):
        say(line)
    parts = ", ".join(f"{name} {duration(value)}" for name, value in seconds.items() if value >= 1)
    say(f"estimate: about {duration(sum(seconds.values()))} on this machine for {len(arms)} arms and {rows} training rows ({parts})")
    say(f"run folder: {walk.run.folder} (stop at any time; the same command goes on)")


def estimate(walk: Walk) -> dict[str, float]:
    """Seconds for searching, training and attacking, stages that are done left out."""
    step = _seconds_a_row(walk)
    rows = len(walk.task.train)
    searching = sum(SEARCH_SHARE * rows * step * _passes(arm.search) for arm in walk.recipe.arms if _trains(arm.search))
    training = sum(
        arm.train.steps(walk.task) * arm.train.batch_size * arm.train.accumulate * step * arm.train.passes for arm in walk.recipe.arms
    )
    attacking = 0.0
    if walk.recipe.attacks:
        text, words = _typical(walk)
        query = _seconds_a_query(walk, text)
        attacking = sum(plan.n * words * QUERIES_A_WORD * query for plan in walk.recipe.attacks) * len(walk.recipe.arms)
    return {"search": searching, "training": training, "attacks": attacking}


def _plan(walk: Walk) -> list[str]:
    lines = []
    for arm in walk.recipe.arms:
        first = f"search {type(arm.search).__name__} ({_passes(arm.search)} passes a step), " if arm.search is not None else ""
        adversary = f" under {type(arm.train.adversary).__name__}" if arm.train.adversary else ""
        lines.append(f"  {arm.title}: {first}{arm.train.epochs} epoch(s){adversary}, lr {arm.train.lr:g}, batch {arm.train.batch_size}")
    for plan in walk.recipe.attacks:
        lines.append(f"  attack {type(plan.attack).__name__} on {plan.n or 'all'} examples, class-balanced, seed {plan.seed}")
    return lines


def _trains(search: Any) -> bool:
    return search is not None and hasattr(search, "epochs")


def _passes(search: Any) -> int:
    return int(getattr(getattr(search, "adversary", None), "passes", 1))


def _seconds_a_row(walk: Walk) -> float:
    """Forward and backward of one training row."""
    from robust_tickets.train.finetune import batches_of

    model = walk.start.copy()
    model.model.train()
    size = walk.recipe.arms[0].train.batch_size
    spent, rows = 0.0, 0
    for i, batch in zip(range(TIMED), batches_of(model, walk.task, size, 0).epoch(0), strict=False):
        batch = {name: value.to(model.device) for name, value in batch.items()}
        begun = time.monotonic()
        model.model(**batch).loss.backward()
        _wait(model)
        if i or len(walk.task.train) <= size:
            spent, rows = spent + time.monotonic() - begun, rows + len(batch["labels"])
    return spent / max(rows, 1)


def _typical(walk: Walk) -> tuple[tuple[str, ...], float]:
    split = walk.task.test
    some = sorted((split[i].texts for i in range(0, len(split), max(1, len(split) // 100))), key=lambda texts: sum(map(len, texts)))
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
