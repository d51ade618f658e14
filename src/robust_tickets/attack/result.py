"""What an attack found: the numbers, how sure they are, and every example."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from robust_tickets.attack.store import FINAL, RESULT, read_lines
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import read_json, write_chunks, write_json
from robust_tickets.measure.metrics import ERROR, FAILED, SKIPPED, SUCCESS, attack_metrics

SCHEMA = 1
DIGITS = 4  # decimals of percentages and means in result.json


@dataclass(frozen=True, kw_only=True)
class ExampleOutcome:
    """What became of one example. Labels are class numbers of the task; ``changed`` marks words in the perturbed text."""

    id: str
    label: int
    status: str  # success | failed | skipped | error
    original: tuple[str, ...]
    perturbed: tuple[str, ...] | None = None  # where the search ended; of a failed attack, its best try
    queries: int = 0
    words: int = 0
    words_changed: int = 0  # positions at which the words differ
    changed: tuple[Mapping[str, Any], ...] = ()
    predicted_before: int | None = None
    predicted_after: int | None = None
    score_before: float | None = None  # 1 - p(label)
    score_after: float | None = None
    similarity: float | None = None  # cosine with the reference of the constraint that measured it last
    confidence: float | None = None  # highest probability of the clean text
    forward_passes: int = 0
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self)
        if self.error is None:
            del plain["error"]
        return plain


@dataclass
class Tally:
    """Running sums over examples; nothing that grows with them."""

    statuses: Counter[str] = field(default_factory=Counter)
    classes: set[int] = field(default_factory=set)
    queries: int = 0  # over the attacked, as the next
    squares: int = 0  # of their queries
    confidence: float = 0.0
    changed: float = 0.0  # percent of the words, summed over successes that have words
    counted: int = 0  # those successes
    passes: int = 0

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> Tally:
        tally = cls()
        for line in lines:
            tally.add(line)
        return tally

    def add(self, line: Mapping[str, Any]) -> None:
        status = line["status"]
        self.statuses[status] += 1
        self.passes += line["forward_passes"]
        if status == ERROR:
            return
        self.classes.add(line["label"])
        if status in (SUCCESS, FAILED):
            self.queries += line["queries"]
            self.squares += line["queries"] ** 2
            self.confidence += line["confidence"]
        if status == SUCCESS and line["words"]:
            self.changed += 100 * line["words_changed"] / line["words"]
            self.counted += 1

    @property
    def n(self) -> int:
        return sum(self.statuses.values()) - self.statuses[ERROR]

    @property
    def attacked(self) -> int:
        return self.statuses[SUCCESS] + self.statuses[FAILED]

    def mean_confidence(self) -> float | None:
        return self.confidence / self.attacked if self.attacked else None

    def metrics(self) -> dict[str, Any]:
        """clean, aua, suc, queries, perturbed and their intervals, counted as TextAttack counts; None where nothing was counted."""
        s, f, k = (self.statuses[name] for name in (SUCCESS, FAILED, SKIPPED))
        values, ends = attack_metrics(successes=s, failures=f, skipped=k)
        found: dict[str, Any] = {name: None if value is None else _round(value) for name, value in values.items()}
        intervals = {name: (_round(low), _round(high)) for name, (low, high) in ends.items()}
        count = self.attacked
        found["queries"] = _round(self.queries / count) if count else None
        if count > 1:
            mean = self.queries / count
            variance = max(0.0, (self.squares - count * mean * mean) / (count - 1))
            half = 1.959964 * math.sqrt(variance / count)  # normal interval of a mean
            intervals["queries"] = (_round(mean - half), _round(mean + half))
        found["perturbed"] = _round(self.changed / self.counted) if self.counted else None
        return {**found, "intervals": intervals, "n": self.n, "errors": self.statuses[ERROR], "forward_passes": self.passes}


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """An attack in numbers. Percentages from 0 to 100; ``None`` where nothing was counted.

    ``clean`` is on the attacked examples, ``clean_full`` on the whole split; ``queries`` counts as TextAttack does,
    ``forward_passes`` is what was run.
    """

    attack: str
    digest: str  # of everything that determines the result
    semantics: str  # whose rules the recipe was written from; that both give the same numbers has not been verified
    compat: str | None  # a profile verified against another tool's own results; none so far
    constraints: tuple[str, ...]  # where candidates come from, and which rules they pass
    resources: Mapping[str, Mapping[str, Any]]
    model: Mapping[str, Any]
    task: Mapping[str, Any]
    ids: tuple[str, ...]
    n: int
    seed: int
    query_budget: int | None
    clean: float | None
    aua: float | None
    suc: float | None
    queries: float | None
    forward_passes: int
    temperature: float
    intervals: Mapping[str, tuple[float, float]]
    flags: tuple[str, ...]
    errors: int
    clean_full: float | None
    perturbed: float | None
    seconds: float
    env: Mapping[str, Any]
    folder: Path | None = field(default=None, compare=False)
    lines: tuple[bytes, ...] = field(default=(), repr=False, compare=False)  # of an attack without a folder

    def interval(self, name: str) -> tuple[float, float]:
        """The 95 % interval of ``clean``, ``aua``, ``suc`` (Wilson) or ``queries`` (normal)."""
        if name not in self.intervals:
            raise TicketsError(f"there is no interval of {name!r} here", hint=did_you_mean(name, self.intervals))
        low, high = self.intervals[name]
        return low, high

    def examples(self) -> Iterator[ExampleOutcome]:
        """Every example in the order of the attack set."""
        known = {f.name for f in fields(ExampleOutcome)}
        plain = map(json.loads, self.lines) if self.folder is None else read_lines(self.folder / FINAL)
        for line in plain:
            values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in line.items() if k in known}
            yield ExampleOutcome(**values)

    def to_json(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("folder", "lines")}
        return {"schema": SCHEMA, **json.loads(json.dumps(plain, default=dict))}

    def save(self, folder: str | Path) -> Path:
        """Write ``examples.jsonl`` and, last, ``result.json``."""
        folder = Path(folder)
        if self.folder is None:
            write_chunks(folder / FINAL, self.lines)
        elif folder.resolve() != self.folder.resolve():
            try:
                with open(self.folder / FINAL, "rb") as stream:
                    write_chunks(folder / FINAL, stream)
            except OSError as problem:
                raise TicketsError(f"could not read {self.folder / FINAL}: {problem.strerror}", hint="run the attack again") from None
        write_json(folder / RESULT, self.to_json())
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> AttackResult:
        folder = Path(folder)
        plain = read_json(folder / RESULT)
        names = {f.name for f in fields(cls)} - {"folder", "lines"}
        if not isinstance(plain, dict) or plain.get("schema") != SCHEMA or set(plain) != names | {"schema"}:
            raise TicketsError(
                f"{folder / RESULT} is not an attack result of schema {SCHEMA}",
                hint="another version made it: remove it, and run the attack again",
            )
        values = {name: plain[name] for name in names}
        for name in ("constraints", "ids", "flags"):
            values[name] = tuple(values[name])
        values["intervals"] = {name: tuple(ends) for name, ends in values["intervals"].items()}
        return cls(**values, folder=folder)


def _round(value: float) -> float:
    return round(value, DIGITS)
