"""Peak memory of each kind of step, and how its time and memory grow with length, batch, layers and number of gates.

BERT-base's size with random weights, bf16, synthetic batches without padding. One axis changes at a time around batch 32 × 128 tokens ×
12 layers. On a GPU memory is what torch has allocated at the peak (``max_memory_allocated``: weights, moments, gradients, activations and
what a graph's recording takes) beyond what earlier points have left behind, on a CPU the peak of a process of its own. The reference
profile's memory is beside it at the middle point; its time is ``step_time.py``'s.

    growth = log(time at the axis' end / at its start) / log(end / start)          (1: in proportion)
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _ours import KINDS, batch_of, config_of, gates_in, layers_of, model_of, updates
from _reference import Reference, Shape
from _store import Store, clocked, device_of, free, milliseconds, paced

from robust_tickets.backbone.cost import peak_memory

QUESTION = "Peak memory of a training step, and growth of time and memory with length, batch, layers and gates"
MIDDLE = {"batch": 32, "tokens": 128, "layers": 12}
AXES: dict[str, tuple[int, ...]] = {
    "tokens": (32, 64, 128, 256, 512),
    "batch": (8, 16, 32, 64, 128),
    "layers": (3, 6, 12, 24),
}
GROWING = ("finetune", "freelb", "gates")  # the others grow as these do
GRANULARITIES = ("layer", "matrix", "head", "neuron", "weight")
REPEATS, WARM_UP, FOR_MEMORY = 20, 4, 2
TINY = {"batch": 4, "tokens": 16, "layers": 2}


def main(arguments: list[str] | None = None) -> None:
    asked = _asked(arguments)
    device = device_of(asked.device)
    if asked.peak:
        print(measured(asked.peak, device, 1, tiny=asked.tiny)["peak_bytes"])
        return
    settings = {
        "model": "tiny" if asked.tiny else "BERT-base's size, random weights",
        "precision": "bf16 (reference: fp32)",
        "seed": 0,
    }
    store = Store("step_growth", QUESTION, settings, asked.out)
    for key in asked.only or points(tiny=asked.tiny):
        if key in store:
            continue
        try:
            told = measured(key, device, FOR_MEMORY if key.endswith("/reference") else asked.repeats, tiny=asked.tiny)
        except torch.OutOfMemoryError:
            told = {"not run": "out of memory"}
        if device.type == "cpu":
            told["peak_bytes"] = peak_of_a_process(key, tiny=asked.tiny)
        line = told.get("not run") or f"{told['ms']['median']:.2f} ms, {told['peak_bytes'] / 2**30:.2f} GiB"
        store.put(key, told, line)
        free(device)


def points(*, tiny: bool) -> list[str]:
    """``kind/batch x tokens x layers/whose``; of gates also ``/granularity``. Without what comes twice."""
    middle = TINY if tiny else MIDDLE
    axes = {axis: (middle[axis] // 2, middle[axis]) for axis in middle} if tiny else AXES
    keys = [_key(kind, middle, whose) for kind in KINDS for whose in ("ours", "reference")]
    for kind in GROWING:
        keys += [_key(kind, {**middle, axis: value}, "ours") for axis, values in axes.items() for value in values]
    keys += [f"{_key('gates', middle, 'ours')}/{granularity}" for granularity in GRANULARITIES]
    return list(dict.fromkeys(keys))


def _key(kind: str, at: dict[str, int], whose: str) -> str:
    return f"{kind}/{at['batch']}x{at['tokens']}x{at['layers']}/{whose}"


def measured(key: str, device: torch.device, repeats: int, *, tiny: bool) -> dict[str, Any]:
    """Time and peak memory of a step."""
    name, shape, whose, *granularity = key.split("/")
    rows, tokens, layers = map(int, shape.split("x"))
    kind = replace(KINDS[name], gates=granularity[0]) if granularity else KINDS[name]
    config = config_of(tiny=tiny, num_hidden_layers=layers)
    free(device)
    held = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0  # by libraries that give nothing back
    batch = batch_of(rows, tokens, config.vocab_size, device, of_words=kind.of_words)
    told: dict[str, Any] = {}
    call: Callable[[], Any]
    if whose == "reference":
        call = partial(Reference(kind.reference, Shape(**layers_of(config)), device, steps=kind.steps), batch)
    else:
        model = model_of(config, device, of_words=kind.of_words)
        told["gates"] = gates_in(model, kind)
        call = partial(
            updates(kind, model, engine="graph" if device.type == "cuda" else "eager", precision="bf16"), batch
        )
    for _ in range(min(WARM_UP, 1 + repeats)):
        call()
    seconds = [(clocked if whose == "reference" else paced)(call, device) for _ in range(max(2, repeats))]
    if device.type == "cuda":
        told["reserved_bytes"] = torch.cuda.max_memory_reserved(device)
    peak = torch.cuda.max_memory_allocated(device) - held if device.type == "cuda" else peak_memory()
    return {"ms": milliseconds(seconds), "peak_bytes": peak, **told}


def peak_of_a_process(key: str, *, tiny: bool) -> int:
    command = [sys.executable, __file__, "--peak", key, "--device", "cpu", *(["--tiny"] if tiny else [])]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def growth(low: float, high: float, start: float, end: float) -> float:
    """The exponent between two points."""
    return math.log(high / low) / math.log(end / start)


def _asked(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a folder instead of results/")
    parser.add_argument("--tiny", action="store_true", help="a tiny model: does the script run?")
    parser.add_argument("--only", action="append", help="a point, as kind/batch x tokens x layers/ours")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--peak", help="print the peak memory of one point")
    parser.add_argument("--device")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
