"""Numbers with their unit, a dash where there is none, and lists of words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from robust_tickets.progress import duration

NONE = "–"
GLUE = "\u00a0"  # keeps a number and its unit on one line


def percent(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}{GLUE}%"


def similarity(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def span(interval: Sequence[float] | None) -> str:
    return NONE if interval is None else f"{interval[0]:.1f}{GLUE}to{GLUE}{interval[1]:.1f}".replace("-", "−")


def brief(interval: Sequence[float] | None) -> str:
    """An interval for a narrow column; with a dash unless it could be read as a minus."""
    if interval is None:
        return ""
    return f"{interval[0]:.1f}–{interval[1]:.1f}" if interval[0] >= 0 else span(interval)


def points(value: float) -> str:
    """A signed difference in percentage points."""
    shown = f"{value:+.1f}".replace("-", "−")
    return "0.0" if shown[1:] == "0.0" else shown  # a difference that is too small to show has no sign either


def signed_span(interval: Sequence[float]) -> str:
    return f"{points(interval[0])}{GLUE}to{GLUE}{points(interval[1])}"


def p_value(p: float | None) -> str:
    return NONE if p is None else f"<{GLUE}0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def count(value: float | None, digits: int = 0) -> str:
    return NONE if value is None else f"{value:,.{digits}f}".replace(",", "\u202f")  # thin space between thousands


def amount(value: float | None) -> str:
    """``85054464`` as ``85.1 M``."""
    if value is None:
        return NONE
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            share = value / factor
            digits = 2 if abs(share) < 9.995 else 1 if abs(share) < 99.95 else 0
            return f"{share:.{digits}f}{GLUE}{letter}"
    return f"{value:.0f}"


def memory(value: float) -> str:
    return f"{value / 2**30:.1f}{GLUE}GiB" if value >= 2**30 else f"{value / 2**20:.0f}{GLUE}MiB"


def seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}{GLUE}s" if value < 10 else duration(value).replace(" ", GLUE)


def hours(value: float) -> str:
    """A rough time: ``35 min``, ``2.4 h``, ``31 h``."""
    return f"{value / 60:.0f} min" if value < 3600 else f"{value / 3600:.{1 if value < 36000 else 0}f} h"


def exact(value: float) -> float:
    """A rounded value for machines, equal on every computer."""
    return round(value, 6)


def plural(many: int, word: str) -> str:
    return f"{many} {word}{'s' * (many != 1)}"


def listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def merged(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text once; those that differ only in numbers become one, with ranges."""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for text in texts:
        groups.setdefault(tuple(_NUMBER.split(text)), []).append(_NUMBER.findall(text))
    found = []
    for parts, every in groups.items():
        ends = [(min(values, key=float), max(values, key=float)) for values in zip(*every, strict=True)]
        ranges = [low if float(low) == float(high) else f"{low} to {high}" for low, high in ends]
        found.append("".join(part + number for part, number in zip(parts, [*ranges, ""], strict=True)))
    return tuple(found)


def numberless(text: str) -> str:
    """The text without its numbers, by which ``merged`` groups."""
    return _NUMBER.sub("0", text)
