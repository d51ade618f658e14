"""Does a run give the same bits whatever its process did before? The first updates of a fine-tuning (f) and of a search (s), each as the
first thing that a process does and after others, with attacks (a) among them; all are compared with the first of their kind.

Run ``python scripts/same_bits.py MODEL --data FOLDER --resources FOLDER`` with the weights of BERT-base, on a GPU. Each order is a process
of its own, and what an order begins with is fresh. One line of JSON a run: the first update whose loss is another than the fresh run's,
the first after which torch's random stream stands elsewhere, and whether the weights are the same in the end; null: none. Ways: an engine
and a precision; ``one-stream`` is graph-bf16 without the second stream, in which weight gradients are computed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

from robust_tickets.classifier import load_classifier
from robust_tickets.data.load import load_task
from robust_tickets.experiment.recipe import attack_plan
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.protocol import attack
from robust_tickets.search.coefficient_search import MaskTrace
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.train.bf16 import Half
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun

WAYS: dict[str, dict[str, Any]] = {
    "graph-bf16": {"engine": "graph", "precision": "bf16"},
    "one-stream": {"engine": "graph", "precision": "bf16"},
    "eager-bf16": {"engine": "eager", "precision": "bf16"},
    "graph-fp32": {"engine": "graph", "precision": "fp32"},
}
ORDERS = ("fff", "sss", "fs", "sf", "af", "as")


class Begun(EarlyRobust):
    """EarlyRobust's search, left at the end of its first mini-epoch; batches and schedule are those of the whole."""

    def stopping(self, masks: MaskTrace) -> int | None:
        return 0


class Watched:
    """Every update of the loops run inside: its loss, its width, and where the random stream stands after it."""

    def __enter__(self) -> Watched:
        self.losses: list[torch.Tensor] = []
        self.widths: list[int] = []
        self.places: list[int] = []
        self._update = before = TrainingRun._update

        def update(loop: TrainingRun, group: Any) -> torch.Tensor:
            loss = before(loop, group)
            self.losses.append(loss.detach().clone())
            self.widths.append(group[0]["input_ids"].shape[1])
            self.places.append(torch.cuda.default_generators[0].get_offset() if loss.is_cuda else 0)
            return loss

        TrainingRun._update = update  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        TrainingRun._update = self._update  # type: ignore[method-assign]

    def told(self) -> dict[str, Any]:
        losses = torch.stack(self.losses).double().tolist()
        return {"losses": losses, "widths": self.widths, "places": self.places}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    for name in ("data", "resources"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument(
        "--orders", nargs="+", default=ORDERS, help=f"letters f, s and a; by default {' '.join(ORDERS)}"
    )
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["graph-bf16", "eager-bf16"])
    parser.add_argument("--updates", type=int, default=105, help="of a fine-tuning; a search has a mini-epoch of them")
    parser.add_argument("--rows", type=int, help="of the training split; all by default")
    parser.add_argument(
        "--here", action="store_true", help="run the first order in the first way in this process, and tell all of it"
    )
    asked = parser.parse_args()
    if wrong := {letter for order in asked.orders for letter in order} - set("fsa"):
        parser.error(f"an order has the letters f, s and a, got {' '.join(sorted(wrong))}")
    if asked.here:
        _here(asked)
        return
    for way in asked.ways:
        fresh: dict[str, dict[str, Any]] = {}
        for order in asked.orders:
            for place, made in enumerate(_apart(order, way)):
                if made["kind"] == "a":
                    continue
                if place == 0:
                    fresh.setdefault(made["kind"], made)
                print(
                    json.dumps({"way": way, "order": order, "place": place, **_beside(fresh.get(made["kind"]), made)}),
                    flush=True,
                )


def _apart(order: str, way: str) -> list[dict[str, Any]]:
    """An order in a process of its own."""
    command = [
        sys.executable,
        *sys.argv,
        "--here",
        "--ways",
        way,
        "--orders",
        order,
    ]  # the last of two is the one that counts
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _beside(fresh: dict[str, Any] | None, made: dict[str, Any]) -> dict[str, Any]:
    told = {
        "kind": made["kind"],
        "updates": len(made["losses"]),
        "first_10": sum(made["losses"][:10]) / len(made["losses"][:10]),
    }
    if fresh is None:
        return {**told, "fresh": None}
    first = {f"other_{name}": _first(fresh[name], made[name]) for name in ("losses", "widths", "places")}
    return {**told, **first, "same_weights": made["digest"] == fresh["digest"], "attention": made["attention"]}


def _first(one: Sequence[Any], other: Sequence[Any]) -> int | None:
    return next((number for number, (a, b) in enumerate(zip_longest(one, other), 1) if a != b), None)


def _here(asked: argparse.Namespace) -> None:
    (way, *_), (order, *_) = asked.ways, asked.orders
    if way == "one-stream":
        Half.beside = lambda *_: None  # type: ignore[method-assign, assignment]
    for kind in order:
        with Watched() as seen:
            digest = _run(kind, WAYS[way], asked)
        told = {"kind": kind, "digest": digest, "attention": [int(one) for one in torch._C._get_sdp_priority_order()]}
        print(json.dumps(told | (seen.told() if kind != "a" else {})), flush=True)


def _run(kind: str, way: dict[str, Any], asked: argparse.Namespace) -> str:
    """The hash of what was made of the weights, or of the ticket."""
    cuda = torch.cuda.is_available()
    task = load_task("sst2", data=asked.data / "sst2", validation="none", max_rows=asked.rows)
    clf = load_classifier(asked.model, task, device="cuda" if cuda else "cpu")
    if kind == "a":
        places = Paths.find(data=asked.data, resources=asked.resources)
        recipe = attack_plan("same bits", attack("sst2", "textfooler-real").placed(places)).attack
        recipe(clf, task.split("validation"), n=32, precision="float16" if cuda else None)
    elif kind == "s":
        return str(Begun.for_task("sst2", **way)(clf, task).ticket.digest)
    else:
        FineTune(epochs=10, evaluate="never", **way)(clf, task, stop_after=asked.updates)
    return str(clf.digest)


if __name__ == "__main__":
    main()
