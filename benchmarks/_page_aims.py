"""docs/dev/speed.md: what was aimed at beside what was reached, and what was not run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from _ours import KINDS
from _page_epochs import AIM, beyond, told_of
from _page_headline import TITLES, times
from _page_parts import Result, factor, number, table
from _page_steps import AIMS, cells, median
from _page_tickets import ENOUGH, reached
from _page_words import SINCE
from step_time import BATCHES, LENGTHS
from ticket_speed import PRECISIONS, SHAPES

Found = Mapping[str, Result | None]
FACTORS = {"at least": 25.0, "goal:": 50.0}  # EarlyRobust over PGD in the reference profile


def aims(found: Found) -> str:
    """One line for each aim that was measured; those that were missed say why."""
    rows = [*_factors(found.get("headline")), *_steps(found.get("step_time")), *_tickets(found), *_epochs(found)]
    if not rows:
        return ""
    return "\n".join(
        ["## Aims and what was reached\n", table(["", "aimed at", "measured", "reached", "why not"], rows)]
    )


def _row(what: str, aim: str, value: str, met: bool, why: str) -> list[str]:
    return [what, aim, value, "yes" if met else "**no**", "" if met else why]


def _factors(result: Result | None) -> Iterator[list[str]]:
    for task, title in TITLES.items():
        entries = result["entries"] if result else {}
        spent = times(entries, task) if f"steps-{task}" in entries else {}
        if "earlyrobust" not in spent:
            continue
        over = spent["reference pgd"] / spent["earlyrobust"]
        ms = entries[f"steps-{task}"]["ms"]
        why = (
            f"most of it is the ticket's 10 epochs ({number(entries[f'train-{task}']['seconds_of_10_epochs'])} of "
            f"{number(spent['earlyrobust'])} s), whose step takes {number(ms['ticket']['mean'])} ms; the whole model's takes "
            f"{number(ms['finetune']['mean'])} ms"
        )
        if ms["ticket"]["mean"] > ms["finetune"]["mean"]:
            why += ": odd widths"
        for word, aim in FACTORS.items():
            yield _row(
                f"EarlyRobust over PGD-5 in the reference profile, {title}",
                f"{word} {aim:.0f} ×",
                factor(over),
                over >= aim,
                why,
            )


def _steps(result: Result | None) -> Iterator[list[str]]:
    for (kind, shape), aim in AIMS.items():
        ms = median(result["entries"].get(f"{kind}/{shape}/graph-bf16")) if result else None
        if ms is not None:
            why = (
                f"{100 * (ms / aim - 1):.0f} % above: attention, norms, dropout, activations and AdamW take more than the matrix products; "
                "compiled layers would fuse some of it ([log](log.md))"
            )
            what = f"{KINDS[kind].title} step, {shape.replace('x', ' texts × ')} tokens"
            yield _row(what, f"{number(aim)} ms", f"{number(ms)} ms", ms <= aim, why)


def _tickets(found: Found) -> Iterator[list[str]]:
    result = found.get("ticket_speed_gpu")
    lines = {
        ("bf16", False): "bf16 matrix kernels want widths that are multiples of 8; these are not",
        ("bf16", True): "norms, activations and launches do not shrink with the ticket",
        ("fp32", False): "1 and 8 texts do not fill the GPU; 64 do",
    }
    for (precision, rounded), why in lines.items():
        shares = reached(result["entries"], precision, rounded=rounded) if result and "entries" in result else []
        if shares:
            name = f"tickets' speed-up over their FLOP ratio, {precision}, captured" + (
                ", rounded to 64" if rounded else ""
            )
            met = sum(share >= ENOUGH for share in shares)
            value = f"{min(shares):.2f} to {max(shares):.2f} ({met} of {len(shares)} reach it)"
            yield _row(name, f"{ENOUGH}", value, met == len(shares), why)


def _epochs(found: Found) -> Iterator[list[str]]:
    for name, where in (
        ("epoch_overhead_gpu", "GPU"),
        ("epoch_overhead_freelb_gpu", "GPU, FreeLB-5"),
        ("epoch_overhead", "CPU"),
    ):
        if result := found.get(name):
            share, each, told = beyond(result), result["answer"]["updates an epoch"], told_of(result)
            bare, apart = told["seconds"]["bare updates"], told["differences, one by one"]
            held = 100 * result["answer"]["checkpoints"]["share in the long run"]
            short = (
                ""
                if result["settings"]["device"] == "cpu"
                else f"an update takes only {number(1000 * bare / each)} ms; "
            )
            why = (
                f"{short}{held:.0f} % are checkpoints, which may take that much; "
                f"epochs one by one: {100 * min(apart):.1f} to {100 * max(apart):.1f} %"
            )
            yield _row(
                f"an epoch beyond its updates, {where}",
                f"below {100 * AIM:.0f} %",
                f"{100 * share:.1f} %",
                share < AIM,
                why,
            )


def not_run(found: Found) -> str:
    """What the benchmarks can measure and these results do not have."""
    lines = [*_headlines(found.get("headline")), *_grid(found.get("step_time")), *_rest(found)]
    if SINCE:
        lines.append(f"what came after these results: {'; '.join(SINCE)}")
    if not lines:
        return ""
    told = "These results do not have (some steps were run alone, for the table of how they [grow](#memory-and-how-steps-grow))"
    return f"## What was not run\n\n{told}\n\n" + "".join(f"- {line}\n" for line in lines)


def _headlines(result: Result | None) -> Iterator[str]:
    missing = [title for task, title in TITLES.items() if not result or f"steps-{task}" not in result["entries"]]
    if missing:
        yield f"the reference's steps on {' and '.join(missing)}, and so the factor there (`headline.py --part …`)"


def _grid(result: Result | None) -> Iterator[str]:
    """Cells of the step times, by what they have in common."""
    ran = cells(result["entries"]) if result else set()
    for batch in BATCHES:
        lengths = [length for length in sorted(LENGTHS) if any((kind, f"{batch}x{length}") in ran for kind in KINDS)]
        if not lengths:
            yield f"steps at batch {batch}"
            continue
        if left := [str(length) for length in sorted(LENGTHS) if length not in lengths]:
            yield f"steps at batch {batch} and {' or '.join(left)} tokens"
        for length in lengths:
            if without := [kind.title for name, kind in KINDS.items() if (name, f"{batch}x{length}") not in ran]:
                yield f"{', '.join(without)} at batch {batch} and {length} tokens"
    if result and not any(key.endswith("/trainer-bf16") for key in result["entries"]):
        yield "Hugging Face's Trainer (`step_time.py`)"


def _rest(found: Found) -> Iterator[str]:
    told = {
        "step_growth": "peak memory, and how time and memory grow with length, batch, layers and gates (`step_growth.py`)",
        "epoch_overhead_freelb_gpu": "an epoch's overhead under FreeLB-5 on a GPU (`epoch_overhead.py --adversary`)",
        "cpu_step": "threads, precision and compilation on a CPU (`cpu_step.py`; first numbers in the [log](log.md))",
    }
    yield from (line for name, line in told.items() if not found.get(name))
    result: Any = found.get("ticket_speed_gpu")
    if result:
        keys = [
            f"{precision}, {rows} x {tokens}" for precision in PRECISIONS["cuda"] for rows, tokens in SHAPES["cuda"]
        ]
        if missing := [key.replace(" x ", " × ") for key in keys if key not in result["entries"]]:
            yield f"tickets' inference in {'; '.join(missing)}"
        if not any("compiled" in entry["whole"] for entry in result["entries"].values()):
            yield "compiled tickets (`ticket_speed.py --compile`)"
