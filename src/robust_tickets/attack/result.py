"""What an attack found: the numbers, how sure they are, and every example."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from robust_tickets.attack.failures import too_many
from robust_tickets.attack.store import FINAL, RESULT, read_lines
from robust_tickets.attack.tables import write_table
from robust_tickets.config import build
from robust_tickets.errors import DamagedError, TicketsError, did_you_mean
from robust_tickets.files import read_json, write_chunks, write_json

SCHEMA = 2


@dataclass(frozen=True, kw_only=True)
class ExampleOutcome:
    """What became of one example. Labels are class numbers of the task; ``changed`` marks words in the perturbed text."""

    id: str
    label: int
    status: str  # success | failed | skipped | unknown (right before, and its attack failed) | error
    original: tuple[str, ...]
    perturbed: tuple[str, ...] | None = None  # where the search ended; of a failed attack, its best try
    queries: int = 0
    fell_at: int | None = None  # of a success: the smallest budget from which on every budget breaks the example
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
    candidates: int = 0  # texts the search tried, those of the ranking left out
    blind: bool | None = (
        None  # whether the ranking saw no score move, so that it ordered nothing; unknown where nothing was ranked
    )
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self)
        if self.error is None:
            del plain["error"]
        return plain


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """An attack in numbers. Percentages from 0 to 100; ``None`` where nothing was counted.

    ``clean`` is on the attacked examples, ``clean_full`` on the whole split; ``queries`` counts as TextAttack does,
    ``forward_passes`` is what was run.
    """

    attack: str
    digest: str  # of everything that determines the result
    semantics: str  # whose rules the recipe was written from
    compat: str | None  # the version of TextAttack whose rules held, example by example; none for own rules
    constraints: tuple[str, ...]  # where candidates come from, and which rules they pass
    resources: Mapping[str, Mapping[str, Any]]
    model: Mapping[str, Any]
    task: Mapping[str, Any]
    ids: tuple[str, ...]
    subset: str  # how they were chosen: balanced | random | first | ids, where they were named
    n: int
    seed: int
    scoring: str  # what candidates were judged by: probability | log-odds
    query_budget: int | None
    clean: float | None
    aua: float | None  # one answered right whose attack failed counts as fallen
    aua_upper: float | None = None  # and here as held
    suc: float | None
    queries: float | None
    forward_passes: int
    temperature: float  # logits were divided by it
    calibration: Mapping[str, Any] | None  # what it was fitted on and how well it fits; none where it was given
    seen: (
        Mapping[str, Any] | None
    )  # how many attacked texts the victim was trained on; none where its training texts are not known
    precision: str | None  # of the copy that was attacked; none where it was the victim itself
    unconfirmed: int | None  # outcomes of the copy that the victim does not confirm, see attack.precision
    intervals: Mapping[str, tuple[float, float]]
    flags: tuple[str, ...]
    flag_codes: tuple[str, ...]  # of each flag, a word for programs
    errors: int
    clean_full: float | None
    perturbed: float | None  # mean percent of the words, over the successes
    similarity: float | None  # mean over the successes whose similarity a constraint measured
    words: float | None  # mean over the attacked examples
    outcomes: Mapping[str, int]  # examples by status
    spread: Mapping[str, int] | None  # quantiles of the queries of an attacked example
    curve: tuple[Mapping[str, Any], ...]  # accuracy at some query budgets, see attack.tally
    seconds: float
    env: Mapping[str, Any]
    folder: Path | None = field(default=None, compare=False)
    lines: tuple[bytes, ...] = field(default=(), repr=False, compare=False)  # of an attack without a folder

    def __repr__(self) -> str:
        """Two lines at most: the numbers a reader looks for first, and the flags that stand before them."""
        named = {"clean": self.clean, "aua": self.aua, "suc": self.suc}
        numbers = [
            f"n={self.n}",
            *(f"{name}={value:.1f}{self._ends(name)}" for name, value in named.items() if value is not None),
        ]
        if self.queries is not None:
            numbers.append(f"queries={self.queries:.1f}")
        flags = f",\n  flags: {', '.join(dict.fromkeys(self.flag_codes))}" if self.flag_codes else ""
        return f"AttackResult({self.attack} on {self.model.get('identity')!r}, {', '.join(numbers)}{flags})"

    def _ends(self, name: str) -> str:
        return " [{:.1f}, {:.1f}]".format(*self.intervals[name]) if name in self.intervals else ""

    def interval(self, name: str) -> tuple[float, float]:
        """The 95 % interval of ``clean``, ``aua``, ``suc`` (Wilson), ``queries``, ``perturbed`` or ``similarity`` (normal)."""
        if name not in self.intervals:
            raise TicketsError(f"there is no interval of {name!r} here", hint=did_you_mean(name, self.intervals))
        low, high = self.intervals[name]
        return low, high

    def failed(self, most: float) -> bool:
        """Whether too many examples failed: more than ``most`` percent of them, and more than two."""
        return too_many(self.errors, len(self.ids), most)

    def examples(self) -> Iterator[ExampleOutcome]:
        """Every example in the order of the attack set."""
        known = {f.name for f in fields(ExampleOutcome)}
        for line in self._lines():
            values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in line.items() if k in known}
            yield ExampleOutcome(**values)

    def table(self, path: str | Path) -> Path:
        """Write the examples as a table, streamed: .csv, .tsv or .parquet."""
        return write_table(self._lines(), tuple(map(str, self.task["columns"])), path)

    def _lines(self) -> Iterator[dict[str, Any]]:
        return map(json.loads, self.lines) if self.folder is None else read_lines(self.folder / FINAL)

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
                raise TicketsError(
                    f"could not read {self.folder / FINAL}: {problem.strerror}", hint="run the attack again"
                ) from None
        write_json(folder / RESULT, self.to_json())
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> AttackResult:
        folder = Path(folder)
        plain = read_json(folder / RESULT)
        schema = plain.get("schema") if isinstance(plain, dict) else None
        if isinstance(schema, int) and schema != SCHEMA:
            raise TicketsError(
                f"{folder / RESULT} is an attack result of schema {schema}, this version reads {SCHEMA}",
                hint="another version made it: remove it, and run the attack again",
            )
        if schema != SCHEMA:
            raise DamagedError(
                f"{folder / RESULT} is no attack result", hint="the file is damaged: run the attack again"
            )
        try:
            found: AttackResult = build(
                cls, {name: value for name, value in plain.items() if name != "schema"}, str(folder / RESULT)
            )
            curve = tuple({**point, "interval": tuple(point["interval"])} for point in found.curve)
        except (TicketsError, KeyError, TypeError) as problem:
            said = (
                problem.message if isinstance(problem, TicketsError) else f"{folder / RESULT}: its curve cannot be read"
            )
            raise DamagedError(said, hint="the file is damaged: run the attack again") from None
        return replace(
            found, curve=curve, folder=folder, aua_upper=found.aua if found.aua_upper is None else found.aua_upper
        )
