"""Does an attack's memory grow with the number of examples? PWWS on 100,000 short generated texts from a file, outcomes to a folder.

The victim is a function that adds up a weight for every word: it costs next to nothing, so that what is measured is the engine. Resident
memory is read after every thousand examples. The caches of words and candidates fill first, within their bounds; after that nothing
should grow but the file of outcomes.
"""

from __future__ import annotations

import csv
import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _measure import save

from robust_tickets import PWWS, Classifier, load_task
from robust_tickets.attack import engine
from robust_tickets.resources import wordnet
from robust_tickets.resources.words import word_list
from robust_tickets.seeds import numpy_generator

N, FEW, WORDS, VOCABULARY, EVERY, SEED = 100_000, 1_000, (3, 7), 20_000, 1_000, 0
QUESTION = "Resident memory of an attack on 100,000 generated examples, while it runs"


@cache
def weight(word: str) -> float:
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:2], "big") / 2**16 - 0.5


def victim(texts: Sequence[str]) -> np.ndarray:
    odds = np.array([sum(map(weight, word_list(text))) for text in texts])
    good = 1 / (1 + np.exp(-odds))
    return np.stack([1 - good, good], axis=1)


def generate(path: Path) -> None:
    """Texts of random WordNet words, labelled as the victim would."""
    lemmas = sorted({name for part in wordnet._table().parts.values() for name in part.naming if name.isalpha()})
    draw = numpy_generator(SEED, "stream")
    words = draw.permutation(lemmas)[:VOCABULARY]
    with open(path, "w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(["text", "label"])
        for _ in range(N):
            text = " ".join(draw.choice(words, draw.integers(*WORDS)))
            out.writerow([text, "good" if victim([text])[0, 1] > 0.5 else "bad"])


def resident() -> float:
    """MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * 4096 / 2**20, 1)


def main() -> None:
    seen: list[dict[str, Any]] = []
    begun = time.monotonic()

    def note(count: int) -> None:
        if count % EVERY == 0:
            seen.append({"examples": count, "mb": resident(), "seconds": round(time.monotonic() - begun, 1)})

    with tempfile.TemporaryDirectory() as scratch:
        os.environ["ROBUST_TICKETS_CACHE"] = scratch
        generate(Path(scratch) / "texts.csv")
        task = load_task(Path(scratch) / "texts.csv", splits={"test": "all"}, labels=("bad", "good"))
        clf = Classifier.wrap(victim, labels=("bad", "good"))
        PWWS()(
            clf, task.test, n=FEW, labels=task.labels, folder=Path(scratch) / "few"
        )  # loads what an attack of any size needs
        store, done = engine.ExampleLog.add, 0

        def add(self: Any, number: int, outcome: dict[str, Any], seconds: float) -> None:
            nonlocal done
            store(self, number, outcome, seconds)
            done += 1
            note(done)

        engine.ExampleLog.add = add  # type: ignore[method-assign]
        before = resident()
        result = PWWS()(clf, task.test, n=0, labels=task.labels, folder=Path(scratch) / "attack")
        after = resident()
        lines = sum(1 for _ in result.examples())
        on_disk = sum(file.stat().st_size for file in (Path(scratch) / "attack").iterdir()) / 2**20
    assert lines == N == len(result.ids)
    late = [point for point in seen if point["examples"] >= N // 2]
    slope = np.polyfit([point["examples"] for point in late], [point["mb"] for point in late], 1)[0]
    save(
        "attack_stream",
        QUESTION,
        {
            "attack": "pwws",
            "victim": "a sum of hashed words",
            "examples": N,
            "words": list(WORDS),
            "vocabulary": VOCABULARY,
            "seed": SEED,
        },
        {
            "mb_after_an_attack_on_1000": before,
            "mb_while_it_ran": seen[:: max(1, len(seen) // 20)] + seen[-1:],
            "mb_peak_above_that": round(max(point["mb"] for point in seen) - before, 1),
            "mb_peak": max(point["mb"] for point in seen),
            "mb_at_the_end": after,
            "bytes_an_example_in_the_second_half": round(float(slope) * 2**20, 1),
            "mb_of_the_result_on_disk": round(on_disk, 1),
            "queries_mean": result.queries,
            "seconds": result.seconds,
            "outcomes": dict(result.outcomes),
        },
    )


if __name__ == "__main__":
    main()
