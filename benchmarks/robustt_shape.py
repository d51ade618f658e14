"""Does RobustT's gate search close its gates as the released code's does?

A published log of the released search (SST-2, learning rate 0.1, lambda 0.5, five passes, a schedule of 20 epochs) gives R, the share of
gates that are exactly 0 or 1, and the share below one half, after each epoch. This runs the same settings, the released ways included, on
BERT-base and writes these numbers every 100 updates. It needs an accelerator, a folder with the pretrained weights, and SST-2:

    python benchmarks/robustt_shape.py --model bert-base-uncased/ --data sst2/ --folder run/ --epochs 5 --precision bf16

Killed or out of ``--minutes``, the same command goes on in ``--folder``. robustt_shape.json is written after every epoch, to $OUT if there
is one. ``--ramp corrected --clip-scope gates`` shows what this package does by default instead.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from robust_tickets import FreeLB, RobustT, load_classifier, load_task
from robust_tickets.config import to_plain
from robust_tickets.environment import environment
from robust_tickets.search.robustt import TUNING

QUESTION = "R, share of exact gates and share below one half over the epochs of a gate search, beside a log of the released code"
REFERENCE = {  # end of each epoch; None: not logged there
    "R": [0.943, 0.771, 0.573, 0.485, 0.441],
    "exact": [0.21, 0.55, 0.81, 0.90, 0.93],
    "below_half": [0.056, None, None, None, None],
    "last epoch (20)": {"R": 0.346, "exact": 0.977, "below_half": 0.634},
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of the pretrained model")
    parser.add_argument("--data", required=True, help="SST-2: a folder of splits, or a parquet or csv file")
    parser.add_argument("--folder", default="robustt_shape", help="where checkpoints lie")
    parser.add_argument("--out", default=os.environ.get("OUT", "."), help="where the JSON goes")
    parser.add_argument("--epochs", type=int, default=5, help="epochs to run of the 20")
    parser.add_argument("--tune-epochs", type=int, default=1)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--ramp", choices=("official", "corrected"), default="official")
    parser.add_argument("--clip-scope", choices=("all", "gates"), default="all")
    parser.add_argument("--normalisation", choices=("per_matrix", "global"), default="per_matrix")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no epoch that would end later")
    parser.add_argument("--checkpoint-every", type=float, default=120.0, help="seconds")
    parser.add_argument("--max-rows", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def method(asked: argparse.Namespace) -> RobustT:
    return RobustT(
        lr=0.1,
        penalty=0.5,
        adversary=FreeLB(steps=5, step_size=0.03, init=0.05),
        ramp=asked.ramp,
        clip_scope=asked.clip_scope,
        normalisation=asked.normalisation,
        precision=asked.precision,
        tuning=replace(
            TUNING, epochs=asked.tune_epochs, precision=asked.precision, checkpoint_every=asked.checkpoint_every
        ),
        checkpoint_every=asked.checkpoint_every,
        trace_every=100,
        seed=asked.seed,
    )


def main() -> None:
    asked, begun = arguments(), time.monotonic()
    task = load_task(asked.data, max_rows=asked.max_rows, seed=asked.seed)
    clf = load_classifier(asked.model, task, seed=asked.seed)
    search, folder = method(asked), Path(asked.folder)
    took = 0.0
    for epochs in range(1, asked.epochs + 1):
        if epochs < min(asked.epochs, _epochs_done(folder) + 1):
            continue
        if (time.monotonic() - begun + took) / 60 > asked.minutes:
            print(f"{asked.minutes} minutes would be passed: the same command goes on with epoch {epochs}")
            break
        started = time.monotonic()
        found = replace(search, run_epochs=epochs)(clf, task, folder=folder)
        took = time.monotonic() - started
        _write(asked, search, found.trace, clf, took)


def _epochs_done(folder: Path) -> int:
    trace = folder / "trace.jsonl"  # written when a call has ended
    lines = [json.loads(line) for line in trace.read_text().splitlines()] if trace.is_file() else []
    return int(lines[-1]["epoch"]) if lines else 0


def _write(asked: argparse.Namespace, search: RobustT, lines: Any, clf: Any, seconds: float) -> None:
    ends = [line for line in lines if line["step"] and float(line["epoch"]).is_integer()]
    told = {
        "question": QUESTION,
        "settings": {
            "method": to_plain(search),
            "task": Path(asked.data).name,
            "model": Path(asked.model).name,
            "max_rows": asked.max_rows,
        },
        "answer": {
            "epochs": {
                key: [line.get(key) for line in ends]
                for key in ("R", "R_global", "exact", "below_half", "accuracy", "loss")
            },
            "lines": [dict(line) for line in lines],
            "seconds_of_the_last_epoch": seconds,
            "peak_memory_bytes": torch.cuda.max_memory_allocated() if clf.device.type == "cuda" else None,
        },
        "reference": REFERENCE,
        "env": dict(environment()),
        "command": "python benchmarks/robustt_shape.py --model … --data … "
        + " ".join(
            f"--{k.replace('_', '-')} {getattr(asked, k)}"
            for k in ("epochs", "tune_epochs", "precision", "ramp", "clip_scope")
        ),
    }
    out = Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "robustt_shape.json").write_text(json.dumps(told, indent=2, sort_keys=True) + "\n")
    print(json.dumps(told["answer"]["epochs"]))  # type: ignore[index]


if __name__ == "__main__":
    main()
