"""What does an InfoBERT step cost over a FreeLB one, and over InfoBERT as it was released, with loops over tokens and two backward passes?

MiniLM (6 layers, 384 wide), batches of 8 sentences of 10 to 32 tokens, fp32, K 3, in CPU seconds of one thread. ``infobert`` is the
package's; ``loops`` walks over sentences, tokens and chunks in Python; ``released`` also goes backward through the whole model twice a
pass, once for the task and the upper bound and once for the lower bound. All three take the same draws and leave the same gradients,
which is checked first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from _measure import interleaved, ratio, save, spread
from torch import Tensor

from robust_tickets import FreeLB, InfoBERT, load_classifier
from robust_tickets.adversary.infobert import most_anchored
from robust_tickets.adversary.objective import Objective, Seen
from robust_tickets.seeds import torch_generator
from robust_tickets.train.settings import Optim
from robust_tickets.train.update import adamw, make_step

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import infobert_loops as loops

BATCH, SHORTEST, TOKENS, REPEATS, K = 8, 10, 32, 20, 3
QUESTION = "Time of an InfoBERT step over a FreeLB step of as many passes, and of InfoBERT with loops and two backward passes over it"


@dataclass(frozen=True, kw_only=True)
class Looped(InfoBERT):
    """The bounds as the released code computes them."""

    def upper(self, objective: Objective, seen: Seen) -> Tensor:
        mask = objective.inputs["attention_mask"]
        return loops.upper_bound(seen.embedded, mask, _draws(objective, mask.numel()))

    def lower(self, objective: Objective, seen: Seen, gradient: Tensor) -> Tensor:
        mask = objective.inputs["attention_mask"]
        slots = most_anchored(mask.shape[1], self.low, self.high)
        kept = loops.anchored(gradient, mask, self.low, self.high)
        draws = _draws(objective, len(mask) * slots)
        return loops.lower_bound(
            objective.memory, seen.embedded, seen.last[:, 0], kept, draws, slots, self.chunk or len(mask)
        )


@dataclass(frozen=True, kw_only=True)
class Released(Looped):
    """And its two backward passes."""

    def __call__(self, objective: Objective) -> Tensor:
        delta = self.start(objective)
        total = torch.zeros(())
        for k in range(1, self.steps + 1):
            delta.requires_grad_()
            with objective.seeing() as seen:
                task = objective.loss(delta)
            (task / self.steps + self.beta / self.steps * self.upper(objective, seen)).backward(retain_graph=True)
            assert delta.grad is not None
            gradient = delta.grad.clone()
            (-self.alpha / self.steps * self.lower(objective, seen, gradient)).backward()
            total = total + task.detach()
            if k < self.steps:
                delta = self.move(objective, delta, gradient)
        return total / self.steps


def _draws(objective: Objective, count: int) -> Tensor:
    return torch.rand(count, generator=objective.generator, dtype=torch.float64)


SETTINGS = {"steps": K, "step_size": 0.04, "init": 0.08}
KINDS = {
    "freelb": FreeLB(**SETTINGS),
    "infobert": InfoBERT(**SETTINGS),
    "loops": Looped(**SETTINGS),
    "released": Released(**SETTINGS),
}


def step_of(kind: str) -> tuple[Callable[[], Any], Any]:
    """One optimiser step on a model of its own, and that model."""
    model = load_classifier("minilm", labels=("a", "b"), max_length=128).model.train()
    step = make_step(model, generator=torch_generator(0, "benchmark"), adversary=KINDS[kind])
    parts = {"model": model, **step.parts}
    optimiser = adamw(parts, Optim(lr=2e-5, weight_decay=1e-2, warmup=0.0, clip=1.0))
    ids = torch.randint(1000, 20000, (BATCH, TOKENS), generator=torch_generator(0, "ids"))
    lengths = torch.linspace(SHORTEST, TOKENS, BATCH).long().unsqueeze(1)
    mask = (torch.arange(TOKENS) < lengths).long()
    batch = {
        "input_ids": ids * mask,
        "attention_mask": mask,
        "token_type_ids": torch.zeros_like(ids),
        "labels": torch.arange(BATCH) % 2,
    }
    parameters = [p for part in parts.values() for p in part.parameters()]

    def run() -> None:
        optimiser.zero_grad(set_to_none=True)
        step(batch, lambda loss: loss.backward())
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()

    return run, model


def difference(kinds: tuple[str, ...]) -> float:
    """The largest difference of any gradient between the kinds' first steps, without dropout, over the largest gradient."""
    found = []
    for kind in kinds:
        run, model = step_of(kind)
        model.eval()
        run()
        found.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    return max(float((other - found[0]).abs().max() / found[0].abs().max()) for other in found[1:])


def main() -> None:
    torch.set_num_threads(1)
    same = difference(("infobert", "loops", "released"))
    assert same < 1e-3, same
    seconds = interleaved({kind: step_of(kind)[0] for kind in KINDS}, REPEATS, time.process_time)
    save(
        "infobert_step",
        QUESTION,
        {
            "model": "all-MiniLM-L6-v2",
            "batch": BATCH,
            "tokens": [SHORTEST, TOKENS],
            "passes": K,
            "precision": "fp32",
            "clock": "CPU seconds of the process, one thread",
            "repeats": REPEATS,
            "seed": 0,
        },
        {
            "seconds": {kind: spread(seconds[kind]) for kind in KINDS},
            "infobert_over_freelb": ratio(seconds["infobert"], seconds["freelb"]),
            "loops_over_infobert": ratio(seconds["loops"], seconds["infobert"]),
            "released_over_infobert": ratio(seconds["released"], seconds["infobert"]),
            "released_over_freelb": ratio(seconds["released"], seconds["freelb"]),
            "largest_relative_difference_of_gradients": same,
        },
    )


if __name__ == "__main__":
    main()
