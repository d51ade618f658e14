"""docs/speed.md: how fast tickets infer, against what their FLOPs promise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from _page_parts import NO, Result, made_with, number, table

ENOUGH = 0.9
SHOWN = ("20 %", "30 %", "40 %", "30 %, rounded to 64")  # of the neurons removed, beside 1/6 of the heads


def tickets(result: Result) -> str:
    """Speed-up over the whole model and, in brackets, its share of the ratio of FLOPs."""
    if "entries" not in result:  # of an older form of the benchmark
        return ""
    entries = result["entries"]
    promised: dict[str, list[float]] = {}
    for entry in entries.values():
        for name, row in entry["tickets"].items():
            promised.setdefault(name, []).append(row["flop_ratio"])
    ratios = "; ".join(f"{name}: {min(promised[name]):.2f} to {max(promised[name]):.2f}" for name in SHOWN if name in promised)
    device = "a CPU" if result["env"]["device"] == "cpu" else "a GPU"
    parts = [
        f"## Inference of tickets on {device}\n",
        f"{result['settings']['model']}, 1/6 of the heads removed and neurons as told; speed-up over the whole model and in brackets "
        f"its share of the ratio of FLOPs ({ratios}, by length). Medians of {result['settings']['repeats']} in turns.\n",
        table(["precision, texts × tokens", "called", "whole, ms", *SHOWN], _rows(entries)),
    ]
    told = list(_profiles(entries))
    if told:
        kinds = [kind for kind in next(iter(told))[1] if kind != "pass"]
        parts.append(f"Below {ENOUGH} of it: milliseconds of a pass, by kind of kernel, of the whole model and its slowest ticket.\n")
        rows = [[where, *(number(profile[kind]) for kind in kinds), number(profile["pass"])] for where, profile in told]
        parts.append(table(["", *kinds, "pass"], rows))
    parts.append(made_with(result))
    return "\n".join(parts)


def _rows(entries: Mapping[str, Any]) -> Iterator[list[str]]:
    for key, entry in entries.items():
        for way, whole in entry["whole"].items():
            yield [
                key.replace(" x ", " × "),
                way,
                number(whole["median"]),
                *(_cell(entry["tickets"].get(name, {}).get(way)) for name in SHOWN),
            ]


def _cell(row: Mapping[str, Any] | None) -> str:
    return f"{row['speed_up']['median']:.2f} × ({row['reached']:.2f})" if row else NO


def _profiles(entries: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, float]]]:
    for key, entry in entries.items():
        for way, both in entry["profiles"].items():
            for name, profile in both.items():
                yield f"{key.replace(' x ', ' × ')}, {way}: {name}", profile
