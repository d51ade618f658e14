"""docs/dev/speed.md: what makes a step quick on a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _page_parts import NO, Result, factor, made_with, number, table

BASE = "all threads, passive"  # what the command line sets, and what others are compared with
WORDS = {"train": "training", "infer": "inference"}


def cpu(result: Result) -> str:
    entries, settings = result["entries"], result["settings"]
    parts = [
        "## On a CPU\n",
        f"{settings['model']}, {settings['rows']} texts of {settings['tokens']} tokens, {settings['rounds']} rounds of "
        f"{settings['repeats']}. *autocast*: bf16 where torch's autocast says so; *products*: the factors of matrix products rounded to "
        'bf16; *weights*: a bf16 model. `precision="bf16"` trains with working weights on a CPU too, which takes about as long '
        "as autocast ([log](log.md)).\n",
    ]
    for key, entry in entries.items():
        if key.startswith("threads"):
            parts += [
                f"{key.capitalize()}: milliseconds in fp32, and in brackets the speed over `{BASE}`:\n",
                _threads(entry),
            ]
    if "threads" in entries:
        parts += [
            f"Precision, {BASE}: milliseconds, and in brackets the speed over fp32:\n",
            _precisions(entries["threads"][BASE]),
        ]
    compiled = {
        key.removeprefix("compilation, "): entry for key, entry in entries.items() if key.startswith("compilation")
    }
    if compiled:
        rows = [
            [
                _title(name),
                number(entry["eager"]["median"]),
                number(entry["compiled"]["median"]),
                factor(entry["speed over eager"]["median"]),
                number(entry["compile_seconds"]),
                NO if entry["pays_after_calls"] is None else f"{entry['pays_after_calls']:,}",
            ]
            for name, entry in compiled.items()
        ]
        parts += [
            "Compiled with `torch.compile`:\n",
            table(["", "eager, ms", "compiled, ms", "speed", "compiling, s", "won back after calls"], rows),
        ]
    parts.append(made_with(result))
    return "\n".join(parts)


def _threads(entry: Mapping[str, Any]) -> str:
    kinds = [f"{kind}, fp32" for kind in WORDS]
    rows = [
        [name, str(told["threads"]), *(_cell(told[kind], f"speed over {BASE}") for kind in kinds)]
        for name, told in entry.items()
        if all(kind in told for kind in kinds)
    ]
    return table(["", "threads", *WORDS.values()], rows)


def _precisions(told: Mapping[str, Any]) -> str:
    rows = [[_title(name), _cell(row, "speed over fp32")] for name, row in told.items() if name != "threads"]
    return table(["", "ms"], rows)


def _cell(row: Mapping[str, Any], over: str) -> str:
    return f"{number(row['milliseconds']['median'])} ({row[over]['median']:.2f} ×)"


def _title(name: str) -> str:
    kind, precision = name.split(", ")
    return f"{WORDS[kind]}, {precision}"
