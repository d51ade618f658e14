"""Does a run give the same bits whatever its process did before? The first updates of a search (s) and of a fine-tuning (f), again and
again in one process, with attacks (a) between them; each is compared, update by update, with the first of its kind.

Run ``python scripts/same_bits.py MODEL --data FOLDER --resources FOLDER`` with the weights of BERT-base; on a GPU some two minutes. One
line of JSON a run: the first update whose loss is another one, or null. Ways: an engine and a precision; ``one-stream`` is graph-bf16
without the second stream that weight gradients are computed in. ``--say`` has torch name the operations that are not reproducible.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from robust_tickets.classifier import load_classifier
from robust_tickets.data.load import load_task
from robust_tickets.registry import ATTACKS
from robust_tickets.reproduce.attacks import attack
from robust_tickets.reproduce.places import Places
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.half import Half
from robust_tickets.walk.recipe import CALL

WAYS: dict[str, dict[str, Any]] = {
    "graph-bf16": {"engine": "graph", "precision": "bf16"},
    "one-stream": {"engine": "graph", "precision": "bf16"},
    "eager-bf16": {"engine": "eager", "precision": "bf16"},
    "graph-fp32": {"engine": "graph", "precision": "fp32"},
}


class Begun(EarlyRobust):
    """EarlyRobust's search, left at the end of its first mini-epoch; batches and schedule are those of the whole."""

    def _rule(self, points: list[int]) -> Callable[[Any], int | None]:
        return lambda far: 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    for name in ("data", "resources"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--order", default="ssfafsf", help="s, f and a, in the order in which they are run")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--updates", type=int, default=105, help="of a fine-tuning; a search has a mini-epoch of them")
    parser.add_argument("--rows", type=int, help="of the training split; all by default")
    parser.add_argument("--say", action="store_true")
    asked = parser.parse_args()
    if asked.say:
        torch.use_deterministic_algorithms(True, warn_only=True)
    beside = Half.beside
    for way in asked.ways:
        Half.beside = (lambda *_: None) if way == "one-stream" else beside  # type: ignore[method-assign]
        first: dict[str, list[float]] = {}
        for place, kind in enumerate(asked.order):
            losses = _losses(kind, way, asked)
            told = {"way": way, "place": place, "order": asked.order, "kind": kind}
            if kind != "a":
                pairs = zip(first.setdefault(kind, losses), losses, strict=True)
                told |= {"updates": len(losses), "first_other": next((i for i, (one, other) in enumerate(pairs, 1) if one != other), None)}
            print(json.dumps(told), flush=True)


def _losses(kind: str, way: str, asked: argparse.Namespace) -> list[float]:
    """The loss of each update, as it was logged; none of an attack."""
    task = load_task("sst2", data=asked.data / "sst2", validation="none", max_rows=asked.rows)
    cuda = torch.cuda.is_available()
    clf = load_classifier(asked.model, task, device="cuda" if cuda else "cpu")
    with tempfile.TemporaryDirectory() as folder:
        if kind == "a":
            table = attack("sst2", "textfooler-real").placed(Places.find(data=asked.data, resources=asked.resources))
            recipe = ATTACKS.get(table.pop("name"))(**{key: value for key, value in table.items() if key not in CALL})
            recipe(clf, task.split("validation"), n=32, precision="float16" if cuda else None)
            return []
        if kind == "s":
            Begun.for_task("sst2", **WAYS[way], log_every=1)(clf, task, folder=folder)
        else:
            FineTune(epochs=10, evaluate="never", **WAYS[way], log_every=1)(clf, task, folder=folder, stop_after=asked.updates)
        return [json.loads(line)["loss"] for line in (Path(folder) / "metrics.jsonl").read_text("utf-8").splitlines()]


if __name__ == "__main__":
    main()
