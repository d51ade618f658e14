"""Made-up outcomes of the arms behind figures: sweeps, searches that trace their gates, tickets of single weights."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

import outcomes
from robust_tickets.reproduce.arms import Row
from robust_tickets.reproduce.job import BERT, Job
from robust_tickets.reproduce.outcome import Outcome

HARDNESS = np.random.default_rng(8).random(outcomes.N)


def row(name: str, arm: str, x: float | None = None, tasks: tuple[str, ...] = ("sst2",), **more: Any) -> Row:
    """A point of a figure."""
    return Row(table="made-up", name=name, arm=arm, backbone=more.pop("backbone", BERT), tasks=tasks, x=x, **more)


def run(
    arm: str, task: str = "sst2", seed: int = 0, *, base: str = "earlyrobust", held: float | None = None, **changed: Any
) -> Outcome:
    """A run of ``base`` under another name; ``held`` is the share that the attacks leave, its clean accuracy a little more than usual."""
    unit = Job(task=task, arm=arm, seed=seed)
    made = outcomes.outcome(Job(task="sst2", arm=base, seed=seed), HARDNESS)
    attacks = (
        made.attacks
        if held is None
        else tuple(replace(one, statuses=_letters(held, seed, k)) for k, one in enumerate(made.attacks))
    )
    clean = (
        dict(made.clean)
        if held is None
        else {**made.clean, "accuracy": 84 + 16 * held + 0.6 * math.sin(7 * seed + len(arm))}
    )
    return replace(made, unit=unit, attacks=attacks, clean=clean, **changed)


def _letters(held: float, seed: int, attack: int) -> str:
    robust = round(outcomes.N * min(0.9, max(0.02, held * (1 - 0.6 * attack) + 0.025 * math.sin(3 * seed + 1))))
    return "f" * robust + "s" * (outcomes.N - robust - 10) + "k" * 10


def gates(penalty: float, seed: int = 0, epochs: int = 20, every: int = 25) -> dict[str, Any]:
    """Gates that close, faster the higher the penalty."""
    lines = []
    for step in range(epochs * every + 1):
        epoch = step / every
        fall = 1 / (1 + math.exp(-(epoch - 8) / 2))
        lines.append(
            {
                "epoch": round(epoch, 4),
                "R": 1 - (0.3 + 0.4 * penalty) * fall + 0.004 * seed,
                "exact": 0.05 + (0.75 + 0.15 * penalty) * fall,
            }
        )
    return {"gates": lines}


def weights(seed: int = 0) -> dict[str, Any]:
    """The ticket of single weights: less of the upper layers' attention is kept."""
    paths = {"attention.self.query": (720, 1000, -20), "intermediate.dense": (1500, 2000, 30)}
    counts = {
        f"encoder.layer.{i}.{path}.weight": [kept + step * i - seed, of]
        for i in range(12)
        for path, (kept, of, step) in paths.items()
    }
    return {
        "digest": "0" * 64,
        "kind": "unstructured",
        "removed": {"weights": 0.3},
        "weights": counts | {"pooler.dense.weight": [1, 10]},
    }


def by_head(seed: int = 0) -> dict[str, Any]:
    """The same with its heads: of layer i (from 1) the mean head keeps 500 + 10 i - 10 seed of 1000, the MLP 1500 + 20 i of 2000."""
    heads = [[[499 + 10 * i + 2 * k - 10 * seed, 1000] for k in range(12)] for i in range(12)]
    return {**weights(seed), "by_head": heads, "by_mlp": [[1520 + 20 * i, 2000] for i in range(12)]}
