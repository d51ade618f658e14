"""docs/dev/speed.md: how fast tickets infer, against what their FLOPs promise."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from _page_parts import NO, Result, made_with, number, table

ENOUGH = 0.9
SHOWN = ("20 %", "30 %", "40 %")  # of the neurons removed, beside 1/6 of the heads
WAYS = {"graph": "Captured as a CUDA graph", "eager": "Called as usual", "compiled": "Compiled"}
MULTIPLES = (
    "30 %",
    "30 %, rounded to 8",
    "30 %, rounded to 16",
    "30 %, rounded to 64",
    "20 %, rounded to 64",
    "40 %, rounded to 64",
)
ODD = """\
A ticket drawn over all layers leaves each with its own number of neurons, most of them no multiple of 8. In bf16 the rows of such a matrix
do not begin at multiples of 16 bytes, which the fast matrix kernels need, and the ticket is **slower than the whole model**: see the matrix
products in the profile. `round_to` mends that and changes the parameters by at most {changed:.2f} %; 16 and 64 bring little more than 8.
Heads are 64 wide already: their number costs nothing. In fp32 odd widths cost little.

Rounding does not bring all that FLOPs promise: norms, activations and launches do not shrink with the neurons, and few texts do not fill
the GPU.
"""


def tickets(result: Result) -> str:
    """Speed-up over the whole model and, in brackets, its share of the ratio of FLOPs."""
    if "entries" not in result:
        return _by_batch(result)
    entries = dict(sorted(result["entries"].items(), key=_sizes))
    promised: dict[str, list[float]] = {}
    for entry in entries.values():
        for name, row in entry["tickets"].items():
            promised.setdefault(name, []).append(row["flop_ratio"])
    ratios = ", ".join(f"{statistics.median(promised[name]):.2f} at {name}" for name in SHOWN if name in promised)
    on_gpu = result["env"]["device"] != "cpu"
    parts = [
        f"## Inference of tickets on {'a GPU' if on_gpu else 'a CPU'}\n",
        f"{result['settings']['model']}, 1/6 of the heads removed and neurons as given; speed-up over the whole model and in brackets "
        f"its share of the ratio of FLOPs ({ratios}). Medians of {result['settings']['repeats']} in turns.\n",
    ]
    for way, words in WAYS.items():
        rows = [
            [_title(key), number(entry["whole"][way]["median"]), *_cells(entry, way, SHOWN)]
            for key, entry in entries.items()
            if way in entry["whole"]
        ]
        if rows:
            parts += [f"{words}:\n", table(["precision, texts × tokens", "whole, ms", *SHOWN], rows)]
    rounded = [
        [_title(key), *_cells(entry, "graph", MULTIPLES)]
        for key, entry in entries.items()
        if all("graph" in entry["tickets"].get(name, {}) for name in MULTIPLES)
    ]
    if rounded:
        parts += [
            ODD.format(changed=_changed(entries)),
            "Captured, with `round_to`:\n",
            table(["precision, texts × tokens", *MULTIPLES], rounded),
        ]
    parts += [*_profiles(entries), made_with(result)]
    return "\n".join(parts)


def reached(entries: Mapping[str, Any], precision: str, *, rounded: bool) -> list[float]:
    """Shares of the ratio of FLOPs of all captured tickets: as drawn, or rounded to 64."""
    return [
        row["graph"]["reached"]
        for key, entry in entries.items()
        for name, row in entry["tickets"].items()
        if key.startswith(precision)
        and "graph" in row
        and (name.endswith("rounded to 64") if rounded else "rounded" not in name)
    ]


def _changed(entries: Mapping[str, Any]) -> float:
    """Percent of a ticket's parameters that rounding adds or takes, at most."""
    found = [0.0]
    for entry in entries.values():
        for name, row in entry["tickets"].items():
            drawn = entry["tickets"][name.split(",")[0]]["parameters"]
            found.append(100 * abs(row["parameters"] / drawn - 1))
    return max(found)


def _by_batch(result: Result) -> str:
    """The same from a result of the benchmark's first form."""
    batches = [name for name, told in result["answer"].items() if "tickets" in told]
    batches.sort(key=lambda name: int(name.split()[1]))
    names = list(result["answer"][batches[0]]["tickets"])
    rows = []
    for batch in batches:
        told = result["answer"][batch]
        cells = (_cell(told["tickets"][name]) for name in names)
        rows.append([batch, number(1000 * told["whole_seconds"]["median"]), *cells])
    settings = result["settings"]
    return "\n".join(
        [
            "## Inference of tickets on a CPU\n",
            f"{settings['model']}, {settings['tokens']} tokens, {settings['precision']}, medians of {settings['repeats']} in turns; "
            "speed-up and in brackets its share of the ratio of FLOPs. One text at a time is below 0.9: norms, Python and small matrices "
            "do not shrink with the ticket.\n",
            table(["", "whole, ms", *(f"{name} removed" for name in names)], rows),
            made_with(result),
        ]
    )


def _cells(entry: Mapping[str, Any], way: str, names: tuple[str, ...]) -> Iterator[str]:
    return (_cell(entry["tickets"].get(name, {}).get(way)) for name in names)


def _cell(row: Mapping[str, Any] | None) -> str:
    return f"{row['speed_up']['median']:.2f} × ({row['reached']:.2f})" if row else NO


def _profiles(entries: Mapping[str, Any]) -> Iterator[str]:
    """Of captured passes, at the smallest and the largest shape of each precision that stays below what is enough."""
    shown: dict[str, list[str]] = {}
    for key, entry in entries.items():
        if "graph" in entry["profiles"]:
            shown.setdefault(key.split(",")[0], []).append(key)
    rows = []
    for keys in shown.values():
        for key in dict.fromkeys((keys[0], keys[-1])):
            for name, profile in sorted(entries[key]["profiles"]["graph"].items(), reverse=True):
                rows.append((f"{_title(key)}: {name}", profile))
    if rows:
        kinds = [kind for kind in rows[0][1] if kind != "pass"]
        yield (
            f"Where a captured pass stays below {ENOUGH}: its milliseconds by kind of kernel, of the whole model and of the ticket that is "
            "furthest below (smallest and largest shape; the others are in the result).\n"
        )
        yield table(
            ["", *kinds, "pass"],
            ([where, *(number(told[kind]) for kind in kinds), number(told["pass"])] for where, told in rows),
        )


def _title(key: str) -> str:
    return key.removesuffix(", compiled").replace(" x ", " × ")


def _sizes(item: tuple[str, Any]) -> tuple[str, int, int]:
    precision, shape = item[0].split(", ")[:2]
    rows, tokens = shape.split(" x ")
    return precision, int(rows), int(tokens)
