"""What an attack on a copy in fewer bits says, beside the same attack on the victim itself.

Run ``python scripts/attack_precision.py MODEL --data FOLDER --resources FOLDER`` for a classifier of SST-2; on a GPU a minute. A victim
that is sure of itself answers nearly the same whatever word is put in, so its median log-odds are told too. One line of JSON an attack.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from robust_tickets.attack.options import PRECISIONS
from robust_tickets.classifier import Classifier
from robust_tickets.data.load import load_task
from robust_tickets.experiment.recipe import attack_plan
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.protocol import attack


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    for name in ("data", "resources"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--attacks", nargs="+", default=["textfooler-substitute", "textfooler-real"])
    parser.add_argument("--n", type=int, default=0, help="how many sentences of validation; all by default")
    asked = parser.parse_args()
    victim = Classifier.from_pretrained(asked.model)
    split = load_task("sst2", data=asked.data / "sst2", validation="none").split("validation")
    logits = victim.logits([example.texts for example in split])
    sure = float(np.median(np.abs(logits[:, 1] - logits[:, 0])))
    places = Paths.find(data=asked.data, resources=asked.resources)
    for name in asked.attacks:
        recipe = attack_plan(name, attack("sst2", name).placed(places)).attack
        told: dict[str, Any] = {"attack": name, "median_log_odds": round(sure, 2)}
        itself = recipe(victim, split, n=asked.n)
        for way in (None, *PRECISIONS):
            found = itself if way is None else recipe(victim, split, n=asked.n, precision=way)
            pairs = list(zip(itself.examples(), found.examples(), strict=True))
            told[way or "itself"] = {
                "n": found.n,
                "aua": found.aua,
                "other_outcomes": sum(one.status != other.status for one, other in pairs),
                "other_texts": sum(one.perturbed != other.perturbed for one, other in pairs),
                "seconds": round(found.seconds, 1),
            }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
