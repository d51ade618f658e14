"""How many processes that train fill one GPU? Updates a second of all together, alone, side by side, and each on a part of the GPU.

BERT-base's size with random weights, batches of 32 texts of 16 and of 24 tokens in turns, about those of SST-2; captured, in bf16.
Start CUDA MPS first (``nvidia-cuda-mps-control -d``): without it the processes take turns. A share below 100 is
``CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`` of every process: one whose optimiser runs then leaves the others room. All processes of a cell begin
together, when the last is ready, and run for ``--seconds``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from _ours import KINDS, batch_of, config_of, model_of, updates
from _store import Store, device_of, wait

QUESTION = "Updates a second of processes that share a GPU"
LENGTHS, ROWS = (16, 24), 32
CELLS = ("1x100", "4x100", "4x50", "4x33", "6x33", "8x25")
WARM_UP = 5  # the graph engine records a shape at its third update
AHEAD = 16  # updates issued before the process waits for the device


def main(arguments: list[str] | None = None) -> None:
    asked = _asked(arguments)
    if asked.child:
        _child(asked)
        return
    settings = {
        "model": "tiny" if asked.tiny else "BERT-base's size, random weights",
        "rows": ROWS,
        "tokens": list(LENGTHS),
        "precision": "bf16",
        "seconds": asked.seconds,
        "seed": 0,
    }
    store = Store("sharing", QUESTION, settings, asked.out)
    for kind in asked.kind:
        for cell in asked.cells:
            if f"{kind}/{cell}" not in store:
                told = together(kind, *map(int, cell.split("x")), asked)
                store.put(f"{kind}/{cell}", told, f"{told['updates_per_second']:.0f} updates a second")


def together(kind: str, processes: int, share: int, asked: Any) -> dict[str, Any]:
    """One cell: so many processes, each with ``share`` percent of the device."""
    call = [
        sys.executable,
        __file__,
        "--child",
        "--kind",
        kind,
        "--seconds",
        str(asked.seconds),
        *(["--tiny"] if asked.tiny else []),
    ]
    env = {**os.environ, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share), "OMP_NUM_THREADS": "1"}
    children = [
        subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        for _ in range(processes)
    ]
    for child in children:
        _line(child)  # ready
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    each = [json.loads(_line(child)) for child in children]
    for child in children:
        child.communicate()
    return {"updates_per_second": round(sum(each), 1), "each": each, "processes": processes, "share": share}


def _line(child: Any) -> str:
    line = child.stdout.readline()
    if not line:
        raise SystemExit(f"a process ended with {child.wait()} before it was through")
    return str(line)


def _child(asked: Any) -> None:
    """Say when ready, wait for the word, train for some seconds, say how many updates a second those were."""

    device = device_of(None)
    kind, config = KINDS[asked.kind[0]], config_of(tiny=asked.tiny)
    train = updates(
        kind, model_of(config, device), engine="auto" if device.type == "cpu" else "graph", precision="bf16"
    )
    batches = [batch_of(ROWS, tokens, config.vocab_size, device) for tokens in LENGTHS]
    for _ in range(WARM_UP):
        for batch in batches:
            train(batch)
    wait(device)
    print("ready", flush=True)
    sys.stdin.readline()
    begun, count = time.perf_counter(), 0
    for batch in itertools.cycle(batches):
        train(batch)
        count += 1
        if count % AHEAD == 0:
            wait(device)
            if time.perf_counter() - begun >= asked.seconds:
                break
    print(round(count / (time.perf_counter() - begun), 2), flush=True)


def _cells(text: str) -> list[str]:
    for cell in text.split(","):
        processes, x, share = cell.partition("x")
        if not (x and processes.isdecimal() and int(processes) and share.isdecimal() and 0 < int(share) <= 100):
            raise argparse.ArgumentTypeError(f"processes x percent, as 4x50, not {cell!r}")
    return text.split(",")


def _kinds(text: str) -> list[str]:
    for kind in text.split(","):
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"one of {', '.join(KINDS)}, not {kind!r}")
    return text.split(",")


def _asked(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=_cells, default=CELLS, help="processes x percent, as 4x50")
    parser.add_argument("--kind", type=_kinds, default=("finetune",), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true", help="only show that it runs")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
