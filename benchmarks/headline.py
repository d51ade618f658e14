"""The headline: EarlyRobust (search with its confirming window, then 10 epochs of its ticket) against 10 epochs of PGD-5.

Parts, of one task each (``--part search-sst2 --part train-sst2 --part steps-sst2``, ``…-imdb``):

- ``search``: ``EarlyRobust.for_task(…)(classifier, task)`` from the call to the ticket, tokenising and recording of graphs included;
- ``train``: ``compact`` and ``FineTune(epochs=10)``, likewise; fewer ``--epochs`` are scaled to 10 and said so;
- ``steps``: at least 200 steps of every main arm over the task's own texts, in turns of 4, and a tenth as many of the others.

The PGD-5 of the reference profile (``_reference.py``) is not run for hours: its mean step times the updates of 10 epochs. Batch size,
updates and the longest text are the same in both arms. Its batches come in random order, padded to their longest; ours are sorted by
length in pools. The file holds measurements; ratios are made of them by ``page.py``.

    python benchmarks/headline.py --data FOLDER --model FOLDER --part search-sst2 --part train-sst2 --part steps-sst2

``FOLDER/sst2`` has the task's files. A model folder without weights gives random ones: times are the same, tickets and accuracy mean
nothing then.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _arms import ALWAYS, Arm, Batch, arms_of, blocks, classifier_of, our_batches, random_batches, task_of
from _store import Store, clocked, device_of, free, milliseconds

import robust_tickets as rt
from robust_tickets.backbone.cost import flops
from robust_tickets.train.evaluate import evaluate

QUESTION = (
    "Time of EarlyRobust's search and 10 epochs of its ticket against 10 epochs of PGD-5 in the reference profile"
)
EPOCHS, STEPS = 10, 200
BLOCK = 4  # steps between two looks at the clock
WARM_UP = 4  # of a shape: the graph engine records it at its third update
TASKS = ("sst2", "imdb")
PARTS = tuple(f"{part}-{task}" for task in TASKS for part in ("search", "train", "steps"))


def main(arguments: list[str] | None = None) -> None:
    asked = _asked(arguments)
    device = device_of(asked.device)
    settings = {
        "model": "tiny" if asked.tiny else "BERT-base",
        "epochs": EPOCHS,
        "precision": "bf16 (reference: fp32)",
        "seed": 0,
    }
    store = Store("headline", QUESTION, settings, asked.out)
    for part in asked.part:
        if part not in store:
            what, _, name = part.partition("-")
            {"search": search, "train": train, "steps": steps}[what](store, name, device, asked)
            free(device)


def _begin(name: str, device: torch.device, asked: Any) -> tuple[Any, Any, Any, str]:
    task = task_of(name, asked.data, tiny=asked.tiny)
    clf, weights = classifier_of(name, task, asked.model, device, tiny=asked.tiny)
    small = {"batch_size": 4, "mini": 0.25} if asked.tiny else {}
    return task, clf, rt.EarlyRobust.for_task(name, precision="bf16", round_to=asked.round_to, **small), weights


def search(store: Store, name: str, device: torch.device, asked: Any) -> None:
    task, clf, method, weights = _begin(name, device, asked)
    found: list[Any] = []
    seconds = clocked(lambda: found.append(method(clf, task)), device)
    ticket = found[0].ticket
    ticket.save(asked.work / name)
    about = {key: ticket.provenance[key] for key in ("steps_run", "epoch", "converged")}
    about |= {
        "updates_per_epoch": method.steps(task),
        "batch_size": method.batch_size,
        "round_to": method.round_to,
        "weights": weights,
    }
    told = {"seconds": seconds, **about}
    store.put(f"search-{name}", told, f"{seconds:.1f} s, {about}")


def train(store: Store, name: str, device: torch.device, asked: Any) -> None:
    task, clf, method, weights = _begin(name, device, asked)
    if not (asked.work / name).is_dir():
        raise SystemExit(f"no ticket of {name} in {asked.work}: ask for --part search-{name} first")
    ticket, made = rt.Ticket.load(asked.work / name), []
    training = rt.FineTune(epochs=asked.epochs, batch_size=method.batch_size, precision="bf16", evaluate="never")
    seconds = clocked(lambda: made.append(training(rt.compact(clf, ticket), task)), device)
    told = {
        "seconds": seconds,
        "epochs_run": asked.epochs,
        "seconds_of_10_epochs": seconds * EPOCHS / asked.epochs,
        "updates": training.steps(task),
        "accuracy": evaluate(made[0], task.validation).numbers()["accuracy"],
        "weights": weights,
    }
    store.put(f"train-{name}", told, f"{seconds:.1f} s for {asked.epochs} epochs, accuracy {told['accuracy']:.2f}")


def steps(store: Store, name: str, device: torch.device, asked: Any) -> None:
    task, clf, method, weights = _begin(name, device, asked)
    size = method.batch_size
    drawn = (asked.work / name).is_dir()
    ticket = (
        rt.Ticket.load(asked.work / name)
        if drawn
        else rt.RandomTicket(heads=method.heads, neurons=method.neurons)(clf).ticket
    )
    small = rt.compact(clf, ticket)
    batches = {
        "ours": our_batches(clf, task, size, asked.steps),
        "random": random_batches(clf, task, size, asked.steps),
        "blocks": blocks(clf, asked.steps),
    }
    arms = arms_of(clf, small, graphs=device.type == "cuda")
    for arm in arms.values():
        warm(arm, batches[arm.order])
    seconds = in_turns(arms, {order: dealt(found) for order, found in batches.items()}, device)
    tokens = {order: _tokens(batches[order]) for order in ("ours", "random")}
    mean = round(tokens["ours"]["padded_length"])
    told = {
        "ms": {arm: milliseconds(times) | {"steps": BLOCK * len(times)} for arm, times in seconds.items()},
        "order": {arm: of.order for arm, of in arms.items()},
        "engine": {arm: of.engine for arm, of in arms.items()},
        "passes": {arm: of.passes for arm, of in arms.items()},
        "tokens": tokens,
        "forward_flops": {"tokens": mean, "dense": flops(clf.model, mean), "ticket": flops(small.model, mean)},
        "ticket": "the search's" if drawn else "random, at the search's sizes",
        "batch_size": size,
        "updates_per_epoch": -(-len(task.train) // size),
        "max_length": clf.max_length,
        "weights": weights,
    }
    main_arms = {arm: round(told["ms"][arm]["mean"], 2) for arm, of in arms.items() if of.every == ALWAYS}
    store.put(f"steps-{name}", told, f"mean ms {main_arms}")


def warm(arm: Arm, batches: Sequence[Batch]) -> None:
    """Two steps; of an arm that records graphs, some of every shape, which are few."""
    for batch in (batches[0], batches[-1]):
        arm.take(batch)
    if arm.records:
        for batch in {batch["input_ids"].shape: batch for batch in batches}.values():
            for _ in range(WARM_UP):
                arm.take(batch)


def dealt(batches: Sequence[Batch]) -> list[list[Batch]]:
    """The batches in blocks of ``BLOCK``, each with short and long ones in their shares: block means hardly differ by their lengths."""
    ordered, count = sorted(batches, key=lambda batch: batch["input_ids"].shape[1]), len(batches) // BLOCK
    return [ordered[first : count * BLOCK : count] for first in range(count)]


def in_turns(
    arms: dict[str, Arm], blocks: dict[str, list[list[Batch]]], device: torch.device
) -> dict[str, list[float]]:
    """Mean seconds of a step, block by block: the device is waited for at a block's end only, as in training."""
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    turns = min(map(len, blocks.values()))
    gc.collect()
    gc.disable()
    try:
        for turn in range(turns):
            for name, arm in arms.items():
                every = min(arm.every, max(1, turns // 2))
                if turn % every == every // 2:
                    seconds[name].append(clocked(partial(_take, arm, blocks[arm.order][turn]), device) / BLOCK)
    finally:
        gc.enable()
    return seconds


def _take(arm: Arm, block: Sequence[Batch]) -> None:
    for batch in block:
        arm.take(batch)


def _tokens(batches: Sequence[Batch]) -> dict[str, float]:
    """Mean padded length, and the share of padding."""
    places = sum(batch["input_ids"].numel() for batch in batches)
    real = sum(int(batch["attention_mask"].sum()) for batch in batches)
    lengths = [batch["input_ids"].shape[1] for batch in batches]
    return {"padded_length": sum(lengths) / len(lengths), "padding": 1 - real / places, "widths": len(set(lengths))}


def _asked(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, required=True)
    parser.add_argument("--data", type=Path, help="a folder with one folder a task; without it, the Hub")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--out", type=Path, help="a folder instead of results/")
    parser.add_argument("--work", type=Path, default=Path("build/headline"), help="where tickets go between parts")
    parser.add_argument(
        "--round-to", type=int, choices=(1, 8, 16, 64), default=1, help="neurons of the ticket's layers"
    )
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--tiny", action="store_true", help="a tiny model and task: does the script run?")
    parser.add_argument("--device")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
