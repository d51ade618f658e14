"""Words and numbers of filled tables, the same in the terminal, in Markdown and on the page. Intervals are at 95 %."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from robust_tickets.report.format import NONE
from robust_tickets.reproduce.arms import attack_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.protocol import part_of

MEASURES = {
    "clean": "clean accuracy, %", "aua": "accuracy under attack, %", "suc": "attacks that succeed, %", "queries": "queries an example",
    "speedup_vs_pgd": "speed-up over PGD", "speedup_vs_freelb": "speed-up over FreeLB",
    "speedup_lost_to_search": "speed-up lost to the search",
    "encoder_millions": "parameters without embeddings, millions", "total_millions": "parameters, millions",
}  # fmt: skip
FIRST = "under an attack by that of ours which is most like the paper's"  # by attacks.toml, not by what came out
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
INSIDE = {True: "yes", False: "no", None: NONE}


def measure(metric: str, by: str | None) -> str:
    return MEASURES.get(metric, metric) + (f": {attack_title(by)}" if by else "")


def count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def rehearsed(outcomes: Sequence[Outcome]) -> str | None:
    """The warning that some of these results are of a part of the data, if some are."""
    part = sum(part_of(outcome.notes) is not None for outcome in outcomes)
    told = (
        f"{part} of {count(len(outcomes), 'result')} {'is' if part == 1 else 'are'} of a part of the data, a rehearsal"
    )
    return f"{told}: not to be held against the papers' numbers." if part else None


def hours(seconds: float) -> str:
    """A rough time: ``35 min``, ``2.4 h``, ``31 h``."""
    return (
        f"{seconds / 3600:.0f} h"
        if seconds >= 36000
        else f"{seconds / 3600:.1f} h"
        if seconds >= 3600
        else f"{seconds / 60:.0f} min"
    )


def merged(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text once; those that differ in numbers alone become one, with the numbers' ranges: every run tells its own."""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for text in texts:
        groups.setdefault(tuple(_NUMBER.split(text)), []).append(_NUMBER.findall(text))
    found = []
    for parts, told in groups.items():
        ranges = [_range(values) for values in zip(*told, strict=True)]
        found.append("".join(part + number for part, number in zip(parts, [*ranges, ""], strict=True)))
    return tuple(found)


def numberless(text: str) -> str:
    """What two texts share that ``merged`` makes one."""
    return _NUMBER.sub("0", text)


def _range(values: Sequence[str]) -> str:
    low, high = min(values, key=float), max(values, key=float)
    return low if float(low) == float(high) else f"{low} to {high}"


def listed(words: Sequence[str]) -> str:
    """“a, b and c”."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 1) -> str:
    """Columns from ``numbers`` on are flush right."""
    rule = [":--" if i < numbers else "--:" for i in range(len(heads))]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.replace("|", "\\|").splitlines()) for cell in row) + " |"
        for row in (heads, rule, *rows)
    )
