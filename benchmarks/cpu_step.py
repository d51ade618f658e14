"""What makes a step quick on a CPU? MiniLM, 16 texts of 32 tokens: threads, waiting, precision, compilation.

How OpenMP's threads wait is read when it is loaded, and threads that spin disturb whoever runs beside them. So every setting of the
environment has a process of its own, one at a time, in several rounds; within a process all candidates run in turns. Precisions: ``fp32``;
``autocast``: bf16 where PyTorch's autocast says so; ``products``: float32 everywhere, but the factors of matrix products rounded to bf16
inside the product (oneDNN); ``weights``: a bf16 model, for inference alone. Compilation is measured apart: the seconds of the first call,
with an empty cache, and the calls after which they are won back.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _measure import batch_of, ratio
from _store import Store, milliseconds

from robust_tickets import load_classifier
from robust_tickets.train.settings import Optim
from robust_tickets.train.update import adamw

ROWS, TOKENS, WARM_UP = 16, 32, 3
ROUNDS, REPEATS = 3, 10
QUESTION = "Threads, waiting, precision and compilation of a MiniLM step on a CPU"
BOTH = str(os.cpu_count() or 1)  # of two cores, where this was written
SETTINGS = {
    "all threads, passive": {"OMP_NUM_THREADS": BOTH, "OMP_WAIT_POLICY": "passive"},
    "all threads, active": {"OMP_NUM_THREADS": BOTH, "OMP_WAIT_POLICY": "active"},
    "all threads, 1000 spins": {
        "OMP_NUM_THREADS": BOTH,
        "GOMP_SPINCOUNT": "1000",
    },  # GNU's OpenMP: some 10 µs, then sleep
    "all threads, default": {"OMP_NUM_THREADS": BOTH},
    "1 thread": {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"},
}
BASE = "all threads, passive"  # what the command line sets
PRECISIONS = {"train": ("fp32", "autocast", "products"), "infer": ("fp32", "autocast", "products", "weights")}


def call_of(kind: str, precision: str, *, compiling: bool = False) -> Callable[[], Any]:
    """One training step or forward pass of a model of its own."""
    model = load_classifier("minilm", labels=("a", "b"), max_length=128).model.train(kind == "train")
    if precision == "weights":
        model = model.bfloat16()
    batch = batch_of(ROWS, TOKENS)
    forward = torch.compile(model, dynamic=False) if compiling else model
    optimiser = adamw({"model": model}, Optim()) if kind == "train" else None

    def step() -> None:
        torch.set_float32_matmul_precision("medium" if precision == "products" else "highest")
        with (
            torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "autocast"),
            torch.set_grad_enabled(kind == "train"),
        ):
            loss = forward(**batch).loss
        if optimiser is not None:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()

    return step


def measured(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every call, by name, in turns."""
    for _ in range(WARM_UP):
        for call in calls.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    gc.disable()
    for _ in range(repeats):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begun)
    return seconds


def work(what: str, repeats: int) -> dict[str, Any]:
    """What a process of its own measures."""
    if what == "eager":
        calls = {
            f"{kind}, {precision}": call_of(kind, precision) for kind in PRECISIONS for precision in PRECISIONS[kind]
        }
        return {"seconds": measured(calls, repeats), "threads": torch.get_num_threads()}
    kind, precision = what.split(", ")
    calls, first = {name: call_of(kind, precision, compiling=name == "compiled") for name in ("eager", "compiled")}, {}
    for name, call in calls.items():
        begun = time.perf_counter()
        call()
        first[name] = time.perf_counter() - begun
    return {"seconds": measured(calls, repeats), "first": first}


def apart(what: str, repeats: int, setting: dict[str, str]) -> dict[str, Any]:
    """``work`` in a new process under ``setting``, with an empty cache of compiled code."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "MKL_", "GOMP_", "KMP_"))
    }
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, __file__, "--work", what, "--repeats", str(repeats)],
            env={**clean, **setting, "TORCHINDUCTOR_CACHE_DIR": cache},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{what} under {setting}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def threads(rounds: int, repeats: int, *, beside: bool) -> dict[str, Any]:
    """Every setting in every round; speeds over ``BASE`` are between neighbours in time, speeds over fp32 between calls of one process."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in SETTINGS}
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if beside else None
    try:
        for _ in range(rounds):
            for name, setting in SETTINGS.items():
                runs[name].append(apart("eager", repeats, setting))
    finally:
        if other is not None:
            other.kill()
            other.wait()
    told: dict[str, Any] = {}
    for name, done in runs.items():
        told[name] = {"threads": done[0]["threads"]}
        for candidate in done[0]["seconds"]:
            own = [run["seconds"][candidate] for run in done]
            base = [run["seconds"][candidate] for run in runs[BASE]]
            plain = [run["seconds"][f"{candidate.split(', ')[0]}, fp32"] for run in done]
            over = [statistics.median(b) / statistics.median(o) for b, o in zip(base, own, strict=True)]
            told[name][candidate] = {
                "milliseconds": milliseconds([value for values in own for value in values]),
                f"speed over {BASE}": {
                    "median": statistics.median(over),
                    "min": min(over),
                    "max": max(over),
                    "rounds": rounds,
                },
                "speed over fp32": ratio(
                    [v for values in plain for v in values], [v for values in own for v in values]
                ),
            }
    return told


def compilation(what: str, repeats: int) -> dict[str, Any]:
    done = apart(what, repeats, SETTINGS[BASE])
    eager, compiled = (statistics.median(done["seconds"][name]) for name in ("eager", "compiled"))
    cost = done["first"]["compiled"] - done["first"]["eager"]
    return {
        **{name: milliseconds(done["seconds"][name]) for name in ("eager", "compiled")},
        "speed over eager": ratio(done["seconds"]["eager"], done["seconds"]["compiled"]),
        "compile_seconds": cost,
        "pays_after_calls": round(cost / (eager - compiled)) if compiled < eager else None,  # of one shape
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=QUESTION)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="in each round")
    parser.add_argument("--out", type=Path, help="folder for the result instead of results/")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        print(json.dumps(work(asked.work, asked.repeats)))
        return
    settings = {
        "model": "all-MiniLM-L6-v2",
        "rows": ROWS,
        "tokens": TOKENS,
        "rounds": asked.rounds,
        "repeats": asked.repeats,
        "seed": 0,
    }
    store = Store("cpu_step", QUESTION, settings, asked.out)
    for key, beside in (("threads", False), ("threads, beside a busy process", True)):
        if key not in store:
            told = threads(asked.rounds, asked.repeats, beside=beside)
            line = (f"{name} {row['train, fp32']['milliseconds']['median']:.0f} ms" for name, row in told.items())
            store.put(key, told, ", ".join(line))
    for kind in PRECISIONS:
        for precision in ("fp32", "autocast"):
            key = f"compilation, {kind}, {precision}"
            if key not in store:
                told = compilation(f"{kind}, {precision}", asked.rounds * asked.repeats)
                store.put(
                    key,
                    told,
                    f"{told['speed over eager']['median']:.2f} times as fast, {told['compile_seconds']:.0f} s to compile",
                )


if __name__ == "__main__":
    main()
