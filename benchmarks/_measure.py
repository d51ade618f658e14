"""How the benchmarks measure: side by side in one run, interleaved, medians and spread, with provenance.

Absolute times of one machine say little; ratios of two things measured in turns on the same machine do. ``interleaved`` warms every
candidate up, then runs them in turns, so that a slow phase of the machine hits all of them.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from _store import command

from robust_tickets.environment import environment
from robust_tickets.seeds import torch_generator

RESULTS = Path(__file__).parent / "results"
WARM_UP = 3


def interleaved(
    candidates: Mapping[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of every call, by name. ``time.process_time`` counts what this process computed: for busy machines."""
    for _ in range(WARM_UP):
        for call in candidates.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    gc.disable()
    try:
        for _ in range(repeats):
            for name, call in candidates.items():
                begun = clock()
                call()
                seconds[name].append(clock() - begun)
    finally:
        gc.enable()
    return seconds


def batch_of(rows: int, tokens: int) -> dict[str, torch.Tensor]:
    """Random words without padding, two labels."""
    ids = torch.randint(1000, 20000, (rows, tokens), generator=torch_generator(0, "ids"))
    whole, first = torch.ones_like(ids), torch.zeros_like(ids)
    return {"input_ids": ids, "attention_mask": whole, "token_type_ids": first, "labels": torch.arange(rows) % 2}


def memory_of(script: str, kind: str) -> int:
    """Peak memory that ``script`` prints for ``kind``, in a process of its own."""
    done = subprocess.run([sys.executable, script, kind], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


def spread(values: list[float]) -> dict[str, float]:
    """Median, quartiles and extremes."""
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": middle, "q1": low, "q3": high, "min": min(values), "max": max(values), "n": len(values)}


def ratio(over: list[float], under: list[float]) -> dict[str, float]:
    """Spread of the pairwise ratios: each pair ran one after the other."""
    return spread([a / b for a, b in zip(over, under, strict=True)])


def save(
    name: str, question: str, settings: Mapping[str, Any], answer: Mapping[str, Any], folder: Path | None = None
) -> None:
    """Write results/<name>.json (or the like in another ``folder``) and print it."""
    folder = folder or RESULTS
    told = {
        "question": question,
        "settings": settings,
        "answer": answer,
        "env": dict(environment()),
        "command": command(sys.argv),
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(told, indent=2, sort_keys=True)
    (folder / f"{name}.json").write_text(text + "\n")
    print(text)
