"""Makes docs/speed.md from results/*.json. What was not measured is left out; no number stands there that is not in a result.

python benchmarks/page.py
"""

from __future__ import annotations

from pathlib import Path

from _page_epochs import feeding, overhead
from _page_headline import headline
from _page_parts import read
from _page_steps import memory, step_times
from _page_tickets import tickets

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results", HERE.parent / "docs" / "speed.md"
PARTS = {  # in the page's order
    "headline": headline,
    "step_time": step_times,
    "step_growth": memory,
    "ticket_speed_gpu": tickets,
    "ticket_speed": tickets,
    "epoch_overhead_gpu": overhead,
    "epoch_overhead_freelb_gpu": overhead,
    "epoch_overhead": overhead,
    "feeding": feeding,
}

ABOVE = """# Speed

Made by `python benchmarks/page.py` from `benchmarks/results/`: edit those, not this. Times are of one machine; ratios were measured side by
side, in turns, in one process.

"""
BELOW = """## What the reference is

A clean-room training step with the cost profile of the released EarlyRobust and RobustT code and of the PGD they compare with; nothing of
that code is in it. Attention as a tensor of batch × heads × tokens × tokens with the coefficients multiplied in, fp32 without TF32, eager,
K full backward passes (K + 1 for PGD, whose ascents compute all gradients), a copy of every coefficient to the host after every search
step, AdamW and clipping parameter by parameter, batches in random order padded to their longest text. What the released code loses besides
(Python, logging, records of every step) is not charged. SynonymSwap and ORTicket have no released code: their reference is the same profile
around two plain passes, and around EarlyRobust's search step with a head of words. `benchmarks/_reference.py`.
"""


def made(results: Path = RESULTS) -> str:
    """The page's text."""
    found = {name: read(results, name) for name in PARTS}
    parts = [PARTS[name](result) for name, result in found.items() if result]
    return ABOVE + "\n".join(part for part in (*parts, BELOW) if part)


def main() -> None:
    PAGE.write_text(made())
    print(f"wrote {PAGE.name}: {', '.join(name for name in PARTS if read(RESULTS, name))}")


if __name__ == "__main__":
    main()
