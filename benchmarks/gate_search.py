"""What does a step of RobustT's gate search cost over a plain fine-tuning step, in peak memory and time?

A model of BERT-base's size with random weights, batches of 32 padded to 32 tokens, fp32, one update each: forward, backward, clipping, the
penalty, AdamW. The search is asked with one pass (which is what its gates alone cost) and under FreeLB with three, as in the paper. Each
memory is the peak of a process of its own. One gate for each of 85.5 million weights brings its gradient and two moments; the frozen
weights have none of these. ``--memory`` leaves the times out, which take a quiet machine some ten minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from _measure import batch_of, interleaved, memory_of, ratio, save, spread

from robust_tickets import RobustT
from robust_tickets.backbone.cost import peak_memory
from robust_tickets.prune.hardconcrete import HardConcrete
from robust_tickets.seeds import torch_generator
from robust_tickets.train.update import adamw, make_step

BATCH, TOKENS, REPEATS, STEPS = 32, 32, 20, 2  # moments exist from the second update on
QUESTION = "Peak memory and time of a gate-search step over a plain fine-tuning step at the same batch"
KINDS = ("plain", "gates", "robustt")


def step_of(kind: str) -> Callable[[], Any]:
    """One update on a model of its own."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(num_labels=2)).train()
    method = RobustT()
    gates = None if kind == "plain" else HardConcrete(model, generator=torch_generator(0, "gates")).attach().train()
    parts: dict[str, torch.nn.Module] = {"model": model} if gates is None else {"gates": gates}
    optimiser = adamw(parts, method.tuning.optim if gates is None else method.optim)
    step = make_step(
        model, generator=torch_generator(0, "benchmark"), adversary=method.adversary if kind == "robustt" else None
    )
    batch = batch_of(BATCH, TOKENS)
    parameters = [p for part in parts.values() for p in part.parameters()]

    def run() -> None:
        optimiser.zero_grad(set_to_none=True)
        step(batch, lambda loss: loss.backward())
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        if gates is not None:
            (method.penalty * gates.regulariser(method.normalisation)).backward()
        optimiser.step()

    return run


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] in KINDS:
        run = step_of(sys.argv[1])
        for _ in range(STEPS):
            run()
        print(peak_memory())
        return
    memory = {kind: memory_of(__file__, kind) for kind in KINDS}
    answer: dict[str, Any] = {
        "peak_memory_bytes": memory,
        "gates_over_plain_memory": memory["gates"] / memory["plain"],
        "robustt_over_plain_memory": memory["robustt"] / memory["plain"],
    }
    if "--memory" not in sys.argv:
        seconds = interleaved({kind: step_of(kind) for kind in KINDS}, REPEATS)
        answer |= {
            "seconds": {kind: spread(seconds[kind]) for kind in KINDS},
            "gates_over_plain": ratio(seconds["gates"], seconds["plain"]),
            "robustt_over_plain": ratio(seconds["robustt"], seconds["plain"]),
        }
    settings = {
        "model": "BERT-base's size, random weights",
        "batch": BATCH,
        "tokens": TOKENS,
        "passes": {"plain": 1, "gates": 1, "robustt": RobustT().adversary.steps},
        "precision": "fp32",
        "device": "cpu",
        "threads": torch.get_num_threads(),
        "repeats": 0 if "--memory" in sys.argv else REPEATS,
        "seed": 0,
    }
    save("gate_search", QUESTION, settings, answer)


if __name__ == "__main__":
    main()
