"""The result of an attack: numbers, intervals and every example."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.attack.cuda import unconfirmed
from robust_tickets.attack.example import STILL
from robust_tickets.attack.flags import FAILED_EXAMPLES, flags_of
from robust_tickets.attack.scheduler import Reasons, too_many
from robust_tickets.attack.tables import write_table
from robust_tickets.classifier.callable import UNSTEADY
from robust_tickets.config import build
from robust_tickets.errors import FAILED as EXIT_FAILED
from robust_tickets.errors import DamagedError, TicketsError, did_you_mean
from robust_tickets.files import read_json, write_chunks, write_json
from robust_tickets.jsonl_log import Lines, loaded, to_line
from robust_tickets.stages import made, same_work
from robust_tickets.stats.classification import ERROR, FAILED, SKIPPED, STATUSES, SUCCESS, UNKNOWN, attack_metrics
from robust_tickets.stats.intervals import wilson

if TYPE_CHECKING:
    from robust_tickets.attack.attack import AttackRun

DIGITS = 4  # decimals of percentages and means in result.json
SATURATED = 0.9999  # a probability above which a move of the logits by 0.01 is within the rounding of 1 - p
Z = 1.959964  # of a 95 % interval
SPREAD = {"min": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p90": 0.9, "max": 1.0}


@dataclass
class Mean:
    """Sums behind a mean and the normal interval around it."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.squares += value * value

    @property
    def value(self) -> float | None:
        return self.total / self.count if self.count else None

    def interval(self) -> tuple[float, float] | None:
        if self.count < 2:
            return None
        mean = self.total / self.count
        variance = max(0.0, (self.squares - self.count * mean * mean) / (self.count - 1))
        half = Z * math.sqrt(variance / self.count)
        return mean - half, mean + half


@dataclass
class Tally:
    """Running sums over examples. What grows is one count for every different number of queries and every reason of an error."""

    statuses: Counter[str] = field(default_factory=Counter)
    classes: set[int] = field(default_factory=set)
    # label, and that given before; None: the task has no such
    given: Counter[tuple[int, int | None]] = field(default_factory=Counter)
    queries: Mean = field(default_factory=Mean)  # over those whose attack came to its end, as the next four
    words: Mean = field(default_factory=Mean)
    confidence: Mean = field(default_factory=Mean)
    spent: Counter[int] = field(default_factory=Counter)  # how many took so many queries
    fell: Counter[int] = field(default_factory=Counter)  # how many fell at so many
    changed: Mean = field(default_factory=Mean)  # percent of the words, over successes that have words
    similarity: Mean = field(default_factory=Mean)  # over successes whose similarity a constraint measured
    blind: int = 0  # attacked examples whose ranking saw no score move, and whose victim is as good as certain
    unmoved: int = 0  # those whose victim is not certain, and whose score no text at all moved
    stuck: int = 0  # those for which there was no candidate to try
    passes: int = 0
    reasons: Reasons = field(default_factory=Reasons)  # of the errors
    unsteady: int = 0  # texts to which a callable gave another answer than when it was probed
    unconfirmed: int | None = None  # outcomes of a copy in half precision that the victim does not confirm

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
        if status in (UNKNOWN, ERROR):
            self.reasons.add(line.get("error") or "")
        if status == ERROR:
            return
        self.classes.add(line["label"])
        self.given[line["label"], line.get("predicted_before")] += 1
        if status in (SUCCESS, FAILED):
            self.queries.add(line["queries"])
            self.words.add(line["words"])
            self.confidence.add(line["confidence"])
            self.spent[line["queries"]] += 1
            certain, blind = line["confidence"] > SATURATED, bool(line.get("blind"))
            self.blind += blind and certain
            self.unmoved += (
                blind and not certain and status == FAILED and abs(line["score_after"] - line["score_before"]) <= STILL
            )
            self.stuck += line.get("candidates") == 0
        if status == SUCCESS:
            at = line.get("fell_at")
            self.fell[line["queries"] if at is None else at] += 1
            if line["words"]:
                self.changed.add(100 * line["words_changed"] / line["words"])
            if line.get("similarity") is not None:
                self.similarity.add(line["similarity"])

    @property
    def only_answer(self) -> int | None:
        """The one class that every text got, before the attack and after it; none where there were several, or one that the task does not
        have. A victim that some change turned does read its texts.
        """
        answers = {answer for _, answer in self.given}
        return next(iter(answers)) if len(answers) == 1 and not self.statuses[SUCCESS] else None

    @property
    def n(self) -> int:
        """Examples whose clean text was answered."""
        return sum(self.statuses.values()) - self.statuses[ERROR]

    @property
    def errors(self) -> int:
        """Examples that failed, before or after their clean text was answered."""
        return self.statuses[UNKNOWN] + self.statuses[ERROR]

    @property
    def attacked(self) -> int:
        """Examples that were right before."""
        return self.ended + self.statuses[UNKNOWN]

    @property
    def ended(self) -> int:
        """Attacked examples whose attack came to its end."""
        return self.statuses[SUCCESS] + self.statuses[FAILED]

    def mean_confidence(self) -> float | None:
        return self.confidence.value

    def metrics(self, query_budget: int | None = None) -> dict[str, Any]:
        """The numbers of result.json, counted as TextAttack counts; None where nothing was counted."""
        s, f, k, u = (self.statuses[name] for name in (SUCCESS, FAILED, SKIPPED, UNKNOWN))
        values, ends = attack_metrics(successes=s, failures=f, skipped=k, unknown=u)
        found: dict[str, Any] = dict(values)
        means = {"queries": self.queries, "perturbed": self.changed, "similarity": self.similarity}
        found |= {name: mean.value for name, mean in means.items()} | {"words": self.words.value}
        ends |= {name: both for name, mean in means.items() if (both := mean.interval()) is not None}
        return {
            **{name: None if value is None else _round(value) for name, value in found.items()},
            "intervals": {name: (_round(low), _round(high)) for name, (low, high) in ends.items()},
            "outcomes": {status: self.statuses[status] for status in STATUSES},
            "spread": self.spread(),
            "curve": self.curve(query_budget),
            "n": self.n,
            "errors": self.errors,
            "forward_passes": self.passes,
        }

    def spread(self) -> dict[str, int] | None:
        """Quantiles of the queries an attacked example took: the smallest number that such a share of them did not exceed."""
        if not self.spent:
            return None
        found, ranked, seen = {}, sorted(self.spent.items()), 0
        wanted = [(name, max(1, math.ceil(share * self.ended))) for name, share in SPREAD.items()]
        for number, times in ranked:
            seen += times
            while wanted and seen >= wanted[0][1]:
                found[wanted.pop(0)[0]] = number
        return found

    def curve(self, query_budget: int | None = None) -> tuple[dict[str, Any], ...]:
        """Accuracy at budgets 1, 2, 5, 10, …, up to where nothing changes any more or the run's own budget ends."""
        points: list[dict[str, Any]] = []
        if not self.n:
            return ()
        last = max(self.spent, default=1)
        for budget in budgets(last if query_budget is None else min(last, query_budget), query_budget):
            broken = sum(times for at, times in self.fell.items() if at <= budget)
            right = self.ended - broken  # what is unknown has fallen, at any budget
            low, high = wilson(right, self.n)
            interval = (_round(100 * low), _round(100 * high))
            points.append(
                {"budget": budget, "broken": broken, "accuracy": _round(100 * right / self.n), "interval": interval}
            )
        return tuple(points)


def budgets(last: int, most: int | None = None) -> Iterator[int]:
    """1, 2, 5, 10, 20, … up to the first that is not below ``last``, none above ``most``, which is then the end."""
    for power in count():
        for step in (1, 2, 5):
            budget = step * 10**power
            if most is not None and budget >= most:
                yield most
                return
            yield budget
            if budget >= last:
                return


def _round(value: float) -> float:
    return round(value, DIGITS)


LOG_SCHEMA = 1
PART, FINAL, RESULT = "examples.jsonl.part", "examples.jsonl", "result.json"


class ExampleLog(Lines):
    """The finished examples of an attack, a line each, written as soon as it is known, so that a killed attack resumes.

    ``examples.jsonl.part`` begins with a header that says which attack it is; then comes a line for every finished example, in the
    order they finish: its number in the attack set, the seconds spent so far, and its JSON. A torn last line is dropped on resuming,
    and an example that failed is tried again. At the end the lines are sorted into ``examples.jsonl``. Without a folder they are kept
    in memory.
    """

    def __init__(self, folder: Path | None, count: int, digest: str) -> None:
        self.offsets = array("q", [-1]) * count  # where the line of an example begins
        self.spent = 0.0  # seconds, by earlier calls too
        super().__init__(None if folder is None else folder / PART, {"schema": LOG_SCHEMA, "attack": digest})

    def busy(self) -> TicketsError:
        return TicketsError(
            f"another process is attacking into this folder: {self.folder}",
            hint="wait for it, or give another folder",
            exit_code=EXIT_FAILED,
        )

    def other(self, found: Any, header: dict[str, Any]) -> None:
        same_work(self.part, found, header)

    def take(self, line: bytes, place: int) -> bool:
        number, spent, body = _parts(line)
        if not isinstance(body, dict) or body.get("status") not in STATUSES or not 0 <= number < len(self.offsets):
            return False
        self.offsets[number] = -1 if body.get("status") in (UNKNOWN, ERROR) else place
        self.spent = spent
        return True

    def take_over(self, path: Path, seconds: float) -> None:
        """Add the examples of a finished attack in ``path`` that did not fail, but for those that are here already."""
        for number, line in enumerate(read_lines(path)):
            if self.offsets[number] < 0 and line["status"] not in (UNKNOWN, ERROR):
                self.add(number, line, seconds)
        self.spent = max(self.spent, seconds)

    def missing(self) -> list[int]:
        """The examples that are not done yet."""
        return [number for number, place in enumerate(self.offsets) if place < 0]

    def add(self, number: int, outcome: Mapping[str, Any], seconds: float) -> None:
        self.offsets[number] = self.append(b"%d\t%.3f\t" % (number, seconds) + to_line(outcome))
        self.spent = seconds

    def lines(self) -> Iterator[bytes]:
        """The JSON lines in the order of the attack set."""
        with self.reader() as lines:
            for place in self.offsets:
                if place >= 0:
                    lines.seek(place)
                    yield lines.readline().split(b"\t", 2)[2]


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open(path, "rb") as stream:
            for line in stream:
                yield json.loads(line)
    except FileNotFoundError:
        raise TicketsError(f"no such file: {path}", hint="run the attack again") from None
    except OSError as problem:
        raise TicketsError(f"could not read {path}: {problem.strerror}", hint="check the path and its rights") from None
    except (ValueError, RecursionError) as problem:
        raise TicketsError(
            f"{path} is not valid JSON lines: {problem}",
            hint="the file is damaged: remove it, and run the attack again",
        ) from None


def whole_lines(path: Path) -> int:
    """Lines that were written to their end; none where there is no file."""
    try:
        with open(path, "rb") as stream:
            return sum(line.endswith(b"\n") for line in stream)
    except OSError:
        return 0


def _parts(line: bytes) -> tuple[int, float, Any]:
    number, _, rest = line.partition(b"\t")
    spent, _, body = rest.partition(b"\t")
    if not line.endswith(b"\n") or not number.isdigit():
        return -1, 0.0, None
    try:
        return int(number), float(spent), loaded(body)
    except ValueError:
        return -1, 0.0, None


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
    # how many attacked texts the victim was trained on; none where its training texts are not known
    seen: Mapping[str, Any] | None
    precision: str | None  # of the copy that was attacked; none where it was the victim itself
    unconfirmed: int | None  # outcomes of the copy that the victim does not confirm, see attack.cuda
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
    curve: tuple[Mapping[str, Any], ...]  # accuracy at some query budgets, see attack.result
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

    def to_repeat(self, most: float) -> bool:
        """Whether too many examples failed, now or when it was made."""
        return self.failed(most) or FAILED_EXAMPLES in self.flag_codes

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
    def of(cls, run: AttackRun, log: ExampleLog) -> AttackResult:
        """The result of a run all of whose examples are done."""
        tally = Tally.of(map(json.loads, log.lines()))
        tally.unsteady = _unsteady(run, log.lines()) if run.temperature == 1 else 0
        if run.options.precision is not None:
            tally.unconfirmed = unconfirmed(run.victim, log.lines(), run.class_of)
        flags = flags_of(run, tally)
        return cls(
            **run.header(),
            unconfirmed=tally.unconfirmed,
            flags=tuple(flag.text for flag in flags),
            flag_codes=tuple(flag.code for flag in flags),
            seconds=round(log.spent, 3),
            env=made(run.split.table.files),
            folder=log.folder,
            lines=tuple(log.lines()) if log.folder is None else (),
            **tally.metrics(run.options.query_budget),
        )

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
            message = (
                problem.message if isinstance(problem, TicketsError) else f"{folder / RESULT}: its curve cannot be read"
            )
            raise DamagedError(message, hint="the file is damaged: run the attack again") from None
        return replace(
            found, curve=curve, folder=folder, aua_upper=found.aua if found.aua_upper is None else found.aua_upper
        )


def _unsteady(run: AttackRun, lines: Iterable[bytes]) -> int:
    """To how many of the texts that it was probed with a callable gave another answer in the attack; costs no query."""
    moved = 0
    for probe, line in zip(run.probes, map(json.loads, lines), strict=False):
        if probe is not None and line["status"] != ERROR:
            before = max(probe), 1 - probe[run.class_of(line["label"])]
            now = line["confidence"], line["score_before"]
            moved += any(abs(a - b) > UNSTEADY for a, b in zip(before, now, strict=True))
    return moved
