"""docs/dev/speed.md: step times, peak memory and growth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from _ours import KINDS
from _page_parts import NO, Result, factor, made_with, number, table
from step_growth import AXES, GRANULARITIES, GROWING, MIDDLE, growth

CANDIDATES = {
    "graph-bf16": "graph, bf16",
    "eager-bf16": "eager, bf16",
    "graph-fp32": "graph, fp32",
    "reference": "reference",
    "trainer-bf16": "Trainer",
}
AIMS = {
    ("finetune", "32x32"): 5.0,
    ("freelb", "32x32"): 23.0,
    ("finetune", "32x128"): 7.0,
    ("freelb", "32x128"): 36.0,
}  # ms


def step_times(result: Result) -> str:
    entries = result["entries"]
    parts = ["## One step\n", _limit(entries), _spread(entries)]
    for name, kind in KINDS.items():
        shapes = sorted((shape for kind_, shape in cells(entries) if kind_ == name), key=_sizes)
        if not shapes:
            continue
        shown = [c for c in CANDIDATES if any(f"{name}/{shape}/{c}" in entries for shape in shapes)]
        heads = [
            "batch × tokens",
            *(f"{CANDIDATES[c]}, ms" for c in shown),
            "reference / graph",
            "graph, TFLOP/s",
            "of the limit",
        ]
        parts.append(f"### {kind.title}\n")
        parts.append(
            table(heads, ([shape.replace("x", " × "), *_row(entries, name, shape, shown)] for shape in shapes))
        )
    parts.append(made_with(result))
    return "\n".join(parts)


def cells(entries: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Kinds and shapes that were measured: a reference that was found too slow to run is not enough."""
    found = (key.split("/") for key, entry in entries.items() if "ms" in entry)
    return {(kind, shape) for kind, shape, _ in found}


def _row(entries: Mapping[str, Any], name: str, shape: str, shown: list[str]) -> Iterator[str]:
    ms = {c: median(entries.get(f"{name}/{shape}/{c}")) for c in CANDIDATES}
    for candidate in shown:
        entry = entries.get(f"{name}/{shape}/{candidate}")
        fell = candidate.startswith("graph") and entry is not None and entry.get("engine") == "eager"
        yield "not run" if entry and "not run" in entry else number(ms[candidate]) + (" (not recorded)" if fell else "")
    graph, reference = ms["graph-bf16"], ms["reference"]
    yield factor(reference / graph if graph and reference else None)
    rate = entries.get(f"{name}/{shape}/graph-bf16", {}).get("tflops")
    yield number(rate)
    most = entries.get("limit", {}).get("matmul_tflops")
    yield f"{100 * rate / most:.0f} %" if rate and most else NO


def _limit(entries: Mapping[str, Any]) -> str:
    limit = entries.get("limit")
    if limit is None:
        return ""
    return (
        f"The limit, in the same run: {limit['matmul_tflops']:.0f} TFLOP/s in a matrix product ({limit['matmul']}) and "
        f"{limit['copy_gb_per_s']:,.0f} GB/s in a copy of {limit['copy_bytes'] / 2**20:.0f} MiB, read and written bytes counted.\n"
    )


def _spread(entries: Mapping[str, Any]) -> str:
    wide = [(e["ms"]["q3"] - e["ms"]["q1"]) / e["ms"]["median"] for e in entries.values() if "ms" in e]
    least = min((e["ms"]["n"] for e in entries.values() if "ms" in e), default=0)
    if not wide:
        return ""
    return (
        f"Medians of at least {least} steps after warm-up, the candidates of a line in turns; from the first quartile to "
        f"the third it is {100 * sorted(wide)[len(wide) // 2]:.1f} % of the median (half have less, none above {100 * max(wide):.0f} %). "
        "Ours never wait for the device: the longer of issuing a step and computing it counts. "
        "TFLOP/s = 3 × forward FLOPs × passes × texts / time, matrix products alone. A reference that is *not run* would have taken longer "
        "than the command allowed it (`--seconds`).\n"
    )


def median(entry: Any) -> Any:
    return entry["ms"]["median"] if entry and "ms" in entry else None


def _sizes(shape: str) -> tuple[int, ...]:
    return tuple(map(int, shape.split("x")))


def memory(result: Result) -> str:
    entries = result["entries"]
    at = "{batch}x{tokens}x{layers}".format(**MIDDLE)
    parts = [
        "## Memory, and how steps grow\n",
        "Peak memory of a step at 32 texts × 128 tokens, everything that training holds:\n",
    ]
    rows = []
    for name, kind in KINDS.items():
        ours, reference = (entries.get(f"{name}/{at}/{whose}", {}).get("peak_bytes") for whose in ("ours", "reference"))
        if ours or reference:
            rows.append(
                [kind.title, _gib(ours), _gib(reference), factor(reference / ours if ours and reference else None)]
            )
    parts.append(table(["step", "ours, GiB", "reference, GiB", "ratio"], rows))
    grown = [row for name in GROWING for axis in AXES if (row := _grown(entries, name, axis))]
    if grown:
        parts.append(
            "One axis at a time; the exponent between neighbours is 1 where time or memory grow in proportion.\n"
        )
        parts.append(_left_over(entries, at))
        parts.append(table(["step", "axis", "values", "ms", "exponents", "GiB", "exponents"], grown))
    gates = [(g, entries.get(f"gates/{at}/ours/{g}")) for g in GRANULARITIES]
    rows = [[g, f"{e['gates']:,}", number(median(e)), _gib(e["peak_bytes"])] for g, e in gates if e and "ms" in e]
    if rows:
        parts.append("RobustT's gates by what one covers:\n")
        parts.append(table(["a gate for each", "gates", "ms", "GiB"], rows))
    parts.append(made_with(result))
    return "\n".join(parts)


def _left_over(entries: Mapping[str, Any], at: str) -> str:
    """One point is measured twice, early and late in one process: what it gained is not its own."""
    early, late = (entries.get(f"gates/{at}/ours{more}", {}).get("peak_bytes") for more in ("", "/weight"))
    if not early or not late or late < 1.05 * early:
        return ""
    return (
        f"All points ran in one process, which had not given back all memory of those before: the same point took {_gib(early)} GiB among "
        f"the first, which are the table above and the middle of every axis, and {_gib(late)} among the last. So memory off the middle is "
        f"up to {_gib(late - early)} GiB too high, and its exponents around the middle mean little; the lower lines of the table above may "
        "hold some of it too.\n"
    )


def _grown(entries: Mapping[str, Any], name: str, axis: str) -> list[str]:
    found = {}
    for value in AXES[axis]:
        entry = entries.get(f"{name}/{'{batch}x{tokens}x{layers}'.format(**{**MIDDLE, axis: value})}/ours")
        if entry and "ms" in entry:
            found[value] = (entry["ms"]["median"], entry["peak_bytes"] / 2**30)
    if len(found) < 2:
        return []
    told = [KINDS[name].title, axis, ", ".join(map(str, found))]
    values = list(found)
    for column in (0, 1):
        line = [found[value][column] for value in values]
        between = [growth(line[i], line[i + 1], values[i], values[i + 1]) for i in range(len(line) - 1)]
        told += [", ".join(map(number, line)), ", ".join(f"{exponent:.2f}" for exponent in between)]
    return told


def _gib(size: int | None) -> str:
    return NO if size is None else f"{size / 2**30:.2f}"
