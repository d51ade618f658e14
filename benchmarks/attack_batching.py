"""What does batching across examples bring an attack? PWWS on review sentences, same results, counted queries per second.

``padded to 128`` asks one example at a time with every text padded to 128 tokens, ``one at a time`` pads to the longest text of a batch,
``together`` merges the requests of 32 live examples. All three give the same outcomes, which is checked.
"""

from __future__ import annotations

import time

from _measure import save, spread

from robust_tickets import PWWS, load_classifier, load_task
from robust_tickets.classifier import ModelClassifier

N, REPEATS, LIVE, PAD = 24, 5, 32, 128
QUESTION = "Attack queries per second with and without batching across examples"


class Padded(ModelClassifier):
    """The same classifier, padding every text to ``PAD`` tokens, as wrappers that pad to a maximum do."""

    def batch(self, rows):  # type: ignore[no-untyped-def]
        import torch

        told = super().batch(rows)
        short = PAD - told["input_ids"].shape[1]
        return {name: torch.nn.functional.pad(value, (0, short)) for name, value in told.items()}


def main() -> None:
    task = load_task("reviews")
    clf = load_classifier("minilm", task, max_length=PAD)
    padded = Padded(model=clf.model, tokenizer=clf.tokenizer, labels=clf.labels, max_length=PAD, identity=clf.identity)
    ways = {"padded to 128": (padded, 1), "one at a time": (clf, 1), "together": (clf, LIVE)}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    outcomes, passes = {}, {}
    for turn in range(REPEATS + 1):
        for name, (victim, live) in ways.items():
            begun = time.perf_counter()
            result = PWWS()(victim, task.test, n=N, seed=0, labels=task.labels, live=live)
            spent = time.perf_counter() - begun
            examples = list(result.examples())
            outcomes[name] = [(e.id, e.status, e.perturbed, e.queries) for e in examples]
            passes[name] = result.forward_passes
            if turn:  # the first turn warms up
                rates[name].append(sum(e.queries for e in examples) / spent)
    assert outcomes["together"] == outcomes["one at a time"] == outcomes["padded to 128"], "batching changed a result"
    medians = {name: spread(values)["median"] for name, values in rates.items()}
    save(
        "attack_batching",
        QUESTION,
        {
            "model": "all-MiniLM-L6-v2, untrained head",
            "attack": "pwws",
            "examples": N,
            "live": LIVE,
            "repeats": REPEATS,
            "seed": 0,
        },
        {
            "queries_per_second": {name: spread(values) for name, values in rates.items()},
            "forward_passes": passes,
            "together_over_one_at_a_time": medians["together"] / medians["one at a time"],
            "together_over_padded": medians["together"] / medians["padded to 128"],
            "same_outcomes": True,
        },
    )


if __name__ == "__main__":
    main()
