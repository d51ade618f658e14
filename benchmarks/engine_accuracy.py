"""Does the graph engine end where the eager one ends? SST-2 fine-tuned by both from one seed: accuracy, and whether bits are equal.

    python benchmarks/engine_accuracy.py --data sst2/ --model bert-base-uncased/          # two minutes on a GPU

Both read the same batches at the same widths. The seconds are told, not compared: other work may run beside.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from pathlib import Path
from typing import Any

from _store import Store, device_of, free

import robust_tickets as rt
from robust_tickets.train.evaluate import evaluate

QUESTION = "Accuracy after fine-tuning on SST-2 with the graph engine and with the eager one, from one seed"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, help="a folder instead of results/")
    asked = parser.parse_args(arguments)
    device = device_of(asked.device)
    settings = {
        "epochs": asked.epochs,
        "batch_size": 32,
        "max_length": 128,
        "precision": asked.precision,
        "seed": asked.seed,
    }
    store = Store("engine_accuracy", QUESTION, settings, asked.out)
    for engine in ("graph", "eager"):
        if engine not in store:
            store.put(engine, trained(engine, device, asked))
            free(device)


def trained(engine: Any, device: Any, asked: Any) -> dict[str, Any]:
    task = rt.load_task("sst2", data=asked.data)
    clf = rt.load_classifier(asked.model, task, max_length=128, device=str(device))
    training = rt.FineTune(
        epochs=asked.epochs, batch_size=32, precision=asked.precision, seed=asked.seed, engine=engine, evaluate="never"
    )
    begun = time.perf_counter()
    made = training(clf, task)
    seconds = time.perf_counter() - begun
    judged = {"validation (872)": task.test, "carved from train": task.validation}
    return {
        "accuracy": {name: evaluate(made, split).numbers()["accuracy"] for name, split in judged.items()},
        "updates": training.steps(task),
        "weights": digest(made.model),
        "seconds": seconds,
    }


def digest(model: Any) -> str:
    found = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        found.update(name.encode() + value.detach().float().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    main()
