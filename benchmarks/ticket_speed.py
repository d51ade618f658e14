"""Is a ticket as fast as its FLOPs say? Forward passes of compact MiniLM tickets against the whole model.

Each ticket is random at the named ratios (which units are cut does not change the work). The answer is the measured speed-up over the
FLOP ratio at several batch sizes; 1 would be all that FLOPs promise.
"""

from __future__ import annotations

import torch
from _measure import interleaved, ratio, save, spread

from robust_tickets import RandomTicket, compact, load_classifier
from robust_tickets.measure.cost import flops, parameters
from robust_tickets.seeds import torch_generator

TOKENS, REPEATS = 32, 30
RATIOS = {"1/6 heads, 20 % neurons": (1 / 6, 0.2), "1/6 heads, 30 % neurons": (1 / 6, 0.3), "1/6 heads, 40 % neurons": (1 / 6, 0.4)}
RATIOS |= {"1/2 heads, 50 % neurons": (0.5, 0.5)}
BATCHES = (1, 8, 64)
QUESTION = "Inference speed of a ticket against its FLOP ratio"


def main() -> None:
    whole = load_classifier("minilm", labels=("a", "b"), max_length=128)
    tickets = {name: compact(whole, RandomTicket(heads=h, neurons=n, seed=0)(whole).ticket) for name, (h, n) in RATIOS.items()}
    answer: dict[str, object] = {}
    for size in BATCHES:
        ids = torch.randint(1000, 20000, (size, TOKENS), generator=torch_generator(0, "ids"))
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}

        def forward(model: torch.nn.Module, inputs: dict[str, torch.Tensor] = batch) -> None:
            with torch.inference_mode():
                model(**inputs)

        calls = {"whole": lambda f=forward: f(whole.model)} | {name: lambda f=forward, m=clf.model: f(m) for name, clf in tickets.items()}
        seconds = interleaved(calls, REPEATS)
        rows = {}
        for name, clf in tickets.items():
            expected = flops(whole.model, TOKENS) / flops(clf.model, TOKENS)
            measured = ratio(seconds["whole"], seconds[name])
            rows[name] = {"flop_ratio": expected, "speed_up": measured, "reached": measured["median"] / expected}
        answer[f"batch {size}"] = {"whole_seconds": spread(seconds["whole"]), "tickets": rows}
    answer["parameters"] = {"whole": parameters(whole.model), **{name: parameters(clf.model) for name, clf in tickets.items()}}
    save(
        "ticket_speed",
        QUESTION,
        {"model": "all-MiniLM-L6-v2", "tokens": TOKENS, "repeats": REPEATS, "precision": "fp32", "seed": 0},
        answer,
    )


if __name__ == "__main__":
    main()
