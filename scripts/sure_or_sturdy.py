"""Is a model that falls less often sturdier, or does a greedy attack only lose its way on it?

Run ``python scripts/sure_or_sturdy.py MODEL MODEL … --data FOLDER --resources FOLDER`` for classifiers of SST-2; on a GPU a minute a model.
An attack follows the victim's log-odds, and a model that is sure of itself everywhere shows it little to follow. Texts that were found on
other models need no such guidance. So of every model is told: how sure it is, its accuracy under its own attack, and its accuracy where
texts found on each of the others, and on all of them, stand beside the originals. If all of them together bring it lower than its own
attack does, or as low as they bring its neighbours, it is no sturdier. One line of JSON a model and attack.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from robust_tickets.classifier import Classifier
from robust_tickets.data.load import load_task
from robust_tickets.experiment.recipe import attack_plan
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.protocol import attack

PERCENTILES = (5, 25, 50, 75, 95)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    for name in ("data", "resources"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--attacks", nargs="+", default=["textfooler-real", "textfooler-substitute"])
    parser.add_argument("--n", type=int, default=0, help="how many sentences of validation; all by default")
    asked = parser.parse_args()
    cuda = torch.cuda.is_available()
    models = [Classifier.from_pretrained(folder).to("cuda" if cuda else "cpu") for folder in asked.models]
    split = load_task("sst2", data=asked.data / "sst2", validation="none").split("validation")
    places = Paths.find(data=asked.data, resources=asked.resources)
    sure = [np.percentile(np.abs(np.diff(model.logits([one.texts for one in split]))), PERCENTILES) for model in models]
    for name in asked.attacks:
        recipe = attack_plan(name, attack("sst2", name).placed(places)).attack
        results = [recipe(model, split, n=asked.n, precision="float16" if cuda else None) for model in models]
        for place, (model, result) in enumerate(zip(models, results, strict=True)):
            told: dict[str, Any] = {"model": str(asked.models[place]), "attack": name, "n": result.n}
            told["log_odds"] = [round(float(value), 2) for value in sure[place]]
            print(json.dumps(told | on_others(model, results, place)), flush=True)


def on_others(model: Classifier, results: list[Any], place: int) -> dict[str, Any]:
    """In percent, what a model gets right as it is and in what was made of it for each of the others, and for all of them."""
    clean = {one.id: one for one in results[place].examples()}
    right = {"": still(model, {id: (one.label, one.original) for id, one in clean.items()})}
    for number, result in enumerate(results):
        fooled = {one.id: (one.label, one.perturbed) for one in result.examples() if one.status == "success"}
        right["own" if number == place else f"of {number}"] = right[""] - ({*fooled} - still(model, fooled))
    shares = {name: round(100 * len(ids) / len(clean), 2) for name, ids in right.items()}
    others = set.intersection(*(ids for name, ids in right.items() if name != "own"))
    told = {"clean": shares.pop(""), "own": shares.pop("own"), "on_texts": shares}
    return told | {"on_all": round(100 * len(others) / len(clean), 2)}


def still(model: Classifier, texts: dict[str, tuple[int, Any]]) -> set[str]:
    """The ids of those that the model gets right."""
    said = model.logits([text for _, text in texts.values()]).argmax(axis=1) if texts else ()
    return {id for (id, (label, _)), guess in zip(texts.items(), said, strict=True) if guess == label}


if __name__ == "__main__":
    main()
