"""What an epoch costs beyond its updates: data, metrics, checkpoints, evaluation, the loop itself. The goal is below 2 %.

A run of ``FineTune`` with a folder, a line of metrics every ten updates, evaluation after every epoch and checkpoints: on the CPU as often
as the loop takes them, on a GPU one an epoch, which is at least as often. After the last update of each epoch the run is held, and the
updates of that epoch are made once more by the same engine from batches that lie on the device: that is the bare time, measured in turns
with the whole. From one hold to the next pass the log, evaluation and checkpoint of one epoch, then the batches and updates of the next,
with the checkpoint's thread beside them: an epoch's worth of everything. Two epochs warm up (graphs are recorded, the first checkpoint
makes its buffers) and are not counted.

    python benchmarks/epoch_overhead.py --data sst2/                                       # the embedded MiniLM on the CPU, two minutes
    python benchmarks/epoch_overhead.py --data sst2/ --model bert-base-uncased/ --device cuda     # 45 s

A part of the training rows is used, and the same part of the validation rows, so evaluation has its true share of the time; metrics and
checkpoints do not depend on the length of an epoch. The parts are timed on the host. Evaluation and checkpoints begin with an idle device.
``data`` is how long the loop waits for batches and ``metrics`` what the host does for a line, both while a GPU works through its queue: how
long the host then waits until the numbers of a line are there is no part of it, for meanwhile updates are made. ``loop`` is what remains of
the difference: on a GPU it is negative by what was hidden. ``once`` are seconds a run, not an epoch. ``checkpoints`` says what they take in
a long run, where the loop takes them as often as it likes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from _measure import save

from robust_tickets.classifier.loading import load_classifier
from robust_tickets.data.load import load_task
from robust_tickets.seeds import numpy_generator
from robust_tickets.train import checkpoint
from robust_tickets.train import loop as looping
from robust_tickets.train.checkpoint import size_of
from robust_tickets.train.cuda.late import Late
from robust_tickets.train.cuda.writer import Writer
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from robust_tickets.train.settings import updates_per_epoch

QUESTION = "Seconds of an epoch beyond its bare updates, by kind, as a share of the epoch"
KINDS = ("data", "metrics", "checkpoint", "evaluation")
ROWS = {"cpu": 1200, "cuda": 32000}  # of the training split
EPOCHS = {"cpu": 4, "cuda": 5}
WARM_UP = 2  # epochs


def clocks() -> tuple[float, float]:
    """Seconds on the wall, and seconds that this process computed: on a busy machine the second says more."""
    return time.perf_counter(), time.process_time()


@dataclass
class Watch:
    """Seconds (wall, computed) by kind since the last hold."""

    device: torch.device
    spent: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    epochs: list[dict[str, Any]] = field(default_factory=list)
    since: tuple[float, float] = (0.0, 0.0)
    waited: list[float] = field(
        default_factory=lambda: [0.0, 0.0]
    )  # in all, for numbers of lines: meanwhile the device makes updates
    state_bytes: int = 0
    save_cost: float = (
        0.0  # seconds that the last checkpoint took from the loop, what only the first one costs left out
    )

    def idle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def timed(self, kind: str, call: Callable[..., Any], *, wait: bool = False) -> Callable[..., Any]:
        def run(*args: Any, **settings: Any) -> Any:
            if wait:
                self.idle()
            begun, waited = clocks(), tuple(self.waited)
            try:
                return call(*args, **settings)
            finally:
                self.add(kind, begun, waited)

        return run

    def add(self, kind: str, begun: tuple[float, float], waited: tuple[float, ...] | None = None) -> None:
        """What passed since ``begun``, less what was waited for numbers since ``waited`` was noted."""
        for place, (now, before) in enumerate(zip(clocks(), begun, strict=True)):
            self.spent[kind][place] += now - before - (self.waited[place] - waited[place] if waited else 0.0)
        self.counts[kind] += 1

    def waiting(self, original: Callable[[Late], None]) -> Callable[[Late], None]:
        def wait(late: Late) -> None:
            begun = clocks()
            original(late)
            for place, (now, before) in enumerate(zip(clocks(), begun, strict=True)):
                self.waited[place] += now - before

        return wait

    def groups(self, original: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """The batches of an epoch, with the time that the loop waits for them."""

        def waited(batches: Any, size: int) -> Iterator[Any]:
            source = original(batches, size)
            while True:
                begun = clocks()
                group = next(source, None)
                self.add("data", begun)
                if group is None:
                    return
                yield group

        return waited

    def hold(self, loop: TrainingRun) -> None:
        """An epoch's last update is made: note what passed since the last hold, and make the epoch's updates once more, bare."""
        self.idle()
        now = clocks()
        whole = [a - b for a, b in zip(now, self.since, strict=True)]
        parts, counts = {kind: self.spent[kind] for kind in KINDS}, {kind: self.counts[kind] for kind in KINDS}
        if loop.writer is not None:
            while loop.writer.busy:
                time.sleep(0.01)
        assert loop.batches is not None
        batches = loop.batches.epoch((loop.done - 1) // loop.per_epoch)
        counted = len(self.epochs) + 1 >= WARM_UP
        held = (
            [[{name: value.to(self.device) for name, value in batch.tensors().items()}] for batch in batches]
            if counted
            else []
        )
        self.idle()
        begun = clocks()
        for group in held:
            loop.engine.update(group, loop.done - 1)
        self.idle()
        bare = [a - b for a, b in zip(clocks(), begun, strict=True)]
        self.epochs.append({"whole": whole, "bare": bare, "parts": parts, "times": counts, "updates": len(held)})
        self.spent.clear()
        self.counts.clear()
        self.save_cost = loop.save_cost
        loop.saved_at += time.perf_counter() - now[0]  # the hold is no part of the time between two checkpoints
        self.since = clocks()


def watched(watch: Watch, run: Callable[[], Any]) -> None:
    """``run()`` with the loop's parts timed."""
    kept: list[tuple[Any, str, Any]] = [
        (TrainingRun, name, getattr(TrainingRun, name)) for name in ("_log", "_evaluate", "_check_weights", "_after")
    ]
    kept += [
        (checkpoint, "capture", checkpoint.capture),
        (Writer, "write", Writer.write),
        (looping, "groups", looping.groups),
    ]
    kept += [(Late, "_wait", Late._wait)]
    of = {name: value for _, name, value in kept}

    def after(loop: TrainingRun, loss: Any) -> None:
        if loop.done % loop.per_epoch == 0:
            watch.hold(loop)
        of["_after"](loop, loss)

    def capture(loop: TrainingRun) -> Any:
        taken = of["capture"](loop)
        watch.state_bytes = max(watch.state_bytes, sum(map(size_of, taken.tensors.values())))
        return taken

    patches: dict[str, Any] = {
        "_log": watch.timed("metrics", of["_log"]),  # it must not empty the device's queue
        "_wait": watch.waiting(of["_wait"]),
        "_evaluate": watch.timed("evaluation", of["_evaluate"], wait=True),
        "_check_weights": watch.timed(
            "checkpoint", of["_check_weights"]
        ),  # the loss was read just before: the device is idle
        "capture": watch.timed("checkpoint", capture),
        "write": watch.timed("checkpoint", of["write"]),
        "groups": watch.groups(of["groups"]),
        "_after": after,
    }
    try:
        for owner, name, _ in kept:
            setattr(owner, name, patches[name])
        watch.since = clocks()
        run()
    finally:
        for owner, name, value in kept:
            setattr(owner, name, value)


def shares(epochs: list[dict[str, Any]], clock: int) -> dict[str, Any]:
    """Sums over the epochs that count: seconds an epoch, and shares of the whole. The bare time of an epoch is its neighbours' mean."""
    parts = dict.fromkeys(KINDS, 0.0)
    whole = bare = 0.0
    differences = []
    for before, epoch in pairwise(epochs[WARM_UP - 1 :]):
        alone = (before["bare"][clock] + epoch["bare"][clock]) / 2
        whole, bare = whole + epoch["whole"][clock], bare + alone
        differences.append(1 - alone / epoch["whole"][clock])
        for kind in KINDS:
            parts[kind] += epoch["parts"][kind][clock]
    timed = sum(parts.values())
    return {
        "seconds": {"epoch": whole / len(differences), "bare updates": bare / len(differences)},
        "share of the epoch": {
            "everything but the updates, by difference": 1 - bare / whole,
            "the parts timed on the host": timed / whole,
            **{kind: seconds / whole for kind, seconds in parts.items()},
            "loop": (whole - bare - timed) / whole,
        },
        "differences, one by one": differences,
    }


def long_run(watch: Watch, train: FineTune) -> dict[str, float]:
    """Checkpoints as often as the loop takes them: every so many seconds, at the ends of epochs, and never for more than its share."""
    seconds = watch.epochs[-1]["whole"][0]
    apart = max(watch.save_cost / looping.CHECKPOINT_SHARE, min(train.checkpoint_every, seconds))
    return {
        "seconds that training waits": watch.save_cost,
        "seconds apart": apart,
        "share in the long run": watch.save_cost / apart,
    }


def main(given: list[str] | None = None) -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--data", required=True, help="a folder with a data set, SST-2 by preference")
    asked.add_argument("--model", default="minilm")
    asked.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    asked.add_argument("--rows", type=int, help="training rows of an epoch; 0: all")
    asked.add_argument("--epochs", type=int, help="with those that warm up")
    asked.add_argument("--batch", type=int, default=32)
    asked.add_argument("--adversary", action="store_true", help="FreeLB with 5 passes instead of plain fine-tuning")
    asked.add_argument("--out", type=Path, help="folder for the result; results/ by default")
    args = asked.parse_args(given)
    whole = load_task(args.data)
    rows = ROWS[args.device] if args.rows is None else args.rows
    part = min(1.0, rows / len(whole.train)) if rows else 1.0
    task, clf = fewer(whole, part), load_classifier(args.model, task=whole, device=args.device)
    adversary = None
    if args.adversary:
        from robust_tickets.adversary.freelb import FreeLB

        adversary = FreeLB(steps=5)
    epochs = max(WARM_UP + 1, args.epochs or EPOCHS[args.device])
    train = FineTune(
        epochs=epochs,
        batch_size=args.batch,
        precision="bf16" if args.device == "cuda" else "fp32",
        adversary=adversary,
        evaluation_rows=0,
        checkpoint_steps=updates_per_epoch(task, args.batch, 1) if args.device == "cuda" else 0,
    )
    load = round(os.getloadavg()[0], 1)  # of other work: with much of it only what the process computed says something
    watch = Watch(torch.device(args.device))
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        watched(watch, lambda: train(clf, task, folder=folder))
    seconds = time.perf_counter() - begun
    answer: dict[str, Any] = {
        "wall": shares(watch.epochs, 0),
        "computed by the process": shares(watch.epochs, 1),
        "checkpoints": long_run(watch, train),
        "times an epoch": [epoch["times"] for epoch in watch.epochs[WARM_UP:]],
        "once": {
            "to the end of the first epoch": watch.epochs[0]["whole"][0],
            "first checkpoint, buffers made": watch.epochs[1]["parts"]["checkpoint"][0],
            "last log, evaluation and checkpoint": sum(watch.spent[kind][0] for kind in KINDS),
            "the run, bare epochs included": seconds,
        },
        "updates an epoch": watch.epochs[-1]["updates"],
        "checkpoint megabytes": watch.state_bytes / 1e6,
    }
    settings = {
        "model": Path(args.model).name,
        "data": Path(args.data).name,
        "rows": {"train": len(task.train), "validation": len(task.validation)},
        "batch": args.batch,
        "max_length": clf.max_length,
        "precision": train.precision,
        "adversary": "FreeLB-5" if adversary else "none",
        "checkpoints": "one an epoch" if train.checkpoint_steps else "as often as the loop takes them",
        "epochs": f"{epochs - WARM_UP} after {WARM_UP} that warm up",
        "device": torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "load": load,
        "seed": 0,
    }
    name = "epoch_overhead" + ("_freelb" if adversary else "") + ("_gpu" if args.device == "cuda" else "")
    save(name, QUESTION, settings, answer, args.out)


def fewer(task: Any, part: float) -> Any:
    """The same part of the training and of the validation rows, drawn by a seed."""
    splits = dict(task.splits)
    for name in (task.train_split, task.validation_split):
        split = splits[name]
        count = max(1, round(part * len(split)))
        splits[name] = split.select(
            sorted(numpy_generator(0, "epoch overhead", name).choice(len(split), count, replace=False))
        )
    return replace(task, splits=splits)


if __name__ == "__main__":
    main()
