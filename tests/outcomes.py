"""Outcomes as a campaign leaves them, made up: four arms on SST-2, five seeds, three runs of seed 0, two attacks. For all that reads them.

Shapes: ``ticket`` has ``heads`` (a row of 0 and 1 a layer) and ``neurons`` (kept, all a layer); ``traces`` has ``distances`` as a search's
``distances.json`` (points, heads, neurons, stopped_at, drawn_at, converged, rule) and ``accuracy``, points of the training curve
(epoch, accuracy, loss).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fake_run import SENTENCES
from robust_tickets.config import digest
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Attacked, Outcome, write

N = 240
IDS = tuple(f"validation:{i}" for i in range(N))
SEEDS, REPEATS, EPOCHS, LAYERS, HEADS, NEURONS = 5, 3, 10, 12, 12, 3072
ARMS = {  # share that holds under the real lists and under the substitute's, clean accuracy, seconds of search and of training
    "finetune": (0.44, 0.10, 0.925, 0.0, 150.0),
    "earlyrobust": (0.46, 0.13, 0.918, 14.0, 96.0),
    "random": (0.42, 0.09, 0.893, 0.0, 94.0),
    "freelb3": (0.52, 0.18, 0.934, 0.0, 520.0),
}
ATTACKS = ("textfooler-real", "textfooler-substitute")


def outcomes(
    folder: Path, *, arms: Any = tuple(ARMS), seeds: int = SEEDS, repeats: int = REPEATS, texts: Any = SENTENCES
) -> Path:
    """Write them to ``folder``, which is returned; the same bytes each time."""
    hardness = np.random.default_rng(8).random(N)  # of the examples: the models share it, as real ones do
    for arm in arms:
        for seed in range(seeds):
            for repeat in range(repeats if seed == 0 else 1):
                write(
                    folder,
                    outcome(Job(task="sst2", arm=arm, seed=seed, repeat=repeat), hardness, texts),
                    {digest(list(IDS)): IDS},
                )
    return folder


def outcome(unit: Job, hardness: np.ndarray, texts: Any = SENTENCES) -> Outcome:
    """One of them."""
    place = list(ARMS).index(unit.arm)
    generator = np.random.default_rng([place, unit.seed, unit.repeat])
    real, substitute, clean, search, train = ARMS[unit.arm]
    shift, pruned = 0.025 * generator.standard_normal(), unit.arm in ("earlyrobust", "random")
    # one draw for a model: what it gets wrong it gets wrong under every attack
    level = np.clip(hardness + 0.08 * generator.standard_normal(N), 0, 1)
    attacks = tuple(
        _attacked(name, level, held + shift, clean, generator, texts)
        for name, held in zip(ATTACKS, (real, substitute), strict=True)
    )
    right = 100 * float(np.mean(level < clean))
    traces: dict[str, Any] = {"accuracy": [_point(epoch, right, generator) for epoch in range(1, EPOCHS + 1)]}
    if unit.arm == "earlyrobust":
        traces["distances"] = _distances(generator)
    recipe = {
        "seed": unit.seed,
        "train": {"epochs": EPOCHS, "lr": 2e-5},
        "arm": unit.arm,
        "task": "sst2",
        "model": unit.backbone,
    }
    return Outcome(
        unit=unit,
        config=recipe,
        inputs={"task": {"train": "12" * 32, "validation": "34" * 32}, "theta0": "56" * 32, "version": "0.1.0"},
        env={"device": "NVIDIA H200", "packages": {"torch": "2.11.0", "transformers": "5.17.0"}, "python": "3.12.3"},
        clean={"split": "validation", "n": N, "accuracy": right, "interval": [right - 3, right + 3]},
        cost={
            "search_seconds": search, "train_seconds": train * (1 + 0.02 * generator.standard_normal()), "processes": 1 if place < 2 else 3,
            "parameters": 81_000_000 if pruned else 109_483_778, "encoder_parameters": 57_000_000 if pruned else 85_054_464,
            "dense_parameters": 109_483_778, "flops_per_example": 3.1e9 if pruned else 4.6e9, "dense_flops_per_example": 4.6e9,
        },
        ticket=_ticket(generator) if pruned else None,
        traces=traces,
        attacks=attacks,
    )  # fmt: skip


def _attacked(
    name: str, level: np.ndarray, held: float, clean: float, generator: np.random.Generator, texts: Any
) -> Attacked:
    letters = "".join("f" if x < held else "s" if x < clean else "k" for x in level)
    substitute = name.endswith("substitute")
    kept = "counterfit-substitute" if substitute else "counterfitted_neighbors"
    return Attacked(
        name=name,
        recipe="textfooler, without the sentence encoder",
        digest=digest([name, letters]),
        split="validation",
        examples=digest(list(IDS)),
        statuses=letters,
        queries=tuple(
            int(q) if letter in "fs" else 1 for q, letter in zip(generator.integers(30, 190, N), letters, strict=True)
        ),
        resources={"vectors": {"name": kept, "origin": "file", "digest": "78" * 32, "substitute": substitute}},
        substitutes=("counter-fitted vectors: a substitute made from public lists (SimLex 0.68, published 0.74)",)
        if substitute
        else (),
        flags=("no sentence encoder",),
        scoring="log-odds",
        seconds=41.0,
        texts=tuple(_texts(letters, texts)),
    )


def _texts(letters: str, texts: Any, most: int = 12) -> list[dict[str, Any]]:
    found = []
    for i in [i for i, letter in enumerate(letters) if letter == "s"][:most]:
        text, label, old, new = texts[i % len(texts)]
        changed = {"original": [text], "perturbed": [text.replace(old, new, 1)], "before": 0.97, "after": 0.31}
        found.append({"id": IDS[i], "label": label, **changed})
    return found


def _point(epoch: int, right: float, generator: np.random.Generator) -> dict[str, float]:
    return {
        "epoch": float(epoch),
        "accuracy": right - 6 * 0.5**epoch + 0.2 * generator.standard_normal(),
        "loss": 0.3 * 0.7**epoch,
    }


def _ticket(generator: np.random.Generator) -> dict[str, Any]:
    """A sixth of the heads gone, three tenths of the neurons, more of them near the words."""
    scores = generator.random((LAYERS, HEADS)) + 0.04 * np.arange(LAYERS)[:, None]
    heads = (scores > np.sort(scores, axis=None)[LAYERS * HEADS // 6 - 1]).astype(int)
    share = np.clip(0.7 + 0.02 * (np.arange(LAYERS) - 5.5) + 0.03 * generator.standard_normal(LAYERS), 0, 1)
    rows = heads.tolist()
    neurons = [[int(NEURONS * part), NEURONS] for part in share]
    removed = {"heads": 1 / 6, "neurons": 0.3}
    return {
        "digest": digest(rows), "kind": "structured", "removed": removed, "heads": rows, "neurons": neurons, "epoch": 0.6, "converged": True
    }  # fmt: skip


def _distances(generator: np.random.Generator) -> dict[str, Any]:
    points = [round(0.05 * i, 2) for i in range(1, 21)]
    settled = np.exp(-np.arange(20) / 4) * (1 + 0.05 * generator.standard_normal())
    away = np.abs(settled[:, None] - settled[None, :])
    maps = {"heads": (0.3 * away).round(6).tolist(), "neurons": (0.45 * away).round(6).tolist()}
    return {
        "points": points,
        **maps,
        "stopped_at": points[12],
        "drawn_at": points[12],
        "converged": True,
        "rule": "paper",
    }
