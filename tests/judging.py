"""Outcomes made to measure, for what judges them: an arm, a seed, and how many examples hold under each attack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robust_tickets.config import digest
from robust_tickets.reproduce.claims import Goal, goals
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Attacked, Outcome, write

N = 200
REAL, SUBSTITUTE = "textfooler-real", "textfooler-substitute"
BASE, NEAR, FAR = (80, 84, 88, 90, 98), (82, 85, 88, 91, 97), (110, 114, 118, 120, 128)
CONFIRM = tuple(f"{name}-confirm" for name in (REAL, SUBSTITUTE, "bertattack", "deepwordbug", "pwws"))


def ids(split: str) -> tuple[str, ...]:
    return tuple(f"{split}:{i}" for i in range(N))


def made(
    arm: str,
    seed: int = 0,
    held: Mapping[str, int] | None = None,
    *,
    right: int = 184,
    repeat: int = 0,
    task: str = "sst2",
    config: Mapping[str, Any] | None = None,
    **cost: Any,
) -> Outcome:
    """``held``: by attack, how many of 200 examples; a name that ends in -confirm is on ``test``. ``right``: how many before it."""
    attacks = tuple(attacked(name, count, right) for name, count in (held or {}).items())
    return Outcome(
        unit=Job(task=task, arm=arm, seed=seed, repeat=repeat),
        config={"seed": seed, "train": {"epochs": 10, "seed": seed}, **(config or {})},
        inputs={},
        env={"device": "a GPU"},
        clean={"split": "validation", "n": N, "accuracy": 100 * right / N},
        cost={
            "train_seconds": 100.0,
            "search_seconds": 0.0,
            "processes": 1,
            "parameters": 110e6,
            "encoder_parameters": 85e6,
            **cost,
        },
        attacks=attacks,
    )


def attacked(name: str, held: int, right: int) -> Attacked:
    split = "test" if name.endswith("-confirm") else "validation"
    return Attacked(
        name=name, recipe=name, digest="0" * 64, split=split, examples=digest(list(ids(split))),
        statuses="f" * held + "s" * (right - held) + "k" * (N - right), queries=(50,) * N, resources={},
        substitutes=("made-up vectors",) if "substitute" in name else (), flags=(),
    )  # fmt: skip


def arm(name: str, values: Mapping[str, tuple[int, ...]], *, first: int = 0, **more: Any) -> list[Outcome]:
    """Runs of an arm, of seeds from ``first`` on: by attack, how many examples hold in each."""
    runs = max(len(counts) for counts in values.values())
    return [
        made(name, first + i, {attack: counts[i] for attack, counts in values.items()}, **more) for i in range(runs)
    ]


def finetuned(n: int = 5) -> list[Outcome]:
    """Fine-tuning under both sets of candidates."""
    return arm("finetune", {REAL: BASE[:n], SUBSTITUTE: tuple(count // 4 for count in BASE[:n])})


def keep(folder: Path, outcomes: list[Outcome]) -> Path:
    """Write them, with the ids of their examples."""
    for outcome in outcomes:
        write(folder, outcome, {digest(list(ids(split))): ids(split) for split in ("validation", "test")})
    return folder


def confirmed() -> list[Outcome]:
    """The chosen recipe in its three forms and the plain fine-tuning that it is to beat, on test; and fine-tuning on validation."""
    runs = arm("finetune", {REAL: BASE}, train_seconds=100.0, parameters=110e6)
    runs += arm("finetune_average", dict.fromkeys(CONFIRM, BASE), first=2, train_seconds=100.0, parameters=110e6)
    forms = {"ticket": (83e6, 150.0), "full": (110e6, 190.0), "random": (83e6, 140.0)}
    for form, (size, seconds) in forms.items():
        about = {"parameters": size, "train_seconds": seconds}
        runs += arm(f"sturdy_a_{form}", dict.fromkeys(CONFIRM, FAR), first=2 if form == "ticket" else 0, **about)
    return runs


def by_name(outcomes: list[Outcome]) -> dict[str, Goal]:
    return {goal.name: goal for goal in goals(outcomes)}
