"""Makes docs/dev/speed.md from results/*.json. What was not measured is left out; no number stands there that is not in a result.

python benchmarks/page.py
"""

from __future__ import annotations

from pathlib import Path

from _page_aims import aims, not_run
from _page_cpu import cpu
from _page_epochs import accuracy, feeding, overhead
from _page_headline import headline
from _page_parts import read
from _page_steps import memory, step_times
from _page_tickets import tickets
from _page_words import ABOVE, BELOW

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results", HERE.parent / "docs" / "dev" / "speed.md"
PARTS = {  # in the page's order
    "headline": headline,
    "step_time": step_times,
    "step_growth": memory,
    "engine_accuracy": accuracy,
    "ticket_speed_gpu": tickets,
    "ticket_speed": tickets,
    "epoch_overhead_gpu": overhead,
    "epoch_overhead_freelb_gpu": overhead,
    "epoch_overhead": overhead,
    "feeding": feeding,
    "cpu_step": cpu,
}


def made(results: Path = RESULTS) -> str:
    """The page's text."""
    found = {name: read(results, name) for name in PARTS}
    parts = [PARTS[name](result) for name, result in found.items() if result]
    return "\n".join(part for part in (ABOVE, aims(found), *parts, not_run(found), BELOW) if part)


def main() -> None:
    PAGE.write_text(made())
    print(f"wrote {PAGE.name}: {', '.join(name for name in PARTS if read(RESULTS, name))}")


if __name__ == "__main__":
    main()
