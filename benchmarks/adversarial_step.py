"""What does a FreeLB step cost over a plain one, and an EarlyRobust search step over a FreeLB one, in time and peak memory?

MiniLM (6 layers, 384 wide), batches of 16 padded to 32 tokens, fp32. A FreeLB step with K passes should cost K plain steps; the search
adds coefficients and an L1 term, whose price is the last ratio.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from _measure import batch_of, interleaved, memory_of, ratio, save, spread

from robust_tickets import FreeLB, load_classifier
from robust_tickets.backbone.cost import peak_memory
from robust_tickets.prune.gates import Gates
from robust_tickets.seeds import torch_generator
from robust_tickets.train.settings import Optim
from robust_tickets.train.update import adamw, make_step

BATCH, TOKENS, REPEATS, K = 16, 32, 20, 5
QUESTION = "Time and peak memory of a FreeLB step over a plain step, and of a search step over a FreeLB step"


def step_of(kind: str) -> Callable[[], Any]:
    """One optimiser step on a model of its own."""
    clf = load_classifier("minilm", labels=("a", "b"), max_length=128)
    model = clf.model.train()
    gates = Gates(model).attach() if kind == "search" else None
    parts = {"model": model, **({"gates": gates} if gates is not None else {})}
    optimiser = adamw(parts, Optim(lr=2e-5, weight_decay=1e-2, warmup=0.0, clip=1.0))
    step = make_step(
        model,
        generator=torch_generator(0, "benchmark"),
        adversary=None if kind == "plain" else FreeLB(steps=K),
        regulariser=(lambda: gates.l1(1e-5, 2e-4)) if gates is not None else None,
    )
    batch = batch_of(BATCH, TOKENS)
    parameters = [p for part in parts.values() for p in part.parameters()]

    def run() -> None:
        optimiser.zero_grad(set_to_none=True)
        step(batch, lambda loss: loss.backward())
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()

    return run


def main() -> None:
    if len(sys.argv) > 1:
        run = step_of(sys.argv[1])
        for _ in range(5):
            run()
        print(peak_memory())
        return
    kinds = ("plain", "freelb", "search")
    seconds = interleaved({kind: step_of(kind) for kind in kinds}, REPEATS)
    memory = {kind: memory_of(__file__, kind) for kind in kinds}
    save(
        "adversarial_step",
        QUESTION,
        {
            "model": "all-MiniLM-L6-v2",
            "batch": BATCH,
            "tokens": TOKENS,
            "passes": K,
            "precision": "fp32",
            "repeats": REPEATS,
            "seed": 0,
        },
        {
            "seconds": {kind: spread(seconds[kind]) for kind in kinds},
            "freelb_over_plain": ratio(seconds["freelb"], seconds["plain"]),
            "search_over_freelb": ratio(seconds["search"], seconds["freelb"]),
            "peak_memory_bytes": memory,
            "search_over_freelb_memory": memory["search"] / memory["freelb"],
        },
    )


if __name__ == "__main__":
    main()
